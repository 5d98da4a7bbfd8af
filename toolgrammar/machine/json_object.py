"""One JSON object: the model's own text, passed on as it comes, almost-JSON mended on the way.

    {"text": "a\\d", 'n': 2,}      -> {"text": "a\\\\d", "n": 2}     W205 W202 W201
    {"pier": "4" "hours": 2}</x>  -> {"pier": "4" "hours": 2}  ``malformed``, ends before </x>

* Valid JSON leaves byte for byte. What has left is always a sound beginning (reading convention 14): a
  comma leaves with what follows it, a key with its colon, a word or number when its end is seen, an
  escape when it is whole. A string leaves at once.
* Held back is the undecided text alone, at most ``UNDECIDED_LIMIT`` characters; it stays unconsumed but is
  not looked at again.
* A flaw takes nothing back: the text goes on as written from where nothing had left yet (``flaw_at``), up to
  an end marker outside a string, or for good if there are no end markers.

A single pass over the buffer: ``_mark`` is where text not yet written begins, ``_hold`` where the undecided
text begins. Steps return the next position to look at; the state says what is expected there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from toolgrammar.machine.json_skip import JsonSkip
from toolgrammar.machine.json_strings import (
    BARE,
    BLANKS,
    REST,
    REST_SINGLE,
    SOUND,
    SOUND_SINGLE,
    SOUND_STRING,
    SPACE,
    UNDECIDED_LIMIT,
    is_cut,
    mend,
    requote,
)
from toolgrammar.machine.safe_text import SafeText
from toolgrammar.machine.scanner import DEPTH_LIMIT, DONE, KEY_END, MORE, WORD_END, Scanner

# What is expected next. From START_STATE on, unconsumed text is looked at again; before it, ``_held`` says
# where to go on. 11 and 12 belong to ``JsonArguments``.
OBJECT_STATE: Final = 0  # behind {
_KEY: Final = 1  # behind a comma in an object
_IN_KEY: Final = 2
_KEY_QUOTE: Final = 3  # behind a single quote that may end the key
_COLON: Final = 4
_VALUE: Final = 5  # behind a colon
_FIRST_ITEM: Final = 6  # behind [
_ITEM: Final = 7  # behind a comma in a list
_WORD: Final = 8  # in a bare word or number
_QUOTE: Final = 9  # behind a single quote that may end the string
_AFTER: Final = 10  # behind a value in an object or list
START_STATE: Final = 13
_STRING: Final = 14
_SINGLE: Final = 15
REST_STATE: Final = 16  # malformed: as written

_OBJECT: Final = 1
_LIST: Final = 0

#: The common way from one member to the next: a sound key. Group 1 ends behind its colon.
_MEMBER: Final = re.compile(r'(,[ \t\n\r]*+"[^"\\\x00-\x1f]*+"[ \t\n\r]*+:)[ \t\n\r]*+').match
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?").fullmatch
#: The common scalar: sound, and its end in sight.
_SCALAR: Final = re.compile(
    r"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?|true|false|null)(?=[ \t\n\r,}\]])"
).match
WORDS: Final = frozenset(("true", "false", "null"))
_SPELLINGS: Final = {
    "True": ("true", "W203"),
    "False": ("false", "W203"),
    "None": ("null", "W203"),
    "NaN": ('"NaN"', "W206"),
    "Infinity": ('"Infinity"', "W206"),
    "-Infinity": ('"-Infinity"', "W206"),
}
WORD_STARTS: Final = frozenset("-+.0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


class JsonObject(Scanner):
    """Scan one object; ``JsonArguments`` gets it to the opening brace."""

    __slots__ = (
        "_began",
        "_ends",
        "_escaped",
        "_held",
        "_hold",
        "_mark",
        "_out",
        "_quote",
        "_repair",
        "_rest",
        "_stack",
        "_state",
        "_token",
        "as_written",
        "flaw_at",
        "in_string",
        "quiet",
    )

    def __init__(self, ends: SafeText | None, repair: bool) -> None:
        super().__init__()
        self.in_string: bool = False
        self.quiet: Callable[..., Any] | None = None
        #: Where in the buffer of the last ``scan`` the value stopped being JSON, or -1 if it did not there.
        self.flaw_at: int = -1
        #: Whether it did at all. What then follows is passed on as written, up to an end marker.
        self.as_written: bool = False
        self._began: bool = False
        self._ends: SafeText | None = ends
        self._repair: bool = repair
        self._state: int = START_STATE
        self._stack: bytearray = bytearray()  # _OBJECT or _LIST for every open bracket
        self._held: int = 0  # unconsumed characters that were looked at
        self._token: int = 0  # where in them the key or word begins
        self._quote: str = '"'  # of the open key
        self._escaped: bool = False  # the input ended behind a backslash in a string
        self._rest: JsonSkip | None = None
        # Of the scan that runs:
        self._mark: int = 0
        self._hold: int = -1
        self._out: list[str] = []

    def copy(self) -> JsonObject:
        other = JsonObject(self._ends, self._repair)
        other.__setstate__(self._progress())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return (JsonObject, (self._ends, self._repair), self._progress())

    def _progress(self) -> tuple[Any, ...]:
        """All that changes, as its own copy; what is of one scan only is left out."""
        return (
            (self.text, self.status, self.malformed, self.notes.copy()),
            (self.in_string, self.flaw_at, self.as_written),
            (
                self._state,
                bytearray(self._stack),
                self._held,
                self._token,
                self._quote,
                self._escaped,
                self._began,
            ),
            None if self._rest is None else self._rest.copy(),
        )

    def __setstate__(self, progress: tuple[Any, ...]) -> None:
        said, shown, place, self._rest = progress
        self.text, self.status, self.malformed, self.notes = said
        self.in_string, self.flaw_at, self.as_written = shown
        self._state, self._stack, self._held, self._token, self._quote, self._escaped, self._began = place

    def scan(self, buf: str, pos: int, end: int, eof: bool) -> int:
        state = self._state
        i = pos
        if state == _STRING:
            i = SOUND(buf, pos, end).end()
            if i == end:
                self.text = buf[pos:end]
                self.in_string = True
                self.quiet = None
                return end
            self._hold = -1
        elif self._held and state < START_STATE:
            self._hold = pos
            i = pos + self._held
        else:
            self._hold = -1
        self.flaw_at = -1
        self._mark = pos
        while i < end:
            i = _STEPS[self._state](self, buf, i, end, eof)
            if self.status:
                break
        hold = self._hold
        if hold < 0:
            cut = i
            self._held = 0
            self.quiet = None
            self.in_string = self._state == _STRING and not self.status
        else:
            cut = self._held_back(buf, i, end, eof)
        text = buf[self._mark : cut]
        if self._out:
            text = "".join(self._out) + text
            self._out.clear()
        self.text = text
        return cut

    def _held_back(self, buf: str, i: int, end: int, eof: bool) -> int:
        """Where the undecided text begins that is to be presented again; ``i`` is how far it was read."""
        if i - self._hold > UNDECIDED_LIMIT and self._state < START_STATE:
            i = self._run(buf, self._flaw(i), end, eof)
        elif eof and self._state == _QUOTE:
            self._end_single(buf)
        cut = self._hold if self._hold >= 0 else i
        self._held = i - cut
        state = self._state
        self.in_string = state == _STRING and cut == i and not self.status
        self.quiet = KEY_END if state in (_IN_KEY, _COLON) else WORD_END if state == _WORD else None
        return cut

    @property
    def is_object(self) -> bool:
        return self._began

    @property
    def lost(self) -> bool:
        return self.malformed or self.as_written

    @property
    def quoting(self) -> bool:
        return self._state in (_STRING, _SINGLE, _IN_KEY)

    def _run(self, buf: str, i: int, end: int, eof: bool) -> int:
        while i < end and self.status == MORE:
            i = _STEPS[self._state](self, buf, i, end, eof)
        return i

    def _outside(self, buf: str, i: int, end: int, eof: bool) -> int:
        """A step before the object's brace."""
        if buf[i] != "{":
            return self._flaw(i)
        self._open_object()
        return i + 1

    # -- objects and lists ---------------------------------------------------------------------------

    def _open_object(self) -> None:
        self._stack.append(_OBJECT)
        self._state = OBJECT_STATE
        self._began = True

    def _key(self, buf: str, i: int, end: int, eof: bool) -> int:
        char = buf[i]
        if char in BLANKS:
            i = SPACE(buf, i, end).end()
            if i == end:
                return end
            char = buf[i]
        if char == '"' or (char == "'" and self._repair):
            if self._hold < 0:
                self._hold = i
            self._token = i - self._hold
            self._quote = char
            self._state = _IN_KEY
            return i + 1
        if char == "}":
            return self._close(buf, i)
        return self._flaw(i)

    def _in_key(self, buf: str, i: int, end: int, eof: bool) -> int:
        i += self._escaped
        rest = REST(buf, i, end) if self._quote == '"' else REST_SINGLE(buf, i, end)
        self._escaped = rest.end(1) > rest.start(1)
        i = rest.end()
        if i == end:
            return end
        self._state = _COLON if self._quote == '"' else _KEY_QUOTE
        return i + 1

    def _colon(self, buf: str, i: int, end: int, eof: bool) -> int:
        char = buf[i]
        if char in BLANKS:
            i = SPACE(buf, i, end).end()
            if i == end:
                return end
            char = buf[i]
        if self._state == _KEY_QUOTE and char not in ",}]:":
            # The quote was an apostrophe; blanks behind it belong to the key.
            self._state = _IN_KEY
            return i
        start = self._hold + self._token
        if char != ":" or i - self._hold > UNDECIDED_LIMIT:
            return self._flaw(i)
        if SOUND_STRING(buf, start, i) is None:
            if not self._repair:
                return self._flaw(i)
            stop = buf.rfind(self._quote, start, i) + 1
            self._replace(buf, start, requote(buf, start, stop, self.notes), stop, "")
        self._hold = -1
        self._state = _VALUE
        return i + 1

    def _value(self, buf: str, i: int, end: int, eof: bool) -> int:
        char = buf[i]
        if char in BLANKS:
            i = SPACE(buf, i, end).end()
            if i == end:
                return end
            char = buf[i]
        if char == "]" and self._state != _VALUE:
            return self._close(buf, i)
        if self._hold >= 0 and i - self._hold > UNDECIDED_LIMIT:
            return self._flaw(i)
        if char in WORD_STARTS:
            return self._word_start(buf, i, end)
        if char == '"':
            self._state = _STRING
        elif char in "{[" and len(self._stack) >= DEPTH_LIMIT:
            return self._flaw(i)
        elif char == "{":
            self._open_object()
        elif char == "[":
            self._stack.append(_LIST)
            self._state = _FIRST_ITEM
        elif char == "'" and self._repair:
            self._replace(buf, i, '"', i + 1, "W202")
            self._state = _SINGLE
        else:
            return self._flaw(i)
        self._hold = -1
        return i + 1

    def _word_start(self, buf: str, i: int, end: int) -> int:
        if self._hold < 0:
            self._hold = i
        scalar = _SCALAR(buf, i, end)
        if scalar is not None and scalar.end() - self._hold <= UNDECIDED_LIMIT:
            self._hold = -1
            self._state = _AFTER
            return scalar.end()
        self._token = i - self._hold
        self._state = _WORD
        return i + 1

    def _word(self, buf: str, i: int, end: int, eof: bool) -> int:
        stop = BARE(buf, i, end).end()
        if stop == end:
            return end
        start = self._hold + self._token
        word = buf[start:stop]
        if stop - self._hold > UNDECIDED_LIMIT:
            return self._flaw(stop)
        if word not in WORDS and not NUMBER(word):
            if not self._repair or word not in _SPELLINGS:
                return self._flaw(stop)
            text, code = _SPELLINGS[word]
            self._replace(buf, start, text, stop, code)
        self._hold = -1
        self._state = _AFTER
        return stop

    def _after(self, buf: str, i: int, end: int, eof: bool) -> int:
        char = buf[i]
        if char in BLANKS:
            i = SPACE(buf, i, end).end()
            if i == end:
                return end
            char = buf[i]
        if char == ",":
            if self._stack[-1] == _OBJECT:
                member = _MEMBER(buf, i, end)
                if member is not None and member.end(1) - i <= UNDECIDED_LIMIT:
                    self._state = _VALUE
                    return member.end()
                self._state = _KEY
            else:
                self._state = _ITEM
            self._hold = i
            return i + 1
        if char == ("}" if self._stack[-1] == _OBJECT else "]"):
            return self._close(buf, i)
        return self._flaw(i)

    def _close(self, buf: str, i: int) -> int:
        if self._hold >= 0:
            # Nothing came behind the comma.
            if not self._repair or i - self._hold > UNDECIDED_LIMIT:
                return self._flaw(i)
            self._replace(buf, self._hold, "", self._hold + 1, "W201")
            self._hold = -1
        self._stack.pop()
        self._state = _AFTER
        if not self._stack:
            self.status = DONE
        return i + 1

    # -- strings -------------------------------------------------------------------------------------

    def _string(self, buf: str, i: int, end: int, eof: bool) -> int:
        i = SOUND(buf, i, end).end()
        if i == end:
            return end
        if buf[i] == '"':
            self._state = _AFTER
            return i + 1
        return self._mend(buf, i, end)

    def _single(self, buf: str, i: int, end: int, eof: bool) -> int:
        i = SOUND_SINGLE(buf, i, end).end()
        if i == end:
            return end
        if buf[i] == "'":
            self._hold = i
            self._state = _QUOTE
            return i + 1
        return self._mend(buf, i, end)

    def _single_quote(self, buf: str, i: int, end: int, eof: bool) -> int:
        i = SPACE(buf, i, end).end()
        if i == end:
            return end
        if i - self._hold > UNDECIDED_LIMIT:
            return self._flaw(i)
        if buf[i] in ",}]:":
            self._end_single(buf)
            return i
        # An apostrophe: the blanks behind it are the string's.
        i = self._hold + 1
        self._hold = -1
        self._state = _SINGLE
        return i

    def _end_single(self, buf: str) -> None:
        self._replace(buf, self._hold, '"', self._hold + 1, "")
        self._hold = -1
        self._state = _AFTER

    def _mend(self, buf: str, i: int, end: int) -> int:
        if buf[i] == "\\" and is_cut(buf, i, end):
            self._hold = i
            return end
        if not self._repair:
            return self._flaw(i)
        text, length, code = mend(buf[i], buf[i + 1 : i + 2])
        if self._state == _SINGLE and length == 2:
            code = ""  # a quote escaped as its string demands
        self._replace(buf, i, text, i + length, code)
        return i + length

    # -- writing -------------------------------------------------------------------------------------

    def _replace(self, buf: str, start: int, text: str, stop: int, code: str) -> None:
        """Write what waits before ``start``, then ``text`` in place of ``buf[start:stop]``."""
        self._out.append(buf[self._mark : start])
        self._out.append(text)
        self._mark = stop
        if code:
            self.notes.append((code, start, stop))

    def _flaw(self, i: int) -> int:
        """From here on as written: from the undecided text, or from ``i`` if there is none."""
        if self._hold >= 0:
            i = self._hold
            self._hold = -1
        self.malformed = True
        self.flaw_at = i
        self.as_written = True
        self._rest = JsonSkip(self._ends, value=False, in_string=self._state == _STRING)
        self._state = REST_STATE
        return i

    def _as_written(self, buf: str, i: int, end: int, eof: bool) -> int:
        rest = self._rest
        assert rest is not None
        i = rest.scan(buf, i, end, eof)
        self.status = rest.status
        if i < end and self.status == MORE:
            self._hold = i
            return end
        return i

    def _before(self, buf: str, i: int, end: int, eof: bool) -> int:
        return self._outside(buf, i, end, eof)


#: The step of each state, by its number.
_STEPS: Final[tuple[Callable[[JsonObject, str, int, int, bool], int], ...]] = (
    JsonObject._key, JsonObject._key, JsonObject._in_key, JsonObject._colon, JsonObject._colon,
    JsonObject._value, JsonObject._value, JsonObject._value, JsonObject._word, JsonObject._single_quote,
    JsonObject._after, JsonObject._before, JsonObject._before, JsonObject._before, JsonObject._string,
    JsonObject._single, JsonObject._as_written,
)  # fmt: skip
