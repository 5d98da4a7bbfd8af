"""Walk over JSON text by its strings and brackets alone: no text comes out, nothing is judged.

Two uses. A *value* is passed over up to its own end (a list where an object was due, a member nobody
reads). *Rest* is what remains of a body that stopped being JSON: it ends at one of the section's end
markers outside a string, or never.

    value:   [1, "]", {"a": 2}] , more        ends behind the outer bracket
    rest:    level": "</x>"}</x> more         ends before the second </x>

Brackets are counted, not matched. Only double quotes make a string, and none behind a backslash. A marker
that may be beginning at the end of the buffer is left unconsumed. Markers hold no double quote.
"""

from __future__ import annotations

import re
from typing import Any, Final

from toolgrammar.machine.json_strings import REST
from toolgrammar.machine.safe_text import SafeText
from toolgrammar.machine.scanner import DONE, MORE, Scanner

_BRACKETS: Final = re.compile(r"[\[\]{}]").finditer


class JsonSkip(Scanner):
    """Skip one ``value`` that begins with a quote or a bracket, or else the rest up to an end marker."""

    __slots__ = ("_depth", "_ends", "_escaped", "_in_string", "_value")

    def __init__(self, ends: SafeText | None, value: bool, in_string: bool = False) -> None:
        super().__init__()
        self._ends = ends
        self._value = value
        self._depth = 0
        self._in_string = in_string
        self._escaped = False

    @property
    def quoting(self) -> bool:
        """Whether the text read last is inside a string."""
        return self._in_string

    def copy(self) -> JsonSkip:
        other = JsonSkip(self._ends, self._value)
        other.__setstate__(self._progress())
        return other

    def _progress(self) -> tuple[Any, ...]:
        return (self.status, self._depth, self._in_string, self._escaped)

    def __setstate__(self, progress: tuple[Any, ...]) -> None:
        self.status, self._depth, self._in_string, self._escaped = progress

    def __reduce__(self) -> tuple[Any, ...]:
        return (JsonSkip, (self._ends, self._value), self._progress())

    def scan(self, buf: str, pos: int, end: int, eof: bool) -> int:
        while pos < end and self.status == MORE:
            if self._in_string:
                pos = self._string(buf, pos, end)
                continue
            rest = REST(buf, pos + self._escaped, end)
            bound = rest.end()
            # What stands before a quote cannot become a marker any more.
            safe = bound if self._ends is None else self._ends.find(buf, pos, bound, eof or bound < end)
            if safe > pos:
                self._escaped = False
            if self._value:
                pos = self._brackets(buf, pos, safe)
                if self.status == DONE:
                    return pos
            if safe < bound:
                if self._ends is not None and self._ends.which >= 0:
                    self.status = DONE
                return safe
            self._escaped = rest.end(1) > rest.start(1)
            self._in_string = bound < end
            pos = bound + self._in_string
        return pos

    def _string(self, buf: str, pos: int, end: int) -> int:
        rest = REST(buf, pos + self._escaped, end)
        self._escaped = rest.end(1) > rest.start(1)
        pos = rest.end()
        if pos == end:
            return end
        self._in_string = False
        if self._value and self._depth == 0:
            self.status = DONE
        return pos + 1

    def _brackets(self, buf: str, pos: int, bound: int) -> int:
        """Count brackets; the position behind the one that closes the value, or ``bound``."""
        for bracket in _BRACKETS(buf, pos, bound):
            if bracket.group() in "[{":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    self.status = DONE
                    return bracket.end()
        return bound
