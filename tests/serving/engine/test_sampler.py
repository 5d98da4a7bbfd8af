"""The sampler against transformers' own processors, and against formulas."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from serving_engine_wire import request as asked
from toolgrammar_serving.engine.request import Request
from toolgrammar_serving.engine.rules import rules_for
from toolgrammar_serving.engine.sampler import Sampler
from toolgrammar_serving.protocol.wire import SamplingParams
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

VOCAB = 50
CPU = torch.device("cpu")


class Even:
    """In place of random numbers: all of [0, 1) in equal steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.at = 0

    def random(self) -> float:
        self.at += 1
        return (self.at - 0.5) / self.steps


def make(
    prompt: list[int] | None = None, out: tuple[int, ...] = (), numbers: Any = None, **params: Any
) -> Request:
    wanted = SamplingParams(max_tokens=None, **params)
    made = Request(asked("r", prompt or [1]), wanted, numbers or random.Random(3), 10**6)
    made.rules = rules_for(wanted, made.prompt, VOCAB, CPU, constrained=False)
    for token in out:
        made.accept(token)
    return made


def logits(rows: int, seed: int = 5) -> Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 1.0},
        {"temperature": 0.4},
        {"temperature": 1.3, "top_k": 7},
        {"temperature": 0.9, "top_p": 0.8},
        {"temperature": 1.1, "top_k": 20, "top_p": 0.7},
        {"temperature": 1.0, "min_p": 0.1},
        {"temperature": 1.5, "top_k": 30, "top_p": 0.95, "min_p": 0.05},
        {"temperature": 1.0, "top_k": 1},
        {"temperature": 1.0, "top_p": 1e-6},
        {"temperature": 1.0, "top_k": 1000},
    ],
)
def test_draws_have_the_probabilities_of_transformers_warpers(params: dict[str, Any]) -> None:
    steps = 4000
    row = logits(1)
    warpers = LogitsProcessorList([TemperatureLogitsWarper(params["temperature"])])
    if "top_k" in params:
        warpers.append(TopKLogitsWarper(params["top_k"]))
    if "top_p" in params:
        warpers.append(TopPLogitsWarper(params["top_p"]))
    if "min_p" in params:
        warpers.append(MinPLogitsWarper(params["min_p"]))
    chances = torch.softmax(warpers(torch.tensor([[0]]), row.clone()), -1)[0]
    one, sampler = make(numbers=Even(steps), **params), Sampler(VOCAB, CPU)
    drawn = torch.zeros(VOCAB)
    for _ in range(steps):
        drawn[sampler.sample(row.clone(), [one])[0]] += 1
    # Numbers in equal steps hit a share of p with p * steps of them, give or take the one at the edge.
    assert (drawn - chances * steps).abs().max() <= 1.01
    assert set(drawn.nonzero().flatten().tolist()) <= set(chances.nonzero().flatten().tolist())


def test_each_row_is_drawn_as_if_it_were_alone() -> None:
    rows = logits(12)
    kinds: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"temperature": 1.0},
        {"temperature": 0.7, "top_k": 5},
        {"temperature": 1.2, "top_p": 0.6},
        {"temperature": 1.0, "min_p": 0.2},
        {"temperature": 1.0, "repetition_penalty": 1.5, "logprobs": 3},
    ]
    params = [kinds[i % len(kinds)] for i in range(12)]

    def requests() -> list[Request]:
        return [make([1, 2, 3], numbers=random.Random(i), **one) for i, one in enumerate(params)]

    together = Sampler(VOCAB, CPU).sample(rows.clone(), requests())
    alone = [Sampler(VOCAB, CPU).sample(rows[i : i + 1].clone(), [one])[0] for i, one in enumerate(requests())]
    assert together == alone


def test_repetition_penalty_is_that_of_transformers() -> None:
    prompt, out = [3, 4, 5, 5], (7, 9, 7)
    row = logits(1)
    right = RepetitionPenaltyLogitsProcessor(1.7)(torch.tensor([[*prompt, *out]]), row.clone())
    mine = row.clone()
    for rule in make(prompt, out, temperature=0.0, repetition_penalty=1.7).rules:
        rule.apply(mine[0])
    assert torch.equal(mine, right)


