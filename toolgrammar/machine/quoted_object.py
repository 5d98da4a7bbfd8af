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
from typing import Any, Final

from toolgrammar.machine.bare_values import END, QUOTE, STRUCTURE, BareTypes, Notation, notation_of
from toolgrammar.machine.held_scanner import (
    BODY,
    KEY_LIMIT,
    SPACE,
    HeldScanner,
    Quiet,
    Step,
    skip_space,
    stopped,
)
from toolgrammar.machine.json_writer import escape_json
from toolgrammar.machine.safe_text import SafeText
from toolgrammar.machine.scanner import DEPTH_LIMIT

# The states. ``Notation`` knows them by their order.
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

#: The longest rest of a buffer in which the steps of members call each other and need no loop.
_SHORT: Final = 16


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
        self._n: Notation = notation_of(
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

    def _steps(self) -> tuple[Step, ...]:
        return _STEPS

    def _quiet(self) -> tuple[Quiet, ...]:
        return self._n.quiet

    def _opener(self, buf: str, cur: int, end: int) -> int:
        if buf[cur] <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                return cur
        if buf[cur] not in "{(":
            return self._flaw(cur)
        return self._open(cur, OBJECT if buf[cur] == "{" else PARENTHESES)

    def _marker(self, state: int, cur: int, marker: re.Match[str]) -> int:
        """At a marker, or what may become one, outside a string."""
        if marker.lastindex is None:
            return cur
        if marker.lastindex == QUOTE and state == KEY:
            self._hold(cur)
            self._key_at = cur - self._mark
            self._start = marker.end() - self._mark
            self._state = QUOTED_KEY
            return marker.end()
        if marker.lastindex == END and len(self._kinds) == 1 and state in (KEY, AFTER):
            self.notes.append(("W214", cur, marker.end()))
            self._close(cur)
            return cur
        return self._flaw(cur)

    # Brackets.

    def _open(self, cur: int, kind: int) -> int:
        if len(self._kinds) >= DEPTH_LIMIT:
            return self._flaw(cur)
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

    # Keys.

    def _is_colon(self, char: str) -> bool:
        return char == ":" or (char == "=" and self._kinds[0] == PARENTHESES)

    def _key_or_end(self, buf: str, cur: int, end: int) -> int:
        char = buf[cur]
        if char <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                return cur
            char = buf[cur]
        if char == _CLOSERS[self._kinds[-1]]:
            return self._close(cur)
        n = self._n
        if char in n.firsts:
            marker = n.marker(buf, cur, end)
            if marker is not None:
                return self._marker(KEY, cur, marker)
        if not self._holding:
            key = n.key(buf, cur, end)
            if key is not None and key.end() - 1 - cur <= KEY_LIMIT:
                self._out.append(f'"{key[1]}": ')
                self._schema = self._types.member(self._schemas[-1], key[1])
                self._state = VALUE
                return int(key.end())
        if char in ":,{}[]" or (self._kinds[0] == PARENTHESES and char in "=)"):
            return self._flaw(cur)
        self._hold(cur)
        self._key_at = self._start = cur - self._mark
        self._state = NAME
        return self._name(buf, cur, end)

    def _name(self, buf: str, cur: int, end: int) -> int:
        find = self._n.name if self._kinds[0] == OBJECT else self._n.name_in_parentheses
        match = find(buf, cur, end)
        if match is None:
            return end
        stop: int = match.start()
        if match.lastindex is None:
            return stop
        if match.lastindex != STRUCTURE or not self._is_colon(buf[stop]):
            return self._flaw(stop)
        self._key = buf[self._mark + self._start : stop].rstrip(SPACE)
        return self._key_certain(buf, stop, end)

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

    def _colon(self, buf: str, cur: int, end: int) -> int:
        if buf[cur] <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                return cur
        return self._key_certain(buf, cur, end) if self._is_colon(buf[cur]) else self._flaw(cur)

    def _key_certain(self, buf: str, cur: int, end: int) -> int:
        """``buf[cur]`` is the colon behind the key."""
        if self._key_too_long(cur):
            return self._flaw(cur)
        self._key_at = -1
        self._release()
        self._out.append(f'"{escape_json(self._key)}": ')
        self._schema = self._types.member(self._schemas[-1], self._key)
        self._state = VALUE
        cur += 1
        return self._value(buf, cur, end) if cur < end else cur

    # Values.

    def _value(self, buf: str, cur: int, end: int) -> int:
        """A value must follow, or, in an array, its end."""
        char = buf[cur]
        if char <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                return cur
            char = buf[cur]
        n = self._n
        if char in n.firsts:
            marker = n.marker(buf, cur, end)
            if marker is not None:
                if marker.lastindex != QUOTE:
                    return self._marker(VALUE, cur, marker)
                if self._holding:
                    self._release()
                self._out.append('"')
                self._state = BODY
                cur = marker.end()
                return self._body(buf, cur, end) if cur < end else cur
        if char == "{" or char == "[":
            return self._open(cur, OBJECT if char == "{" else ARRAY)
        if char in ",}])":
            if char == "]" and self._state == ITEM:
                return self._close(cur)
            if char != ")" or self._kinds[-1] == PARENTHESES:
                return self._flaw(cur)
        if self._holding:
            self._separated = False
        else:
            self._holding = True
            self._mark = cur
        self._start = cur - self._mark
        self._state = BARE
        return self._bare(buf, cur, end)

    def _bare(self, buf: str, cur: int, end: int) -> int:
        kind = self._kinds[-1]
        match = (self._n.bare_in_parentheses if kind == PARENTHESES else self._n.bare)(buf, cur, end)
        if match is None:
            return end
        stop: int = match.start()
        found = match.lastindex
        if found is None:
            return stop
        if found == QUOTE:
            return self._flaw(stop)
        if found == STRUCTURE and buf[stop] != "," and buf[stop] != _CLOSERS[kind]:
            return self._flaw(stop)
        value = self._types.json(buf[self._mark + self._start : stop], self._schema)
        if self._held:
            self._release()
        self._holding = False
        self._out.append(value)
        return self._after(buf, stop, end)

    def _body(self, buf: str, cur: int, end: int) -> int:
        delimiter = self._n.delimiter
        stop = buf.find(delimiter[0], cur, end)
        if stop < 0:
            self._out.append(escape_json(buf[cur:end]))
            return end
        whole = buf.find(delimiter, stop, end)
        if whole >= 0:
            self._out.append(escape_json(buf[cur:whole]) + '"')
            self._state = AFTER
            cur = whole + len(delimiter)
            return self._after(buf, cur, end) if cur < end else cur
        # The delimiter may be cut, but at the end only.
        cut = self._n.cut_quote(buf, max(stop, end - len(delimiter) + 1), end)
        stop = end if cut is None else cut.start()
        self._out.append(escape_json(buf[cur:stop]))
        return stop

    # What follows a value.

    def _after(self, buf: str, cur: int, end: int) -> int:
        self._state = AFTER
        char = buf[cur]
        if char <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                return cur
            char = buf[cur]
        if char == ",":
            return self._comma(buf, cur, end)
        if char == _CLOSERS[self._kinds[-1]]:
            return self._close(cur)
        marker = self._n.marker(buf, cur, end)
        return self._flaw(cur) if marker is None else self._marker(AFTER, cur, marker)

    def _comma(self, buf: str, cur: int, end: int) -> int:
        if self._kinds[-1] == ARRAY:
            self._schema = self._types.items(self._schemas[-1])
            self._state = ITEM
        else:
            member = self._n.member(buf, cur, end)
            if member is not None and member.end() - 1 - member.start(1) <= KEY_LIMIT:
                self._out.append(f', "{member[1]}": ')
                self._schema = self._types.member(self._schemas[-1], member[1])
                self._state = VALUE
                return int(member.end())
            self._state = KEY
        self._holding = self._separated = True
        self._mark = cur
        self._held.append(", ")
        cur += 1
        # In a short rest few members can nest.
        return self._key_or_end(buf, cur, end) if cur < end <= cur + _SHORT and self._state == KEY else cur


#: The step of each state, by its number.
_STEPS: Final[tuple[Step, ...]] = (
    QuotedObject._body, QuotedObject._opener, QuotedObject._key_or_end, QuotedObject._name,
    QuotedObject._quoted_key, QuotedObject._colon, QuotedObject._value, QuotedObject._value,
    QuotedObject._bare, QuotedObject._after, stopped,
)  # fmt: skip
