"""What a scripted engine says: steps of token ids, and how it ends.

    Script.of([9707, 11], [1879])                    # two steps, then finish reason stop with the last one
    Script.of_tokens(ids, per_step=4, eos=True)      # cut, and the request's end-of-sequence token behind it
    Script.of([1], [2], then="dead")                 # an engine that dies in the middle

As a JSON document (``read_script``), every key but the tokens optional:

    {"steps": [[9707, 11], [1879]], "finish": "stop", "delays_s": [0.2, 0.01]}
    {"tokens": [9707, 11, 1879], "finish": "length"}

``steps`` is taken as it is. ``tokens`` is cut by ``tokens_per_step`` and is what a model does: with finish
``stop`` the request's end-of-sequence token follows, with ``length`` it begins anew until the request's limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from toolgrammar_serving.protocol.arrays import Logprobs
from toolgrammar_serving.protocol.wire import FINISH_REASONS, STOP, RequestError

#: What happens to the engine behind the last step: nothing, ENGINE_CORE_DEAD to all, or gone without a word.
Then: TypeAlias = Literal["", "dead", "gone"]


class Step(msgspec.Struct, frozen=True):
    """What one engine step adds to a request. No tokens: an output without tokens.

    ``delay_s`` passes before it, when delays are kept. ``skip``: so many engine steps pass before it that give
    this request nothing. ``logprobs``: of these tokens; where a request asks for some and there are none, they
    are made up.
    """

    token_ids: tuple[int, ...] = ()
    delay_s: float = 0.0
    skip: int = 0
    logprobs: Logprobs | None = None


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """All that one request gets, unless its own limits and stop tokens end it earlier, as in a real engine.

    ``finish``: of the last step; None: the request stays and hears nothing more. ``eos``: the request's
    end-of-sequence token follows as a step of its own (with ``ignore_eos``: the script is repeated). ``repeat``:
    begin anew until the request's limit. ``late_steps``: how many follow after an ABORT arrived.
    ``cached_tokens``: how much of the prompt was "in the prefix cache". An error: ``Script(finish=ERROR,
    error=RequestError(...))``.
    """

    steps: tuple[Step, ...] = ()
    finish: int | None = STOP
    stop_reason: int | str | None = None
    error: RequestError | None = None
    eos: bool = False
    repeat: bool = False
    then: Then = ""
    late_steps: int = 0
    cached_tokens: int = 0

    @classmethod
    def of(cls, *steps: Sequence[int], **fields: Any) -> Script:
        """A script of steps without delays."""
        return cls(steps=tuple(Step(tuple(step)) for step in steps), **fields)

    @classmethod
    def of_tokens(cls, tokens: Sequence[int], *, per_step: int = 1, **fields: Any) -> Script:
        """A script of ``tokens``, ``per_step`` in each step."""
        return cls.of(*(tokens[at : at + per_step] for at in range(0, len(tokens), per_step)), **fields)

    @property
    def timed(self) -> bool:
        """Whether any step has a delay."""
        return any(step.delay_s for step in self.steps)

    @property
    def tokens(self) -> list[int]:
        """All scripted tokens."""
        return [token for step in self.steps for token in step.token_ids]


class ScriptError(ValueError):
    """A document that is no script. The message says what is wrong with it."""


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON form."""

    steps: list[list[int]] | None = None
    tokens: list[int] | None = None
    tokens_per_step: int | None = None
    finish: Literal["stop", "length", "abort", "error", "repetition"] | None = "stop"
    stop_reason: int | str | None = None
    error: RequestError | None = None
    eos: bool | None = None
    repeat: bool | None = None
    delays_s: list[float] = []
    skips: list[int] = []
    then: Then = ""
    late_steps: int = 0
    cached_tokens: int = 0


_LARGEST_ID: Final = 2**32 - 1


def read_script(document: Any, *, tokens_per_step: int = 1) -> Script:
    """The script in ``document``: the JSON form, decoded, or a plain list of token ids. Raises ``ScriptError``."""
    if isinstance(document, list):
        document = {"tokens": document}
    try:
        form = msgspec.convert(document, _Document)
    except msgspec.ValidationError as error:
        raise ScriptError(str(error)) from error
    if (form.steps is None) == (form.tokens is None):
        raise ScriptError("exactly one of 'steps' and 'tokens' is needed")
    steps = form.steps
    if steps is None:
        per_step = form.tokens_per_step or tokens_per_step
        tokens = form.tokens or []
        steps = [tokens[at : at + per_step] for at in range(0, len(tokens), max(1, per_step))]
    _check(form, steps)
    model_like = form.tokens is not None
    return Script(
        steps=tuple(
            Step(tuple(ids), delay_s=delay_s, skip=skip)
            for ids, delay_s, skip in zip(
                steps, _filled(form.delays_s, steps, 0.0), _filled(form.skips, steps, 0), strict=True
            )
        ),
        finish=None if form.finish is None else FINISH_REASONS.index(form.finish),
        stop_reason=form.stop_reason,
        error=form.error,
        eos=model_like and form.finish == "stop" if form.eos is None else form.eos,
        repeat=model_like and form.finish == "length" if form.repeat is None else form.repeat,
        then=form.then,
        late_steps=form.late_steps,
        cached_tokens=form.cached_tokens,
    )


def _check(form: _Document, steps: Sequence[Sequence[int]]) -> None:
    if any(not 0 <= token <= _LARGEST_ID for step in steps for token in step):
        raise ScriptError(f"token ids are 0 to {_LARGEST_ID}")
    for name, values in (("delays_s", form.delays_s), ("skips", form.skips)):
        if len(values) > len(steps):
            raise ScriptError(f"{name!r} has {len(values)} entries for {len(steps)} steps")
        if any(not math.isfinite(value) or value < 0 for value in values):
            raise ScriptError(f"{name!r} are 0 or more")
    if form.repeat and not any(steps):
        raise ScriptError("nothing to repeat")


def _filled(values: Iterable[Any], steps: Sequence[Any], rest: Any) -> list[Any]:
    """``values``, and ``rest`` for the steps they are too short for."""
    known = list(values)
    return known + [rest] * (len(steps) - len(known))
