"""Calls of the engine's methods."""

from __future__ import annotations

import asyncio
import logging

import pytest
from serving_client import DEADLINE_S, answer, rig, turn
from toolgrammar_serving.errors import EngineFailed


async def asked(it, results: list[object], method: str = "method", *args: object) -> object:
    """Call, and have each rank answer in turn, the last one first."""
    call = asyncio.ensure_future(it.client.call_utility(method, *args))
    await turn()
    calls = [engine.call() for engine in it.engines]
    assert len({one.call_id for one in calls}) == len(calls)
    assert all((one.method, one.args) == (method, list(args)) for one in calls)
    for engine, one, result in reversed(list(zip(it.engines, calls, results, strict=True))):
        failure = str(result) if isinstance(result, Exception) else None
        engine.sends(utility_output=answer(one, None if failure else result, failure))
    return await asyncio.wait_for(call, DEADLINE_S)


def test_booleans_are_anded_and_of_the_rest_the_first_rank_answers():
    async def main():
        async with rig(ranks=2) as it:
            assert await asked(it, [True, True], "reset_prefix_cache", False, False) is True
            assert await asked(it, [True, False]) is False
            assert await asked(it, [["generate"], ["embed"]], "get_supported_tasks") == ["generate"]
            assert await asked(it, [None, None], "sleep", 1, "wait") is None

    asyncio.run(main())


def test_a_refusal_is_told_in_the_engines_words():
    async def main():
        async with rig(ranks=2) as it:
            with pytest.raises(EngineFailed, match="Call to x method failed: no"):
                await asked(it, [ValueError("Call to x method failed: no"), True], "x")
            with pytest.raises(EngineFailed, match="no"):
                await asked(it, [ValueError("no"), ValueError("no")], "x")
            assert await asked(it, [1, 2]) == 1

    asyncio.run(main())


def test_calls_do_not_mix_and_strange_answers_are_ignored(caplog: pytest.LogCaptureFixture):
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            first, second = (asyncio.ensure_future(it.client.call_utility(name)) for name in ("a", "b"))
            given_up = asyncio.ensure_future(it.client.call_utility("c"))
            await turn()
            a, b, c = (engine.call() for _ in range(3))
            given_up.cancel()
            for number in (-1, -2, 2**64 - 1):
                engine.sends_bytes(_bytes([0, [], None, 0.0, [number, None, [None, 1]]]))
            for call, result in ((c, "C"), (b, "B"), (a, "A"), (a, "again")):
                engine.sends(utility_output=answer(call, result))
            assert await asyncio.wait_for(asyncio.gather(first, second), DEADLINE_S) == ["A", "B"]
            assert given_up.cancelled()

    asyncio.run(main())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def _bytes(value: object) -> bytes:
    import msgspec

    return msgspec.msgpack.encode(value)
