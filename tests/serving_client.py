"""An engine client with engines that the test itself plays, over real sockets.

    async with rig(ranks=2) as it:
        it.client.add(request("a"), sink := Sink())
        it.engines[0].says("a", [1, 2], finish=STOP)
        await sink.over()

The engines are driven from the test's own thread. What a client sends is on its way when the call returns; what
an engine sends arrives in a later turn of the loop.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from toolgrammar_serving.engine_client import Bound, EngineClient, Sockets, connect, ipc_addresses
from toolgrammar_serving.errors import EngineLost
from toolgrammar_serving.protocol.engine_side import Abort, Add, EngineSockets, Message, UtilityCall
from toolgrammar_serving.protocol.wire import (
    Addresses,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    ReadyResponse,
    SamplingParams,
    UtilityOutput,
)

#: Nothing waits longer than this; only hangs do.
DEADLINE_S = 60.0


def request(request_id: str, *, rank: int | None = None, prompt: Sequence[int] = (1, 2, 3)) -> EngineCoreRequest:
    return EngineCoreRequest(
        request_id=request_id,
        prompt_token_ids=list(prompt),
        mm_features=None,
        sampling_params=SamplingParams(max_tokens=100),
        pooling_params=None,
        arrival_time=1.5,
        lora_request=None,
        cache_salt=None,
        data_parallel_rank=rank,
    )


def output(request_id: str, tokens: Sequence[int], finish: int | None = None, **fields: Any) -> EngineCoreOutput:
    return EngineCoreOutput(request_id, list(tokens), finish_reason=finish, **fields)


class Sink:
    """Keeps what it hears; ``fails_at``: the push, from 1, that raises."""

    def __init__(self, fails_at: int = 0) -> None:
        self.outputs: list[EngineCoreOutput] = []
        self.errors: list[EngineLost] = []
        self._fails_at = fails_at
        self._news = asyncio.Event()

    def push(self, output: EngineCoreOutput) -> None:
        self.outputs.append(output)
        self._news.set()
        if len(self.outputs) == self._fails_at:
            raise RuntimeError("this receiver is broken")

    def lost(self, error: EngineLost) -> None:
        self.errors.append(error)
        self._news.set()

    @property
    def tokens(self) -> list[int]:
        return [token for one in self.outputs for token in one.new_token_ids]

    @property
    def finish(self) -> int | None:
        return self.outputs[-1].finish_reason if self.outputs else None

    @property
    def heard(self) -> bool:
        return bool(self.outputs or self.errors)

    async def over(self) -> None:
        """Wait for the last output, or the loss."""
        await self.until(lambda: bool(self.errors) or self.finish is not None)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                self._news.clear()
                await self._news.wait()


class Engine:
    """One rank, played by the test."""

    def __init__(self, addresses: Addresses, rank: int, ready: ReadyResponse | None) -> None:
        self.rank = rank
        self.sockets = EngineSockets(addresses, rank=rank)
        self.sockets.register(ready, DEADLINE_S)
        self._unread: list[Message] = []

    def says(self, request_id: str, tokens: Sequence[int], finish: int | None = None, **fields: Any) -> None:
        """A step with one output."""
        self.sends([output(request_id, tokens, finish, **fields)])

    def sends(
        self,
        outputs: Sequence[EngineCoreOutput] = (),
        *,
        client: int = 0,
        aux: Sequence[bytes] = (),
        **fields: Any,
    ) -> None:
        self.sockets.send(client, EngineCoreOutputs(self.rank, list(outputs), **fields), aux)

    def sends_bytes(self, *frames: bytes) -> None:
        self.sockets.send_frames(0, frames)

    def hears(self) -> Message:
        """The next message; it is on its way already."""
        while not self._unread:
            self._unread = self.sockets.receive(DEADLINE_S)
            assert self._unread, "nothing was sent"
        return self._unread.pop(0)

    def adds(self, count: int = 1) -> list[EngineCoreRequest]:
        """The next messages, which are ADDs."""
        return [message.request for message in (self.hears() for _ in range(count)) if isinstance(message, Add)]

    def aborts(self) -> list[str]:
        """The next message, which is an ABORT."""
        message = self.hears()
        assert isinstance(message, Abort)
        return list(message.request_ids)

    def call(self) -> UtilityCall:
        """The next message, which is a utility call."""
        message = self.hears()
        assert isinstance(message, UtilityCall)
        return message


class Rig:
    def __init__(self, client: EngineClient, engines: list[Engine]) -> None:
        self.client = client
        self.engines = engines

    async def settled(self) -> None:
        """All that the engines have sent so far was taken in: each answers a call behind it."""
        asked = asyncio.ensure_future(self.client.call_utility("settle"))
        await turn()
        for engine in self.engines:
            call = engine.hears()
            while not isinstance(call, UtilityCall):
                call = engine.hears()
            engine.sends(utility_output=answer(call, None))
        await asyncio.wait_for(asked, DEADLINE_S)


def answer(call: UtilityCall, result: Any, failure: str | None = None) -> UtilityOutput:
    """The answer to a utility call."""
    return UtilityOutput(call.call_id, failure, [None, result])


async def turn() -> None:
    """Let the loop's waiting callbacks run."""
    await asyncio.sleep(0)


@asynccontextmanager
async def rig(
    ranks: int = 1,
    *,
    first_rank: int = 0,
    stats: bool = False,
    ready: Sequence[ReadyResponse | None] | None = None,
    client_index: int = 0,
    client_count: int = 1,
    coordinator: str | None = None,
    transport: str = "ipc",
) -> AsyncIterator[Rig]:
    """A connected client and its engines."""
    with short_directory() as directory:
        pairs = ipc_addresses(directory, client_count)
        mine = pairs[client_index] if transport == "ipc" else ("tcp://127.0.0.1:0", "tcp://127.0.0.1:0")
        sockets = Sockets(Bound(*mine, first_rank, ranks, client_index, client_count, coordinator))
        pairs[client_index] = sockets.input_address, sockets.output_address
        waiting = asyncio.ensure_future(connect(sockets, ready_timeout_s=DEADLINE_S, stats=stats))
        addresses = Addresses([inputs for inputs, _ in pairs], [outputs for _, outputs in pairs])
        engines = [
            Engine(addresses, first_rank + i, ready[i] if ready else ReadyResponse(max_model_len=4096))
            for i in range(ranks)
        ]
        client = await waiting
        try:
            yield Rig(client, engines)
        finally:
            for engine in engines:
                engine.sockets.close(0)
            await client.close()


def short_directory() -> tempfile.TemporaryDirectory[str]:
    """For Unix sockets: a path of one has 107 characters at most."""
    return tempfile.TemporaryDirectory(prefix="tg-", ignore_cleanup_errors=True)
