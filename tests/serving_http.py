"""A real server on loopback over scripted layers: what a test says is what the chat and the text layer say.

A script is a list of steps; a step is what one push brings. The stand-ins implement the interfaces the server asks
for and nothing else, so what is tested is the server, over real sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import uvloop
from toolgrammar_serving.chat import ChatFinish, ChatRequest
from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.protocol.wire import SchedulerStats
from toolgrammar_serving.server import Listen, Server, ServerConfig, create_app
from toolgrammar_serving.text import Finish, TextRequest, TokenLogprob, Usage

from toolgrammar import CallArguments, CallEnd, CallStart, Content, Event, Reasoning

DEADLINE_S = 20.0


class Step(msgspec.Struct):
    """What one push brings. ``text`` is the text layer's, ``events`` the chat layer's."""

    events: list[Event] = []
    tokens: int = 1
    text: str = ""
    logprobs: list[TokenLogprob] | None = None


def content(*texts: str) -> list[Step]:
    """One step a text, as content."""
    steps, at = [], 0
    for text in texts:
        steps.append(Step([Content(text, at, at + len(text))], text=text))
        at += len(text)
    return steps


def reasoning(*texts: str) -> list[Step]:
    """One step a text, as reasoning."""
    return [Step([Reasoning(text, 0, len(text))]) for text in texts]


def call(index: int, name: str, *pieces: str, status: str = "complete") -> list[Step]:
    """A tool call whose arguments come in ``pieces``, a step each."""
    return [
        Step([CallStart(index, f"call_{index}", name, 0, 0)]),
        *[Step([CallArguments(index, piece, 0, 0)]) for piece in pieces],
        Step([CallEnd(index, f"call_{index}", status, 0, 0)]),  # type: ignore[arg-type]
    ]


class Script(msgspec.Struct):
    """What a request gets: the steps of each choice, then how it ends. ``hold``: steps before which the script
    waits for ``Stage.go``."""

    choices: list[list[Step]]
    finish: Any = None
    hold: list[int] = []
    refuse: ServingError | None = None


class Running:
    """A generation of the stand-ins: a task that plays a script, in turns of the choices."""

    def __init__(self, stage: Stage, script: Script, sinks: Sequence[Any], prompt: list[int], push: Any) -> None:
        self.usage = Usage(len(prompt), 0, 3)
        self.prompt_logprobs: list[Any] | None = None
        self.aborted = asyncio.Event()
        self.paused: set[int] = set()
        self._resumed = asyncio.Event()
        self.pauses = 0
        self.live = set(range(len(sinks)))
        stage.running.append(self)
        self._task = asyncio.get_running_loop().create_task(self._play(stage, script, sinks, push))

    async def _play(self, stage: Stage, script: Script, sinks: Sequence[Any], push: Any) -> None:
        longest = max(len(steps) for steps in script.choices)
        for number in range(longest + 1):
            if number in script.hold:
                await stage.go.acquire()
            await asyncio.sleep(0)
            for index, sink in enumerate(sinks):
                steps = script.choices[index % len(script.choices)]
                while index in self.paused:
                    await self._resumed.wait()
                if index not in self.live:
                    continue
                if number < len(steps):
                    self.usage.completion_tokens += steps[number].tokens
                    push(sink, steps[number])
                elif isinstance(script.finish, ServingError):
                    self.live.clear()
                    sink.fail(script.finish)
                elif number == len(steps):
                    self.live.discard(index)
                    sink.finish(script.finish)
        stage.ended.set()

    def abort(self, index: int | None = None) -> None:
        if index is None:
            if self.live:
                self.aborted.set()
            self.live.clear()
        else:
            self.live.discard(index)

    def pause(self, index: int) -> None:
        self.pauses += 1
        self.paused.add(index)

    def resume(self, index: int) -> None:
        self.paused.discard(index)
        self._resumed.set()
        self._resumed = asyncio.Event()


class Ready(msgspec.Struct):
    """A prepared request, of either layer."""

    request: Any
    prompt_token_ids: list[int]
    held: int = 3

    @property
    def text(self) -> Ready:
        return self


class Stage:
    """Chat layer, text layer and engine client in one, playing what ``script`` gives for a request."""

    def __init__(self, script: Callable[[Any], Script]) -> None:
        self.script = script
        self.requests: list[Any] = []
        self.running: list[Running] = []
        self.go = asyncio.Semaphore(0)
        self.ended = asyncio.Event()
        self.alive = True
        self.waiting = 0
        self.ready = asyncio.Event()
        self.ready.set()
        self.prompt_positions: list[TokenLogprob | None] | None = None
        self.info = msgspec.defstruct("Info", [("max_model_len", int), ("vllm_version", str)])(4096, "0.33.0")
        self.chat = _Chat(self)
        self.text = _Text(self)

    def in_flight(self) -> int:
        return len(self.running)

    def stats(self) -> list[Any]:
        return [SchedulerStats(num_waiting_reqs=self.waiting)]


class _Chat:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def prepare(self, request: ChatRequest) -> Ready:
        self._stage.requests.append(request)
        await self._stage.ready.wait()
        script = self._stage.script(request)
        if script.refuse is not None:
            raise script.refuse
        return Ready(request, list(range(11)))

    def start(self, prepared: Ready, sinks: Sequence[Any]) -> Running:
        script = self._stage.script(prepared.request)
        if script.finish is None:
            script.finish = ChatFinish("stop")
        return Running(
            self._stage,
            script,
            sinks,
            prepared.prompt_token_ids,
            lambda sink, step: sink.push(step.events, list(range(step.tokens)), step.logprobs),
        )


class _Text:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def prepare(self, request: TextRequest) -> Ready:
        self._stage.requests.append(request)
        await self._stage.ready.wait()
        script = self._stage.script(request)
        if script.refuse is not None:
            raise script.refuse
        prompt = request.prompt
        return Ready(request, list(prompt.encode()) if isinstance(prompt, str) else prompt)

    def start(self, prepared: Ready, sinks: Sequence[Any]) -> Running:
        script = self._stage.script(prepared.request)
        if script.finish is None:
            script.finish = Finish("stop")
        return Running(
            self._stage,
            script,
            sinks,
            prepared.prompt_token_ids,
            lambda sink, step: sink.push(step.text, list(range(step.tokens)), step.logprobs),
        )

    async def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        return [*b"^"[: int(add_special_tokens)], *text.encode()]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def token_strings(self, ids: Sequence[int]) -> list[str]:
        return [f"<{id_}>" for id_ in ids]

    def prompt_logprobs(self, generation: Any) -> list[TokenLogprob | None] | None:
        return self._stage.prompt_positions

    @property
    def tokenizer(self) -> Any:
        return self

    def token_text(self, id_: int) -> str:
        return chr(id_)


class Live:
    """A server that runs in a thread, and its stage. ``on_loop`` reaches into it."""

    def __init__(
        self, stage: Stage, server: Server, loop: asyncio.AbstractEventLoop, thread: threading.Thread
    ) -> None:
        self.stage = stage
        self.server = server
        self.loop = loop
        self.thread = thread
        self.port = server.port
        self.base = f"http://127.0.0.1:{self.port}"

    def on_loop(self, call: Callable[[], Any]) -> Any:
        """Run ``call`` on the server's loop; its value, or a coroutine's result."""

        async def run() -> Any:
            value = call()
            return await value if asyncio.iscoroutine(value) else value

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(DEADLINE_S)

    def go(self, steps: int = 1) -> None:
        """Let the scripts that wait go on."""

        def release() -> None:
            for _ in range(steps):
                self.stage.go.release()

        self.on_loop(release)

    def send(self, raw: bytes) -> socket.socket:
        """A new connection with ``raw`` written to it."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S)
        connection.sendall(raw)
        return connection


