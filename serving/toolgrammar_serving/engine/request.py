"""One request as the engine runs it: what was asked for, what came out so far, and when it ends.

A ``Request`` lives from its ADD to its last output. The scheduler's own states may come and go under it (a request
that lost its memory starts again from its tokens); what the client sees is kept here.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final, Protocol

from toolgrammar_serving.engine.repetition import repeats
from toolgrammar_serving.protocol import wire

if TYPE_CHECKING:
    from toolgrammar_serving.engine.rules import Rule

GREEDY_BELOW: Final = 1e-5  # temperatures under this are no temperature


class Matcher(Protocol):
    """A constraint on one request's output, in its present state."""

    def fill(self, bitmask: Any, row: int) -> None:
        """Write which tokens may come next into row ``row`` of the int32 tensor ``bitmask``."""

    def accept(self, token: int) -> bool:
        """Go on by ``token``; False if the constraint forbids it."""

    @property
    def finished(self) -> bool:
        """Nothing may follow."""


class Request:
    """``out`` are all tokens made so far; ``fresh`` those not sent yet."""

    __slots__ = (
        "arrived_at",
        "cached_tokens",
        "client",
        "error",
        "finish_reason",
        "fresh",
        "grammar_from",
        "greedy",
        "id",
        "limit",
        "logprobs",
        "matcher",
        "min_tokens",
        "new_logprobs",
        "numbers",
        "out",
        "params",
        "private",
        "prompt",
        "prompt_logprobs",
        "ranked",
        "reads_cache",
        "restarts",
        "rules",
        "scheduled_at",
        "started",
        "stop_ids",
        "stop_reason",
        "trace_headers",
    )

    def __init__(
        self,
        request: wire.EngineCoreRequest,
        params: wire.SamplingParams,
        numbers: random.Random,
        max_model_len: int,
    ) -> None:
        self.id = request.request_id
        self.client = request.client_index
        self.prompt: list[int] = request.prompt_token_ids or []
        self.params = params
        self.trace_headers = request.trace_headers
        room = max_model_len - len(self.prompt)
        self.limit = room if params.max_tokens is None else min(params.max_tokens, room)
        self.min_tokens = params.min_tokens
        # Of an id that is both the end of sequence and a stop token, the first is meant: no reason is given.
        self.stop_ids: dict[int, int | None] = {token: token for token in params.stop_token_ids}
        if params.eos_token_id is not None and not params.ignore_eos:
            self.stop_ids[params.eos_token_id] = None
        self.greedy = params.temperature < GREEDY_BELOW
        self.ranked = not self.greedy and (params.top_k > 0 or params.top_p < 1.0)
        self.numbers = numbers
        self.rules: list[Rule] = []
        self.matcher: Matcher | None = None
        self.grammar_from: int | None = None  # the token after which the constraint begins; None: from the start
        self.logprobs: int | None = params.logprobs
        self.new_logprobs: Any = None
        self.prompt_logprobs: Any = None
        self.reads_cache = not params.skip_reading_prefix_cache and params.prompt_logprobs is None
        self.private = request.cache_salt is not None
        self.out: list[int] = []
        self.fresh: list[int] = []
        self.finish_reason: int | None = None
        self.stop_reason: int | str | None = None
        self.error: wire.RequestError | None = None
        self.cached_tokens: int | None = None  # prompt tokens found in the cache; None: not scheduled yet
        self.arrived_at = 0.0
        self.scheduled_at = 0.0
        self.started = False  # its first output was sent
        self.restarts = 0  # how often its memory was taken since somebody counted

    @property
    def constrained(self) -> bool:
        """A constraint is in force at the next token."""
        return self.matcher is not None and self.grammar_from is None

    def fail(self, message: str, code: str = "internal_error") -> None:
        """End it with an error; the token being made is dropped."""
        self.finish_reason = wire.ERROR
        self.error = wire.RequestError(code=code, message=message)

    def accept(self, token: int) -> bool:
        """Take the next token; True if it was the last."""
        if self.finish_reason is not None:
            return True
        out = self.out
        out.append(token)
        self.fresh.append(token)
        for rule in self.rules:
            rule.observe(token)
        matcher = self.matcher
        if matcher is not None and self._constrain(matcher, token):
            return True
        if len(out) >= self.min_tokens:
            if token in self.stop_ids:
                self.finish_reason = wire.STOP
                self.stop_reason = self.stop_ids[token]
                return True
            detection = self.params.repetition_detection
            if detection is not None and repeats(out, detection):
                self.finish_reason = wire.REPETITION
                self.stop_reason = "repetition_detected"
                return True
        if len(out) >= self.limit:
            self.finish_reason = wire.LENGTH
            return True
        return False

    def _constrain(self, matcher: Matcher, token: int) -> bool:
        """Tell the constraint; True if it ends the request."""
        if self.grammar_from is not None:
            if token == self.grammar_from:
                self.grammar_from = None
            return False
        if not matcher.accept(token):
            self.fail("The constraint on the output does not accept the token sampled under it.")
            return True
        if matcher.finished:
            self.finish_reason = wire.STOP
            self.stop_reason = self.stop_ids.get(token)
            return True
        return False
