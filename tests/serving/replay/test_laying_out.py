"""Where a request's limits end a script: by hand, and against the scheduler's rule told token by token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolgrammar_serving.protocol.wire import LENGTH, STOP, EngineCoreRequest, SamplingParams
from toolgrammar_serving.replay.laying_out import Limits, Plans, lay_out
from toolgrammar_serving.replay.scripts import Script

PLAIN = Script.of([1, 2], [3, 4], [5])
MODEL = Script.of_tokens([1, 2, 3], eos=True)
CASES = [
    ("its own end", PLAIN, Limits(100), [[1, 2], [3, 4], [5]], STOP, None),
    ("length", PLAIN, Limits(3), [[1, 2], [3]], LENGTH, None),
    ("length at a step's end", PLAIN, Limits(4), [[1, 2], [3, 4]], LENGTH, None),
    ("its own end on the last token", PLAIN, Limits(5), [[1, 2], [3, 4], [5]], STOP, None),
    ("eos", PLAIN, Limits(100, eos=3), [[1, 2], [3]], STOP, None),
    ("stop token", PLAIN, Limits(100, stops=(4,)), [[1, 2], [3, 4]], STOP, 4),
    ("eos goes before a stop token", PLAIN, Limits(100, eos=4, stops=(4,)), [[1, 2], [3, 4]], STOP, None),
    ("eos goes before length", PLAIN, Limits(3, eos=3), [[1, 2], [3]], STOP, None),
    ("not before min_tokens", Script.of([9, 1, 9, 2]), Limits(100, 2, eos=9), [[9, 1, 9]], STOP, None),
    ("eos of the request behind it", MODEL, Limits(100, eos=77), [[1], [2], [3], [77]], STOP, None),
    ("no room for eos", MODEL, Limits(3, eos=77), [[1], [2], [3]], LENGTH, None),
    ("a stop token for want of eos", MODEL, Limits(100, stops=(55, 66)), [[1], [2], [3], [55]], STOP, 55),
    ("no such token", MODEL, Limits(100), [[1], [2], [3]], STOP, None),
    ("eos ignored", MODEL, Limits(7, ignore_eos=True), [[1], [2], [3], [1], [2], [3], [1]], LENGTH, None),
    ("repeated", Script.of([1, 2], repeat=True, finish=LENGTH), Limits(5), [[1, 2], [1, 2], [1]], LENGTH, None),
    ("repeated to a stop", Script.of([1, 2], repeat=True), Limits(5, eos=2), [[1, 2]], STOP, None),
    ("reason of its own", Script.of([1], stop_reason="x"), Limits(9), [[1]], STOP, "x"),
    ("nothing more", Script.of([1], finish=None), Limits(9), [[1]], None, None),
]


@pytest.mark.parametrize(
    ("name", "script", "limits", "steps", "finish", "reason"), CASES, ids=[c[0] for c in CASES]
)
def test_limits(name, script, limits, steps, finish, reason) -> None:  # type: ignore[no-untyped-def]
    plan = lay_out(script, limits)
    assert [list(step.token_ids) for step in plan.steps] == steps
    assert (plan.finish, plan.stop_reason) == (finish, reason)


def test_an_engine_may_have_an_eos_of_its_own() -> None:
    assert lay_out(MODEL, Limits(100), default_eos=42).steps[-1].token_ids == (42,)


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1, max_size=6),
    st.integers(1, 12),
    st.integers(0, 5),
    st.none() | st.integers(0, 5),
    st.lists(st.integers(0, 5), max_size=2),
)
def test_as_a_scheduler_would(
    steps: list[list[int]], most: int, least: int, eos: int | None, stops: list[int]
) -> None:
    kept: list[list[int]] = []
    count, ended = 0, None
    for step in steps:
        kept.append([])
        for token in step:
            kept[-1].append(token)
            count += 1
            if count >= least and eos is not None and token == eos:
                ended = (STOP, None)
            elif count >= least and token in stops:
                ended = (STOP, token)
            elif count >= most:
                ended = (LENGTH, None)
            if ended:
                break
        if ended:
            break
    plan = lay_out(Script.of(*steps, finish=None), Limits(most, least, eos, tuple(stops)))
    assert [list(step.token_ids) for step in plan.steps] == kept
    assert (plan.finish, plan.stop_reason) == (ended or (None, None))
    assert plan.totals[-1] == count


def request(prompt_tokens: int, **params: object) -> EngineCoreRequest:
    sampling = SamplingParams(**params)  # type: ignore[arg-type]
    return EngineCoreRequest("r", [0] * prompt_tokens, None, sampling, None, 0.0, None, None, None)


def test_the_models_length_bounds_prompt_and_output() -> None:
    plans = Plans(max_model_len=10)
    script = Script.of([1], repeat=True)
    assert plans.plan(script, request(4, max_tokens=None)).totals[-1] == 6
    assert plans.plan(script, request(4, max_tokens=100)).totals[-1] == 6
    assert plans.plan(script, request(4, max_tokens=3)).totals[-1] == 3
    assert plans.plan(script, request(40)).totals[-1] == 1


def test_ignore_eos_leaves_stop_tokens() -> None:
    plans = Plans(max_model_len=100)
    script = Script.of([1], [2], [3])
    ignoring = request(1, ignore_eos=True, eos_token_id=2, stop_token_ids=[3])
    assert plans.plan(script, ignoring).stop_reason == 3


def test_requests_with_the_same_limits_share_a_plan() -> None:
    plans = Plans(max_model_len=100)
    script = Script.of([1], [2])
    assert plans.plan(script, request(5, max_tokens=7)) is plans.plan(script, request(9, max_tokens=7))
    assert plans.plan(script, request(5, max_tokens=7)) is not plans.plan(script, request(5, max_tokens=1))
