"""Recorded messages of the real peers: read as they read them, and written so that they read the same."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest
from toolgrammar_serving.protocol.arrays import Logprobs, read_logprobs
from toolgrammar_serving.protocol.messages import Abort, Add, read_message
from toolgrammar_serving.protocol.wire import (
    ERROR,
    LENGTH,
    STOP,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    Hello,
    ReadyResponse,
    RequestError,
    SamplingParams,
    StructuredOutputs,
    UtilityCall,
    UtilityOutput,
)

FIXTURES = Path(__file__).parents[3] / "fixtures" / "wire"
REQUESTS = sorted(FIXTURES.glob("vllm-*/add-*.bin"))
OUTPUTS = sorted(
    path for path in FIXTURES.glob("engine-*/*.bin") if path.stem not in ("hello", "ready", "register")
)
#: Sampling parameters of a peer that are its own business: the engine does nothing with them.
FRONT_ENDS_OWN = {
    "n",
    "stop",
    "watermarking",
    "_watermarking_skipped",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "include_stop_str_in_output",
    "stream_interval",
    "output_text_buffer_length",
    "flat_logprobs",
    "prompt_logprob_start",
    "prompt_logprob_token_ids",
    "routed_experts_prompt_start",
    "trace_decode_token_ids",
}


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def frames(path: Path) -> list[bytes]:
    data, found = path.read_bytes(), []
    while data:
        (size,) = struct.unpack_from("<I", data)
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


def says(path: Path) -> Any:
    return json.loads(path.with_suffix(".json").read_text())


def read(folder: str, stem: str, kind: Any) -> Any:
    return msgspec.msgpack.decode(frames(FIXTURES / folder / f"{stem}.bin")[-1], type=kind)


# ---- requests


def as_object(value: Any) -> Any:
    """A struct as the object a peer makes of it; every field, by its name on the wire."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        return {field.encode_name: as_object(getattr(value, field.name)) for field in fields}
    if isinstance(value, list):
        return [as_object(item) for item in value]
    if isinstance(value, dict):
        return {str(key): as_object(item) for key, item in value.items()}  # JSON has no other keys
    return value


@pytest.mark.parametrize("path", REQUESTS, ids=name)
def test_a_peers_request_says_to_us_what_it_says_to_vllm(path: Path):
    message = read_message(frames(path))
    assert isinstance(message, Add)
    expected = says(path)
    ours = as_object(message.request)
    theirs = expected["sampling_params"]
    assert set(theirs) - set(ours["sampling_params"]) <= FRONT_ENDS_OWN
    theirs = {key: value for key, value in theirs.items() if key not in FRONT_ENDS_OWN}
    if ours["sampling_params"]["skip_reading_prefix_cache"] is None:  # nil and false are one to the engine
        theirs["skip_reading_prefix_cache"] = None
    assert ours["sampling_params"] == theirs
    assert {**ours, "sampling_params": None} == {**expected, "sampling_params": None}


@pytest.mark.parametrize("path", REQUESTS, ids=name)
def test_what_we_write_for_the_same_request_reads_the_same(path: Path):
    body = frames(path)[1]
    theirs = msgspec.msgpack.decode(body)
    ours = msgspec.msgpack.decode(msgspec.msgpack.encode(msgspec.msgpack.decode(body, type=EngineCoreRequest)))
    assert len(ours) == len(theirs) == 22
    assert ours[:3] + ours[4:] == theirs[:3] + theirs[4:]
    defaults = as_object(SamplingParams())
    for key in (theirs[3].keys() | ours[3].keys()) - FRONT_ENDS_OWN:
        if key != "structured_outputs":
            assert ours[3].get(key, defaults[key]) == theirs[3].get(key, defaults[key]), key
    constraint = theirs[3].get("structured_outputs") or {}
    written = ours[3].get("structured_outputs") or {}
    assert {key: value for key, value in constraint.items() if value not in (None, False)} == written


