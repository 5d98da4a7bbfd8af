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

Cost: one ``find`` for a delta or a stretch without the markers' first character, one small match where it
stands, one search over text that is dense with it. The patterns are alternations of literals: they cannot
back-track.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

_NOTHING: Final = re.compile(r"(?!)")
#: Characters per candidate below which candidates count as dense.
_DENSE: Final = 24


def partial_pattern(marker: str) -> str:
    """A pattern for every non-empty proper prefix of ``marker``; a single character has none."""
    if len(marker) < 2:
        return "(?!)"
    nested = ""
    for char in reversed(marker[1:-1]):
        nested = f"(?:{re.escape(char)}{nested})?"
    return re.escape(marker[0]) + nested


def undecided(marker: str, markers: Sequence[str]) -> str:
    """A lookahead that fails where ``marker`` may still become a longer one of ``markers``."""
    rests = [other[len(marker) :] for other in markers if other != marker and other.startswith(marker)]
    if not rests:
        return ""
    partial = "|".join(partial_pattern(rest) for rest in rests if len(rest) > 1)
    return f"(?!(?:{partial})?\\Z)" if partial else r"(?!\Z)"


class Rests:
    """What is missing of the one text that begins with what stands there. Remembers its answers."""

    __slots__ = ("_known", "texts")

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts: tuple[str, ...] = tuple(texts)
        self._known: dict[str, str | None] = {}

    def of(self, have: str) -> str | None:
        """The rest of the only text that begins with ``have``; "" if several do, None if none does."""
        known = self._known
        if have in known:
            return known[have]
        found = [text for text in self.texts if text.startswith(have)]
        rest = None if not found else found[0][len(have) :] if len(found) == 1 and have else ""
        if rest is not None:  # only beginnings of the texts are kept, so there are few
            known[have] = rest
        return rest


class SafeText:
    """The live markers of one state, compiled. Immutable but for ``which``, the result of the last ``find``."""

    __slots__ = (
        "_candidate", "_first", "_firsts", "_match", "_match_eof", "_search", "_search_eof", "markers", "rests",
        "which",
    )  # fmt: skip

    def __init__(self, markers: Sequence[str]) -> None:
        if not all(markers):
            raise ValueError("an empty marker would match everywhere")
        self.markers: tuple[str, ...] = tuple(markers)
        self.rests = Rests(self.markers)
        self.which: int = -1
        firsts = sorted({marker[0] for marker in self.markers})
        #: The character all markers share as their first, or "" if they do not.
        self._first: str = firsts[0] if len(firsts) == 1 else ""
        self._firsts: str = "".join(firsts)
        # Compiled when first needed: a grammar has many states, an output visits few of them.
        self._match: Callable[..., Any] | None = None
        self._match_eof: Callable[..., Any] | None = None
        self._candidate: Callable[..., Any] = _NOTHING.search
        self._search: Callable[..., Any] = _NOTHING.search
        self._search_eof: Callable[..., Any] = _NOTHING.search

    def _prepare(self, eof: bool) -> Callable[..., Any]:
        """Compile what ``find`` needs, and return what matches a marker."""
        pattern = _compile(self.markers, eof=eof)
        # What ``find`` looks at goes last: another thread may be in it.
        if len(self._firsts) > 1:
            self._candidate = re.compile("[" + re.escape(self._firsts) + "]").search
        if eof:
            self._search_eof = pattern.search
            self._match_eof = pattern.match
        else:
            self._search = pattern.search
            self._match = pattern.match
        return pattern.match

    def find(self, text: str, start: int, end: int, eof: bool = False) -> int:
        """The position up to which ``text[start:end]`` is safe; ``which`` is the marker there, or -1."""
        first = self._first
        match_here = self._match_eof if eof else self._match
        if match_here is None:
            match_here = self._prepare(eof)
        tries = 0
        at = start
        while True:
            if first:
                at = text.find(first, at, end)
                if at < 0:
                    break
            else:
                candidate = self._candidate(text, at, end)
                if candidate is None:
                    break
                at = candidate.start()
            match = match_here(text, at, end)
            if match is not None:
                self.which = (match.lastindex or 0) - 1
                return at
            at += 1
            tries += 1
            # Where candidates are dense, one search by the pattern is cheaper than trying each.
            if tries > 8 and at - start < tries * _DENSE:
                match = (self._search_eof if eof else self._search)(text, at, end)
                if match is None:
                    break
                self.which = (match.lastindex or 0) - 1
                return int(match.start())
        self.which = -1
        return end

    def __reduce__(self) -> tuple[Any, ...]:
        return (SafeText, (self.markers,))


def _compile(markers: tuple[str, ...], *, eof: bool) -> re.Pattern[str]:
    if not markers:
        return _NOTHING
    longest_first = sorted(range(len(markers)), key=lambda i: -len(markers[i]))
    groups = []
    for i in sorted(range(len(markers))):
        marker = markers[i]
        groups.append((i, f"({re.escape(marker)})" + ("" if eof else undecided(marker, markers))))
    # Groups are numbered in marker order but must be tried longest first: a lookahead for each
    # longer marker keeps the numbering and the longest match.
    parts = []
    for i, group in groups:
        longer = [re.escape(markers[j]) for j in longest_first if j != i and markers[j].startswith(markers[i])]
        parts.append((f"(?!{'|'.join(longer)})" if longer else "") + group)
    pattern = "|".join(parts)
    if not eof:
        pattern += "|(?:" + "|".join(partial_pattern(m) for m in markers) + r")\Z"
    return re.compile(pattern)
