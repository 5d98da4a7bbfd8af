"""Aborts, faults and the end of the engine itself."""

from __future__ import annotations

from serving_front_end import ERROR, FINISH, TOKENS, pack, scripted
from toolgrammar_serving.protocol.wire import Addresses, RequestError
from toolgrammar_serving.replay import EmbeddedReplay, EngineOptions, InOrder, Script, refusal

STEPPED = EngineOptions(interval_s=None)
LONG = Script.of_tokens(range(100, 200))


def test_after_an_abort_nothing_comes() -> None:
    with scripted(LONG, STEPPED) as (front, replay):
        front.add("a")
        front.add("b")
        replay.wait_until(lambda counters: counters.running == 2)
        replay.release(1)
        assert front.step() == [("a", [100], None), ("b", [100], None)]
        front.abort("a", "unknown")
        replay.wait_until(lambda counters: counters.aborted == 1)
        replay.release(1)
        assert front.step() == [("b", [101], None)]
        counters = replay.counters()
        assert replay.aborts == ["a", "unknown"]
    assert (counters.running, counters.finished, counters.tokens) == (1, 0, 3)


def test_late_tokens_after_an_abort() -> None:
    script = Script.of_tokens(range(100, 200), late_steps=2)
    with scripted(script, STEPPED) as (front, replay):
        front.add("a")
        replay.release(1)
        assert front.step() == [("a", [100], None)]
        front.abort("a")
        front.abort("a")
        replay.wait_until(lambda counters: counters.aborted == 1)
        replay.release(5)
        assert [front.step(), front.step()] == [[("a", [101], None)], [("a", [102], None)]]
        replay.wait_until(lambda counters: counters.running == 0)
        front.call("is_sleeping")
    assert front.passed == []


def test_an_abort_makes_room_for_the_next() -> None:
    options = EngineOptions(interval_s=None, max_num_seqs=1)
    with scripted(LONG, options) as (front, replay):
        for name in ("first", "second", "third"):
            front.add(name)
        front.abort("second")
        front.abort("first")
        replay.wait_until(lambda counters: counters.aborted == 2)
        replay.release(1)
        assert front.step() == [("third", [100], None)]


def test_a_request_that_hears_nothing_more_can_be_aborted() -> None:
    with scripted(Script.of([1], finish=None)) as (front, replay):
        front.add("a")
        assert front.step() == [("a", [1], None)]
        assert replay.counters().running == 1
        front.abort("a")
        replay.wait_until(lambda counters: (counters.running, counters.aborted) == (0, 1))


def test_an_engine_that_says_it_is_dead() -> None:
    script = Script.of([1], [2], then="dead")
    with scripted(script, STEPPED, clients=2) as (front, replay):
        front.add("a")
        replay.release(2)
        assert [front.step(), front.step()] == [[("a", [1], None)], [("a", [2], 0)]]
        while (last := front.frames()) != [b"ENGINE_CORE_DEAD"]:
            assert last[0][:1] == b"\x99"
        assert front.frames(client=1) == [b"ENGINE_CORE_DEAD"]
        replay.stop()
    assert replay.ending == "dead"


def test_an_engine_that_is_gone_without_a_word() -> None:
    with scripted(LONG, STEPPED) as (front, replay):
        front.add("a")
        replay.release(1)
        assert front.step() == [("a", [100], None)]
        replay.end("gone")
        assert replay.ending == "gone"
        assert replay.counters().running == 1
        assert front.outputs[0].poll(0) == 0


def test_an_engine_that_is_stopped_ends_its_requests() -> None:
    with scripted(LONG, STEPPED) as (front, replay):
        front.add("a")
        front.add("b")
        replay.wait_until(lambda counters: counters.running == 2)
        replay.stop()
        assert {name: one[-1][FINISH] for name, one in front.finished("a", "b").items()} == {"a": 2, "b": 2}
    assert replay.ending == "stopped"


