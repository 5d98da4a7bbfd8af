"""What the engine says of a request, as its sinks hear it."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest
from serving_text_sinks import Listener, ScriptedClient
from toolgrammar_serving.errors import BadRequest, EngineBusy, EngineFailed, EngineLost, ServingError, TooLong
from toolgrammar_serving.llm import (
    LLM,
    Finish,
    GenerateRequest,
    Generation,
    ModelDefaults,
    Position,
    Sampling,
    Usage,
)
from toolgrammar_serving.protocol.arrays import Logprobs
from toolgrammar_serving.protocol.wire import (
    ABORTED,
    ERROR,
    LENGTH,
    REPETITION,
    STOP,
    EngineCoreRequest,
    PrefillStats,
    RequestError,
    SamplingParams,
)

EOS, OTHER_EOS = 90, 91
DEFAULTS = ModelDefaults(eos_token_id=EOS, stop_token_ids=(OTHER_EOS,), max_model_len=100)


def started(
    n: int = 1, client: ScriptedClient | None = None, **wanted: Any
) -> tuple[ScriptedClient, Generation, list[Listener]]:
    client = client or ScriptedClient()
    listeners = [Listener() for _ in range(n)]
    generation = LLM(client, DEFAULTS).start(GenerateRequest("r", [1, 2, 3], Sampling(**wanted), n=n), listeners)
    return client, generation, listeners


def test_tokens_in_order_then_the_end() -> None:
    client, generation, (listener,) = started()
    client.send([5])
    client.send([])
    client.send([6, 7])
    client.send([8, EOS], finish=STOP)
    assert listener.heard == [
        ("push", [5], None),
        ("push", [], None),
        ("push", [6, 7], None),
        ("push", [8], None),
        ("finish", Finish("stop")),
    ]
    assert generation.usage == Usage(prompt_tokens=3, completion_tokens=5)
    assert generation.done


@pytest.mark.parametrize(
    ("ids", "code", "stop_reason", "seen", "finish"),
    [
        ([5, EOS], STOP, None, [5], Finish("stop")),
        ([EOS], STOP, None, [], Finish("stop")),
        ([5, OTHER_EOS], STOP, OTHER_EOS, [5], Finish("stop", OTHER_EOS)),
        ([5, 6], STOP, None, [5, 6], Finish("stop")),  # no end of sequence is among them: nothing to leave out
        ([5, EOS], LENGTH, None, [5, EOS], Finish("length")),
        ([5], ABORTED, None, [5], Finish("abort")),
        ([], LENGTH, None, [], Finish("length")),
        ([5, 5], REPETITION, "repetition_detected", [5, 5], Finish("repetition", "repetition_detected")),
    ],
)
def test_ends(ids: list[int], code: int, stop_reason: Any, seen: list[int], finish: Finish) -> None:
    client, generation, (listener,) = started()
    client.send(ids, finish=code, stop_reason=stop_reason)
    assert (listener.ids, listener.end) == (seen, finish)
    assert generation.usage.completion_tokens == len(ids)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (None, EngineFailed, "the engine failed on this request"),
        (RequestError("oom", "/secret/path"), EngineFailed, "the engine failed on this request"),
        (RequestError("validation_error", "bad grammar"), BadRequest, "bad grammar"),
        (RequestError("engine_paused", "sleeping", True), EngineBusy, "sleeping"),
        (RequestError("new_code", "again", True), EngineBusy, "again"),
    ],
)
def test_an_engines_error(error: RequestError | None, kind: type[ServingError], message: str) -> None:
    client, _, (listener,) = started()
    client.send([5])
    client.send([], finish=ERROR, error=error)
    assert type(listener.end) is kind and listener.end.message == message


def test_the_engine_dies() -> None:
    client, generation, listeners = started(2)
    client.send([5], index=1)
    client.die()
    assert [type(listener.end) for listener in listeners] == [EngineLost, EngineLost]
    assert generation.done
    generation.abort()
    assert client.aborted == []


def test_sequences_have_their_own_ids_and_seeds() -> None:
    client, generation, listeners = started(3, seed=40, prompt_logprobs=1)
    assert [request.sampling_params.seed for request in client.requests] == [40, 41, 42]
    assert [request.sampling_params.prompt_logprobs for request in client.requests] == [1, None, None]
    assert {request.external_req_id for request in client.requests} == {"r"}
    ids = [request.request_id for request in client.requests]
    stem = ids[0].removeprefix("0_")
    assert ids == [f"{i}_{stem}" for i in range(3)] and stem.startswith("r-") and len(stem) == len("r-") + 8
    client.send([5], index=2)
    client.send([6], index=0)
    client.send([7], index=1, finish=LENGTH)
    assert [listener.ids for listener in listeners] == [[6], [7], [5]]
    assert generation.usage == Usage(3, 3)
    assert not generation.done


def test_the_whole_request_reaches_the_engine() -> None:
    client = ScriptedClient(max_model_len=50)
    request = GenerateRequest(
        "r",
        [1, 2],
        Sampling(temperature=0.0),
        stream=False,
        priority=-1,
        cache_salt="s",
        data_parallel_rank=1,
        trace_headers={"traceparent": "00"},
        session_id="x",
        lora=["name", 1, "path"],
        reasoning_ended=True,
        reasoning_parser_kwargs={"chat_template_kwargs": {}},
    )
    LLM(client, DEFAULTS).start(request, [Listener()])
    (sent,) = client.requests
    assert sent.arrival_time > 0
    assert sent == EngineCoreRequest(
        request_id=sent.request_id,
        prompt_token_ids=[1, 2],
        mm_features=None,
        sampling_params=SamplingParams(
            temperature=0.0,
            max_tokens=48,  # what the engine's context leaves, not the model's
            output_kind=2,
            skip_clone=True,
            stop_token_ids=[OTHER_EOS],
            eos_token_id=EOS,
            all_stop_token_ids=[EOS, OTHER_EOS],
            skip_reading_prefix_cache=False,
        ),
        pooling_params=None,
        arrival_time=sent.arrival_time,
        lora_request=["name", 1, "path"],
        cache_salt="s",
        data_parallel_rank=1,
        priority=-1,
        trace_headers={"traceparent": "00"},
        external_req_id="r",
        reasoning_ended=True,
        reasoning_parser_kwargs={"chat_template_kwargs": {}},
        session_id="x",
    )


def test_logprobs_come_with_their_tokens() -> None:
    client, generation, (listener,) = started(logprobs=1, prompt_logprobs=1)
    client.send(
        [5],
        new_logprobs=Logprobs([[5, 6]], [[-0.5, -0.25]], [2]),
        new_prompt_logprobs_tensors=Logprobs([[2, 9], [3, 9]], [[-1.0, -0.1], [-2.0, -0.2]], [4, 5]),
        prefill_stats=PrefillStats(num_prompt_tokens=3, num_cached_tokens=2),
    )
    client.send([7, EOS], finish=STOP, new_logprobs=Logprobs([[7, 8], [EOS, 1]], [[-1, -2], [-3, -4]], [1, 1]))
    assert listener.heard == [
        ("push", [5], [Position([5, 6], [-0.5, -0.25], 2)]),
        ("push", [7], [Position([7, 8], [-1, -2], 1)]),
        ("finish", Finish("stop")),
    ]
    assert generation.prompt_logprobs == [
        None,
        Position([2, 9], [-1.0, -0.1], 4),
        Position([3, 9], [-2.0, -0.2], 5),
    ]
    assert generation.usage == Usage(3, 3, 2)


def test_a_paused_sequence_keeps_what_comes() -> None:
    client, generation, (slow, quick) = started(2)
    client.send([5])
    generation.pause(0)
    client.send([6])
    client.send([7, 8])
    client.send([1], index=1)
    client.send([9, EOS], finish=STOP)
    assert slow.heard == [("push", [5], None)] and quick.ids == [1]
    generation.resume(0)
    assert slow.heard[1:] == [("push", [6, 7, 8, 9], None), ("finish", Finish("stop"))]
    generation.resume(0)
    assert len(slow.heard) == 3


def test_a_paused_sequence_keeps_logprobs_and_goes_on() -> None:
    client, generation, (listener,) = started(logprobs=0)
    generation.pause(0)
    client.send([5], new_logprobs=Logprobs([[5]], [[-0.5]], [1]))
    client.send([6], new_logprobs=Logprobs([[6]], [[-0.6]], [2]))
    generation.resume(0)
    client.send([7], new_logprobs=Logprobs([[7]], [[-0.7]], [3]))
    assert listener.heard == [
        ("push", [5, 6], [Position([5], [-0.5], 1), Position([6], [-0.6], 2)]),
        ("push", [7], [Position([7], [-0.7], 3)]),
    ]


def test_the_engine_dies_while_paused() -> None:
    client, generation, (listener,) = started()
    generation.pause(0)
    client.send([5])
    client.die()
    assert listener.heard == []
    generation.resume(0)
    assert listener.ids == [5] and type(listener.end) is EngineLost


def test_a_slow_reader_may_pause_again_while_it_is_served() -> None:
    client, generation, (listener,) = started()
    listener.push = lambda *pushed: (listener.heard.append(("push", *pushed)), generation.pause(0))  # type: ignore[method-assign]
    client.send([5])
    client.send([6])
    generation.resume(0)
    client.send([7])
    assert listener.ids == [5, 6]
    generation.resume(0)
    assert listener.ids == [5, 6, 7]


def test_nothing_is_heard_after_an_abort() -> None:
    client, generation, (first, second) = started(2)
    client.send([5], index=0)
    generation.abort(0)
    generation.abort(0)
    client.send([6], index=0)
    client.send([7], index=1)
    assert (first.heard, second.ids) == ([("push", [5], None)], [7])
    assert client.aborted == [client.requests[0].request_id]
    generation.abort()
    assert client.aborted == [request.request_id for request in client.requests]
    assert generation.done


def test_outputs_under_way_when_it_was_aborted_are_dropped() -> None:
    client, generation, (listener,) = started()
    client.send([5])
    sequence = generation.sequences[0]
    generation.abort()
    client._sinks[client.requests[0].request_id] = sequence
    client.send([6])
    client.send([7], finish=LENGTH)
    assert listener.heard == [("push", [5], None)]


def test_what_was_kept_is_dropped_by_an_abort() -> None:
    client, generation, (listener,) = started()
    generation.pause(0)
    client.send([5], finish=LENGTH)
    generation.abort()
    generation.resume(0)
    assert listener.heard == [] and client.aborted == []


def test_a_sink_that_raises_ends_its_own_sequence(caplog: pytest.LogCaptureFixture) -> None:
    client, _, (broken, whole) = started(2)

    def push(*pushed: Any) -> None:
        raise KeyError("of the sink")

    broken.push = push  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        client.send([5], index=0)
    client.send([6], index=1)
    assert type(broken.end) is ServingError and whole.ids == [6]
    assert client.aborted == [client.requests[0].request_id]
    assert f"request {client.requests[0].request_id}" in caplog.text and "of the sink" in caplog.text


@pytest.mark.parametrize("over", [False, True])
def test_a_sink_that_raises_at_what_was_kept_ends_its_own_sequence(
    caplog: pytest.LogCaptureFixture, over: bool
) -> None:
    client, generation, (broken, whole) = started(2)

    def push(*pushed: Any) -> None:
        raise KeyError("of the sink")

    broken.push = push  # type: ignore[method-assign]
    generation.pause(0)
    generation.pause(1)
    client.send([5], index=0, finish=LENGTH if over else None)
    client.send([6], index=1)
    with caplog.at_level(logging.ERROR):
        generation.resume(0)
    generation.resume(1)
    client.send([7], index=0)
    assert type(broken.end) is ServingError and whole.ids == [6]
    assert client.aborted == ([] if over else [client.requests[0].request_id])
    assert f"request {client.requests[0].request_id}" in caplog.text and "of the sink" in caplog.text


def test_whoever_reads_says_how_many_tokens_count() -> None:
    client, generation, _ = started(2)
    client.send([5, 6, 7], index=0)
    client.send([5, 6], index=1)
    generation.keep(0, 1)
    generation.abort(0)
    client.send([7], index=0)
    client.send([7], index=1)
    assert generation.usage == Usage(3, 1 + 3)


def generations() -> int:
    """How many there are."""
    return sum(type(one) is Generation for one in gc.get_objects())


@pytest.mark.parametrize("how", ["finish", "abort", "die"])
def test_what_is_over_is_freed_without_the_collector(how: str) -> None:
    client, generation, _ = started()
    held = [*generation.sequences]  # as a client may, for outputs that are under way
    gc.disable()
    try:
        before = generations()
        client.send([5], finish=STOP if how == "finish" else None)
        if how == "abort":
            generation.abort()
        elif how == "die":
            held[0].lost(EngineLost("gone"))
        del generation
        assert generations() == before - 1
    finally:
        gc.enable()


def test_an_abort_from_within_a_push() -> None:
    client, generation, (listener,) = started()
    listener.push = lambda *pushed: generation.abort()  # type: ignore[method-assign]
    client.send([5, EOS], finish=STOP)
    assert listener.heard == [] and client.aborted == []  # the engine is done with it: nothing to abort


def test_what_was_sent_is_taken_back_when_the_rest_cannot_be() -> None:
    client = ScriptedClient()
    client.refuse = EngineLost("gone")
    with pytest.raises(EngineLost):
        started(3, client)
    assert client.aborted == [client.requests[0].request_id]


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (GenerateRequest("r", [1], n=0), BadRequest),
        (GenerateRequest("r", []), BadRequest),
        (GenerateRequest("r", [1], Sampling(top_p=2.0)), BadRequest),
        (GenerateRequest("r", [1] * 100), TooLong),
        (GenerateRequest("r", [1], Sampling(max_tokens=100)), TooLong),
        (GenerateRequest("r", [1], Sampling(logprobs=21)), BadRequest),
    ],
)
def test_what_is_refused_reaches_no_engine(request_: GenerateRequest, kind: type[ServingError]) -> None:
    client = ScriptedClient()
    with pytest.raises(kind):
        LLM(client, DEFAULTS).start(request_, [Listener()] * request_.n)
    assert client.requests == []
