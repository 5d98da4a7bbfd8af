"""Requests down, outputs up: who hears what, and what the engine hears."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from serving_client import DEADLINE_S, Sink, output, request, rig, turn
from toolgrammar_serving.errors import BadRequest, EngineLost
from toolgrammar_serving.protocol.wire import (
    ABORTED,
    ERROR,
    LENGTH,
    STOP,
    EngineCoreOutput,
    PrefillStats,
    RequestError,
)


def test_each_request_hears_its_own_outputs_in_order():
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            a, b = Sink(), Sink()
            it.client.add(request("a"), a)
            it.client.add(request("b"), b)
            assert it.client.in_flight() == 2
            assert [one.request_id for one in engine.adds(2)] == ["a", "b"]
            stats = PrefillStats(num_prompt_tokens=3, num_cached_tokens=2)
            engine.sends([output("a", [1], prefill_stats=stats), output("b", [10, 11])])
            await b.until(lambda: b.heard)
            engine.sends([output("b", [12]), output("a", [])])
            engine.sends([output("a", [2], STOP, stop_reason=2), output("b", [13], LENGTH)])
            await a.over()
            await b.over()
            assert (a.tokens, a.outputs[-1].finish_reason, a.outputs[-1].stop_reason) == ([1, 2], STOP, 2)
            assert a.outputs[0].prefill_stats == stats
            assert (b.tokens, b.outputs[-1].finish_reason) == ([10, 11, 12, 13], LENGTH)
            assert b.outputs[0] == EngineCoreOutput("b", [10, 11])
            assert it.client.in_flight() == 0

    asyncio.run(main())


def test_the_engine_gets_the_request_as_it_is_with_the_front_ends_own_fields():
    async def main():
        async with rig(client_index=1, client_count=3) as it:
            sent = request("a", prompt=range(5000))
            it.client.add(sent, Sink())
            (got,) = it.engines[0].adds()
            assert got == sent
            assert (got.client_index, got.current_wave) == (1, 0)

    asyncio.run(main())


def test_a_request_that_no_message_can_hold_is_the_clients_fault_and_not_in_flight():
    async def main():
        async with rig() as it:
            one = request("a")
            one.priority = 10**30
            with pytest.raises(BadRequest, match="64 bits"):
                it.client.add(one, Sink())
            assert it.client.in_flight() == 0

    asyncio.run(main())


def test_outputs_of_unknown_requests_and_empty_steps_are_passed_over():
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            sink = Sink()
            it.client.add(request("a"), sink)
            engine.sends()
            engine.sends([output("nobody", [1]), output("a", [2])], weight_version="default")
            engine.says("a", [3], STOP)
            engine.says("a", [4])
            await sink.over()
            await it.settled()
            assert sink.tokens == [2, 3]

    asyncio.run(main())


def test_an_engine_that_fails_or_aborts_a_request_ends_it():
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            failed, aborted = Sink(), Sink()
            it.client.add(request("f"), failed)
            it.client.add(request("a"), aborted)
            why = RequestError("validation_error", "no such grammar")
            engine.says("a", [1])
            engine.sends([output("f", [], ERROR, error=why), output("a", [2], ABORTED)])
            await failed.over()
            await aborted.over()
            assert failed.outputs == [output("f", [], ERROR, error=why)]
            assert (aborted.tokens, aborted.finish) == ([1, 2], ABORTED)
            assert it.client.in_flight() == 0

    asyncio.run(main())


def test_a_request_the_engine_is_done_with_ends_even_without_a_last_output():
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            quiet, ended = Sink(), Sink()
            it.client.add(request("q"), quiet)
            it.client.add(request("e"), ended)
            engine.sends([output("e", [1], STOP)], finished_requests={"q", "e", "unknown"})
            await quiet.over()
            assert quiet.outputs == [output("q", [], ABORTED)]
            assert ended.outputs == [output("e", [1], STOP)]

    asyncio.run(main())


def test_an_aborted_request_hears_nothing_more_and_the_engine_hears_once_a_turn():
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            sinks = [Sink() for _ in range(2500)]
            for i, sink in enumerate(sinks):
                it.client.add(request(str(i)), sink)
            engine.adds(2500)
            engine.sends([output(str(i), [i]) for i in range(2500)])  # on its way when the aborts are given
            for i in range(2400):
                it.client.abort([str(i)])
            it.client.abort([str(i) for i in range(2400, 2500)])
            it.client.abort(["1", "unknown"])
            assert it.client.in_flight() == 0
            await turn()
            messages = [engine.aborts() for _ in range(3)]
            assert [len(ids) for ids in messages] == [1024, 1024, 452]
            assert [one for ids in messages for one in ids] == [str(i) for i in range(2500)]
            await it.settled()
            assert not any(sink.heard for sink in sinks)

    asyncio.run(main())


def test_cancelled_while_the_engine_takes_nothing_a_thousand_times():
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            alive: weakref.WeakSet[Sink] = weakref.WeakSet()
            for i in range(1000):  # the engine does not read yet: everything waits in its socket
                sink = Sink()
                alive.add(sink)
                it.client.add(request(str(i)), sink)
                it.client.abort([str(i)])
                await turn()
            assert it.client.in_flight() == 0
            for i in range(1000):
                assert [one.request_id for one in engine.adds()] == [str(i)]
                assert engine.aborts() == [str(i)]
                engine.says(str(i), [i])
            await it.settled()
            del sink
            gc.collect()
            assert not alive

    asyncio.run(main())


def test_a_broken_receiver_costs_its_own_request_only(caplog: pytest.LogCaptureFixture):
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            good, broken, last = Sink(), Sink(fails_at=2), Sink(fails_at=1)
            for name, sink in {"broken": broken, "last": last, "good": good}.items():
                it.client.add(request(name), sink)
            engine.adds(3)
            engine.sends([output("broken", [1]), output("good", [1])])
            await good.until(lambda: good.heard)
            engine.sends([output("broken", [2]), output("last", [2], STOP), output("good", [2], STOP)])
            await good.over()
            assert engine.aborts() == ["broken"]  # and not the one that was over anyway
            engine.says("broken", [3])
            await it.settled()
            assert good.tokens == [1, 2]
            assert broken.tokens == [1, 2]
            assert [error.code for error in broken.errors] == ["internal_error"]
            assert it.client.in_flight() == 0
            assert it.client.alive

    asyncio.run(main())
    assert {"broken", "last"} == {record.args[0] for record in caplog.records if record.args}


def test_sinks_may_add_and_abort_while_they_are_pushed():
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            other, after = Sink(), Sink()

            class Meddler(Sink):
                def push(self, output: EngineCoreOutput) -> None:
                    super().push(output)
                    it.client.abort(["other"])
                    it.client.add(request("after"), after)

            it.client.add(request("m"), meddler := Meddler())
            it.client.add(request("other"), other)
            engine.sends([output("m", [1], STOP), output("other", [1])])
            await meddler.over()
            engine.says("after", [5], STOP)
            await after.over()
            assert not other.heard
            assert after.tokens == [5]

    asyncio.run(main())


def test_an_id_in_flight_is_not_taken_twice():
    async def main():
        async with rig() as it:
            it.client.add(request("a"), sink := Sink())
            with pytest.raises(ValueError, match="a is in flight"):
                it.client.add(request("a"), Sink())
            it.engines[0].says("a", [1], STOP)
            await sink.over()
            it.client.add(request("a"), again := Sink())
            it.engines[0].says("a", [2], STOP)
            await again.over()
            assert (sink.tokens, again.tokens) == ([1], [2])

    asyncio.run(main())


def test_an_abort_never_overtakes_a_later_request_of_the_same_id():
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            for _ in range(2):
                it.client.add(request("a"), sink := Sink())
                it.client.abort(["a"])
            it.client.add(request("a"), sink)
            await turn()
            assert [one.request_id for one in engine.adds()] == ["a"]
            assert engine.aborts() == ["a"]
            assert [one.request_id for one in engine.adds()] == ["a"]
            assert engine.aborts() == ["a"]
            assert [one.request_id for one in engine.adds()] == ["a"]
            engine.says("a", [1], STOP)
            await sink.over()
            assert sink.tokens == [1]

    asyncio.run(main())


def test_a_rank_that_is_none_of_ours_is_the_clients_mistake():
    async def main():
        async with rig(ranks=2, first_rank=4) as it:
            for rank in (-1, 0, 3, 6):
                with pytest.raises(BadRequest, match=f"rank {rank} is not between 4 and 5") as caught:
                    it.client.add(request("a", rank=rank), Sink())
                assert caught.value.param == "data_parallel_rank"
            assert it.client.in_flight() == 0

    asyncio.run(main())


def test_after_close_nothing_is_taken_and_open_requests_have_heard_it():
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            it.client.add(request("a"), sink := Sink())
            await it.client.close()
            assert [error.status for error in sink.errors] == [503]
            assert engine.adds()[0].request_id == "a"
            assert engine.aborts() == ["a"]
            with pytest.raises(EngineLost):
                it.client.add(request("b"), Sink())
            with pytest.raises(EngineLost):
                await asyncio.wait_for(it.client.call_utility("is_sleeping"), DEADLINE_S)
            it.client.abort(["a"])
            await it.client.close()

    asyncio.run(main())
