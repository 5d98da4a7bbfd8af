"""Steps that have a time of their own, with a clock that the test moves."""

from __future__ import annotations

import msgspec
from toolgrammar_serving.protocol.wire import EngineCoreOutput, EngineCoreRequest, SamplingParams
from toolgrammar_serving.replay.counters import Tally
from toolgrammar_serving.replay.laying_out import Plans
from toolgrammar_serving.replay.running import Running
from toolgrammar_serving.replay.schedule import Schedule
from toolgrammar_serving.replay.scripts import Script, Step

decode = msgspec.msgpack.Decoder(EngineCoreOutput).decode


def running(name: str, *delays_s: float) -> Running:
    script = Script(steps=tuple(Step((at,), delay_s=delay) for at, delay in enumerate(delays_s)))
    request = EngineCoreRequest(name, [1], None, SamplingParams(), None, 0.0, None, None, None)
    return Running(request, Plans(100).plan(script, request))


def due(schedule: Schedule, now: float) -> list[tuple[str, list[int]]]:
    given: dict[int, list[bytes]] = {}
    schedule.clocked(now, given)
    outputs = [decode(a + b) for a, b in zip(given.get(0, [])[::2], given.get(0, [])[1::2], strict=True)]
    return [(one.request_id, one.new_token_ids) for one in outputs]


def test_every_request_keeps_its_own_time() -> None:
    schedule = Schedule(1, 10, Tally())
    schedule.add(running("a", 1.0, 2.0, 0.0), now=100.0)
    schedule.add(running("b", 2.5), now=100.0)
    assert schedule.next_due() == 101.0
    assert due(schedule, 100.9) == []
    assert due(schedule, 101.0) == [("a", [0])]
    assert schedule.next_due() == 102.5
    # Late: what is due comes in the order of its time, one step of a request at a time, and the clock is kept.
    assert due(schedule, 103.5) == [("b", [0]), ("a", [1])]
    assert schedule.next_due() == 103.0
    assert due(schedule, 103.5) == [("a", [2])]
    assert (schedule.next_due(), schedule.running) == (None, 0)


def test_time_begins_when_a_seat_is_free() -> None:
    schedule = Schedule(1, 1, Tally())
    schedule.add(running("a", 1.0), now=100.0)
    schedule.add(running("b", 1.0), now=100.0)
    due(schedule, 101.0)
    assert schedule.next_due() is None
    schedule.admit(105.0)
    assert schedule.next_due() == 106.0


def test_an_aborted_request_is_never_due() -> None:
    schedule = Schedule(1, 10, Tally())
    schedule.add(running("a", 1.0), now=100.0)
    schedule.abort(["a"])
    assert schedule.next_due() is None
    assert due(schedule, 200.0) == []


def test_without_delays_all_move_together() -> None:
    schedule = Schedule(1, 10, Tally(), keep_delays=False)
    schedule.add(running("a", 1.0, 2.0), now=100.0)
    schedule.add(running("b", 9.0), now=100.0)
    assert schedule.next_due() is None
    assert len(schedule.lockstep(lambda client: False)[0]) == 4
