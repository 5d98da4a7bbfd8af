"""``PythonArguments``: a call's keyword arguments as a JSON object; ``PythonValue``: one literal as JSON.

    tune(zone='na' 've', level=0x1F, **{7: None})      presented from behind the ``(``
    {"zone": "nave", "level": 31, "7": null}

Both stream: an open string leaves while it arrives, closed elements of nested containers leave at once, a
number or word when what follows it is known. The spellings are those of ``formats/pythonic.md``; values keep
the model's own types. A positional value, an f-string field, a bytes literal, an unknown word are flaws: the
text stops behind the last sound piece, without a comma, and the rest is left from the offending element on,
its comma included:

    zone='nave', 3), scan()]     ->     {"zone": "nave"      and ``, 3), scan()]`` is not consumed
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from toolgrammar.machine.held_scanner import KEY_LIMIT, Quiet, Step, skip_space, stopped
from toolgrammar.machine.json_writer import escape_json
from toolgrammar.machine.python_literals import (
    ARGUMENTS,
    EQUALS,
    KEY,
    MERGED,
    MORE_STATES,
    VALUE,
    PythonLiterals,
)

ARGUMENT: Final = MORE_STATES  # a key, ``**`` or ``)``
NAME: Final = MORE_STATES + 1  # inside a keyword's name
STARS: Final = MORE_STATES + 2  # behind ``**``
BARE: Final = MORE_STATES + 3  # inside an unquoted string

_name_start: Final = re.compile(r"[^\W\d]").match
_name: Final[Callable[..., Any]] = re.compile(r"\w*").match
#: The common way from one argument to the next: a whole name.
_next: Final = re.compile(r",[ \t\r\n]*+([^\W\d]\w*+)[ \t\r\n]*+=").match
_bare_start: Final = re.compile(r"[\w.+\-/~@#$]").match
_bare_stop: Final = re.compile(r"[,()\[\]{}<]").search


class PythonArguments(PythonLiterals):
    """A call's arguments from behind ``(``, ``DONE`` right behind its ``)``.

    ``is_string`` is asked whether the schema declares a parameter a string and nothing else; only then an
    unquoted text (``city=New York``) is read as a string, up to the next ``,`` or ``)`` outside brackets.
    ``confirmed`` turns true at the first ``KEY =``, ``**`` or ``)``: the parentheses hold arguments.
    """

    __slots__ = ("_bare_depth", "_is_string", "_key", "_members", "confirmed")

    def __init__(self, is_string: Callable[[str], bool] | None = None) -> None:
        super().__init__(ARGUMENT)
        self._is_string: Callable[[str], bool] | None = is_string
        self._kinds.append(ARGUMENTS)
        self._slots.append(-1)
        self._key: str = ""
        self._members: bool = False  # the object has one, so the next needs a comma
        self._bare_depth: int = 0
        self.confirmed: bool = False

    def copy(self) -> PythonArguments:
        """An independent scanner in the same state."""
        twin = PythonArguments(self._is_string)
        self._copy_to(twin)
        twin._key, twin._members, twin._bare_depth = self._key, self._members, self._bare_depth
        twin.confirmed = self.confirmed
        return twin

    def _value_ended(self) -> None:
        self._done(0)

    def _steps(self) -> tuple[Step, ...]:
        return _STEPS

    def _quiet(self) -> tuple[Quiet, ...]:
        return _QUIET

    def _argument(self, buf: str, cur: int, end: int) -> int:
        char = buf[cur]
        if char <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                return cur
            char = buf[cur]
        if char == ")":
            self._confirm()
            return self._close(cur)
        if char == "*":
            if cur + 1 == end:
                return cur
            if buf[cur + 1] != "*":
                return self._flaw(cur)
            self._confirm()
            self._hold(cur)
            self._state = STARS
            return cur + 2
        if _name_start(buf, cur) is None:
            return self._flaw(cur)
        if not self._holding:
            self._holding = True
            self._mark = cur
        self._key_at = cur - self._mark
        self._key_slot = len(self._held)
        self._state = NAME
        return self._read_name(buf, cur, end)

    def _confirm(self) -> None:
        if not self.confirmed:
            self.confirmed = True
            self._out.append("{")

    def _read_name(self, buf: str, cur: int, end: int) -> int:
        stop: int = _name(buf, cur, end).end()
        if stop == end:
            return stop
        key = self._key = buf[self._mark + self._key_at : stop]
        if buf[stop] != "=" or len(key) > KEY_LIMIT:
            self._held.append(f'"{key}"')
            self._state = EQUALS
            return stop
        if not self.confirmed:
            self._confirm()
        if self._separated:
            self._drop_separator()
            self._out.append(", ")
        self._out.append(f'"{key}": ')
        self._holding = False
        self._key_at = -1
        self._members = True
        self._state = VALUE
        stop += 1
        return self._element(buf, stop, end) if stop < end else stop

    def _key_certain(self, cur: int) -> int:
        if self._kinds[-1] <= MERGED and not self._key_too_long(cur):
            self._confirm()
            self._members = True
        return super()._key_certain(cur)

    def _merge(self, buf: str, cur: int, end: int) -> int:
        """Behind ``**``: the braces whose members become the call's."""
        if buf[cur] <= " ":
            cur = skip_space(buf, cur, end)
            if cur == end:
                return cur
        if buf[cur] != "{":
            return self._flaw(cur)
        self._drop_separator()
        self._certain()
        self._kinds.append(MERGED)
        self._slots.append(-1)
        if self._members:
            self._separate(cur + 1)
        self._state = KEY
        return cur + 1

    def _comma(self, buf: str, cur: int, end: int) -> int:
        if len(self._kinds) > 1:
            return super()._comma(buf, cur, end)
        if self._holding:
            self._release()
        if self._members:
            member = _next(buf, cur, end)
            if member is not None and member.end() - 1 - member.start(1) <= KEY_LIMIT:
                key = self._key = member[1]
                self._out.append(f', "{key}": ')
                self._state = VALUE
                return member.end()
            self._held.append(", ")
            self._separated = True
        self._holding = True
        self._mark = cur
        self._state = ARGUMENT
        cur += 1
        return self._argument(buf, cur, end) if cur < end else cur  # no whole name: this does not come back here

    # Unquoted strings.

    def _begins_scalar(self, buf: str, cur: int) -> bool:
        return super()._begins_scalar(buf, cur) or (_bare_start(buf, cur) is not None and self._takes_bare())

    def _takes_bare(self) -> bool:
        return len(self._kinds) == 1 and self._is_string is not None and self._is_string(self._key)

    def _unquoted(self, buf: str, start: int) -> int:
        if not self._takes_bare():
            return self._flaw(start)
        self._state = BARE
        self._bare_depth = 0
        return start

    def _illegal(self, cur: int) -> int:
        # Only a number or word that waits for its follower is held here: it may begin an unquoted string.
        if not (self._holding and self._takes_bare()):
            return self._flaw(cur)
        self._held.pop()
        self._state = BARE
        self._bare_depth = 0
        return self._mark + self._word_at

    def _bare(self, buf: str, cur: int, end: int) -> int:
        start = self._mark + self._word_at
        match = _bare_stop(buf, cur, end)
        stop: int = end if match is None else match.start()
        if stop - start > KEY_LIMIT:
            return self._flaw(stop)
        if match is None:
            return end
        char = buf[stop]
        if char in "([{":
            self._bare_depth += 1
        elif char == "<" or (self._bare_depth == 0 and char in "]}"):
            return self._flaw(stop)
        elif self._bare_depth == 0:
            self._put(f'"{escape_json(buf[start:stop].rstrip())}"')
            return self._after(buf, stop, end)
        elif char != ",":
            self._bare_depth -= 1
        return stop + 1


