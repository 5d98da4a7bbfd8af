"""The server on the real layers and a real engine client; the engine is the test, clients are on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import openai
import pytest
import serving_client
from serving_client import Engine, Rig
from toolgrammar_serving.chat import ChatModel
from toolgrammar_serving.llm import LLM, ModelDefaults
from toolgrammar_serving.protocol.wire import ABORTED, ENGINE_CORE_DEAD, LENGTH, STOP, PrefillStats
from toolgrammar_serving.server import Listen, Server, ServerConfig, create_app
from toolgrammar_serving.text import ByteTokenizer, TextModel

MARKERS = ("<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
END = 256
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
PROMPT_TOKENS = len("user: x\n")
MESSAGES: Any = [{"role": "user", "content": "x"}]
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "set_lamp",
            "parameters": {
                "type": "object",
                "properties": {"room": {"type": "string"}, "on": {"type": "boolean"}},
            },
        },
    }
]
OUTPUT = (
    "<think>Hm. 🌿</think>Sure.<tool_call>\n"
    '{"name": "set_lamp", "arguments": {"room": "hall", "on": true}}\n</tool_call>\n<tool_call>\n'
    '{"name": "set_lamp", "arguments": {}}\n</tool_call>'
)


def ids(text: str) -> list[int]:
    """As the tokenizer of this test spells it: bytes, and one token a marker."""
    found: list[int] = []
    while text:
        marker = next((marker for marker in MARKERS if text.startswith(marker)), None)
        if marker is None:
            found += text[0].encode()
            text = text[1:]
        else:
            found.append(256 + MARKERS.index(marker))
            text = text[len(marker) :]
    return found


class Chain:
    """The server, its engine, and clients."""

    def __init__(self, rig: Rig, server: Server) -> None:
        self.rig = rig
        self.engine: Engine = rig.engines[0]
        self.server = server
        base = f"http://127.0.0.1:{server.port}"
        self.http = httpx.AsyncClient(base_url=base, timeout=serving_client.DEADLINE_S)
        self.openai = openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="-", max_retries=0)

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(serving_client.DEADLINE_S):
            while not holds():
                await asyncio.sleep(0)

    async def sent(self, count: int = 1, besides: int = 0) -> list[str]:
        """The engine's ids of the next requests, when there are ``besides`` others in flight."""
        await self.until(lambda: self.rig.client.in_flight() >= count + besides)
        return [request.request_id for request in self.engine.adds(count)]


@asynccontextmanager
async def chain(**config: Any) -> AsyncIterator[Chain]:
    async with serving_client.rig() as rig:
        text = TextModel(LLM(rig.client, ModelDefaults(eos_token_id=END)), ByteTokenizer(MARKERS, eos=MARKERS[0]))
        chat = ChatModel(text, format="hermes", template=TEMPLATE)
        started = asyncio.Event()
        app = create_app(chat, text, rig.client, ServerConfig(models=("m",), **config))
        server = Server(app, Listen(port=0), started.set)
        serving = asyncio.ensure_future(server.serve())
        await started.wait()
        found = Chain(rig, server)
        try:
            yield found
        finally:
            await found.http.aclose()
            await found.openai.close()
            server.stop_now()
            await serving


async def answered(
    it: Chain, steps: list[list[int]], finish: int, n: int = 1, besides: int = 0, **options: Any
) -> Any:
    """A chat request whose every sequence gets ``steps``: the chunks, or the answer."""
    asked = asyncio.ensure_future(
        it.openai.chat.completions.create(model="m", messages=MESSAGES, tools=TOOLS, n=n, **options)
    )
    names = await it.sent(n, besides)
    for number, step in enumerate(steps):
        last = finish if number == len(steps) - 1 else None
        for name in names:
            stats = PrefillStats(num_cached_tokens=2) if number == 0 else None
            it.engine.says(name, step, last, prefill_stats=stats)
    response = await asked
    return [chunk async for chunk in response] if options.get("stream") else response


def joined(chunks: list[Any], index: int = 0) -> tuple[str, str, list[list[str]], Any]:
    """Reasoning, content, calls (id, name, arguments), finish reason."""
    reasoning = content = ""
    calls: list[list[str]] = []
    finish = None
    for chunk in chunks:
        for choice in chunk.choices:
            if choice.index != index:
                continue
            delta = choice.delta.model_dump(exclude_unset=True)
            reasoning += delta.get("reasoning") or ""
            content += delta.get("content") or ""
            for piece in delta.get("tool_calls", ()):
                if piece["index"] == len(calls):
                    calls.append([piece["id"], piece["function"]["name"], piece["function"]["arguments"]])
                else:
                    calls[piece["index"]][2] += piece["function"]["arguments"]
            finish = choice.finish_reason or finish
    return reasoning, content, calls, finish


