"""What goes back to front ends: one message per step and front end, answers to calls, and statistics."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from toolgrammar_serving.engine import logprobs
from toolgrammar_serving.engine.request import Request
from toolgrammar_serving.protocol import wire

_QUEUED = 1
_SCHEDULED = 2


def output_of(request: Request) -> wire.EngineCoreOutput:
    """What is new of a request; it is taken out of it."""
    output = wire.EngineCoreOutput(request.id, request.fresh)
    request.fresh = []
    if request.new_logprobs is not None:
        if output.new_token_ids:
            output.new_logprobs = request.new_logprobs
        request.new_logprobs = None
    if request.finish_reason is not None:
        output.finish_reason = request.finish_reason
        output.stop_reason = request.stop_reason
        output.error = request.error
    if not request.started:
        request.started = True
        _first(request, output)
    return output


def _first(request: Request, output: wire.EngineCoreOutput) -> None:
    output.trace_headers = request.trace_headers
    if request.cached_tokens is None:  # it never ran
        return
    if request.prompt_logprobs:
        output.new_prompt_logprobs_tensors = logprobs.pack_prompt(request.prompt_logprobs)
        request.prompt_logprobs = None
    length, cached = len(request.prompt), request.cached_tokens
    output.prefill_stats = wire.PrefillStats(
        num_prompt_tokens=length,
        num_computed_tokens=length - cached,
        num_cached_tokens=cached,
        num_local_cached_tokens=cached,
    )
    output.events = [
        {"type": _QUEUED, "timestamp": request.arrived_at},
        {"type": _SCHEDULED, "timestamp": request.scheduled_at},
    ]


def refusal(request_id: str, message: str, code: str) -> wire.EngineCoreOutput:
    """The only output of a request that was not run."""
    error = wire.RequestError(code=code, message=message, retryable=code == "engine_paused")
    return wire.EngineCoreOutput(request_id, [], finish_reason=wire.ERROR, error=error)


def batch(rank: int, outputs: list[wire.EngineCoreOutput], many_engines: bool) -> wire.EngineCoreOutputs:
    """One front end's message of a step. With several engines it also counts what ended."""
    message = wire.EngineCoreOutputs(rank, outputs, timestamp=time.monotonic(), weight_version="default")
    if many_engines:
        message.finished_requests = {one.request_id for one in outputs if one.finish_reason is not None} or None
    return message


def answer(rank: int, call_id: int, result: Any = None, failure: str | None = None) -> wire.EngineCoreOutputs:
    """The answer to a utility call."""
    value = None if failure is not None else [None, result]
    return wire.EngineCoreOutputs(
        rank, utility_output=wire.UtilityOutput(call_id, failure, value), timestamp=time.monotonic()
    )


class PrefixCounts:
    """Prompt tokens looked up in the cache, and found there, since the last report."""

    def __init__(self) -> None:
        self._now = wire.PrefixCacheStats()

    def count(self, began: Sequence[Request]) -> None:
        """Take in requests whose first output goes out, or that made one again after their memory was taken."""
        for request in began:
            self._now.preempted_requests += request.restarts
            request.restarts = 0
            if not request.started and request.reads_cache and request.cached_tokens is not None:
                self._now.requests += 1
                self._now.queries += len(request.prompt)
                self._now.hits += request.cached_tokens

    def reset(self) -> None:
        self._now.reset = True

    def take(self) -> wire.PrefixCacheStats:
        taken, self._now = self._now, wire.PrefixCacheStats()
        return taken
