"""Wishes and defaults to the engine's parameters, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from toolgrammar_serving.errors import BadRequest, TooLong
from toolgrammar_serving.llm import GenerateRequest, ModelDefaults, Sampling, StructuredOutputs
from toolgrammar_serving.llm.sampling import check, room, sampling_params
from toolgrammar_serving.protocol.wire import DELTA, FINAL_ONLY, SamplingParams

DEFAULTS = ModelDefaults(
    eos_token_id=90, stop_token_ids=(91, 92), temperature=0.6, top_p=0.95, top_k=20, repetition_penalty=1.1
)


def params(defaults: ModelDefaults = DEFAULTS, *, stream: bool = True, **wanted: Any) -> SamplingParams:
    return sampling_params(GenerateRequest("r", [1], Sampling(**wanted), stream=stream), defaults, 7)


def test_the_models_defaults() -> None:
    assert params() == SamplingParams(
        temperature=0.6,
        top_p=0.95,
        top_k=20,
        repetition_penalty=1.1,
        max_tokens=7,
        output_kind=DELTA,
        skip_clone=True,
        stop_token_ids=[91, 92],
        eos_token_id=90,
        all_stop_token_ids=[90, 91, 92],
        skip_reading_prefix_cache=False,
    )


def test_without_defaults_it_is_the_protocols() -> None:
    assert params(ModelDefaults(), stream=False) == SamplingParams(
        max_tokens=7, output_kind=FINAL_ONLY, skip_clone=True, skip_reading_prefix_cache=False
    )


def test_the_request_wins() -> None:
    constraint = StructuredOutputs(regex="a+", backend="xgrammar")
    wanted = {
        "temperature": 1.5,
        "top_p": 0.5,
        "top_k": -1,
        "min_p": 0.2,
        "presence_penalty": 0.3,
        "frequency_penalty": -0.4,
        "repetition_penalty": 1.0,
        "seed": 5,
        "min_tokens": 2,
        "logprobs": 3,
        "logprob_token_ids": [4],
        "logit_bias": {1: -500.0, 2: 2.5},
        "allowed_token_ids": [1, 2],
        "bad_words_token_ids": [[8, 9]],
        "structured_outputs": constraint,
        "thinking_token_budget": 64,
        "repetition_detection": {"min_count": 3},
        "extra_args": {"x": 1},
    }
    assert params(**wanted) == SamplingParams(
        **{**wanted, "top_k": 0, "logit_bias": {1: -100.0, 2: 2.5}},
        max_tokens=7,
        output_kind=DELTA,
        skip_clone=True,
        stop_token_ids=[91, 92],
        eos_token_id=90,
        all_stop_token_ids=[90, 91, 92],
        skip_reading_prefix_cache=False,
    )


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"regex": "a", "backend": "guidance"}, {"regex": "a", "backend": "guidance"}),
        ({"regex": "a", "backend": "auto"}, {"regex": "a", "backend": "xgrammar", "backend_was_auto": True}),
        ({"json": {}}, {"json": {}, "backend": "xgrammar", "backend_was_auto": True}),
        (
            {"choice": ["a", 'é"\\\n']},
            {"grammar": 'root ::= "a" | "é\\"\\\\\\n"', "backend": "xgrammar", "backend_was_auto": True},
        ),
    ],
)
def test_constraints_are_as_an_engine_takes_them(wanted: dict[str, Any], told: dict[str, Any]) -> None:
    given = StructuredOutputs(**wanted)
    assert params(structured_outputs=given).structured_outputs == StructuredOutputs(**told)
    assert given == StructuredOutputs(**wanted)


def test_greedy_leaves_the_rest_of_sampling_out() -> None:
    greedy = params(temperature=0.0)
    assert (greedy.temperature, greedy.top_p, greedy.top_k, greedy.min_p) == (0.0, 1.0, 0, 0.0)


def test_a_seed_of_minus_one_is_none() -> None:
    assert params(seed=-1).seed is None


def test_logprobs_of_the_prompt_need_the_prompt_computed() -> None:
    assert params(prompt_logprobs=0).skip_reading_prefix_cache is True
    assert params(prompt_logprobs=0, skip_reading_prefix_cache=False).skip_reading_prefix_cache is False


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"stop_token_ids": [5, 91, 5]}, (False, 90, [5, 91, 92], [90, 5, 91, 92])),
        ({"stop_token_ids": [90]}, (False, 90, [90, 91, 92], [90, 91, 92])),
        ({"ignore_eos": True}, (True, None, [], [])),
        ({"ignore_eos": True, "stop_token_ids": [5]}, (True, None, [5], [5])),
    ],
)
def test_ends(wanted: dict[str, Any], expected: tuple[Any, ...]) -> None:
    got = params(**wanted)
    assert (got.ignore_eos, got.eos_token_id, got.stop_token_ids, got.all_stop_token_ids) == expected


@pytest.mark.parametrize(
    ("length", "wanted", "limit", "new", "expected"),
    [
        (10, None, 100, None, 90),
        (10, None, 100, 20, 20),
        (10, None, 100, 200, 90),
        (10, 90, 100, 20, 90),
        (10, 5, None, None, 5),
        (10, None, None, 8, 8),
        (10, None, None, None, None),
        (99, None, 100, None, 1),
    ],
)
def test_room(length: int, wanted: int | None, limit: int | None, new: int | None, expected: int | None) -> None:
    request = GenerateRequest("r", [1] * length, Sampling(max_tokens=wanted))
    assert room(request, ModelDefaults(max_new_tokens=new), limit) == expected


def test_a_prompt_that_fills_the_context() -> None:
    with pytest.raises(TooLong, match="has 100 tokens, and the model takes 100,") as caught:
        room(GenerateRequest("r", [1] * 100), DEFAULTS, 100)
    assert (caught.value.param, caught.value.code, caught.value.status) == (
        "prompt",
        "context_length_exceeded",
        400,
    )


def test_a_prompt_and_an_output_that_exceed_the_context() -> None:
    with pytest.raises(
        TooLong, match="10 tokens and max_tokens is 91: 101 together, and the model takes 100"
    ) as caught:
        room(GenerateRequest("r", [1] * 10, Sampling(max_tokens=91)), DEFAULTS, 100)
    assert caught.value.param == "max_tokens"


@pytest.mark.parametrize(
    "wanted",
    [
        {"temperature": 0.0, "top_p": 1.0, "top_k": -1, "min_p": 1.0, "max_tokens": 1, "min_tokens": 1},
        {"presence_penalty": -2.0, "frequency_penalty": 2.0, "repetition_penalty": 0.01},
        {"logprobs": 0, "prompt_logprobs": 5, "seed": -(2**63)},
        {"logit_bias": {0: 1.0, 9: -1.0}, "stop_token_ids": [9], "allowed_token_ids": [0]},
    ],
)
def test_what_is_taken(wanted: dict[str, Any]) -> None:
    check(Sampling(**wanted), 10, 5)


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("temperature", math.nan),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -2),
        ("min_p", 1.5),
        ("presence_penalty", 2.5),
        ("frequency_penalty", -3.0),
        ("repetition_penalty", 0.0),
        ("max_tokens", 0),
        ("min_tokens", -1),
        ("logprobs", 6),
        ("logprobs", -1),
        ("prompt_logprobs", -2),
        ("seed", 2**63),
        ("logit_bias", {10: 1.0}),
        ("logit_bias", {-1: 1.0}),
        ("stop_token_ids", [10]),
        ("allowed_token_ids", []),
        ("allowed_token_ids", [11]),
        ("logprob_token_ids", [10]),
    ],
)
def test_what_is_refused(param: str, value: Any) -> None:
    with pytest.raises(BadRequest, match=param) as caught:
        check(Sampling(**{param: value}), 10, 5)
    assert caught.value.param == param


def test_more_wanted_at_least_than_at_most() -> None:
    with pytest.raises(BadRequest, match="min_tokens"):
        check(Sampling(min_tokens=3, max_tokens=2), None, 5)


def test_all_logprobs_where_the_server_allows_them() -> None:
    check(Sampling(logprobs=-1), None, -1)
    check(Sampling(logprobs=1000), None, -1)