def test_refusals() -> None:
    scripts = [refusal("no such grammar"), Script(finish=3, error=RequestError("engine_paused", "later", True))]
    with scripted(scripts, STEPPED) as (front, replay):
        front.add("a")
        front.add("b")
        outputs = front.finished("a", "b")
        assert replay.counters().refused == 2
    (a,), (b,) = outputs["a"], outputs["b"]
    assert (a[TOKENS], a[FINISH], a[ERROR]) == (
        [], 3, {"code": "validation_error", "message": "no such grammar", "retryable": False}
    )  # fmt: skip
    assert (b[TOKENS], b[FINISH], b[ERROR]) == (
        [], 3, {"code": "engine_paused", "message": "later", "retryable": True}
    )  # fmt: skip


def test_a_damaged_request_is_refused_and_the_engine_goes_on() -> None:
    with scripted(Script.of([1])) as (front, replay):
        front.send(b"\x00", b"\xc1")
        front.send(b"\x00", pack(["half", [1]]))
        front.send(b"\x07", pack([]))
        front.add("whole")
        outputs = front.finished("half", "whole")
        assert replay.counters().damaged == 3
    assert outputs["half"][0][FINISH] == 3
    assert outputs["whole"][0][TOKENS] == [1]


def test_pausing() -> None:
    with scripted(LONG, STEPPED) as (front, replay):
        front.add("a")
        replay.release(1)
        assert front.step() == [("a", [100], None)]
        assert front.call("pause_scheduler", "keep", True) == [None, [None, None]]
        assert front.call("is_scheduler_paused") == [None, [None, True]]
        replay.release(1)
        front.add("b")
        replay.wait_until(lambda counters: counters.waiting == 1)
        assert front.passed == []
        front.call("resume_scheduler")
        assert front.step() == [("a", [101], None), ("b", [100], None)]
        front.call("pause_generation", "abort", True)
        assert [(one[0], one[FINISH]) for one in front.passed] == [("a", 2), ("b", 2)]
        front.add("c")
        (refused,) = front.finished("c")["c"]
        assert refused[ERROR]["code"] == "engine_paused"


def test_utility_calls() -> None:
    with scripted(LONG, STEPPED) as (front, _):
        assert front.call("get_supported_tasks") == [None, [None, ["generate"]]]
        assert front.call("reset_prefix_cache", False, False) == [None, [None, True]]
        assert front.call("sleep", 1, "abort") == [None, [None, None]]
        assert front.call("is_sleeping") == [None, [None, True]]
        assert front.call("wake_up", None) == [None, [None, True]]
        assert front.call("is_sleeping") == [None, [None, False]]
        assert front.call("add_lora", ["l", 3, "path", None, False, False]) == [None, [None, True]]
        assert front.call("list_loras") == [None, [None, [3]]]
        assert front.call("remove_lora", 3) == [None, [None, True]]
        assert front.call("set_weight_version", "v2") == [None, [None, None]]
        assert front.call("get_weight_version") == [None, [None, "v2"]]
        failure, value = front.call("no_such_method")
        assert failure.startswith("Call to no_such_method method failed")
        assert value is None
        failure, _ = front.call("remove_lora")
        assert failure.startswith("Call to remove_lora method failed")
        _, (_, counters) = front.call("replay_counters", True)
        assert counters["utility_calls"] == 14
        _, (_, counters) = front.call("replay_counters")
        assert counters["utility_calls"] == 1


def test_a_front_end_that_does_not_read_holds_only_its_own_requests_up() -> None:
    script = Script.of_tokens(range(600))
    with scripted(script, EngineOptions(window=4), clients=2, receive_limit=4) as (front, replay):
        for at in range(50):
            front.add(f"slow {at}", client=0, max_tokens=2000)
        front.add("quick", client=1, max_tokens=2000)
        outputs = front.finished("quick", client=1)["quick"]
        counters = replay.wait_until(lambda counters: counters.full > 0)
        assert [token for one in outputs for token in one[TOKENS]] == list(range(600))
        assert (counters.finished, counters.running) == (1, 50)
        slow = front.finished(*(f"slow {at}" for at in range(50)), client=0)
    assert all([token for one in got for token in one[TOKENS]] == list(range(600)) for got in slow.values())


def test_an_engine_without_a_front_end_can_be_stopped() -> None:
    nowhere = Addresses(["tcp://127.0.0.1:1"], ["tcp://127.0.0.1:1"])
    with EmbeddedReplay(InOrder([LONG]), addresses=nowhere) as replay:
        assert replay.counters().requests == 0
    assert replay.ending == "stopped"
