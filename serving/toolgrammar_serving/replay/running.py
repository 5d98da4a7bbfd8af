"""A request that a replay engine works on, and the outputs of it that are more than token ids."""

from __future__ import annotations

import math
import time
from typing import Any, Final

import msgspec

from toolgrammar_serving.protocol.arrays import Logprobs, write_logprobs
from toolgrammar_serving.protocol.wire import (
    EngineCoreOutput,
    EngineCoreRequest,
    PrefillStats,
)
from toolgrammar_serving.replay.laying_out import OUTPUT_HEAD, Plan, encode

_QUEUED: Final = 1
_SCHEDULED: Final = 2


class Running:
    """Where a request is in its plan. ``special`` is the next step that is more than token ids."""

    __slots__ = (
        "aborted", "at", "client", "counted", "due", "head", "id", "over", "params", "plan", "prompt", "skipped",
        "special", "tails",
    )  # fmt: skip

    def __init__(self, request: EngineCoreRequest, plan: Plan) -> None:
        self.id = request.request_id
        self.client = request.client_index
        self.prompt = request.prompt_token_ids or []
        self.params = request.sampling_params
        self.head = OUTPUT_HEAD + encode(request.request_id)
        self.at = 0
        self.skipped = 0
        self.counted = 0  # tokens that are in the tally already
        self.due = 0.0
        self.aborted = False  # its ABORT came, late steps follow
        self.over = False
        self.follow(plan)

    def follow(self, plan: Plan) -> None:
        """Go on with ``plan`` from the present step."""
        self.plan = plan
        self.tails = plan.tails
        self._mark()

    def _mark(self) -> None:
        params = self.params
        asked = params is not None and params.logprobs is not None
        every_step = self.at == 0 or asked or not self.plan.plain
        self.special = self.at if every_step else len(self.tails) - 1

    @property
    def tokens(self) -> int:
        """How many it got so far."""
        return self.plan.totals[self.at - 1] if self.at else 0

    @property
    def cached_tokens(self) -> int:
        """How much of the prompt was "cached": never all of it, the last token is always computed."""
        return min(self.plan.script.cached_tokens, max(0, len(self.prompt) - 1))

    def skips(self) -> bool:
        """Whether it gets nothing in this engine step, as its script has it."""
        if self.skipped < self.plan.steps[self.at].skip:
            self.skipped += 1
            return True
        self.skipped = 0
        return False

    def special_output(self, frames: list[bytes]) -> EngineCoreOutput:
        """The output of the present step with all that belongs to it; moves on to the next. Sets ``over``.

        ``frames``: the aux frames of the message it will be in; its own are appended.
        """
        plan, at = self.plan, self.at
        step = plan.steps[at]
        output = EngineCoreOutput(self.id, list(step.token_ids))
        params = self.params
        logprobs = step.logprobs
        if params is not None and params.logprobs is not None and logprobs is None:
            logprobs = made_up(step.token_ids, params.logprobs)
        if logprobs is not None and step.token_ids:
            output.new_logprobs = _written(logprobs, frames)
        if at == 0:
            self._prefill(output, frames)
        self.at = at + 1
        if self.at == len(plan.steps):
            self.over = True
            output.finish_reason = plan.finish
            output.stop_reason = plan.stop_reason
            output.error = plan.script.error
        else:
            self._mark()
        return output

    def _prefill(self, output: EngineCoreOutput, frames: list[bytes]) -> None:
        """What only a request's first output has."""
        now = time.monotonic()
        output.events = [{"type": _QUEUED, "timestamp": now}, {"type": _SCHEDULED, "timestamp": now}]
        cached = self.cached_tokens
        output.prefill_stats = PrefillStats(
            num_prompt_tokens=len(self.prompt),
            num_computed_tokens=len(self.prompt) - cached,
            num_cached_tokens=cached,
            num_local_cached_tokens=cached,
        )
        asked = None if self.params is None else self.params.prompt_logprobs
        if asked is not None and len(self.prompt) > 1:
            output.new_prompt_logprobs_tensors = _written(made_up(self.prompt[1:], asked), frames)


def made_up(tokens: Any, alternatives: int) -> Logprobs:
    """Logprobs for tokens nobody computed any for: the sampled token has probability 1/2 and rank 1; the best ones
    are it and the ids behind it, each half as likely as the one before."""
    count = max(0, alternatives)
    halves = [-math.log(2) * (rank + 1) for rank in range(count)]
    return Logprobs(
        [[token, *range(token, token + count)] for token in tokens],
        [[-math.log(2), *halves] for _ in tokens],
        [1 for _ in tokens],
    )


def _written(logprobs: Logprobs, frames: list[bytes]) -> list[Any]:
    """The wire's form; large arrays are frames of their own."""
    value, more = write_logprobs(logprobs, first=1 + len(frames))
    frames.extend(more)
    return value


def encoded(output: EngineCoreOutput) -> bytes:
    """An output as it is sent."""
    return msgspec.msgpack.encode(output)