@contextmanager
def serving(
    script: Script | Callable[[Any], Script], listen: dict[str, Any] | None = None, **config: Any
) -> Iterator[Live]:
    """A server over ``script``, on a port of its own."""
    started = threading.Event()
    found: dict[str, Any] = {}
    failure: list[BaseException] = []

    async def main() -> None:
        stage = Stage(script if callable(script) else lambda request: script)
        app = create_app(stage.chat, stage.text, stage, ServerConfig(models=("m",), **config))
        server = Server(app, Listen(port=0, **(listen or {})), on_started=started.set)
        found.update(stage=stage, server=server, loop=asyncio.get_running_loop())
        await server.serve()

    def run() -> None:
        try:
            uvloop.run(main())
        except BaseException as error:
            failure.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(DEADLINE_S)
    if failure:
        raise failure[0]
    live = Live(thread=thread, **found)
    try:
        yield live
    finally:
        if thread.is_alive():
            live.loop.call_soon_threadsafe(live.server.stop_now)
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    if failure:
        raise failure[0]


def post(path: str, body: bytes | dict[str, Any], *headers: str, version: str = "1.1") -> bytes:
    """A raw request."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    lines = [f"POST {path} HTTP/{version}", "Host: x", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(data)}", "", ""]).encode() + data


def read_response(connection: socket.socket, file: Any = None) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and de-chunked body of one response. ``file``: of the connection, if more may wait in it."""
    with contextlib.nullcontext(file) if file else connection.makefile("rb") as file:
        status, headers = read_head(file)
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, b"".join(iter_chunks(file))
        ends = "content-length" not in headers and headers.get("connection") == "close"
        return status, headers, file.read(-1 if ends else int(headers.get("content-length", 0)))


def read_head(file: Any) -> tuple[int, dict[str, str]]:
    """Status and headers."""
    status = int(file.readline().split()[1])
    headers: dict[str, str] = {}
    while (line := file.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    return status, headers


def iter_chunks(file: Any) -> Iterator[bytes]:
    """The chunks of a chunked body."""
    while True:
        size = int(file.readline(), 16)
        data = file.read(size)
        assert file.read(2) == b"\r\n"
        if size == 0:
            return
        yield data


def events_of(body: bytes) -> list[Any]:
    """The JSON of a stream's events; the last must be [DONE]."""
    lines = [line for line in body.split(b"\n\n") if line and not line.startswith(b":")]
    assert all(line.startswith(b"data: ") and b"\n" not in line for line in lines)
    assert lines[-1] == b"data: [DONE]"
    return [msgspec.json.decode(line[6:]) for line in lines[:-1]]
