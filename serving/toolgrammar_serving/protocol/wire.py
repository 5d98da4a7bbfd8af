"""The messages of vLLM's EngineCore protocol, versions 0.32 and 0.33, as typed structs.

Array structs are msgpack arrays in field order, always full length when written, and tolerant when read: missing
tail fields take their defaults, surplus elements and unknown map keys are ignored. So one set of structs reads and
writes both versions. Field names and order are the protocol's.

Frames: a front end's ROUTER sends ``[identity, type, body, aux...]``, an engine's PUSH sends ``[body, aux...]`` or
the single frame ``ENGINE_CORE_DEAD``. Arrays and tensors are ``[dtype, shape, data]``; ``arrays`` reads them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

# ---- frames -----------------------------------------------------------------------------------------------

ADD: Final = b"\x00"
ABORT: Final = b"\x01"
START_DP_WAVE: Final = b"\x02"
UTILITY: Final = b"\x03"
ENGINE_CORE_DEAD: Final = b"ENGINE_CORE_DEAD"
#: Extension types of msgpack: raw bytes of an array are the only one that is read. 1 and 2 are pickles: refused.
EXT_RAW: Final = 3

# finish_reason of an output
STOP: Final = 0
LENGTH: Final = 1
ABORTED: Final = 2
ERROR: Final = 3
REPETITION: Final = 4
FINISH_REASONS: Final = ("stop", "length", "abort", "error", "repetition")

# output_kind of sampling parameters
CUMULATIVE: Final = 0
DELTA: Final = 1
FINAL_ONLY: Final = 2


def identity(rank: int) -> bytes:
    """The ZeroMQ identity of a data-parallel rank: two bytes, little endian."""
    return rank.to_bytes(2, "little")


# ---- front end to engine ----------------------------------------------------------------------------------


class StructuredOutputs(msgspec.Struct, omit_defaults=True):
    """A constraint on the output: exactly one of ``json`` to ``structural_tag``. ``backend`` must be set."""

    json: Any = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    backend: str | None = msgspec.field(default=None, name="_backend")
    backend_was_auto: bool = msgspec.field(default=False, name="_backend_was_auto")


class SamplingParams(msgspec.Struct, omit_defaults=True):
    """How one sequence is sampled. Defaults are the protocol's, so what equals them need not be sent.

    ``max_tokens`` must be set by the sender: the protocol's default is 16. Stop strings and detokenising are the
    front end's and never sent.
    """

    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    detokenize: bool = True
    output_kind: int = CUMULATIVE
    skip_clone: bool = False
    eos_token_id: int | None = msgspec.field(default=None, name="_eos_token_id")
    all_stop_token_ids: list[int] = msgspec.field(default_factory=list, name="_all_stop_token_ids")
    structured_outputs: StructuredOutputs | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    extra_args: dict[str, Any] | None = None
    bad_words: list[str] = []
    bad_words_token_ids: list[list[int]] | None = msgspec.field(default=None, name="_bad_words_token_ids")
    skip_reading_prefix_cache: bool | None = None
    thinking_token_budget: int | None = None
    repetition_detection: dict[str, int] | None = None


class EngineCoreRequest(msgspec.Struct, array_like=True):
    """The body of ADD: 22 elements."""

    request_id: str
    prompt_token_ids: list[int] | None
    mm_features: list[Any] | None
    sampling_params: SamplingParams | None
    pooling_params: list[Any] | None
    arrival_time: float
    lora_request: list[Any] | None
    cache_salt: str | None
    data_parallel_rank: int | None
    prompt_embeds: Any = None
    prompt_is_token_ids: list[bool] | None = None
    client_index: int = 0
    current_wave: int = 0
    priority: int = 0
    trace_headers: dict[str, str] | None = None
    resumable: bool = False
    external_req_id: str | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: dict[str, Any] | None = None
    abort_immediately: bool = False
    session_id: str | None = None
    kv_hints: dict[str, Any] | None = None


class UtilityCall(msgspec.Struct, array_like=True):
    """The body of UTILITY: a method of the engine, by name."""

    client_index: int
    call_id: int
    method: str
    args: list[Any]


# ---- engine to front end ----------------------------------------------------------------------------------


class RequestError(msgspec.Struct):
    """Why a request failed (0.33). Known codes: ``engine_paused``, ``validation_error``."""

    code: str = ""
    message: str = ""
    retryable: bool = False


class PrefillStats(msgspec.Struct, gc=False):
    """Of a request's first output, in tokens."""

    num_prompt_tokens: int = 0
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0
    num_local_cached_tokens: int = 0
    num_external_cached_tokens: int = 0
    num_cache_creation_tokens: int = 0