def whole(response: Any, index: int = 0) -> tuple[str, str, list[list[str]], Any]:
    choice = response.choices[index]
    message = choice.message
    calls = [[call.id, call.function.name, call.function.arguments] for call in message.tool_calls or ()]
    return message.reasoning or "", message.content or "", calls, choice.finish_reason


def without_ids(answer: tuple[str, str, list[list[str]], Any]) -> Any:
    reasoning, content, calls, finish = answer
    assert len({id_ for id_, _, _ in calls}) == len(calls)
    return reasoning, content, [(name, arguments) for _, name, arguments in calls], finish


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_both_modes_and_the_counts(size: int) -> None:
    tokens = [*ids(OUTPUT), END]
    steps = [tokens[i : i + size] for i in range(0, len(tokens), size)]

    async def main() -> None:
        async with chain() as it:
            counted = {"include_usage": True}
            chunks = await answered(it, steps, STOP, n=2, stream=True, stream_options=counted)
            response = await answered(it, steps, STOP, n=2)
            for index in range(2):
                assert without_ids(joined(chunks, index)) == without_ids(whole(response, index))
            assert without_ids(joined(chunks)) == (
                "Hm. 🌿",
                "Sure.",
                [("set_lamp", '{"room": "hall", "on": true}'), ("set_lamp", "{}")],
                "tool_calls",
            )
            assert [chunk.usage is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]
            assert chunks[-1].usage == response.usage
            assert response.usage.completion_tokens_details.reasoning_tokens == 2 * len("Hm. 🌿".encode())
            assert response.usage.prompt_tokens == PROMPT_TOKENS
            assert response.usage.completion_tokens == 2 * len(tokens)
            assert response.usage.prompt_tokens_details.cached_tokens == 2

    asyncio.run(main())


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("stream", [True, False])
def test_a_stop_string_ends_tokens_and_counts(size: int, stream: bool) -> None:
    tokens = ids("<think>Hm</think>Say hello, and more")
    steps = [tokens[i : i + size] for i in range(0, len(tokens), size)]
    right = ids("<think>Hm</think>Say hello")
    options: Any = {"stop": ["ello"], "extra_body": {"return_token_ids": True}}
    if stream:
        options["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}

    async def main() -> None:
        async with chain() as it:
            found = await answered(it, steps, LENGTH, stream=stream, **options)
            if not stream:
                assert (found.choices[0].message.content, found.choices[0].finish_reason) == ("Say h", "stop")
                assert found.choices[0].token_ids == right
                usage = found.usage
            else:
                assert joined(found)[1:] == ("Say h", [], "stop")
                choices = [choice for chunk in found for choice in chunk.choices]
                assert [id_ for choice in choices for id_ in getattr(choice, "token_ids", ())] == right
                assert max(chunk.usage.completion_tokens for chunk in found if chunk.usage) == len(right)
                usage = found[-1].usage
            assert usage.completion_tokens == len(right)
            assert usage.completion_tokens_details.reasoning_tokens == len("Hm")

    asyncio.run(main())


def test_arguments_come_as_they_are_written() -> None:
    tokens = ids(OUTPUT)

    async def main() -> None:
        async with chain() as it:
            asked = asyncio.ensure_future(
                it.openai.chat.completions.create(model="m", messages=MESSAGES, tools=TOOLS, stream=True)
            )
            (name,) = await it.sent()
            it.engine.says(name, tokens[:1])
            stream = await asked
            seen: list[Any] = [await anext(stream)]
            # Every token but the last of the first call is here before the engine writes the next one.
            written = ids('<think>Hm. 🌿</think>Sure.<tool_call>\n{"name": "set_lamp", "arguments": {"room": "ha')
            assert tokens[: len(written)] == written
            for token in written[1:]:
                it.engine.says(name, [token])
            while not (joined(seen)[2] and joined(seen)[2][0][2] == '{"room": "ha'):
                seen.append(await anext(stream))
            it.engine.says(name, tokens[len(written) :], LENGTH)
            seen += [chunk async for chunk in stream]
            assert joined(seen)[3] == "length"

    asyncio.run(main())


def test_an_engine_that_ends_a_request_itself() -> None:
    async def main() -> None:
        async with chain() as it:
            steps = [ids("some "), ids("text"), []]
            chunks = await answered(it, steps, ABORTED, stream=True)
            response = await answered(it, steps, ABORTED)
            assert without_ids(joined(chunks)) == without_ids(whole(response)) == ("", "some text", [], "abort")

    asyncio.run(main())


def test_an_engine_that_dies() -> None:
    async def main() -> None:
        async with chain() as it:
            body = {"messages": MESSAGES}
            streams = [
                asyncio.ensure_future(it.http.post("/v1/chat/completions", json={**body, "stream": True}))
                for _ in range(2)
            ]
            once = asyncio.ensure_future(it.http.post("/v1/chat/completions", json=body))
            for name in await it.sent(3):
                for _ in range(3):
                    it.engine.says(name, ids("a"))
            await it.rig.settled()
            it.engine.sends_bytes(ENGINE_CORE_DEAD)
            for stream in streams:
                *_, error, done, rest = (await stream).text.split("\n\n")
                assert (done, rest) == ("data: [DONE]", "")
                assert msgspec.json.decode(error.removeprefix("data: "))["error"]["code"] == "engine_unavailable"
            assert (await once).status_code == 503
            assert (await it.http.get("/health")).status_code == 503
            assert (await it.http.post("/v1/chat/completions", json=body)).status_code == 503

    asyncio.run(main())


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_is_an_abort_at_the_engine(stream: bool) -> None:
    async def main() -> None:
        async with chain() as it:
            body = {"messages": MESSAGES, "stream": stream, "n": 2}
            asked = asyncio.ensure_future(it.http.post("/v1/chat/completions", json=body))
            names = await it.sent(2)
            it.engine.says(names[0], ids("a"))
            await it.rig.settled()
            asked.cancel()
            await it.until(lambda: it.rig.client.in_flight() == 0)
            await serving_client.turn()  # aborts of one turn of the loop go together
            assert sorted(it.engine.aborts()) == sorted(names)
            it.engine.says(names[0], ids("late"), STOP)
            await it.rig.settled()
            await it.until(lambda: it.server.service.running == 0)

    asyncio.run(main())


def test_a_slow_reader_holds_up_nobody_and_gets_all() -> None:
    step, steps = ids("x" * 10_000), 3000

    async def main() -> None:
        async with chain() as it:
            reader, writer = await asyncio.open_connection("127.0.0.1", it.server.port, limit=4096)
            body = msgspec.json.encode({"messages": MESSAGES, "stream": True})
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            writer.write(head + body)
            (name,) = await it.sent()
            (answer,) = it.server.service._answers
            sent = 0
            while not answer._is_paused:  # nobody reads, so the server is told to wait
                assert sent < steps
                it.engine.says(name, step)
                sent += 1
                await it.rig.settled()
            for _ in range(5):  # what comes now waits as token ids
                it.engine.says(name, step)
            await it.rig.settled()
            other = await answered(it, [ids("hi"), [END]], STOP, besides=1)
            assert other.choices[0].message.content == "hi"
            it.engine.says(name, [END], STOP)
            await it.rig.settled()
            data = b""
            while not data.endswith(b"0\r\n\r\n"):
                data += await reader.read(1 << 20)
            assert data.count(b"x") >= (sent + 5) * len(step)
            assert b'"finish_reason":"stop"' in data and b"data: [DONE]" in data
            writer.close()

    asyncio.run(main())


def test_the_prompt_s_logprobs_and_tokens_as_they_are_asked_for() -> None:
    async def main() -> None:
        async with chain() as it:
            asked = asyncio.ensure_future(
                it.http.post("/v1/completions", json={"prompt": "ab", "echo": True, "return_token_ids": True})
            )
            (name,) = await it.sent()
            it.engine.says(name, ids("cd"), LENGTH)
            choice = (await asked).json()["choices"][0]
            assert (choice["text"], choice["finish_reason"]) == ("abcd", "length")
            assert (choice["prompt_token_ids"], choice["token_ids"]) == ([97, 98], [99, 100])

    asyncio.run(main())


def test_tokenize_counts_what_a_request_would_send() -> None:
    async def main() -> None:
        async with chain() as it:
            found = (await it.http.post("/tokenize", json={"messages": MESSAGES})).json()
            assert found["tokens"] == ids("user: x\n")
            assert found["max_model_len"] == 4096
            back = (await it.http.post("/detokenize", json={"tokens": ids("<think>é")})).json()
            assert back == {"prompt": "<think>é"}

    asyncio.run(main())
