"""What a front end hears of scripts, message by message."""

from __future__ import annotations

from serving_front_end import ERROR, EVENTS, FINISH, PREFILL, REASON, scripted, tokens
from toolgrammar_serving.replay import Echo, EngineOptions, Script, Step

STEPPED = EngineOptions(interval_s=None)


def test_one_message_per_step_with_every_request() -> None:
    scripts = [Script.of([10], [11, 12], [13]), Script.of([20, 21], [22], finish=1)]
    with scripted(scripts, STEPPED) as (front, replay):
        front.add("a")
        front.add("b")
        replay.wait_until(lambda counters: counters.running == 2)
        replay.release(3)
        assert front.step() == [("a", [10], None), ("b", [20, 21], None)]
        assert front.step() == [("a", [11, 12], None), ("b", [22], 1)]
        assert front.step() == [("a", [13], 0)]


def test_a_whole_message_of_the_middle_of_a_run() -> None:
    script = Script.of([10], [11], [12])
    with scripted(script, STEPPED) as (front, replay):
        front.add("a")
        replay.release(2)
        first, second = front.message(), front.message()
    assert (len(first), len(first[1][0])) == (9, 19)
    assert [one["type"] for one in first[1][0][EVENTS]] == [1, 2]
    assert first[1][0][PREFILL]["num_prompt_tokens"] == 3
    outputs, stats, timestamp = second[1:4]
    assert outputs == [["a", [11], *[None] * 11, 0, *[None] * 5]]
    assert (stats["num_running_reqs"], stats["num_waiting_reqs"], len(stats)) == (1, 0, 18)
    assert timestamp >= first[3] > 0
    assert second[:1] + second[4:] == [0, None, None, None, None, "default"]


def test_the_end_of_a_run_is_told_with_statistics_only() -> None:
    with scripted(Script.of([1])) as (front, _):
        front.add("a")
        front.finished("a")
        last = front.message()
    assert (last[1], last[2]["num_running_reqs"]) == ([], 0)


def test_skipped_steps_interleave_requests() -> None:
    late = Script(steps=(Step((20,), skip=1), Step((21,), skip=1)))
    with scripted([Script.of([10], [11], [12]), late], STEPPED) as (front, replay):
        front.add("a")
        front.add("b")
        replay.wait_until(lambda counters: counters.running == 2)
        replay.release(4)
        got = [front.step() for _ in range(4)]
    assert got == [
        [("a", [10], None)],
        [("a", [11], None), ("b", [20], None)],
        [("a", [12], 0)],
        [("b", [21], 0)],
    ]


def test_a_step_may_have_no_tokens() -> None:
    with scripted(Script.of([1], [])) as (front, _):
        front.add("a")
        assert [front.step(), front.step()] == [[("a", [1], None)], [("a", [], 0)]]


def test_prompt_cache_and_error_are_as_scripted() -> None:
    scripts = [Script.of([1], cached_tokens=16), Script.of([1], cached_tokens=99)]
    with scripted(scripts) as (front, _):
        front.add("a", prompt=range(20))
        front.add("b", prompt=range(20))
        outputs = front.finished("a", "b")
    cached = [outputs[name][0][PREFILL]["num_cached_tokens"] for name in "ab"]
    assert cached == [16, 19]  # the last token is always computed
    assert outputs["a"][0][ERROR] is None


def test_more_requests_than_seats_wait_for_one() -> None:
    options = EngineOptions(interval_s=None, max_num_seqs=2)
    with scripted(Script.of([1], [2]), options) as (front, replay):
        for name in "abc":
            front.add(name)
        counters = replay.wait_until(lambda counters: counters.requests == 3)
        assert (counters.running, counters.waiting) == (2, 1)
        replay.release(4)
        got = [[name for name, _, _ in front.step()] for _ in range(4)]
    assert got == [["a", "b"], ["a", "b"], ["c"], ["c"]]


def test_every_front_end_gets_its_own() -> None:
    with scripted(Script.of([1], [2]), clients=2) as (front, _):
        front.add("a", client=0)
        front.add("b", client=1)
        assert set(front.finished("a", client=0)) == {"a"}
        assert set(front.finished("b", client=1)) == {"b"}


def test_echo_repeats_the_prompt() -> None:
    with scripted(Echo(per_step=2)) as (front, _):
        front.add("a", prompt=[5, 6, 7], max_tokens=8)
        outputs = front.finished("a")["a"]
    assert tokens(outputs) == [5, 6, 7, 5, 6, 7, 5, 6]
    assert (outputs[-1][FINISH], outputs[-1][REASON]) == (1, None)


def test_a_request_brings_its_own_script() -> None:
    with scripted(Script.of([1])) as (front, _):
        front.add("ids", extra_args={"replay": [7, 8]}, _eos_token_id=99)
        front.add("text", extra_args={"replay": '{"steps": [[7, 8], [9]], "finish": "length"}'})
        front.add("wrong", extra_args={"replay": {"stops": []}})
        outputs = front.finished("ids", "text", "wrong")
    assert [(one[1], one[FINISH]) for one in outputs["ids"]] == [([7], None), ([8], None), ([99], 0)]
    assert [(one[1], one[FINISH]) for one in outputs["text"]] == [([7, 8], None), ([9], 1)]
    (refused,) = outputs["wrong"]
    assert (refused[FINISH], refused[ERROR]["code"]) == (3, "validation_error")
    assert "stops" in refused[ERROR]["message"]
