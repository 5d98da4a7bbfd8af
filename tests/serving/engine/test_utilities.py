"""Utility calls, pauses, and a step that fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from serving_engine_thread import Running, running
from serving_engine_wire import request
from toolgrammar_serving.protocol import wire


@pytest.fixture
def engine(qwen_directory: Path) -> Iterator[Running]:
    with running(qwen_directory) as one:
        yield one


def test_questions(qwen: Running) -> None:
    call = qwen.front.call
    assert call("get_supported_tasks").result == [None, ["generate"]]
    assert call("is_sleeping").result == [None, False]
    assert call("is_scheduler_paused").result == [None, False]
    assert call("reset_mm_cache").result == [None, None]
    assert call("list_loras").result == [None, []]
    assert call("set_weight_version", "v2").result == [None, None]
    assert call("get_weight_version").result == [None, "v2"]


@pytest.mark.parametrize(
    ("method", "args", "says"),
    [
        ("sleep", (1, "wait"), "does not support"),
        ("add_lora", ([],), "does not support"),
        ("no_such_method", (), "no such method"),
        ("_steps", (), "no such method"),
        ("reset_prefix_cache", (1, 2, 3, 4), "argument"),
        ("pause_scheduler", ("never", True), "mode must be"),
    ],
)
def test_failures_are_text(qwen: Running, method: str, args: tuple[object, ...], says: str) -> None:
    answer = qwen.front.call(method, *args)
    assert answer.result is None
    assert answer.failure_message is not None
    assert answer.failure_message.startswith(f"Call to {method} method failed: ")
    assert says in answer.failure_message


def test_pause_keep_freezes_and_resume_goes_on(engine: Running) -> None:
    front = engine.front
    front.add(request("frozen", [1, 2], temperature=0.0, max_tokens=60))
    while len(front.answers["frozen"].tokens) < 3:
        front.take()
    assert front.call("pause_scheduler", "keep", False).failure_message is None
    front.add(request("new", [3], temperature=0.0, max_tokens=4))
    assert front.call("is_scheduler_paused").result == [None, True]
    so_far = len(front.answers["frozen"].tokens)
    assert front.call("is_sleeping").result == [None, False]
    assert len(front.answers["frozen"].tokens) == so_far < 60
    front.call("resume_scheduler")
    assert [len(one.tokens) for one in front.finish("frozen", "new")] == [60, 4]


def test_pause_wait_answers_when_nothing_runs(engine: Running) -> None:
    front = engine.front
    front.add(request("running", [1, 2], temperature=0.0, max_tokens=30))
    while not front.answers["running"].tokens:
        front.take()
    front.call("pause_scheduler", "wait", True)
    assert front.answers["running"].end == (wire.LENGTH, None)
    front.add(request("held", [1], temperature=0.0, max_tokens=2))
    front.abort("held")
    front.call("resume_scheduler")
    assert len(front.run(request("after", [1], max_tokens=2))[0].tokens) == 2
    assert front.answers["held"].outputs == []


def test_pause_abort_ends_what_runs_and_a_pausing_generation_refuses(engine: Running) -> None:
    front = engine.front
    front.add(request("running", [1, 2], temperature=0.0, max_tokens=300))
    while not front.answers["running"].tokens:
        front.take()
    front.call("pause_generation", "abort", True)
    assert front.finish("running")[0].end == (wire.ABORTED, None)
    refused = front.run(request("refused", [1]))[0].last
    assert refused.finish_reason == wire.ERROR
    assert refused.error is not None
    assert (refused.error.code, refused.error.retryable) == ("engine_paused", True)
    front.call("resume_scheduler")
    assert len(front.run(request("after", [1], max_tokens=2))[0].tokens) == 2


def test_a_step_that_fails_ends_its_requests_only(engine: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    front, model = engine.front, engine.model
    forward, failures = model.forward, [RuntimeError("broken")]

    def breaks(*args: object, **kwargs: object) -> object:
        if failures:
            raise failures.pop()
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", breaks)
    failed = front.run(request("failed", [1, 2, 3], temperature=0.0, max_tokens=5))[0].last
    assert failed.finish_reason == wire.ERROR
    assert failed.error is not None
    assert (failed.error.code, failed.error.message) == ("internal_error", "The engine failed: RuntimeError.")
    after = front.run(request("after", [1, 2, 3], temperature=0.0, max_tokens=5))[0]
    assert len(after.tokens) == 5
    assert front.stats is not None
    assert front.stats.kv_cache_usage == 0.0


def test_steps_that_go_on_failing_are_the_engines_death(engine: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*args: object, **kwargs: object) -> object:
        raise RuntimeError("broken for good")

    monkeypatch.setattr(engine.model, "forward", breaks)
    front = engine.front
    for name in ("a", "b"):
        assert front.run(request(name, [1], max_tokens=2))[0].last.finish_reason == wire.ERROR
    front.add(request("c", [1], max_tokens=2))
    assert front.take() is None
    assert front.dead
