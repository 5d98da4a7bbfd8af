"""Greedy outputs are those of ``model.generate`` in float32: alone, in a batch, in pieces, after preemption."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import serving_engine_models
import torch
from serving_engine_thread import Running, running
from serving_engine_wire import request

NEW = 24


@pytest.fixture(scope="module", params=serving_engine_models.ARCHITECTURES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("models") / request.param
    serving_engine_models.model_directory(directory, request.param)
    # Steps of 96 tokens: longer prompts, and many at once, are prefilled in pieces.
    with running(directory, "--max-num-batched-tokens", "96") as one:
        yield one


def prompts(count: int) -> list[list[int]]:
    rng = random.Random(7)
    return [[rng.randrange(600) for _ in range(rng.randrange(1, 150))] for _ in range(count)]


def generated(model: Any, prompt: list[int], count: int = NEW) -> list[int]:
    """What transformers makes of it, greedily and without an end of sequence."""
    from transformers import GenerationConfig

    model.generation_config = GenerationConfig()  # the model's own would stop at its end of sequence
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=GenerationConfig(do_sample=False, max_new_tokens=count),
        )
    return list(made[0, len(prompt) :].tolist())


def test_alone_and_batched_as_generate_has_it(engine: Running) -> None:
    asked = prompts(32)
    right = [generated(engine.model, prompt) for prompt in asked]
    assert len({tuple(one) for one in right}) == len(right)
    alone = [
        engine.front.run(request(f"alone-{i}", prompt, temperature=0.0, max_tokens=NEW))[0]
        for i, prompt in enumerate(asked[:4])
    ]
    together = engine.front.run(
        *(request(f"batch-{i}", prompt, temperature=0.0, max_tokens=NEW) for i, prompt in enumerate(asked))
    )
    assert [one.tokens for one in alone] == right[:4]
    assert [one.tokens for one in together] == right
    assert {one.end for one in together} == {(1, None)}


def test_a_request_that_joins_later_disturbs_nobody(engine: Running) -> None:
    first, second = prompts(2)
    front = engine.front
    front.add(request("early", first, temperature=0.0, max_tokens=40))
    while len(front.answers["early"].tokens) < 5:
        front.take()
    front.add(request("late", second, temperature=0.0, max_tokens=10))
    early, late = front.finish("early", "late")
    assert early.tokens == generated(engine.model, first, 40)
    assert late.tokens == generated(engine.model, second, 10)
