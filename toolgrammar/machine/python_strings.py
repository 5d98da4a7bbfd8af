"""Python string literals streamed as JSON strings.

    f(a = 'x' "y")      'x' and "y" are one string; its end is certain at the ``)``

Every quote style and prefix is read; text leaves while it arrives, escapes decoded, in JSON's escapes. A
string's closing quote is certain only at the next character that cannot begin a neighbouring string. An
f-string field and a bytes literal have no JSON: a flaw.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from toolgrammar.machine.held_scanner import BODY, HeldScanner, skip_space
from toolgrammar.machine.json_writer import UNSAFE, escape_json
from toolgrammar.machine.python_scalars import read_escape
from toolgrammar.machine.scanner import MORE

QUOTE: Final = 1  # behind the first quote of a string
JOINED: Final = 2  # behind a string that a neighbour may continue
AFTER: Final = 3  # behind a value

_again: Final = re.compile(r"""([rRuUfFbB]{0,2})['"]""").match
_maybe_again: Final = re.compile(r"[rRuUfFbB]{1,2}\Z").match

# A string's kind indexes these: 1 for double quotes, plus 2 when raw, plus 4 for an f-string.
_stops: Final[list[Callable[..., Any]]] = []
_specials: Final[list[Callable[..., Any]]] = []
for _kind in range(8):
    _inside = ('"' if _kind & 1 else "'") + (r"\\{}" if _kind & 4 else r"\\")
    _stops.append(re.compile(f"[{_inside}]").search)
    _specials.append(re.compile(f"[{_inside}{UNSAFE}]").search)


class PythonStrings(HeldScanner):
    """The part of the Python scanners that knows strings."""

    __slots__ = ("_kind", "_kinds", "_quote", "_triple")

    def __init__(self, state: int) -> None:
        super().__init__(state)
        self._kinds: list[int] = []  # the open brackets, outermost first
        self._quote: str = "'"
        self._kind: int = 0
        self._triple: bool = False

    def _open_string(self, buf: str, cur: int, prefix: str) -> int:
        """Open the string whose quote is ``buf[cur]``. The caller writes the JSON quote, if one is due."""
        prefix = prefix.lower()
        self._quote = buf[cur]
        self._kind = (self._quote == '"') + 2 * ("r" in prefix) + 4 * ("f" in prefix)
        self.string_stop = _specials[self._kind]
        self._state = QUOTE
        return cur + 1

    def _second_quote(self, buf: str, cur: int, end: int) -> int:
        """Behind the first quote: one more closes an empty string, two more open a triple-quoted one."""
        self._triple = False
        if buf[cur] != self._quote:
            self._state = BODY
            return cur
        if cur + 1 == end:
            return cur
        if buf[cur + 1] != self._quote:
            return self._close_string(cur + 1)
        self._triple = True
        self._state = BODY
        return cur + 2

    def _body(self, buf: str, cur: int, end: int) -> int:
        """Inside a string, up to its end, the end of the buffer or something undecided."""
        sink = self._held if self._holding else self._out
        stops = _stops[self._kind]
        while cur < end:
            match = stops(buf, cur, end)
            stop: int = end if match is None else match.start()
            if stop > cur:
                sink.append(escape_json(buf[cur:stop]))
            cur = stop
            if match is None:
                break
            if buf[cur] == "\\":
                stop, text = self._backslash(buf, cur, end)
            elif buf[cur] == self._quote:
                stop, text = self._inner_quote(buf, cur, end)
            else:
                stop, text = self._brace(buf, cur, end)
            if self._state != BODY or stop == cur or self.status != MORE:
                return stop
            cur = stop
            if text:
                sink.append(text)
        return cur

    def _backslash(self, buf: str, cur: int, end: int) -> tuple[int, str]:
        if not self._kind & 2:
            return read_escape(buf, cur, end)
        if cur + 1 == end:
            return cur, ""
        # In a raw string the backslash stays, and so does the quote behind it, which does not end the string.
        if buf[cur + 1] in "\\'\"":
            return cur + 2, "\\\\" + escape_json(buf[cur + 1])
        return cur + 1, "\\\\"

    def _inner_quote(self, buf: str, cur: int, end: int) -> tuple[int, str]:
        quote = self._quote
        if not self._triple:
            return self._close_string(cur + 1), ""
        if buf.startswith(quote * 3, cur, end):
            return self._close_string(cur + 3), ""
        if end - cur < 3 and buf[cur:end] == quote * (end - cur):
            return cur, ""
        return cur + 1, escape_json(quote)

    def _brace(self, buf: str, cur: int, end: int) -> tuple[int, str]:
        """In an f-string: a doubled brace is one, an opening one begins a field, which is a flaw."""
        brace = buf[cur]
        if cur + 1 == end:
            return cur, ""
        if buf[cur + 1] == brace:
            return cur + 2, brace
        if brace == "{":
            return self._flaw(cur), ""
        return cur + 1, brace

    def _close_string(self, cur: int) -> int:
        self._state = JOINED
        if not self._kinds:
            self._hold(cur)  # a value that stands alone ends here, unless a neighbour follows
        return cur

    def _joined(self, buf: str, cur: int, end: int) -> int:
        """Behind a closing quote: a neighbour goes on, anything else makes the closing certain."""
        if buf[cur] <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                return cur
        match = _again(buf, cur, end)
        if match is not None and "b" not in match[1].lower():
            if not self._kinds:
                self._release()
            return self._open_string(buf, match.end() - 1, match[1])
        if match is None and _maybe_again(buf, cur, end) is not None:
            return cur
        if self._kinds:
            self._put('"')
            self._state = AFTER
            return cur
        self._out.append('"')
        return self._done(cur)