class EngineCoreOutput(msgspec.Struct, array_like=True, gc=False):
    """New tokens of one request: 19 elements (0.32: 18).

    ``new_logprobs``: ``[ids, logprobs, ranks, nil]``, arrays as in ``arrays``. ``stop_reason``: the stop token's
    id if it was not the main end of sequence. The stop token itself is among ``new_token_ids``.
    """

    request_id: str
    new_token_ids: list[int]
    new_logprobs: Any = None
    new_prompt_logprobs_tensors: Any = None
    pooling_output: Any = None
    finish_reason: int | None = None
    stop_reason: int | str | None = None
    events: list[Any] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    trace_headers: dict[str, str] | None = None
    prefill_stats: PrefillStats | None = None
    routed_experts: Any = None
    num_nans_in_logits: int = 0
    mm_cache_miss_hashes: list[str] | None = None
    new_sampling_mask: Any = None
    spec_decode_metrics: dict[str, Any] | None = None
    prompt_token_id_logprobs: Any = None
    error: RequestError | None = None


class UtilityOutput(msgspec.Struct, array_like=True):
    """The answer to a utility call; ``result`` is ``[type information or nil, value]``."""

    call_id: int
    failure_message: str | None = None
    result: Any = None


class PrefixCacheStats(msgspec.Struct):
    """Deltas of one step: ``queries`` and ``hits`` in tokens."""

    reset: bool = False
    requests: int = 0
    queries: int = 0
    hits: int = 0
    preempted_requests: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0
    hits_by_source: dict[str, int] = {}


class SchedulerStats(msgspec.Struct):
    """What the scheduler says of itself after a step; every key is written."""

    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_skipped_waiting_reqs: int = 0
    num_kv_fetch_reqs_by_stage: dict[str, int] = {}
    step_counter: int = 0
    current_wave: int = 0
    kv_cache_usage: float = 0.0
    iteration_details: Any = None
    prefix_cache_stats: PrefixCacheStats = msgspec.field(default_factory=PrefixCacheStats)
    connector_prefix_cache_stats: PrefixCacheStats | None = None
    kv_cache_eviction_events: list[Any] = []
    spec_decoding_stats: dict[str, Any] | None = None
    kv_connector_stats: dict[str, Any] | None = None
    ec_connector_stats: dict[str, Any] | None = None
    waiting_lora_adapters: dict[str, int] = {}
    running_lora_adapters: dict[str, int] = {}
    cudagraph_stats: Any = None
    perf_stats: Any = None


class EngineCoreOutputs(msgspec.Struct, array_like=True):
    """One engine step, for one front end: 9 elements. Outputs, a utility answer, or DP control; never mixed."""

    engine_index: int = 0
    outputs: list[EngineCoreOutput] = []
    scheduler_stats: SchedulerStats | None = None
    timestamp: float = 0.0
    utility_output: UtilityOutput | None = None
    finished_requests: set[str] | None = None
    wave_complete: int | None = None
    start_wave: int | None = None
    weight_version: str | None = None


# ---- handshake (maps) -------------------------------------------------------------------------------------


class Hello(msgspec.Struct):
    """HELLO and READY, engine to the owner of the handshake."""

    status: str
    local: bool = True
    headless: bool = False
    parallel_config_hash: str | None = None


class Addresses(msgspec.Struct):
    """Where an engine connects. One input and one output address per front-end process, in its order."""

    inputs: list[str]
    outputs: list[str]
    coordinator_input: str | None = None
    coordinator_output: str | None = None
    frontend_stats_publish_address: str | None = None


class Init(msgspec.Struct):
    """INIT: the answer to HELLO. ``parallel_config`` is empty but for MoE data parallel."""

    addresses: Addresses
    parallel_config: dict[str, Any] = {}


class ReadyResponse(msgspec.Struct):
    """What an engine says of itself when it registers on an input socket (an empty frame: nothing)."""

    max_model_len: int = 0
    num_gpu_blocks: int = 0
    block_size: int = 0
    dp_stats_address: str | None = None
    dtype: str = ""
    vllm_version: str = ""
    world_size: int = 1
    data_parallel_size: int = 1
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    data_parallel_rank: int = 0
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    instance_id: str = ""
    supports_lora: bool = False
    max_loras: int = 0
    mamba_block_size: int | None = None
    kv_cache_size_tokens: int | None = None
    kv_cache_max_concurrency: float | None = None
    kv_events_config: dict[str, Any] | None = None
    weight_transfer_backend: str | None = None
    enable_sleep_mode: bool = False
    supports_draft_weight_updates: bool = False
    effective_attention_block_size: int | None = None
    coord_store_port: int = 0
    coordinator_input_address: str | None = None
    coordinator_output_address: str | None = None
