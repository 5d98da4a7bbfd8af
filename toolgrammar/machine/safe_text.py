"""``safe_text``: how much of a text may be released while some markers may still begin in it.

The one hold-back primitive. Given the markers that are live in a state, it finds the earliest whole
marker or, failing that, the start of the longest suffix that may still become one:

    >>> marks = SafeText(("<tool_call>", "</think>"))
    >>> marks.find("abc<tool_call>d", 0, 15), marks.which
    (3, 0)
    >>> marks.find("abc <too", 0, 8), marks.which
    (4, -1)
    >>> marks.find("a < b", 0, 5), marks.which
    (5, -1)

The text before the returned position is safe. A marker that is a proper prefix of another is undecided
at the end of the buffer and held as a partial one; the caller says with ``eof`` that nothing follows.

Cost: one ``in`` test or one small regular expression for a delta, ``str.find`` for long stretches without
the markers' first character. The patterns are alternations of literals: they cannot back-track.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

_NOTHING: Final = re.compile(r"(?!)")


def partial_pattern(marker: str) -> str:
    """A pattern for every non-empty proper prefix of ``marker``."""
    nested = ""
    for char in reversed(marker[1:-1]):
        nested = f"(?:{re.escape(char)}{nested})?"
    return re.escape(marker[0]) + nested


class SafeText:
    """The live markers of one state, compiled. Immutable but for ``which``, the result of the last ``find``."""

    __slots__ = ("_first", "_search", "_search_eof", "markers", "which")

    def __init__(self, markers: Sequence[str]) -> None:
        if not all(markers):
            raise ValueError("an empty marker would match everywhere")
        self.markers: tuple[str, ...] = tuple(markers)
        self.which: int = -1
        firsts = {marker[0] for marker in self.markers}
        #: The character all markers share as their first, or "" if they do not.
        self._first: str = firsts.pop() if len(firsts) == 1 else ""
        self._search: Callable[..., Any] = _compile(self.markers, eof=False)
        self._search_eof: Callable[..., Any] = _compile(self.markers, eof=True)

    def find(self, text: str, start: int, end: int, eof: bool = False) -> int:
        """The position up to which ``text[start:end]`` is safe; ``which`` is the marker there, or -1."""
        if self._first:
            start = text.find(self._first, start, end)
            if start < 0:
                self.which = -1
                return end
        match = (self._search_eof if eof else self._search)(text, start, end)
        if match is None:
            self.which = -1
            return end
        self.which = (match.lastindex or 0) - 1
        return int(match.start())

    def __reduce__(self) -> tuple[Any, ...]:
        return (SafeText, (self.markers,))


def _compile(markers: tuple[str, ...], *, eof: bool) -> Callable[..., Any]:
    if not markers:
        return _NOTHING.search
    longest_first = sorted(range(len(markers)), key=lambda i: -len(markers[i]))
    groups = []
    for i in sorted(range(len(markers))):
        marker = markers[i]
        waits = not eof and any(o != marker and o.startswith(marker) for o in markers)
        groups.append((i, f"({re.escape(marker)})" + (r"(?!\Z)" if waits else "")))
    # Groups are numbered in marker order but must be tried longest first: a lookahead for each
    # longer marker keeps the numbering and the longest match.
    parts = []
    for i, group in groups:
        longer = [re.escape(markers[j]) for j in longest_first if j != i and markers[j].startswith(markers[i])]
        parts.append((f"(?!{'|'.join(longer)})" if longer else "") + group)
    pattern = "|".join(parts)
    if not eof:
        pattern += "|(?:" + "|".join(partial_pattern(m) for m in markers) + r")\Z"
    return re.compile(pattern).search
