"""``QuotedObject``: objects whose strings stand between delimiters of their own, as one JSON object.

    {zone:<|"|>the "nave"<|"|>,level:3,on:true,tags:[<|"|>a<|"|>]}      gemma4; functiongemma has <escape>
    {"zone": "the \\"nave\\"", "level": 3, "on": true, "tags": ["a"]}

Between delimiters everything is data, and it streams; there are no escapes. Keys are bare or delimited. Bare
values are held until what ends them and typed by ``bare_values``. The outermost brackets may be parentheses,
inside them ``=`` may stand for ``:``. A trailing comma is read; of two commas in a row the second is a flaw.

Where one of the markers ``ends`` stands outside a string and only the outermost bracket is open, the object
is complete, with a note (W214), and the marker is not consumed. Deeper, or where a value is due, it is a
flaw, as is anything else that does not fit: the text stops behind the last sound piece and the rest is left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from toolgrammar.machine.bare_values import BareTypes
from toolgrammar.machine.held_scanner import BODY, SPACE, HeldScanner, skip_space
from toolgrammar.machine.json_writer import UNSAFE, escape_json
from toolgrammar.machine.safe_text import SafeText, partial_pattern

OPENER: Final = 1  # the outermost bracket must follow
KEY: Final = 2  # a key or the closing bracket
NAME: Final = 3  # inside a bare key
QUOTED_KEY: Final = 4  # inside a delimited key
COLON: Final = 5  # behind a delimited key
VALUE: Final = 6  # a value must follow
ITEM: Final = 7  # an element or the closing bracket
BARE: Final = 8  # inside a bare value
AFTER: Final = 9  # behind a value

# Open brackets.
OBJECT: Final = 0
ARRAY: Final = 1
PARENTHESES: Final = 2
_CLOSERS: Final = ("}", "]", ")")

# What a match of the marker patterns found, by its last group; no group is a marker that may be cut.
_STRUCTURE: Final = 1
_QUOTE: Final = 2
_END: Final = 3


class _Notation:
    """The compiled patterns of one notation. Immutable."""

    __slots__ = (
        "_made_of",
        "bare",
        "bare_in_parentheses",
        "marker",
        "name",
        "name_in_parentheses",
        "quote",
        "special",
    )

    def __init__(self, quote: str, ends: tuple[str, ...], breaks: tuple[str, ...]) -> None:
        self._made_of: tuple[str, tuple[str, ...], tuple[str, ...]] = (quote, ends, breaks)
        groups = "|".join(f"({_alternatives(markers)})" for markers in ((quote,), ends, breaks))
        cut = "|".join(partial_pattern(marker) for marker in (quote, *ends, *breaks) if len(marker) > 1)
        markers = f"{groups}|(?:{cut or '(?!)'})\\Z"
        #: ``()`` keeps the numbers of the groups where no structure is looked for.
        self.marker: Callable[..., Any] = re.compile("((?!))|" + markers).match
        self.name: Callable[..., Any] = re.compile(r"([:,{}\[\]])|" + markers).search
        self.name_in_parentheses: Callable[..., Any] = re.compile(r"([:=,{}\[\])])|" + markers).search
        self.bare: Callable[..., Any] = re.compile(r"([,{}\[\]])|" + markers).search
        self.bare_in_parentheses: Callable[..., Any] = re.compile(r"([,{}\[\])])|" + markers).search
        quote_cut = f"|{partial_pattern(quote)}\\Z" if len(quote) > 1 else ""
        self.quote: Callable[..., Any] = re.compile(f"({re.escape(quote)}){quote_cut}").search
        self.special: Callable[..., Any] = re.compile(f"[{re.escape(quote[0])}{UNSAFE}]").search

    def __reduce__(self) -> tuple[Any, ...]:
        return (_notation, self._made_of)


def _alternatives(markers: Sequence[str]) -> str:
    return "|".join(re.escape(marker) for marker in sorted(markers, key=len, reverse=True)) or "(?!)"


@lru_cache(maxsize=64)
def _notation(quote: str, ends: tuple[str, ...], breaks: tuple[str, ...]) -> _Notation:
    return _Notation(quote, ends, breaks)


class QuotedObject(HeldScanner):
    """One object from its ``{`` or ``(``, ``DONE`` right behind its closing bracket or at one of ``ends``.

    ``quote`` is the string delimiter, ``schema`` the JSON schema of the arguments. ``breaks`` are markers
    that break the object off (another call's opener): outside a string they are a flaw where they stand.
    No marker may be the beginning of another or hold one of ``,:={}[]()``.
    """

    __slots__ = ("_key", "_kinds", "_n", "_schema", "_schemas", "_start", "_types")

    def __init__(
        self,
        quote: str = '<|"|>',  # a default, because compiled classes are unpickled through an empty call
        ends: SafeText | None = None,
        schema: Any | None = None,
        breaks: SafeText | None = None,
    ) -> None:
        super().__init__(OPENER)
        self._n: _Notation = _notation(
            quote, () if ends is None else ends.markers, () if breaks is None else breaks.markers
        )
        self._types: BareTypes = BareTypes(schema)
        self._kinds: list[int] = []  # the open brackets, outermost first
        self._schemas: list[object] = []  # and their schemas
        self._schema: object = schema  # of the value that is due
        self._key: str = ""
        self._start: int = 0  # where the bare value begins, from the mark
        self.string_stop = self._n.special

    def copy(self) -> QuotedObject:
        """An independent scanner in the same state."""
        twin = QuotedObject()
        self._copy_to(twin)
        return twin

    def _copy_to(self, twin: HeldScanner) -> None:
        super()._copy_to(twin)
        if isinstance(twin, QuotedObject):
            twin._n, twin._types = self._n, self._types
            twin._kinds, twin._schemas, twin._schema = self._kinds[:], self._schemas[:], self._schema
            twin._key, twin._start = self._key, self._start

    def _step(self, state: int, buf: str, cur: int, end: int) -> int:
        if state == BODY:
            return self._body(buf, cur, end)
        if state == BARE:
            return self._bare(buf, cur, end)
        if state == NAME:
            return self._name(buf, cur, end)
        if state == QUOTED_KEY:
            return self._quoted_key(buf, cur, end)
        # Elsewhere white space is layout.
        if buf[cur] <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                return cur
        if state == OPENER:
            if buf[cur] not in "{(":
                return self._flaw(cur)
            return self._open(cur, OBJECT if buf[cur] == "{" else PARENTHESES)
        if state == COLON:
            return self._key_certain(cur) if self._is_colon(buf[cur]) else self._flaw(cur)
        if state != VALUE and buf[cur] == _CLOSERS[self._kinds[-1]]:
            return self._close(cur)
        marker = self._n.marker(buf, cur, end)
        if marker is not None:
            return self._marker(state, cur, marker)
        if state == AFTER:
            return self._comma(cur) if buf[cur] == "," else self._flaw(cur)
        if state == KEY:
            return self._begin_name(buf, cur)
        return self._begin_value(buf, cur)

    def _in_word(self) -> bool:
        return self._state == NAME or self._state == BARE

    def _marker(self, state: int, cur: int, marker: re.Match[str]) -> int:
        """At a marker, or what may become one, outside a string."""
        if marker.lastindex is None:
            return cur
        if marker.lastindex == _QUOTE and state == KEY:
            self._hold(cur)
            self._key_at = cur - self._mark
            self._start = marker.end() - self._mark
            self._state = QUOTED_KEY
            return marker.end()
        if marker.lastindex == _QUOTE and state != AFTER:
            self._release()
            self._out.append('"')
            self._state = BODY
            return marker.end()
        if marker.lastindex == _END and len(self._kinds) == 1 and state in (KEY, AFTER):
            self.notes.append(("W214", cur, marker.end()))
            self._close(cur)
            return cur
        return self._flaw(cur)

    # Brackets.

    def _open(self, cur: int, kind: int) -> int:
        self._release()
        self._kinds.append(kind)
        self._schemas.append(self._schema)
        if kind == ARRAY:
            self._out.append("[")
            self._schema = self._types.items(self._schema)
            self._state = ITEM
        else:
            self._out.append("{")
            self._state = KEY
        return cur + 1

    def _close(self, cur: int) -> int:
        """The innermost bracket closes; a comma before it was a trailing one."""
        self._drop_separator()
        self._release()
        self._out.append("]" if self._kinds.pop() == ARRAY else "}")
        self._schemas.pop()
        self._state = AFTER
        return cur + 1 if self._kinds else self._done(cur + 1)

    def _comma(self, cur: int) -> int:
        self._separate(cur)
        if self._kinds[-1] == ARRAY:
            self._schema = self._types.items(self._schemas[-1])
            self._state = ITEM
        else:
            self._state = KEY
        return cur + 1

    # Keys.

    def _is_colon(self, char: str) -> bool:
        return char == ":" or (char == "=" and self._kinds[0] == PARENTHESES)

    def _begin_name(self, buf: str, cur: int) -> int:
        if buf[cur] in ":,{}[]" or (self._kinds[0] == PARENTHESES and buf[cur] in "=)"):
            return self._flaw(cur)
        self._hold(cur)
        self._key_at = self._start = cur - self._mark
        self._state = NAME
        return cur

    def _name(self, buf: str, cur: int, end: int) -> int:
        find = self._n.name if self._kinds[0] == OBJECT else self._n.name_in_parentheses
        match = find(buf, cur, end)
        if match is None:
            return end
        stop: int = match.start()
        if match.lastindex is None:
            return stop
        if match.lastindex != _STRUCTURE or not self._is_colon(buf[stop]):
            return self._flaw(stop)
        self._key = buf[self._mark + self._start : stop].rstrip(SPACE)
        return self._key_certain(stop)

    def _quoted_key(self, buf: str, cur: int, end: int) -> int:
        match = self._n.quote(buf, cur, end)
        if match is None:
            return end
        stop: int = match.start()
        if match.lastindex is None:
            return stop
        self._key = buf[self._mark + self._start : stop]
        self._state = COLON
        return int(match.end())

    def _key_certain(self, cur: int) -> int:
        """``buf[cur]`` is the colon behind the key."""
        if self._key_too_long(cur):
            return self._flaw(cur)
        self._held.append(f'"{escape_json(self._key)}": ')
        self._schema = self._types.member(self._schemas[-1], self._key)
        self._key_at = -1
        self._release()
        self._state = VALUE
        return cur + 1

    # Values.

    def _begin_value(self, buf: str, cur: int) -> int:
        char = buf[cur]
        if char == "{" or char == "[":
            return self._open(cur, OBJECT if char == "{" else ARRAY)
        if char in ",}]" or (char == ")" and self._kinds[-1] == PARENTHESES):
            return self._flaw(cur)
        self._hold(cur)
        self._separated = False
        self._start = cur - self._mark
        self._state = BARE
        return cur

    def _bare(self, buf: str, cur: int, end: int) -> int:
        kind = self._kinds[-1]
        match = (self._n.bare_in_parentheses if kind == PARENTHESES else self._n.bare)(buf, cur, end)
        if match is None:
            return end
        stop: int = match.start()
        if match.lastindex is None:
            return stop
        if match.lastindex == _QUOTE:
            return self._flaw(stop)
        if match.lastindex == _STRUCTURE and buf[stop] != "," and buf[stop] != _CLOSERS[kind]:
            return self._flaw(stop)
        self._held.append(self._types.json(buf[self._mark + self._start : stop], self._schema))
        self._release()
        self._state = AFTER
        return stop

    def _body(self, buf: str, cur: int, end: int) -> int:
        match = self._n.quote(buf, cur, end)
        stop: int = end if match is None else match.start()
        if stop > cur:
            self._out.append(escape_json(buf[cur:stop]))
        if match is None or match.lastindex is None:
            return stop
        self._out.append('"')
        self._state = AFTER
        return int(match.end())