def test_frequency_and_presence_penalties_count_the_output() -> None:
    row = logits(1)
    mine = row.clone()
    for rule in make([3, 3], (7, 9, 7), temperature=0.0, frequency_penalty=0.5, presence_penalty=0.25).rules:
        rule.apply(mine[0])
    right = row.clone()
    right[0, 7] -= 2 * 0.5 + 0.25
    right[0, 9] -= 1 * 0.5 + 0.25
    assert torch.allclose(mine, right, atol=1e-6)


def test_penalties_remember_more_than_they_had_room_for() -> None:
    one = make([1], tuple(i % VOCAB for i in range(400)), temperature=0.0, frequency_penalty=1.0)
    mine = torch.zeros(1, VOCAB)
    one.rules[0].apply(mine[0])
    assert mine.tolist() == [[-8.0] * VOCAB]


def greedy(row: Tensor, one: Request) -> int:
    return Sampler(VOCAB, CPU).sample(row.clone(), [one])[0]


def test_masks_and_bias() -> None:
    row = logits(1)
    order = row[0].argsort(descending=True).tolist()
    best, second, third = order[:3]
    assert greedy(row, make(temperature=0.0)) == best
    assert greedy(row, make(temperature=0.0, allowed_token_ids=[third, order[10]])) == third
    assert greedy(row, make(temperature=0.0, logit_bias={order[20]: 100.0})) == order[20]
    assert greedy(row, make(temperature=0.0, logit_bias={best: -100.0})) == second
    assert greedy(row, make(temperature=0.0, bad_words_token_ids=[[best], [40, second]])) == second
    after = make(out=(39, 40), temperature=0.0, bad_words_token_ids=[[best], [39, 40, second]])
    assert greedy(row, after) == third


def test_min_tokens_keeps_stops_away() -> None:
    row = logits(1)
    best, second = row[0].argsort(descending=True).tolist()[:2]
    params = {"temperature": 0.0, "min_tokens": 2, "stop_token_ids": [best], "all_stop_token_ids": [best]}
    one = make(**params)
    for expected, ends in ((second, False), (second, False), (best, True)):
        token = greedy(row, one)
        assert (token, one.accept(token)) == (expected, ends)


def test_a_row_without_any_token_fails_alone() -> None:
    rows = logits(2)
    lost = make(temperature=0.8, allowed_token_ids=[4], bad_words_token_ids=[[4]])
    fine = make(temperature=0.0)
    tokens = Sampler(VOCAB, CPU).sample(rows.clone(), [lost, fine])
    assert tokens[1] == rows[1].argmax()
    assert lost.error is not None
    assert lost.error.code == "validation_error"
    assert fine.error is None


def test_a_plan_follows_its_batch() -> None:
    rows, sampler = logits(3), Sampler(VOCAB, CPU)
    greedy_ones = [make(temperature=0.0) for _ in range(3)]
    best = rows.argmax(-1).tolist()
    assert sampler.sample(rows.clone(), greedy_ones) == best
    biased = make(temperature=0.0, logit_bias={11: 100.0})
    assert sampler.sample(rows.clone(), [greedy_ones[0], biased, greedy_ones[2]]) == [best[0], 11, best[2]]
    assert sampler.sample(rows[:2].clone(), [biased, greedy_ones[1]]) == [11, best[1]]


def test_repetition_is_detected() -> None:
    detection = {"max_pattern_size": 3, "min_pattern_size": 2, "min_count": 3}
    one = make(temperature=0.0, repetition_detection=detection)
    ends = [one.accept(token) for token in (9, 9, 9, 9, 9, 4, 2, 4, 2, 4)]
    assert ends == [False] * 10  # five of a kind are no pair three times; the pair is short of one token
    assert one.accept(2)
    assert (one.finish_reason, one.stop_reason) == (4, "repetition_detected")