def test_a_request_with_every_knob_turned():
    request = read("vllm-0.32", "add-sampling", EngineCoreRequest)
    prompt = [151644, 872, 198, 1830, 151645, 198, 151644, 77091, 198]
    assert request == EngineCoreRequest(
        request_id=request.request_id,
        prompt_token_ids=prompt,
        mm_features=None,
        sampling_params=SamplingParams(
            temperature=0.25,
            presence_penalty=0.5,
            frequency_penalty=0.25,
            repetition_penalty=1.125,
            top_p=0.5,
            top_k=11,
            min_p=0.0625,
            max_tokens=4,
            min_tokens=2,
            logprobs=2,
            stop_token_ids=[42, 151643],
            logit_bias={5: 1.5},
            output_kind=2,
            skip_clone=True,
            eos_token_id=151645,
            all_stop_token_ids=request.sampling_params.all_stop_token_ids,
            skip_reading_prefix_cache=False,
        ),
        pooling_params=None,
        arrival_time=request.arrival_time,
        lora_request=None,
        cache_salt=None,
        data_parallel_rank=None,
        external_req_id=request.external_req_id,
    )
    assert sorted(request.sampling_params.all_stop_token_ids) == [42, 151643, 151645]


def test_a_request_of_the_rust_front_end():
    request = read("vllm-rs-0.33", "add-stream", EngineCoreRequest)
    params = request.sampling_params
    assert (params.seed, params.max_tokens, params.top_k) == (7, 4, 20)
    assert params.temperature == struct.unpack("<f", struct.pack("<f", 0.6))[0]  # floats of four bytes
    assert request.reasoning_parser_kwargs == {"chat_template_kwargs": {}}
    schema = read("vllm-rs-0.33", "add-schema", EngineCoreRequest)
    constraint = schema.sampling_params.structured_outputs
    assert json.loads(constraint.structural_tag)["type"] == "structural_tag"
    assert constraint == StructuredOutputs(structural_tag=constraint.structural_tag, backend="xgrammar")
    assert schema.sampling_params.bad_words_token_ids == [[2152], [902]]


def test_aborts_and_calls():
    for folder in ("vllm-0.32", "vllm-rs-0.33"):
        path = FIXTURES / folder / "abort.bin"
        assert read_message(frames(path)) == Abort(says(path))
        assert msgspec.msgpack.encode(says(path)) == frames(path)[1]
    for method in ("get_supported_tasks", "reset_mm_cache"):
        path = FIXTURES / "vllm-0.32" / f"call-{method}.bin"
        call = read_message(frames(path))
        assert call == UtilityCall(*says(path))
        assert (call.client_index, call.method, call.args) == (0, method, [])
        assert msgspec.msgpack.encode(call) == frames(path)[1]


# ---- what engines send


def rows(value: Any) -> list[Any]:
    """Logprobs as a peer reads them: ids, logprobs, ranks."""
    return [value.ids, value.logprobs, value.ranks]


@pytest.mark.parametrize("path", OUTPUTS, ids=name)
def test_an_engines_message_says_to_us_what_it_says_to_vllm(path: Path):
    message = frames(path)
    expected = says(path)
    outputs = msgspec.msgpack.decode(message[0], type=EngineCoreOutputs)
    ours = as_object(outputs)
    for output, theirs in zip(ours["outputs"], expected["outputs"], strict=True):
        for field in ("new_logprobs", "new_prompt_logprobs_tensors"):
            if theirs[field] is not None:
                assert rows(read_logprobs(output[field], message)) == theirs[field][:3]
        for field, value in theirs.items():
            if field not in ("new_logprobs", "new_prompt_logprobs_tensors"):
                assert output[field] == value, field
        # What 0.32 does not have is as if it were not there.
        assert set(output) - set(theirs) <= {"error"}
        assert output.get("error") == theirs.get("error")
    if expected["scheduler_stats"] is not None:
        stats = {key: ours["scheduler_stats"][key] for key in expected["scheduler_stats"]}
        assert stats == expected["scheduler_stats"]
    if expected["utility_output"] is not None:
        result = ours["utility_output"]["result"]
        ours["utility_output"]["result"] = result and result[1]
    for field in ("engine_index", "timestamp", "utility_output", "wave_complete", "start_wave", "weight_version"):
        assert ours[field] == expected[field], field
    finished = ours["finished_requests"]
    assert (finished and sorted(finished)) == expected["finished_requests"]


