"""The client and the scripted engine, each on its own thread, at full speed and in trouble."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from serving_client import DEADLINE_S, Sink, request, short_directory
from toolgrammar_serving.engine_client import Bound, EngineClient, Handshake, Sockets, connect
from toolgrammar_serving.protocol.wire import STOP, Addresses
from toolgrammar_serving.replay import EmbeddedReplay, EngineOptions, InOrder, Script

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@asynccontextmanager
async def replayed(scripts: list[Script], **options: Any):
    """A client with its own handshake, and the engine that answered it."""
    with short_directory() as directory:
        sockets = Sockets(Bound(f"ipc://{directory}/in", f"ipc://{directory}/out"))
        handshake = Handshake(Addresses([sockets.input_address], [sockets.output_address]))
        try:
            with EmbeddedReplay(InOrder(scripts), EngineOptions(**options), handshake=handshake.address) as replay:
                client = await connect(sockets, handshake=handshake, ready_timeout_s=DEADLINE_S)
                try:
                    yield client, replay
                finally:
                    await client.close()
        finally:
            handshake.close()


def run(main: Coroutine[Any, Any, None], loop: str = "asyncio") -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main)


async def answers(client: EngineClient, count: int) -> list[Sink]:
    sinks = [Sink() for _ in range(count)]
    for i, sink in enumerate(sinks):
        one = request(str(i))
        assert one.sampling_params is not None
        one.sampling_params.max_tokens = 1_000_000
        client.add(one, sink)
    for sink in sinks:
        await sink.over()
    return sinks


@pytest.mark.parametrize("loop", LOOPS)
def test_hundreds_of_streams_at_full_speed_lose_and_mix_nothing(loop: str):
    dice = random.Random(4)
    scripts = [
        Script.of(*[[i * 1000 + n for n in range(dice.randrange(4))] for _ in range(dice.randrange(1, 80))])
        for i in range(300)
    ]

    async def main() -> None:
        async with replayed(scripts) as (client, replay):
            sinks = await answers(client, 300)
            assert [sink.tokens for sink in sinks] == [script.tokens for script in scripts]
            assert {sink.finish for sink in sinks} == {STOP}
            assert client.in_flight() == 0
            assert replay.counters().finished == 300

    run(main(), loop)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("then", ["dead", "gone"])
def test_an_engine_that_dies_in_the_middle(then: str, loop: str):
    scripts = [Script.of([1], [2], [3], repeat=True), Script.of([4], [5], [6], then=then, finish=None)]

    async def main() -> None:
        async with replayed(scripts, max_model_len=1 << 21) as (client, _):
            sinks = await answers(client, 2)
            assert [len(sink.errors) for sink in sinks] == [1, 1]
            assert sinks[1].tokens == [4, 5, 6]
            endless = sinks[0].tokens
            assert endless == ([1, 2, 3] * len(endless))[: len(endless)]
            assert not client.alive

    run(main(), loop)