class PythonValue(PythonLiterals):
    """One Python literal, ``DONE`` right behind it; a number or word only when another character follows."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(VALUE)

    def _value_ended(self) -> None:
        self._release()  # a scalar's text is still held
        self._done(0)

    def _steps(self) -> tuple[Step, ...]:
        return _STEPS

    def _quiet(self) -> tuple[Quiet, ...]:
        return _QUIET

    def copy(self) -> PythonValue:
        """An independent scanner in the same state."""
        twin = PythonValue()
        self._copy_to(twin)
        return twin


#: The step of each state, by its number.
_STEPS: Final[tuple[Step, ...]] = (
    PythonLiterals._body, PythonLiterals._second_quote, PythonLiterals._joined, PythonLiterals._after,
    PythonLiterals._element, PythonLiterals._element, PythonLiterals._element, PythonLiterals._scalar,
    PythonLiterals._equals, PythonArguments._argument, PythonArguments._read_name, PythonArguments._merge,
    PythonArguments._bare, stopped,
)  # fmt: skip

_word_end: Final = re.compile(r"[^0-9A-Za-z_]").search
#: In a number or word, and where one may begin, its characters decide nothing.
_QUIET: Final[tuple[Quiet, ...]] = (
    None, None, None, None, _word_end, _word_end, _word_end, re.compile(r"[^\w.+\-]").search,
    None, re.compile(r"[^A-Za-z_]").search, re.compile(r"\W").search, None, _bare_stop, None,
)  # fmt: skip