@pytest.mark.parametrize("path", OUTPUTS, ids=name)
def test_an_engines_message_is_written_as_it_was(path: Path):
    """Byte by byte with 0.33, whose fields ours are; with 0.32 but for what came later."""
    body = frames(path)[0]
    written = msgspec.msgpack.encode(msgspec.msgpack.decode(body, type=EngineCoreOutputs))
    if path.parent.name == "engine-0.33":
        assert written == body
        return
    ours, theirs = msgspec.msgpack.decode(written, type=list[Any]), msgspec.msgpack.decode(body, type=list[Any])
    assert [len(output) for output in ours[1]] == [19] * len(theirs[1])
    for output in ours[1]:
        assert output.pop() is None
    assert msgspec.msgpack.encode(ours[1]) == msgspec.msgpack.encode(theirs[1])
    assert ours[2:] == theirs[2:]


def test_the_steps_of_one_request():
    first, middle, last = (read("engine-0.32", stem, EngineCoreOutputs) for stem in ("first", "middle", "length"))
    (one,) = first.outputs
    assert (one.request_id, one.new_token_ids, one.prefill_stats.num_prompt_tokens) == ("greedy", [55129], 3)
    assert [event["type"] for event in one.events] == [1, 2]
    assert middle.outputs == [EngineCoreOutput("greedy", [55129])]
    assert last.outputs == [EngineCoreOutput("greedy", [55129], finish_reason=LENGTH)]
    (stopped,) = read("engine-0.32", "stop-token", EngineCoreOutputs).outputs
    assert (stopped.finish_reason, stopped.stop_reason) == (STOP, 55129)
    (failed,) = read("engine-0.32", "error", EngineCoreOutputs).outputs
    assert (failed.new_token_ids, failed.finish_reason, failed.error) == ([], ERROR, None)
    assert (last.scheduler_stats.num_running_reqs, last.scheduler_stats.step_counter) == (0, 0)


def test_logprobs_of_0_33_inline_and_in_a_frame():
    message = frames(FIXTURES / "engine-0.33" / "logprobs.bin")
    assert len(message) == 2
    small, large = msgspec.msgpack.decode(message[0], type=EngineCoreOutputs).outputs
    assert read_logprobs(small.new_logprobs, message) == Logprobs([[100, 101, 102]], [[-0.5, -1.0, -1.5]], [3])
    assert read_logprobs(large.new_logprobs, message) == Logprobs(
        [list(range(200, 241))], [[-0.5 * i for i in range(1, 42)]], [3]
    )


def test_an_error_of_0_33():
    outputs = read("engine-0.33", "error", EngineCoreOutputs)
    error = RequestError("validation_error", "bad schema")
    assert outputs.outputs == [EngineCoreOutput("a", [], finish_reason=ERROR, error=error)]
    assert outputs.finished_requests == {"a"}


def test_answers_to_calls():
    answers = {
        "utility-tasks": UtilityOutput(1000, None, [None, ["generate"]]),
        "utility-true": UtilityOutput(1001, None, [None, True]),
        "utility-false": UtilityOutput(1002, None, [None, False]),
    }
    for stem, answer in answers.items():
        outputs = read("engine-0.32", stem, EngineCoreOutputs)
        assert (outputs.outputs, outputs.utility_output) == ([], answer)
    failure = read("engine-0.32", "utility-failure", EngineCoreOutputs).utility_output
    assert (failure.call_id, failure.result) == (1003, None)
    assert failure.failure_message.startswith("Call to no_such_method method failed: ")


def test_the_handshake():
    assert read("engine-0.32", "hello", Hello) == Hello("HELLO", local=False, headless=True)
    assert read("engine-0.32", "ready", Hello) == Hello("READY", local=False, headless=True)
    ready = read("engine-0.32", "register", ReadyResponse)
    assert {key: value for key, value in as_object(ready).items() if key in says_register} == says_register
    assert (ready.max_model_len, ready.vllm_version, ready.num_gpu_blocks) == (4096, "0.32.0", 32768)


says_register = says(FIXTURES / "engine-0.32" / "register.bin")
