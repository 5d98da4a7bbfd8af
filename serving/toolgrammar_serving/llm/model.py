"""Starts requests on an engine: checked, with the model's defaults, one engine request a sequence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from toolgrammar_serving.engine_client import EngineInfo, OutputSink
from toolgrammar_serving.errors import BadRequest
from toolgrammar_serving.llm.defaults import ModelDefaults
from toolgrammar_serving.llm.generation import Aborter, Generation
from toolgrammar_serving.llm.requests import GenerateRequest, TokenSink
from toolgrammar_serving.llm.sampling import check, room, sampling_params
from toolgrammar_serving.protocol.wire import EngineCoreRequest, SamplingParams

#: Alternatives a position, at most, where the server is not told otherwise.
MAX_LOGPROBS: Final = 20


class Engine(Aborter, Protocol):
    """What this layer asks of an engine client."""

    @property
    def info(self) -> EngineInfo:
        """What the engines said of themselves."""

    def add(self, request: EngineCoreRequest, sink: OutputSink) -> None:
        """Send a request; ``sink`` hears ``push`` and ``lost``. Never blocks, calls no sink."""


class LLM:
    """One loop, one thread. ``max_logprobs``: the most alternatives a position that a request may ask for, -1 for
    any number."""

    def __init__(self, client: Engine, defaults: ModelDefaults, *, max_logprobs: int = MAX_LOGPROBS) -> None:
        self.client = client
        self.defaults = defaults
        self.max_logprobs = max_logprobs

    @property
    def max_model_len(self) -> int | None:
        """Tokens of prompt and output together: what the engine says, else what the model says."""
        return self.client.info.max_model_len or self.defaults.max_model_len

    def check(self, request: GenerateRequest) -> int | None:
        """The most tokens ``request`` may generate. Raises ``BadRequest`` or ``TooLong`` if it is refused."""
        if request.n < 1:
            raise BadRequest(f"n must be at least 1, and is {request.n}", param="n")
        if not request.prompt_token_ids:
            raise BadRequest("the prompt is empty", param="prompt")
        check(request.sampling, self.defaults.vocab_size, self.max_logprobs)
        return room(request, self.defaults, self.max_model_len)

    def start(self, request: GenerateRequest, sinks: Sequence[TokenSink]) -> Generation:
        """Send ``request``; ``sinks[i]`` takes sequence i, and none is called before this returns. Raises
        ``BadRequest``, ``TooLong``, ``EngineLost``; then nothing was sent, or what was is taken back."""
        params = sampling_params(request, self.defaults, self.check(request))
        generation = Generation(self.client, request, sinks, self.defaults.eos_token_id)
        now = time.time()
        try:
            for sequence in generation.sequences:
                message = _engine_request(request, sequence.request_id, _child(params, sequence.index), now)
                self.client.add(message, sequence)
                sequence.running = True
        except Exception:
            generation.abort()
            raise
        return generation


def _child(params: SamplingParams, index: int) -> SamplingParams:
    """The parameters of sequence ``index``: a seed of its own, and the prompt's logprobs only once."""
    if index == 0:
        return params
    seed = None if params.seed is None else params.seed + index
    return msgspec.structs.replace(params, seed=seed, prompt_logprobs=None)


def _engine_request(request: GenerateRequest, id_: str, params: SamplingParams, now: float) -> EngineCoreRequest:
    return EngineCoreRequest(
        request_id=id_,
        prompt_token_ids=request.prompt_token_ids,
        mm_features=None,
        sampling_params=params,
        pooling_params=None,
        arrival_time=now,
        lora_request=request.lora,
        cache_salt=request.cache_salt,
        data_parallel_rank=request.data_parallel_rank,
        priority=request.priority,
        trace_headers=request.trace_headers,
        external_req_id=request.request_id,
        reasoning_ended=request.reasoning_ended,
        reasoning_parser_kwargs=request.reasoning_parser_kwargs,
        session_id=request.session_id,
    )
