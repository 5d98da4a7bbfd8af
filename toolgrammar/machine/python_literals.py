"""Python literals streamed as JSON: containers, numbers, constants; strings come from ``python_strings``.

    {'lot': (0x1F, [True]), 7: .5}   ->   {"lot": [31, [true]], "7": 0.5}

Brackets are an explicit stack, so depth costs no recursion. Two openers say too little: ``{`` may be a set
(an array) or a dict, ``(`` a tuple (an array) or only parentheses around one value, as in Python. Their place
in the text stays open (``_slots``) and everything behind is held until their first element has ended. A comma
is held until its member is certain, so text that stops is never followed by a dangling one.

A dict's key is held until its ``:``; ``{word=value}`` is read too. Keys are strings, scalars or tuples of
them, and no longer than ``KEY_LIMIT``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from toolgrammar.machine.held_scanner import KEY_LIMIT, HeldScanner, skip_space
from toolgrammar.machine.json_writer import escape_json
from toolgrammar.machine.python_scalars import CONSTANTS, scalar_json
from toolgrammar.machine.python_strings import AFTER, PythonStrings
from toolgrammar.machine.scanner import DEPTH_LIMIT

VALUE: Final = 4  # a value must begin
ITEM: Final = 5  # an element or the closing bracket
KEY: Final = 6  # a key or the closing brace
SCALAR: Final = 7  # inside a number or word
EQUALS: Final = 8  # behind a word that is a key
MORE_STATES: Final = 9  # the first state number free for subclasses

# Open brackets. An UNSURE one has a slot in the held text that waits for its JSON bracket.
ARGUMENTS: Final = 0  # the call's parentheses
MERGED: Final = 1  # the braces of **{...}
DICT: Final = 2
LIST: Final = 3
TUPLE: Final = 4
SET: Final = 5
UNSURE_TUPLE: Final = 6
UNSURE_SET: Final = 7

_CLOSERS: Final = (")", "}", "}", "]", ")", "}", ")", "}")
_JSON_CLOSERS: Final = ("}", "", "}", "]", "]", "]", "", "]")

_word: Final[Callable[..., Any]] = re.compile(r"[\w.+\-]*").match
_scalar_start: Final = re.compile(r"[\w.+\-]").match
_prefix: Final = re.compile(r"[rRuUfFbB]{1,2}").fullmatch
#: The common scalar, by the bracket around it: its end is in sight, and no doubt about it. Group 1: as in JSON.
_SCALARS: Final[tuple[Callable[..., Any], ...]] = tuple(
    re.compile(
        r"(?!-0[,)}\]])(?:(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)|True|False|None)"
        + rf"(?=[,{re.escape(_CLOSERS[kind])}])"
        if kind < UNSURE_TUPLE
        else "(?!)"
    ).match
    for kind in range(8)
)


class PythonLiterals(PythonStrings):
    """One Python literal as JSON text. What stands around it is the subclass's."""

    __slots__ = ("_key_slot", "_slots", "_unsure", "_word_at")

    def __init__(self, state: int) -> None:
        super().__init__(state)
        self._slots: list[int] = []  # per open bracket: its place in _held, -1 if it is certain
        self._unsure: int = 0  # how many of the open brackets are
        self._word_at: int = 0  # where the scalar begins, from the mark
        self._key_slot: int = 0  # its first piece in _held

    def _copy_to(self, twin: HeldScanner) -> None:
        super()._copy_to(twin)
        if isinstance(twin, PythonLiterals):
            twin._kinds, twin._slots = self._kinds[:], self._slots[:]
            twin._quote, twin._kind = self._quote, self._kind
            twin._unsure, twin._word_at, twin._key_slot = self._unsure, self._word_at, self._key_slot

    def _value_ended(self) -> None:
        """The outermost value has ended."""
        raise NotImplementedError

    # Where a value, an element or a key may begin.

    def _element(self, buf: str, cur: int, end: int) -> int:
        char = buf[cur]
        if char <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                return cur
            char = buf[cur]
        state = self._state
        if state != VALUE:
            if char == _CLOSERS[self._kinds[-1]]:
                return self._close(cur)
            self._separated = False
            if state == KEY:
                self._begin_key(cur)
        if char == '"' or char == "'":
            if self._holding:
                self._certain()
            (self._held if self._holding else self._out).append('"')
            return self._open_string(buf, cur, end, "")
        if char in "[{(":
            return self._open(char, cur)
        if state != KEY and self._kinds:
            scalar = _SCALARS[self._kinds[-1]](buf, cur, end)
            if scalar is not None:
                if self._holding:
                    self._certain()
                (self._held if self._holding else self._out).append(scalar[1] or CONSTANTS[scalar[0]])
                return self._after(buf, scalar.end(), end)
        if not self._begins_scalar(buf, cur):
            return self._flaw(cur)
        self._hold(cur)
        self._word_at = cur - self._mark
        self._state = SCALAR
        return self._scalar(buf, cur, end)

    def _begins_scalar(self, buf: str, cur: int) -> bool:
        return _scalar_start(buf, cur) is not None

    def _open(self, char: str, cur: int) -> int:
        in_key = self._key_at >= 0
        if len(self._kinds) >= DEPTH_LIMIT:
            return self._flaw(cur)
        self._slots.append(-1)
        if char == "[":
            if in_key:
                return self._flaw(cur)
            self._certain()
            self._put("[")
            self._kinds.append(LIST)
            self._state = ITEM
            return cur + 1
        if char == "{" and in_key:
            return self._flaw(cur)
        self._hold(cur)
        self._slots[-1] = len(self._held)
        self._held.append("")
        self._unsure += 1
        self._kinds.append(UNSURE_TUPLE if char == "(" else UNSURE_SET)
        self._state = ITEM if char == "(" else KEY
        return cur + 1

    def _certain(self) -> None:
        """A member has begun or ended: release the hold unless a bracket or key around it is undecided."""
        if self._holding and not self._unsure and self._key_at < 0:
            self._release()

    def _decide(self, kind: int, opener: str) -> None:
        """The innermost bracket, so far unsure, is of ``kind``."""
        self._held[self._slots[-1]] = opener
        self._slots[-1] = -1
        self._kinds[-1] = kind
        self._unsure -= 1

    # Scalars.

    def _scalar(self, buf: str, cur: int, end: int) -> int:
        stop: int = _word(buf, cur, end).end()
        start = self._mark + self._word_at
        if stop == end:
            too_long = stop - start > KEY_LIMIT and buf[start] not in "+-.0123456789"
            return self._unquoted(buf, start) if too_long else stop
        word = buf[start:stop]
        if buf[stop] in "'\"" and _prefix(word) is not None:
            if "b" in word.lower():
                return self._flaw(start)
            self._certain()
            self._put('"')
            return self._open_string(buf, stop, end, word)
        text = scalar_json(word)
        if text is not None:
            self._put(text)
            if self._kinds:
                return self._after(buf, stop, end)
            self._value_ended()
            return stop
        if self._key_ends() and word.isidentifier():
            self._put(f'"{word}"')
            self._state = EQUALS
            return stop
        return self._unquoted(buf, start)

    def _unquoted(self, buf: str, start: int) -> int:
        """A word that is no literal stands where a value belongs."""
        return self._flaw(start)

    # Keys.

    def _begin_key(self, cur: int) -> None:
        self._hold(cur)
        self._key_at = cur - self._mark
        self._key_slot = len(self._held)

    def _key_ends(self) -> bool:
        """Whether the innermost bracket is the one whose key is being read."""
        return self._key_at >= 0 and self._kinds[-1] in (ARGUMENTS, MERGED, DICT, UNSURE_SET)

    def _equals(self, buf: str, cur: int, end: int) -> int:
        if buf[cur] <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                return cur
        return self._key_certain(cur) if buf[cur] == "=" else self._flaw(cur)

    def _key_certain(self, cur: int) -> int:
        """``buf[cur]`` is the ``:`` or ``=`` behind the key."""
        if self._key_too_long(cur):
            return self._flaw(cur)
        key = "".join(self._held[self._key_slot :])
        if not key.startswith('"'):
            key = f'"{escape_json(key)}"'
        self._held[self._key_slot :] = [key, ": "]
        if self._kinds[-1] == UNSURE_SET:
            self._decide(DICT, "{")
        self._key_at = -1
        self._certain()
        self._state = VALUE
        return cur + 1

    # What follows a value.

    def _after(self, buf: str, cur: int, end: int) -> int:
        char = buf[cur]
        if char <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                self._state = AFTER
                return cur
            char = buf[cur]
        kind = self._kinds[-1]
        if self._key_at >= 0 and self._key_ends():
            if char == ":":
                return self._key_certain(cur)
            # Only an undecided brace can still turn out to be a set.
            if kind != UNSURE_SET or char not in ",}" or self._key_too_long(cur):
                return self._flaw(cur)
            self._key_at = -1
            self._decide(SET, "[")
        if char == ",":
            return self._comma(buf, cur, end)
        if char == _CLOSERS[kind]:
            self._state = AFTER
            return self._close(cur)
        return self._illegal(cur)

    def _illegal(self, cur: int) -> int:
        """What stands behind the value cannot."""
        return self._flaw(cur)

    def _comma(self, buf: str, cur: int, end: int) -> int:
        if self._kinds[-1] == UNSURE_TUPLE:
            self._decide(TUPLE, "[")
        self._certain()
        self._separate(cur)
        self._state = KEY if self._kinds[-1] in (MERGED, DICT) else ITEM
        return cur + 1

    def _close(self, cur: int) -> int:
        """The innermost bracket closes at ``buf[cur]``; a comma before it was a trailing one."""
        self._drop_separator()
        if self._slots[-1] >= 0:
            self._decide_closing()
        kind = self._kinds.pop()
        self._slots.pop()
        if self._holding:
            self._certain()
        if _JSON_CLOSERS[kind]:
            self._put(_JSON_CLOSERS[kind])
        self._state = AFTER
        if not self._kinds:
            self._value_ended()
        return cur + 1

    def _decide_closing(self) -> None:
        """An unsure bracket closes before a comma came: ``()``, ``{}`` or parentheses around one value."""
        if self._state == KEY:
            self._decide(DICT, "{")
        elif self._state == ITEM:
            self._decide(TUPLE, "[")
        else:
            self._decide(UNSURE_TUPLE, "")
