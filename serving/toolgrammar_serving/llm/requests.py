"""What the llm layer takes and gives: token ids in, token ids and logprobs out."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.protocol.wire import StructuredOutputs as StructuredOutputs

FinishReason: TypeAlias = Literal["stop", "length", "abort", "repetition"]


class Sampling(msgspec.Struct):
    """How a request wants to be sampled. None: the model's default (generation_config), else the protocol's.

    ``logprobs``: alternatives per position, 0 for the sampled token alone, None for none. ``seed``: of the first
    sequence; sequence i of n gets ``seed + i``. ``max_tokens`` None: what the context leaves.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words_token_ids: list[list[int]] | None = None
    structured_outputs: StructuredOutputs | None = None
    thinking_token_budget: int | None = None
    repetition_detection: dict[str, int] | None = None
    skip_reading_prefix_cache: bool | None = None
    extra_args: dict[str, Any] | None = None


class GenerateRequest(msgspec.Struct):
    """``n`` continuations of ``prompt_token_ids``. ``request_id`` is the public id; engine ids are
    derived from it.

    ``reasoning_ended``: a constraint applies from the first token on (True), or the engine's own way (None).
    """

    request_id: str
    prompt_token_ids: list[int]
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    n: int = 1
    stream: bool = True
    priority: int = 0
    cache_salt: str | None = None
    data_parallel_rank: int | None = None
    trace_headers: dict[str, str] | None = None
    session_id: str | None = None
    lora: list[Any] | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: dict[str, Any] | None = None


class Position(msgspec.Struct, gc=False):
    """Logprobs of one generated (or prompt) position. Index 0 is the sampled token, of rank ``rank`` (from 1); the
    others are the best ones, ranks 1 to k."""

    token_ids: list[int]
    logprobs: list[float]
    rank: int


class Finish(msgspec.Struct, frozen=True):
    """Why a sequence ended. ``stop_reason``: the stop token's id, or the stop string; None for the end of
    sequence."""

    reason: FinishReason
    stop_reason: int | str | None = None


class Usage(msgspec.Struct):
    """Token counts. ``completion_tokens`` counts every sampled token, stop tokens too, of all sequences so far."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None


class TokenSink(Protocol):
    """Takes the tokens of one sequence. ``push`` any number of times, then ``finish`` or ``fail`` exactly once;
    nothing at all after an abort."""

    def push(self, token_ids: list[int], logprobs: list[Position] | None) -> None:
        """New tokens, the end-of-sequence or stop token left out; ``logprobs`` one position a token, if asked
        for."""

    def finish(self, finish: Finish) -> None:
        """The sequence is over."""

    def fail(self, error: ServingError) -> None:
        """There will be no more: the engine died or refused."""
