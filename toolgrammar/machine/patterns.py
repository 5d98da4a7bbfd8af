"""The compiled matcher of a choice: which arm begins at a position, or may still begin there.

An arm is a marker behind an optional run of framing white space. Patterns are alternations of literals
behind one bounded character-class run: they cannot back-track beyond that run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from toolgrammar.machine.program import RUN_LIMIT, Arm
from toolgrammar.machine.safe_text import partial_pattern


def matchers(arms: Sequence[Arm]) -> tuple[Any, Any]:
    """``(full, partial)``: ``full(buf, pos, end)`` matches an arm, its index is ``lastindex - 1``; ``partial``
    matches if, at the end of the buffer, an arm may still begin at ``pos``."""
    full = []
    partial = []
    for arm in arms:
        frame = _frame(arm)
        longer = [
            re.escape(other.text) for other in arms if other.text != arm.text and other.text.startswith(arm.text)
        ]
        guard = f"(?!{'|'.join(longer)})" if longer else ""
        wait = r"(?!\Z)" if longer else ""
        full.append(f"{frame}{guard}({re.escape(arm.text)}){wait}")
        partial.append(_partial_frame(arm) + f"(?:{partial_pattern(arm.text)})?" + r"\Z")
        if longer:
            partial.append(frame + re.escape(arm.text) + r"\Z")
    return re.compile("|".join(full)).match, re.compile("|".join(partial)).match


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
