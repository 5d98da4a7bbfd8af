"""32 requests with all kinds of parameters at once: each gets the answer it gets alone (float32)."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from serving_engine_thread import Running
from serving_engine_wire import Answer, request
from toolgrammar_serving.protocol import wire

KINDS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.0, "logprobs": 4},
    {"temperature": 0.7, "seed": 11},
    {"temperature": 1.0, "seed": 12, "top_k": 20, "top_p": 0.9},
    {"temperature": 1.4, "seed": 13, "min_p": 0.02, "logprobs": 0},
    {"temperature": 0.9, "seed": 14, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": 0.2},
    {"temperature": 0.8, "seed": 15, "logit_bias": {17: 4.0, 90: -50.0}},
    {"temperature": 1.0, "seed": 16, "allowed_token_ids": list(range(100, 200)), "prompt_logprobs": 2},
    {"temperature": 1.0, "seed": 17, "bad_words_token_ids": [[5], [80, 81]], "stop_token_ids": [9, 10, 11, 12]},
    {"temperature": 1.0, "seed": 18, "min_tokens": 10, "stop_token_ids": list(range(300))},
    {"temperature": 0.0, "prompt_logprobs": 0, "logprobs": 1},
    {"temperature": 1.0, "seed": 19, "top_p": 0.5, "max_tokens": 3},
    {"temperature": 0.6, "seed": 20, "structured_outputs": wire.StructuredOutputs(regex="[a-f]{3,9}")},
    {"temperature": 1.0, "seed": 21, "logprobs": 2, "logprob_token_ids": [3, 1, 2]},
    {"temperature": 1.0, "seed": -22},
    {"temperature": 0.0, "logprobs": -1},
]  # fmt: skip


def asked(name: str, index: int) -> wire.EngineCoreRequest:
    rng = random.Random(100 + index)
    prompt = [rng.randrange(600) for _ in range(rng.randrange(2, 90))]
    return request(f"{name}-{index}", prompt, **{"max_tokens": 16, **KINDS[index % len(KINDS)]})


def arrays(value: Any) -> list[tuple[list[int], torch.Tensor]]:
    """``[ids, logprobs, ranks, nil]`` of the wire, read by the letter of the protocol."""
    assert value[3] is None
    names = {"<i8": torch.int64, "<f4": torch.float32, "int64": torch.int64, "float32": torch.float32}
    found = []
    for dtype, shape, data in value[:3]:
        assert data.code == 3
        found.append((shape, torch.frombuffer(bytearray(data.data), dtype=names[dtype]).reshape(shape)))
    return found


def comparable(answer: Answer) -> Any:
    """Everything a client could see, with log-probabilities as near as float32 has them."""

    def rounded(value: Any) -> Any:
        if value is None:
            return None
        (_, ids), (_, values), (_, ranks) = arrays(value)
        # Far down the list nearly equal numbers change places, so ids count for the first columns only.
        near = [[pytest.approx(x, abs=2e-4) for x in row[:6]] for row in values.tolist()]
        return ids[:, :6].tolist(), near, ranks.tolist()

    return (
        answer.tokens,
        answer.end,
        [rounded(one.new_logprobs) for one in answer.outputs],
        [rounded(one.new_prompt_logprobs_tensors) for one in answer.outputs],
    )


def test_each_gets_the_answer_it_gets_alone(qwen: Running) -> None:
    alone = [comparable(qwen.front.run(asked("alone", i))[0]) for i in range(32)]
    qwen.front.call("reset_prefix_cache", False, False)
    together = [comparable(one) for one in qwen.front.run(*(asked("both", i) for i in range(32)))]
    for index, (one, other) in enumerate(zip(alone, together, strict=True)):
        assert other == one, KINDS[index % len(KINDS)]
    assert len({str(one[0]) for one in alone}) > 28


def test_a_seed_is_an_answer_and_none_is_many(qwen: Running) -> None:
    def run(name: str, **params: Any) -> list[int]:
        return qwen.front.run(request(name, [1, 2, 3], temperature=1.5, max_tokens=20, **params))[0].tokens

    assert run("a", seed=4) == run("b", seed=4)
    assert run("c", seed=4) != run("d", seed=5)
    assert run("e") != run("f")


@pytest.fixture(scope="module")
def whole(qwen: Running) -> tuple[list[int], Answer, torch.Tensor]:
    """A request with both kinds of log-probabilities, and what the model says to all of it, by itself."""
    rng = random.Random(4)
    prompt = [rng.randrange(600) for _ in range(140)]
    params = {"temperature": 0.8, "seed": 6, "logprobs": 3, "prompt_logprobs": 2, "top_k": 5}
    answer = qwen.front.run(request("logprobs", prompt, max_tokens=8, **params))[0]
    with torch.inference_mode():
        ids = torch.tensor([prompt + answer.tokens])
        mask = torch.ones_like(ids)
        right = torch.log_softmax(_plain(qwen)(input_ids=ids, attention_mask=mask).logits[0].float(), -1)
    return prompt, answer, right


def _plain(qwen: Running) -> Any:
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(qwen.directory, dtype=torch.float32).eval()


def test_logprobs_are_the_models_own(whole: tuple[list[int], Answer, torch.Tensor]) -> None:
    prompt, answer, right = whole
    for step, output in enumerate(answer.outputs):
        row = right[len(prompt) - 1 + step]
        (shape, ids), (_, values), (_, ranks) = arrays(output.new_logprobs)
        token = output.new_token_ids[0]
        best = row.topk(3)
        assert shape == [1, 4]
        assert ids.tolist() == [[token, *best.indices.tolist()]]
        assert torch.allclose(values[0], torch.cat([row[token].view(1), best.values]), atol=2e-4)
        assert ranks.tolist() == [int((row > row[token]).sum()) + 1]


def test_prompt_logprobs_are_the_models_own(whole: tuple[list[int], Answer, torch.Tensor]) -> None:
    prompt, answer, right = whole
    (shape, ids), (_, values), (_, ranks) = arrays(answer.outputs[0].new_prompt_logprobs_tensors)
    assert shape == [139, 3]
    rows = right[:139]
    followers = torch.tensor(prompt[1:])
    own = rows.gather(1, followers.unsqueeze(1))
    best = rows.topk(2, dim=1)
    assert ids.tolist() == torch.cat([followers.unsqueeze(1), best.indices], 1).tolist()
    assert torch.allclose(values, torch.cat([own, best.values], 1), atol=2e-4)
    assert ranks.tolist() == ((rows > own).sum(1) + 1).tolist()
    assert all(one.new_prompt_logprobs_tensors is None for one in answer.outputs[1:])


def test_prompt_logprobs_read_nothing_from_the_cache(qwen: Running) -> None:
    prompt = list(range(1, 100))
    qwen.front.run(request("warm", prompt, temperature=0.0, max_tokens=2))
    answer = qwen.front.run(request("prompt", prompt, temperature=0.0, max_tokens=2, prompt_logprobs=1))[0]
    assert answer.cached == 0
    assert arrays(answer.outputs[0].new_prompt_logprobs_tensors)[0][0] == [98, 2]


def test_asked_ids_stand_in_their_order(qwen: Running) -> None:
    one = request("ids", [1, 2], temperature=0.0, max_tokens=1, logprobs=1, logprob_token_ids=[7, 3, 5])
    output = qwen.front.run(one)[0].last
    assert arrays(output.new_logprobs)[0][1].tolist() == [[output.new_token_ids[0], 7, 3, 5]]
