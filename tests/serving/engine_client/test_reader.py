"""What the reader takes in: in batches of what waits, whatever an engine sends."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
import zmq
from serving_client import Sink, output, request, rig, turn
from serving_reader import encode, reading, step
from toolgrammar_serving.protocol.arrays import write_logprobs
from toolgrammar_serving.protocol.wire import (
    ENGINE_CORE_DEAD,
    ERROR,
    STOP,
    PrefixCacheStats,
    SchedulerStats,
)


def test_what_waits_is_one_batch():
    async def main():
        async with reading(*[[step(output("a", [i]))] for i in range(150)]) as (heard, engine, _):
            await heard.until(lambda: sum(map(len, heard.batches)) == 150)
            assert list(map(len, heard.batches)) == [150]
            assert heard.tokens == list(range(150))
            engine.sends([step(output("a", [150]))])
            await heard.until(lambda: len(heard.batches) == 2)
            engine.sends(*[[step(output("a", [151 + i]))] for i in range(3)])
            await heard.until(lambda: len(heard.batches) == 3)
            assert list(map(len, heard.batches[1:])) == [1, 3]

    asyncio.run(main())


def test_a_real_engine_s_large_messages_arrive_whole():
    async def main():
        large = [[step(output("a", [i])), bytes([i]) * (3 << 20)] for i in range(5)]
        async with reading() as (heard, engine, _):
            context: Any = zmq.Context()
            push = context.socket(zmq.PUSH)
            push.sndhwm = 0
            try:
                push.connect(f"ipc://{engine.path}")
                for frames in large:
                    push.send_multipart(frames)
                await heard.until(lambda: sum(map(len, heard.batches)) == 5)
            finally:
                context.destroy(linger=0)
            assert [frames for batch in heard.batches for _, frames in batch] == large

    asyncio.run(main())


def test_what_comes_before_the_start_is_delivered_then():
    async def main():
        async with reading([step(output("a", [1]))], [ENGINE_CORE_DEAD], start=False) as (heard, _, reader):
            await heard.until(lambda: bool(reader._early))
            assert reader._early == [[step(output("a", [1]))], [ENGINE_CORE_DEAD]]
            heard.start(reader)
            await heard.until(lambda: heard.deaths == 1)
            assert list(map(len, heard.batches)) == [1]

    asyncio.run(main())


def test_death_is_told_after_what_came_before_it():
    async def main():
        messages = [[step(output("a", [1]))], [step(output("a", [2]))], [ENGINE_CORE_DEAD]]
        async with reading(*messages) as (heard, _, _):
            await heard.until(lambda: heard.deaths == 1)
            assert list(map(len, heard.batches)) == [2]

    asyncio.run(main())


RUBBISH = {
    "empty": b"",
    "not msgpack": b"\xc1\xff",
    "cut off": step(output("a", [1, 2, 3]))[:-20],
    "trailing bytes": step() + b"\x00",
    "a number": encode(7),
    "a map": encode({"outputs": []}),
    "outputs of a number": encode([0, 5]),
    "bad UTF-8": b"\x92\x00\x91\x92\xa2\xff\xfe\x90",
    "nested deeply": b"\x91" * 100_000,
    "nested deeply within": b"\x92\x00\x91\x93\xa1a\x90" + b"\x91" * 100_000,
    "longer than it is": b"\x92\x00\xdd\xff\xff\xff\xff",
    "a pickle": encode([0, [["z", [1], msgspec.msgpack.Ext(1, b"cos\nsystem\n")]]]),
    "dead, with more": b"ENGINE_CORE_DEAD!",
}


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_passed_over(rubbish: bytes, caplog: pytest.LogCaptureFixture):
    async def main():
        async with rig() as it:
            it.client.add(request("a"), sink := Sink())
            it.engines[0].says("a", [1])
            it.engines[0].sends_bytes(rubbish)
            it.engines[0].sends_bytes(rubbish, b"\x00" * 10)
            it.engines[0].says("a", [2], STOP)
            await sink.over()
            assert sink.tokens == [1, 2]

    asyncio.run(main())
    assert all(record.levelname == "WARNING" for record in caplog.records)


def test_one_broken_output_costs_its_own_request_only():
    async def main():
        async with rig(stats=True) as it:
            (engine,) = it.engines
            sinks = {name: Sink() for name in ("a", "b", "c", "d")}
            for name, sink in sinks.items():
                it.client.add(request(name), sink)
            engine.adds(4)
            value = [0, [["a", [1]], ["b", "tokens?"], [7, [1]], ["c", [3], None, None, None, 0]]]
            engine.sends_bytes(encode(value))
            bad = [["<i8", [1, 1], 9], ["<f4", [1, 1], 9], ["<i8", [1], 9], None]  # no such frames
            engine.sends([output("d", [1], new_logprobs=bad), output("a", [2])])
            for name in "bcd":
                await sinks[name].over()
            await it.settled()
            assert (sinks["a"].tokens, sinks["a"].finish) == ([1, 2], None)
            assert (sinks["c"].tokens, sinks["c"].finish) == ([3], STOP)
            for name in "bd":
                (last,) = sinks[name].outputs
                assert (last.new_token_ids, last.finish_reason) == ([], ERROR)
                assert last.error.code == "unreadable_output"
            assert it.client.in_flight() == 1

    asyncio.run(main())


def test_the_engine_is_told_to_stop_what_cannot_be_read():
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            it.client.add(request("a"), sink := Sink())
            engine.adds()
            engine.sends_bytes(encode([0, [["a", None]]]))
            await sink.over()
            await turn()
            assert engine.aborts() == ["a"]

    asyncio.run(main())


def test_older_and_newer_messages_are_read():
    async def main():
        async with rig(stats=True) as it:
            (engine,) = it.engines
            it.client.add(request("a"), sink := Sink())
            engine.sends_bytes(encode([0, [["a", [1]]]]))
            newer = ["a", [2], *[None] * 11, 0, *[None] * 9]
            engine.sends_bytes(encode([0, [newer], {"new": 1}, 1.0, *[None] * 9]))
            engine.says("a", [3], STOP)
            await sink.over()
            assert sink.tokens == [1, 2, 3]

    asyncio.run(main())


def test_statistics_are_kept_by_rank_and_counters_added_up():
    async def main():
        async with rig(ranks=2, first_rank=2, stats=True) as it:
            for queries, running in ((10, 3), (5, 4)):
                cache = PrefixCacheStats(requests=1, queries=queries, hits=2, hits_by_source={"device": 2})
                drafts = {"num_spec_tokens": 2, "num_drafts": queries, "num_accepted_tokens_per_pos": [queries, 1]}
                stats = SchedulerStats(
                    num_running_reqs=running, prefix_cache_stats=cache, spec_decoding_stats=drafts
                )
                it.engines[1].sends(scheduler_stats=stats)
            it.engines[1].sends(scheduler_stats=SchedulerStats(num_running_reqs=1, kv_cache_usage=0.5))
            it.engines[0].sends()
            await it.settled()
            first, second = it.client.stats()
            assert first == SchedulerStats()
            assert second == SchedulerStats(
                num_running_reqs=1,
                kv_cache_usage=0.5,
                prefix_cache_stats=PrefixCacheStats(requests=2, queries=15, hits=4, hits_by_source={"device": 4}),
                spec_decoding_stats={
                    "num_spec_tokens": 2,
                    "num_drafts": 15,
                    "num_accepted_tokens_per_pos": [15, 2],
                },
            )

    asyncio.run(main())


def test_statistics_are_not_read_unless_asked_for():
    async def main():
        async with rig() as it:
            it.engines[0].sends_bytes(encode([0, [], {"num_running_reqs": "many"}, 0.0]))
            await it.settled()
            assert it.client.stats() == []

    asyncio.run(main())


def test_logprobs_arrive_as_numbers_whether_inline_or_in_frames():
    rows = range(60)

    async def main():
        async with rig() as it:
            it.client.add(request("a"), sink := Sink())
            it.client.add(request("b"), other := Sink())
            given = [logprobs(rows, 2), logprobs(rows, 40), logprobs([5], 0)]
            for one in given:
                outputs, aux = [], []
                for name in "ab":
                    value, more = write_logprobs(one, first=1 + len(aux))
                    aux += more
                    outputs.append(output(name, list(one.ranks), new_logprobs=value))
                it.engines[0].sends(outputs, aux=aux)
                await it.settled()
            assert [one.new_logprobs for one in sink.outputs] == given
            assert [one.new_logprobs for one in other.outputs] == given

    from toolgrammar_serving.protocol.arrays import Logprobs

    def logprobs(tokens: Any, k: int) -> Logprobs:
        return Logprobs(
            [[t + i for i in range(k + 1)] for t in tokens],
            [[-i / 4 for i in range(k + 1)] for _ in tokens],
            [t + 1 for t in tokens],
        )

    asyncio.run(main())
