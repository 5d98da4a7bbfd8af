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
from toolgrammar.machine.python_scalars import read_escape, respell

QUOTE: Final = 1  # behind the first quote of a string
JOINED: Final = 2  # behind a string that a neighbour may continue
AFTER: Final = 3  # behind a value

_again: Final = re.compile(r"""([rRuUfFbB]{0,2})['"]""").match
_maybe_again: Final = re.compile(r"[rRuUfFbB]{1,2}\Z").match
#: The characters that begin neither a neighbouring string nor white space.
_NO_NEIGHBOUR: Final = frozenset(",)]}:")

# A string's kind is a sum of these.
DOUBLE: Final = 1  # double quotes
RAW: Final = 2
FIELDS: Final = 4  # an f-string
TRIPLE: Final = 8


def _compile(kind: int) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """For a kind of string: ``search`` for what is not passed on as it stands, ``match`` for the stretch that is
    JSON already, and ``match`` for the stretch that can be respelled without a closer look."""
    quote = '"' if kind & DOUBLE else "'"
    stops = quote + r"\\" + ("{}" if kind & FIELDS else "")
    same = "(?!)" if kind & RAW else r'\\[\\"bfnrt]'
    wide = r"\\[^{}]" if kind & FIELDS else r"\\[\s\S]"
    if not kind & RAW:
        wide = r"""\\[\\'"abfnrtv\n]"""
    if kind & TRIPLE:
        wide += f"|{quote}{{1,2}}+(?=[^{quote}])"
    return (
        re.compile(f"[{stops}{UNSAFE}]").search,
        re.compile(rf"[^{stops}{UNSAFE}]*+(?:{same}[^{stops}{UNSAFE}]*+)*+").match,
        re.compile(f"[^{stops}]*+(?:(?:{wide})[^{stops}]*+)*+").match,
    )


_PATTERNS: Final = tuple(_compile(kind) for kind in range(16))


class PythonStrings(HeldScanner):
    """The part of the Python scanners that knows strings."""

    __slots__ = ("_kind", "_kinds", "_quote")

    def __init__(self, state: int) -> None:
        super().__init__(state)
        self._kinds: list[int] = []  # the open brackets, outermost first
        self._quote: str = "'"
        self._kind: int = 0

    def _open_string(self, buf: str, cur: int, end: int, prefix: str) -> int:
        """Open the string whose quote is ``buf[cur]``. The caller writes the JSON quote, if one is due."""
        quote = self._quote = buf[cur]
        kind = DOUBLE if quote == '"' else 0
        if prefix:
            prefix = prefix.lower()
            kind += RAW * ("r" in prefix) + FIELDS * ("f" in prefix)
        self._kind = kind
        self.string_stop = _PATTERNS[kind][0]
        cur += 1
        if cur < end and buf[cur] != quote:
            self._state = BODY
            return self._body(buf, cur, end)
        self._state = QUOTE
        return cur

    def _second_quote(self, buf: str, cur: int, end: int) -> int:
        """Behind the first quote: one more closes an empty string, two more open a triple-quoted one."""
        if buf[cur] != self._quote:
            self._state = BODY
            return cur
        if cur + 1 == end:
            return cur
        if buf[cur + 1] != self._quote:
            return self._close_string(buf, cur + 1, end)
        self._kind += TRIPLE
        self._state = BODY
        return cur + 2

    def _body(self, buf: str, cur: int, end: int) -> int:
        """Inside a string, up to its end, the end of the buffer or something undecided."""
        sink = self._held if self._holding else self._out
        kind = self._kind
        _, same, stretch = _PATTERNS[kind]
        while True:
            stop: int = same(buf, cur, end).end()
            if stop > cur:
                sink.append(buf[cur:stop])
                if stop == end:
                    return end
                cur = stop
            if buf[cur] != self._quote or kind & TRIPLE:
                stop = stretch(buf, cur, end).end()
                if stop > cur:
                    text = buf[cur:stop]
                    sink.append(escape_json(text) if kind & RAW else respell(text))
                    if stop == end:
                        return end
                    cur = stop
            char = buf[cur]
            if char == self._quote:
                if not kind & TRIPLE:
                    return self._close_string(buf, cur + 1, end)
                if buf.startswith(char * 3, cur, end):
                    return self._close_string(buf, cur + 3, end)
                return cur  # one or two quotes that may be the first of three
            stop, text = self._backslash(buf, cur, end) if char == "\\" else self._brace(buf, cur, end)
            if stop == cur or self._state != BODY:
                return stop
            sink.append(text)
            if stop == end:
                return end
            cur = stop

    def _backslash(self, buf: str, cur: int, end: int) -> tuple[int, str]:
        """A backslash that no stretch takes in: in a raw string it stays, if it is not at the end."""
        if not self._kind & RAW:
            return read_escape(buf, cur, end)
        return (cur, "") if cur + 1 == end else (cur + 1, "\\\\")

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

    def _close_string(self, buf: str, cur: int, end: int) -> int:
        self._state = JOINED
        if not self._kinds:
            self._hold(cur)  # a value that stands alone ends here, unless a neighbour follows
        return self._joined(buf, cur, end) if cur < end else cur

    def _joined(self, buf: str, cur: int, end: int) -> int:
        """Behind a closing quote: a neighbour goes on, anything else makes the closing certain."""
        char = buf[cur]
        if char not in _NO_NEIGHBOUR:
            if char <= " ":
                cur = skip_space(buf, cur, end)
                if cur == end:
                    return cur
            match = _again(buf, cur, end)
            if match is not None and "b" not in match[1].lower():
                if not self._kinds:
                    self._release()
                cur = match.end()  # the loop goes on: neighbours must not nest
                return self._open_string(buf, cur - 1, cur, match[1])
            if match is None and _maybe_again(buf, cur, end) is not None:
                return cur
        if not self._kinds:
            self._out.append('"')
            return self._done(cur)
        self._put('"')
        self._state = AFTER
        return self._after(buf, cur, end)

    def _after(self, buf: str, cur: int, end: int) -> int:
        """Behind a value."""
        raise NotImplementedError
