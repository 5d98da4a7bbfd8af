"""The compiled matcher of a choice: which arm begins at a position, or may still begin there.

An arm is a marker behind an optional run of framing white space. Patterns are alternations of literals
behind one bounded character-class run: they cannot back-track beyond that run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from toolgrammar.machine.program import RUN_LIMIT, Arm, State
from toolgrammar.machine.safe_text import partial_pattern, undecided


def later(make: Callable[[], Any], state: State | None = None, slot: str = "") -> Any:
    """A function that makes itself, with ``make``, when it is first called, and then stands in ``slot``.

    For compiled patterns: they are most of the work of compiling a grammar, and an output visits few states.
    """
    made: Any = None

    def call(*arguments: Any) -> Any:
        nonlocal made
        if made is None:
            made = make()
            if state is not None:
                setattr(state, slot, made)
        return made(*arguments)

    return call


def full_matcher(arms: Sequence[Arm], eof: bool) -> Any:
    """``full(buf, pos, end)`` matches an arm; its index is ``lastindex - 1``. ``eof``: nothing can follow."""
    full = []
    texts = [arm.text for arm in arms]
    for arm in arms:
        longer = [
            re.escape(other.text) for other in arms if other.text != arm.text and other.text.startswith(arm.text)
        ]
        guard = f"(?!{'|'.join(longer)})" if longer else ""
        wait = "" if eof else undecided(arm.text, texts)
        full.append(f"{_frame(arm)}{guard}({re.escape(arm.text)}){wait}")
    return re.compile("|".join(full)).match


def partial_matcher(arms: Sequence[Arm]) -> Any:
    """``partial(buf, pos, end)`` matches if, at the end of the buffer, an arm may still begin at ``pos``."""
    patterns = [_partial_frame(arm) + f"(?:{partial_pattern(arm.text)})?" + r"\Z" for arm in arms]
    return re.compile("|".join(patterns)).match


def _frame(arm: Arm) -> str:
    if arm.exact:
        return f"(?:{re.escape(arm.exact)})?"
    if not arm.frame:
        return ""
    return f"[{re.escape(arm.frame)}]{{{arm.least},{RUN_LIMIT}}}"


def _partial_frame(arm: Arm) -> str:
    if arm.exact:
        return f"(?:{re.escape(arm.exact)}|{partial_pattern(arm.exact)}(?=\\Z))?"
    return f"[{re.escape(arm.frame)}]{{0,{RUN_LIMIT}}}" if arm.frame else ""


def pattern_of(pattern: str, method: str, state: State | None = None, slot: str = "") -> Any:
    """A method of the pattern, compiled ``later``; its dot is any character."""
    return later(lambda: getattr(re.compile(pattern, re.S), method), state, slot)
