"""``ElementArguments``: arguments written as elements that nest, a prefix in front of each tag, as JSON.

    ~<ship>~<city>Bremen~</city>~<zip>00420~</zip>~</ship>~<tags>~<item>a~</item>~</tags>~</call>
    {"ship": {"city": "Bremen", "zip": "00420"}, "tags": ["a"]     and ``~</call>`` is not consumed

The last ``}`` is not written here: it is due when the call ends, and no text at all means ``{}``. Between
tags white space is ignored; between a prefix and its ``<`` there may be blanks. There are no escapes.

    declared a string      data up to its own closer, whatever stands there; it streams
    text, then the closer  typed by the element's schema when it is closed
    children               an array if the schema says so, or if it leaves it open and the first child is
                           ``item``; else an object. Typed by the schema of the child, see ``ElementTypes``
    text beside children   kept under the key ``$text`` behind the last of them, with a note (W216); in an
                           array as an object that holds it

A prefix without a tag is text. An end-of-turn token (``stops``) is data inside a value if text follows it;
between tags it ends the arguments where they are. Flaws: text between the outermost elements, a closer that
is not the innermost open element's, a key that does not end or is one of ``breaks``, the tags of the call
itself. Open elements are a list, so depth costs nothing but the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from toolgrammar.combinators import FIELD_LIMIT, WHITE
from toolgrammar.machine.element_types import ElementTypes
from toolgrammar.machine.json_writer import UNSAFE, escape_json
from toolgrammar.machine.program import RUN_LIMIT
from toolgrammar.machine.safe_text import partial_pattern
from toolgrammar.machine.scanner import DEPTH_LIMIT, DONE, FLAW, MORE, Scanner
from toolgrammar.typing_rules import ARRAY, NO_SCHEMA, OBJECT, STRING, Plan, quote

# Where the scanner stands.
TAGS: Final = 0  # between tags
BODY: Final = 1  # in a string
DATA: Final = 2  # in a value that is a string or a scalar: only its own closer counts
OPEN: Final = 3  # in a value that may turn out to have children

#: Blanks there may be between a prefix and its ``<``.
BLANK_LIMIT: Final = 64

_solid: Final = re.compile(f"[^{WHITE}]").search
_tag_end: Final = re.compile(">").search
_TAG: Final = 1  # the group of a tag's beginning; a greater one is an end-of-turn token, none a marker cut off


class _Notation:
    """The compiled patterns of one notation. Immutable."""

    __slots__ = ("_made_of", "first", "marker", "special")

    def __init__(self, prefix: str, stops: tuple[str, ...]) -> None:
        self._made_of: tuple[str, tuple[str, ...]] = (prefix, stops)
        behind = f"{re.escape(prefix)}[ \t]{{0,{BLANK_LIMIT}}}"
        # Every alternative begins with a literal, so that the search skips what cannot begin one.
        found = [f"{behind}<()", *(f"{re.escape(stop)}()" for stop in stops)]
        cut = [behind, *(partial_pattern(marker) for marker in (prefix, *stops) if len(marker) > 1)]
        found += [f"{each}\\Z" for each in cut]
        self.marker: Callable[..., Any] = re.compile("|".join(found)).search
        firsts = re.escape("".join(sorted({marker[0] for marker in (prefix, *stops)})))
        self.first: Callable[..., Any] = re.compile(f"[{firsts}]").search
        self.special: Callable[..., Any] = re.compile(f"[{firsts}{UNSAFE}]").search

    def __reduce__(self) -> tuple[Any, ...]:
        return (_notation, self._made_of)


@lru_cache(maxsize=16)
def _notation(prefix: str, stops: tuple[str, ...]) -> _Notation:
    return _Notation(prefix, stops)


class ElementArguments(Scanner):
    """The arguments of one call from behind its own tag, ``DONE`` in front of a closer when no element is open.

    ``schema`` is the JSON schema of the arguments, ``breaks`` what follows ``PREFIX<`` in the tags that are no
    elements. Holds no more than a tag, or an end-of-turn token and the white space behind it.
    """

    __slots__ = (
        "_breaks", "_closers", "_counts", "_kinds", "_lead", "_loose", "_n", "_out", "_parts", "_plan", "_schema",
        "_schemas", "_state", "_stuck", "_types", "in_string", "quiet", "string_stop",
    )  # fmt: skip

    def __init__(
        self,
        prefix: str = "]<]minimax[>[",  # a default, because compiled classes are unpickled through an empty call
        schema: object = None,
        stops: tuple[str, ...] = (),
        breaks: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self._n: _Notation = _notation(prefix, stops)
        self._types: ElementTypes = ElementTypes(schema)
        self._breaks: tuple[str, ...] = breaks
        self._state: int = TAGS
        self._stuck: bool = False  # what is left is undecided
        self._closers: list[str] = []  # of the open elements behind the ``<``, outermost first
        # The open objects and arrays, the arguments themselves first: kind, schema, children so far.
        self._kinds: list[int] = [OBJECT]
        self._schemas: list[object] = [schema]
        self._counts: list[int] = [0]
        self._loose: dict[int, list[str]] = {}  # their text beside children, by depth
        self._schema: object = None  # of the innermost element, and its plan
        self._plan: Plan = NO_SCHEMA
        self._parts: list[str] = []  # text since the last tag
        self._lead: str = ""  # a comma that counts only if something follows
        self._out: list[str] = []
        self.in_string: bool = False
        self.quiet: Callable[..., Any] | None = None
        self.string_stop: Callable[..., Any] = self._n.special

    def copy(self) -> ElementArguments:
        """An independent scanner in the same state."""
        twin = ElementArguments()
        twin.text, twin.status, twin.malformed = self.text, self.status, self.malformed
        twin.notes = self.notes[:]
        twin._n, twin._types, twin._breaks = self._n, self._types, self._breaks
        twin._state, twin._closers = self._state, self._closers[:]
        twin._kinds, twin._schemas, twin._counts = self._kinds[:], self._schemas[:], self._counts[:]
        twin._loose = {depth: texts[:] for depth, texts in self._loose.items()}
        twin._schema, twin._plan = self._schema, self._plan
        twin._parts, twin._lead = self._parts[:], self._lead
        twin.in_string, twin.quiet, twin.string_stop = self.in_string, self.quiet, self.string_stop
        return twin

    def scan(self, buf: str, pos: int, end: int, eof: bool) -> int:
        """Consume from ``buf[pos:end]``. The end of the input decides nothing: ``eof`` is not looked at."""
        if self.in_string and self.string_stop(buf, pos, end) is None:
            self.text = buf[pos:end]
            return end
        self._stuck = False
        self.quiet = None
        cur = pos
        while cur < end and self.status == MORE and not self._stuck:
            cur = self._step(buf, cur, end)
        self.text = "".join(self._out)
        self._out.clear()
        self.in_string = self._state == BODY and cur == end and self.status == MORE
        if cur == end and self._closers and self._state != BODY:
            self.quiet = self._n.first
        return cur

    def _step(self, buf: str, cur: int, end: int) -> int:
        """Read the text up to the next marker, and the marker."""
        marker = self._n.marker(buf, cur, end)
        at: int = end if marker is None else marker.start()
        if at > cur:
            if not self._closers:
                solid = _solid(buf, cur, at)
                if solid is not None:
                    return self._flaw(solid.start())
            else:
                self._text(buf[cur:at])
        if marker is None:
            return end
        if marker.lastindex is None:
            return self._wait(at)
        if marker.lastindex != _TAG:
            return self._stop(buf, at, marker.end(), end)
        behind: int = marker.end()
        if behind == end:
            return self._wait(at)
        if self._state == BODY or self._state == DATA or buf[behind] == "/":
            return self._closer(buf, at, behind, end)
        if buf[behind] in "<>" or buf[behind] in WHITE:
            return self._data(buf, at)
        return self._opener(buf, at, behind, end)

    def _text(self, text: str) -> None:
        if self._state == BODY:
            self._out.append(escape_json(text))
        else:
            self._parts.append(text)

    def _put(self, text: str) -> None:
        self._out.append(self._lead + text)
        self._lead = ""

    def _data(self, buf: str, at: int) -> int:
        """The marker at ``at`` is data; one may begin inside it."""
        if not self._closers:
            return self._flaw(at)
        self._text(buf[at])
        return at + 1

    def _stop(self, buf: str, at: int, behind: int, end: int) -> int:
        """At an end-of-turn token."""
        if self._state == TAGS:
            self.status = DONE
            return at
        if _solid(buf, behind, min(end, behind + RUN_LIMIT)) is None and end - behind < RUN_LIMIT:
            return self._wait(at)
        return self._data(buf, at)

    # Tags.

    def _closer(self, buf: str, at: int, behind: int, end: int) -> int:
        """At a tag that can only be a closer, whose ``<`` is in front of ``behind``."""
        if not self._closers:
            self.status = DONE
            return at
        closer = self._closers[-1]
        if buf.startswith(closer, behind, end):
            self._close(at, behind)
            return behind + len(closer)
        if end - behind < len(closer) and closer.startswith(buf[behind:end]):
            return self._wait(at)
        return self._flaw(at) if self._state == TAGS or self._state == OPEN else self._data(buf, at)

    def _opener(self, buf: str, at: int, behind: int, end: int) -> int:
        stop = buf.find(">", behind, min(end, behind + FIELD_LIMIT + 1))
        if stop < 0:
            if end - behind > FIELD_LIMIT:
                return self._flaw(at)
            self.quiet = _tag_end
            return self._wait(at)
        key = buf[behind:stop]
        if f"{key}>".startswith(self._breaks) or len(self._kinds) >= DEPTH_LIMIT:
            return self._flaw(at)
        if self._state == OPEN:
            self._has_children(key)
        self._keep_text(at, behind)
        self._begin(key)
        return stop + 1

    def _has_children(self, key: str) -> None:
        """The innermost element is an object or an array: its first child is ``key``."""
        kind = self._plan.types & (OBJECT | ARRAY)
        if kind != OBJECT and kind != ARRAY:
            kind = ARRAY if key == "item" else OBJECT
        self._kinds.append(kind)
        self._schemas.append(self._schema)
        self._counts.append(0)
        self._state = TAGS

    def _keep_text(self, start: int, end: int) -> None:
        """A stretch of text between tags ends at the tag ``start`` to ``end``."""
        if self._parts:
            text = "".join(self._parts)
            self._parts.clear()
            if _solid(text) is not None:
                self._loose.setdefault(len(self._kinds), []).append(text)
                self.notes.append(("W216", start, end))

    def _begin(self, key: str) -> None:
        """A child opens."""
        count = self._counts[-1]
        self._counts[-1] += 1
        if self._kinds[-1] == OBJECT:
            self._put(f'{", " if count else "{"}"{escape_json(key)}": ')
            self._schema = self._types.member(self._schemas[-1], key)
        else:
            if count:
                self._lead = ", "
            else:
                self._put("[")
            self._schema = self._types.item(self._schemas[-1], count)
        self._plan = plan = self._types.plan(self._schema)
        self._closers.append(f"/{key}>")
        if plan.only_string:
            self._put('"')
            self._state = BODY
        else:
            self._state = DATA if plan.types & STRING and not plan.types & (OBJECT | ARRAY) else OPEN

    def _close(self, start: int, end: int) -> None:
        """The innermost element closes with the tag ``start`` to ``end``."""
        self._closers.pop()
        if self._state == BODY:
            self._out.append('"')
        elif self._state != TAGS:
            self._put(self._plan.encode("".join(self._parts)))
            self._parts.clear()
        else:
            self._keep_text(start, end)
            loose = self._loose.pop(len(self._kinds), None)
            self._schemas.pop()
            self._counts.pop()
            kind = self._kinds.pop()
            if loose is not None:
                kept = f'"$text": {quote("".join(loose))}'
                self._put(f", {kept}" if kind == OBJECT else f", {{{kept}}}")
            self._put("}" if kind == OBJECT else "]")
        self._state = TAGS

    # What ends a step.

    def _wait(self, at: int) -> int:
        self._stuck = True
        return at

    def _flaw(self, at: int) -> int:
        self.status = FLAW
        return at
