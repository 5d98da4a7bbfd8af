"""What happens to requests: ends, aborts, refusals, memory, prefixes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving_engine_thread import Running, running
from serving_engine_wire import Answer, request
from toolgrammar_serving.protocol import wire


def prompt(length: int, seed: int = 1) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(600) for _ in range(length)]


def greedy(engine: Running, name: str, length: int = 20, **params: object) -> Answer:
    return engine.front.run(request(name, prompt(length), temperature=0.0, **params))[0]


def test_ready_says_what_the_engine_is(qwen: Running) -> None:
    ready = qwen.ready
    assert (ready.max_model_len, ready.dtype, ready.max_num_seqs) == (512, "float32", 64)
    assert ready.num_gpu_blocks * ready.block_size == ready.kv_cache_size_tokens
    assert ready.vllm_version == "0.33.0"


def test_ends(qwen: Running) -> None:
    whole = greedy(qwen, "whole", max_tokens=12)
    assert whole.end == (wire.LENGTH, None)
    tokens = whole.tokens
    third = tokens.index(tokens[2])  # where this id comes first
    stopped = greedy(qwen, "stop", max_tokens=12, stop_token_ids=[tokens[2]])
    assert (stopped.tokens, stopped.end) == (tokens[: third + 1], (wire.STOP, tokens[2]))
    eos = greedy(qwen, "eos", max_tokens=12, eos_token_id=tokens[2])
    assert (eos.tokens, eos.end) == (tokens[: third + 1], (wire.STOP, None))
    both = greedy(qwen, "both", max_tokens=12, eos_token_id=tokens[2], stop_token_ids=[tokens[2]])
    assert both.end == (wire.STOP, None)
    ignored = greedy(qwen, "ignored", max_tokens=12, eos_token_id=tokens[2], ignore_eos=True)
    assert (ignored.tokens, ignored.end) == (tokens, (wire.LENGTH, None))


def test_without_max_tokens_the_context_is_the_end(qwen: Running) -> None:
    answer = greedy(qwen, "open", 500, max_tokens=None)
    assert (len(answer.tokens), answer.end) == (12, (wire.LENGTH, None))


def test_every_token_is_its_own_output_and_the_first_tells_of_the_prefill(qwen: Running) -> None:
    answer = greedy(qwen, "steps", 30, max_tokens=5)
    assert [len(one.new_token_ids) for one in answer.outputs] == [1] * 5
    assert [one.finish_reason for one in answer.outputs] == [None] * 4 + [wire.LENGTH]
    first = answer.outputs[0]
    assert first.prefill_stats is not None
    assert (first.prefill_stats.num_prompt_tokens, first.prefill_stats.num_computed_tokens) == (30, 30)
    assert first.events is not None
    assert [event["type"] for event in first.events] == [1, 2]
    assert all(one.prefill_stats is None and one.events is None for one in answer.outputs[1:])


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (request("long", [1] * 600), "The prompt has 600 tokens, but the model takes 512"),
        (request("full", [1] * 512), "The prompt has 512 tokens, but the model takes 512"),
        (request("empty", []), "The prompt is empty"),
        (request("foreign", [1, 10**6]), "token id 1000000 is not in the vocabulary"),
        (request("negative", [-1]), "token id -1"),
        (request("none", [1], max_tokens=0), "max_tokens must be at least 1"),
        (request("cold", [1], temperature=-1.0), "temperature"),
        (request("nan", [1], temperature=float("nan")), "temperature"),
        (request("top", [1], top_p=0.0), "top_p"),
        (request("bias", [1], logit_bias={10**6: 1.0}), "logit_bias: token id 1000000"),
        (request("allowed", [1], allowed_token_ids=[-5]), "allowed_token_ids: token id -5"),
        (request("bad", [1], bad_words_token_ids=[[1, 10**6]]), "bad_words: token id 1000000"),
        (request("none of all", [1], allowed_token_ids=[]), "allowed_token_ids is empty"),
        (request("wide", [1], top_k=2**63), "top_k"),
        (request("penalty", [1], frequency_penalty=float("inf")), "frequency_penalty must be finite"),
        (request("weight", [1], logit_bias={1: float("nan")}), "every bias must be finite"),
        (request("budget", [1], thinking_token_budget=5), "thinking_token_budget"),
    ],
)
def test_refusals_are_the_requests_own(qwen: Running, asked: wire.EngineCoreRequest, says: str) -> None:
    front = qwen.front
    front.add(request("neighbour", [5, 6], temperature=0.0, max_tokens=8))
    refused, neighbour = front.run(asked)[0], front.finish("neighbour")[0]
    assert refused.tokens == []
    assert refused.last.finish_reason == wire.ERROR
    error = refused.last.error
    assert error is not None
    assert (error.code, error.retryable) == ("validation_error", False)
    assert says in error.message
    assert len(neighbour.tokens) == 8


@pytest.mark.parametrize("foreign", [-5, 10**7, 2**63])
def test_stop_tokens_outside_the_vocabulary_never_come(qwen: Running, foreign: int) -> None:
    usual = greedy(qwen, "usual", max_tokens=8).tokens
    params = {"stop_token_ids": [foreign], "all_stop_token_ids": [foreign], "min_tokens": 3}
    assert greedy(qwen, "foreign", max_tokens=8, **params).tokens == usual
    guided = greedy(qwen, "guided", structured_outputs=wire.StructuredOutputs(choice=["ab"]), **params)
    assert guided.last.finish_reason == wire.STOP


def test_an_id_in_use_is_refused(qwen: Running) -> None:
    front = qwen.front
    front.add(request("twin", [1], temperature=0.0, max_tokens=30))
    front.add(request("twin", [2], temperature=0.0, max_tokens=30))
    messages = []
    while len(front.answers["twin"].tokens) < 30:
        messages.append(front.take())
    refusals = [one for message in messages if message for one in message.outputs if one.error]
    assert [one.error.message for one in refusals if one.error] == ["Request id twin is in use."]


def test_what_cannot_be_read_ends_its_request(qwen: Running) -> None:
    body = [*("broken", "no list", None, {}, None, 0.0, None, None, None), *[None] * 2, 0, 0]
    qwen.front.answers["broken"] = Answer()
    qwen.front.send(wire.ADD, body)
    assert qwen.front.finish("broken")[0].last.finish_reason == wire.ERROR


def test_an_abort_frees_blocks_and_says_nothing(qwen: Running) -> None:
    front = qwen.front
    front.add(request("doomed", prompt(200), temperature=0.0, max_tokens=300))
    while len(front.answers["doomed"].tokens) < 3:
        front.take()
    assert front.stats is not None
    assert (front.stats.num_running_reqs, front.stats.kv_cache_usage > 0) == (1, True)
    front.abort("doomed", "unknown")
    while front.stats.num_running_reqs:
        front.take()
    assert front.stats.kv_cache_usage == 0.0
    so_far = len(front.answers["doomed"].tokens)
    greedy(qwen, "after", max_tokens=4)
    assert len(front.answers["doomed"].tokens) == so_far
    assert front.answers["doomed"].last.finish_reason is None


def test_equal_beginnings_are_computed_once(qwen: Running) -> None:
    long = prompt(300, seed=5)
    first, second = (
        qwen.front.run(request(name, long, temperature=0.0, max_tokens=6))[0] for name in ("one", "two")
    )
    other = qwen.front.run(request("three", [*long[:100], *prompt(50, seed=6)], temperature=0.0, max_tokens=2))[0]
    assert first.cached == 0
    assert second.cached == 288  # nine whole blocks of 32
    assert other.cached == 96
    assert second.tokens == first.tokens
    assert qwen.front.stats is not None
    assert qwen.front.call("reset_prefix_cache", False, False).result == [None, True]
    third = qwen.front.run(request("four", long, temperature=0.0, max_tokens=6))[0]
    assert (third.cached, third.tokens) == (0, first.tokens)


def test_a_salt_keeps_prefixes_apart(qwen: Running) -> None:
    secret = prompt(100, seed=8)
    run = qwen.front.run
    answers = [
        run(request("salted", secret, salt="a", temperature=0.0, max_tokens=4))[0],
        run(request("open", secret, temperature=0.0, max_tokens=4))[0],
        run(request("again", secret, salt="a", temperature=0.0, max_tokens=4))[0],
    ]
    assert [one.cached for one in answers] == [0, 0, 0]
    assert len({tuple(one.tokens) for one in answers}) == 1


def test_prefix_statistics_are_counted_once(qwen: Running) -> None:
    front = qwen.front
    seen = []
    long = prompt(70, seed=9)
    for name in ("first", "second"):
        front.add(request(name, long, temperature=0.0, max_tokens=3))
        while not front.finished(name):
            message = front.take()
            assert message is not None
            assert message.scheduler_stats is not None
            seen.append(message.scheduler_stats.prefix_cache_stats)
    assert [(one.requests, one.queries, one.hits) for one in seen if one.requests] == [(1, 70, 0), (1, 70, 64)]


@pytest.fixture(scope="module")
def narrow(qwen_directory: Path) -> Iterator[Running]:
    """A cache of 640 tokens, where several requests together find no room."""
    memory = 20 * 32 * (512 + 64 * 4 + 16) + 64 * 64 * 4
    options = ("--kv-memory", str(memory), "--max-num-batched-tokens", "64", "--max-num-seqs", "16")
    with running(qwen_directory, *options) as one:
        assert one.ready.kv_cache_size_tokens == 640
        yield one


def test_without_room_requests_wait_or_start_again(narrow: Running, qwen: Running) -> None:
    asked = [request(f"r{i}", prompt(40 + 7 * i, seed=i), temperature=0.0, max_tokens=100) for i in range(16)]
    right = [one.tokens for one in qwen.front.run(*asked)]
    front = narrow.front
    front.add(*asked)
    waited = taken = 0
    while not all(front.finished(one.request_id) for one in asked):
        message = front.take()
        assert message is not None
        if message.scheduler_stats is not None:
            assert message.scheduler_stats.kv_cache_usage <= 1.0
            waited = max(waited, message.scheduler_stats.num_waiting_reqs)
            taken += message.scheduler_stats.prefix_cache_stats.preempted_requests
    assert [front.answers[one.request_id].tokens for one in asked] == right
    assert waited > 0
    assert taken > 0


def test_aborts_without_room_leave_the_rest_running(narrow: Running) -> None:
    front = narrow.front
    for i in range(12):
        front.add(request(f"q{i}", prompt(60, seed=i), temperature=0.0, max_tokens=200))
    taken = 0
    while not taken or front.stats.num_running_reqs > 5:  # some had to give way
        message = front.take()
        assert message is not None
        assert message.scheduler_stats is not None
        taken += message.scheduler_stats.prefix_cache_stats.preempted_requests
    front.abort(*(f"q{i}" for i in range(8)))
    assert [len(one.tokens) for one in front.finish(*(f"q{i}" for i in range(8, 12)))] == [200] * 4


def test_the_cache_limits_the_longest_request(qwen_directory: Path) -> None:
    memory = 8 * 32 * (512 + 64 * 4 + 16) + 64 * 64 * 4
    with running(qwen_directory, "--kv-memory", str(memory), "--max-num-batched-tokens", "64") as small:
        assert small.ready.max_model_len == 256
        assert small.front.run(request("long", [1] * 256))[0].last.error is not None
        answer = small.front.run(request("fits", prompt(200), temperature=0.0, max_tokens=None))[0]
        assert len(answer.tokens) == 56


def test_two_front_ends_hear_their_own(qwen_directory: Path) -> None:
    with running(qwen_directory, clients=2) as both:
        front = both.front
        front.add(request("a", [1, 2], temperature=0.0, max_tokens=9))
        front.add(request("b", [1, 2], client=1, temperature=0.0, max_tokens=9))
        first, second = front.finish("a", client=0)[0], front.finish("b", client=1)[0]
        assert first.tokens == second.tokens
        front.send(wire.ADD, request("nobody", [1], client=7))
        assert len(front.run(request("c", [3], max_tokens=2))[0].tokens) == 2


def test_a_coordinator_hears_of_load(qwen_directory: Path) -> None:
    with running(qwen_directory, coordinated=True) as engine:
        front = engine.front
        front.run(request("r", prompt(10), temperature=0.0, max_tokens=3))
        assert [front.coordinator_hears() for _ in range(2)] == [(0, 1), (0, 0)]
