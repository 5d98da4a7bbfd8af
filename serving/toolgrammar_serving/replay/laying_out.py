"""A script under a request's limits, encoded once and shared by all requests with the same: a ``Plan``.

The engine's scheduler decides where output ends, in this order, token by token: end of sequence, stop token,
length. Nothing is checked before ``min_tokens`` are there. The token that ends it is part of the output, what was
behind it in the same step is not.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import accumulate
from typing import Final

import msgspec

from toolgrammar_serving.protocol.arrays import Logprobs
from toolgrammar_serving.protocol.wire import LENGTH, STOP, EngineCoreOutput, EngineCoreRequest, SamplingParams
from toolgrammar_serving.replay.scripts import Script, Step

encode: Final = msgspec.msgpack.Encoder().encode
_BARE: Final = encode(EngineCoreOutput("", []))
#: An output is: this, the encoded request id, the encoded token ids, and for most of them nothing but
#: ``NOTHING_ELSE``.
OUTPUT_HEAD: Final = _BARE[:3]
NOTHING_ELSE: Final = _BARE[5:]
_PLANS_KEPT: Final = 512


class Limits(msgspec.Struct, frozen=True):
    """What a request allows: at most ``tokens``, and where it stops."""

    tokens: int
    min_tokens: int = 0
    eos: int | None = None
    stops: tuple[int, ...] = ()
    ignore_eos: bool = False

    @classmethod
    def of(cls, request: EngineCoreRequest, max_model_len: int) -> Limits:
        """The limits of ``request``; at least one token, however long the prompt is."""
        params = request.sampling_params or SamplingParams()
        room = max_model_len - len(request.prompt_token_ids or ())
        return cls(
            tokens=max(1, room if params.max_tokens is None else min(params.max_tokens, room)),
            min_tokens=params.min_tokens,
            eos=None if params.ignore_eos else params.eos_token_id,
            stops=tuple(params.stop_token_ids),
            ignore_eos=params.ignore_eos,
        )


class Plan:
    """Steps as they will be sent. ``tails[i]``: what follows the request id in an output of step i that has
    nothing but tokens; ``totals[i]``: tokens up to and with step i; ``plain``: only the first and the last step
    have more."""

    __slots__ = ("finish", "plain", "script", "steps", "stop_reason", "tails", "timed", "totals")

    def __init__(
        self, script: Script, steps: list[Step], finish: int | None, stop_reason: int | str | None
    ) -> None:
        self.script = script
        self.steps = steps or [Step()]
        self.finish = finish
        self.stop_reason = stop_reason
        known: dict[tuple[int, ...], bytes] = {}
        self.tails = [
            known.get(step.token_ids) or known.setdefault(step.token_ids, encode(step.token_ids) + NOTHING_ELSE)
            for step in self.steps
        ]
        self.totals = list(accumulate(len(step.token_ids) for step in self.steps))
        self.plain = not any(step.skip or step.logprobs for step in self.steps)
        self.timed = any(step.delay_s for step in self.steps)

    def until(self, end: int) -> Plan:
        """The plan cut after ``end`` steps, without a finish reason."""
        return Plan(self.script, self.steps[:end], None, None)


def lay_out(script: Script, limits: Limits, default_eos: int | None = None) -> Plan:
    """``script`` under ``limits``. ``default_eos`` ends scripts with ``eos`` for requests that name no such
    token."""
    steps = list(script.steps)
    count = sum(len(step.token_ids) for step in steps)
    own_end = script.finish is not None and not script.eos
    if count and (script.repeat or (script.eos and limits.ignore_eos)):
        steps *= -(-limits.tokens // count)
        own_end = False
    elif script.eos and (eos := _end_token(limits, default_eos)) is not None:
        steps.append(Step((eos,)))
    # A script's own end that falls on the last token allowed is not overruled: it was written down.
    allowed = limits.tokens + (own_end and count == limits.tokens)
    return _cut(script, steps, limits, allowed) or Plan(script, steps, script.finish, script.stop_reason)


def _end_token(limits: Limits, default_eos: int | None) -> int | None:
    if limits.eos is not None:
        return limits.eos
    return limits.stops[0] if limits.stops else default_eos


def _cut(script: Script, steps: list[Step], limits: Limits, allowed: int) -> Plan | None:
    """The plan that a stop token or the length ends; None if neither does."""
    count = 0
    for at, step in enumerate(steps):
        for index, token in enumerate(step.token_ids):
            count += 1
            if count >= limits.min_tokens and token == limits.eos:
                finish, reason = STOP, None
            elif count >= limits.min_tokens and token in limits.stops:
                finish, reason = STOP, token
            elif count >= allowed:
                finish, reason = LENGTH, None
            else:
                continue
            return Plan(script, [*steps[:at], _shortened(step, index + 1)], finish, reason)
    return None


def _shortened(step: Step, size: int) -> Step:
    if size == len(step.token_ids):
        return step
    logprobs = step.logprobs
    if logprobs is not None:
        logprobs = Logprobs(logprobs.ids[:size], logprobs.logprobs[:size], logprobs.ranks[:size])
    return msgspec.structs.replace(step, token_ids=step.token_ids[:size], logprobs=logprobs)


class Plans:
    """Plans by script and limits; the latest ones are kept."""

    def __init__(self, max_model_len: int, default_eos: int | None = None) -> None:
        self.max_model_len = max_model_len
        self._default_eos = default_eos
        # By the script's identity: comparing scripts would cost more than laying out. A kept plan keeps its
        # script.
        self._kept: OrderedDict[tuple[int, Limits], Plan] = OrderedDict()

    def plan(self, script: Script, request: EngineCoreRequest) -> Plan:
        """The plan for ``request``."""
        limits = Limits.of(request, self.max_model_len)
        key = (id(script), limits)
        plan = self._kept.get(key)
        if plan is None:
            plan = self._kept[key] = lay_out(script, limits, self._default_eos)
            if len(self._kept) > _PLANS_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return plan
