"""One arguments value: a JSON object, or what models write in its place.

    {"text": "a", 'n': 2,}                -> {"text": "a", "n": 2}      (``json_object`` does the work)
    null, or nothing before an end marker -> {}
    "{\\"n\\": 2}"                          -> {"n": 2}                   W207
    [1, 2] or 42                          -> as written, ``malformed``, up to its own end
    print(6)</x>                          -> print(6), ``malformed``, ends before </x>

A value that is a string is held, inside the scanner, until it is complete: only then is it known whether it
holds an object. Its notes point at the closing quote. White space before the value is dropped.
"""

from __future__ import annotations

from typing import Any, Final

from toolgrammar.machine.json_object import NUMBER, REST_STATE, START_STATE, WORD_STARTS, WORDS, JsonObject
from toolgrammar.machine.json_skip import JsonSkip
from toolgrammar.machine.json_strings import BARE, BLANKS, REST, SPACE, UNDECIDED_LIMIT, decode
from toolgrammar.machine.safe_text import SafeText
from toolgrammar.machine.scanner import DONE

_WHOLE_WORD: Final = 11  # the value itself is a bare word or number
_WHOLE_STRING: Final = 12  # the value itself is a string


class JsonArguments(JsonObject):
    """Scan one arguments value up to its own end, or from a flaw on up to one of ``ends``."""

    __slots__ = ("_whole",)

    def __init__(self, ends: SafeText | None, repair: bool) -> None:
        super().__init__(ends, repair)
        self._whole: list[str] = []  # the value so far, if it is a string

    def copy(self) -> JsonArguments:
        other = JsonArguments(self._ends, self._repair)
        other.__setstate__(self._progress())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return (JsonArguments, (self._ends, self._repair), self._progress())

    def _progress(self) -> tuple[Any, ...]:
        return (super()._progress(), self._whole.copy())

    def __setstate__(self, progress: tuple[Any, ...]) -> None:
        super().__setstate__(progress[0])
        self._whole = progress[1]

    def _outside(self, buf: str, i: int, end: int, eof: bool) -> int:
        if self._state == START_STATE:
            return self._start(buf, i, end, eof)
        if self._state == _WHOLE_STRING:
            return self._whole_string(buf, i, end)
        return self._whole_word(buf, i, end)

    def _start(self, buf: str, i: int, end: int, eof: bool) -> int:
        first = SPACE(buf, i, end).end()
        if first < end and buf[first] == "{":  # the common case; no end marker begins so
            self._mark = first
            self._open_object()
            return first + 1
        if self._ends is not None:
            # A marker may begin with white space. Look no further than the first character's own marker.
            bound = min(end, first + max(map(len, self._ends.markers)))
            at = self._ends.find(buf, i, bound, eof or bound < end)
            if at <= first and self._ends.which >= 0:
                return self._empty(at)
            if at <= first and at < bound:
                self._mark = self._hold = at
                return end
        self._mark = first
        if first == end:
            return end
        char = buf[first]
        if char == '"':
            self._whole.append(char)
            self._mark = first + 1
            self._state = _WHOLE_STRING
        elif char == "[":
            self.malformed = True
            self._rest = JsonSkip(self._ends, value=True)
            self._state = REST_STATE
            return first
        elif char in WORD_STARTS:
            self._hold = first
            self._state = _WHOLE_WORD
        else:
            return self._flaw(first)
        return first + 1

    def _empty(self, at: int) -> int:
        self._out.append("{}")
        self._mark = at
        self.status = DONE
        return at

    def _whole_word(self, buf: str, i: int, end: int) -> int:
        stop = BARE(buf, i, end).end()
        if stop == end:
            return end
        word = buf[self._hold : stop]
        if word == "null" or (word == "None" and self._repair):
            if word == "None":
                self.notes.append(("W203", self._hold, stop))
            self._hold = -1
            return self._empty(stop)
        if stop - self._hold > UNDECIDED_LIMIT or not (word in WORDS or NUMBER(word)):
            return self._flaw(stop)
        self._hold = -1
        self.malformed = True
        self.status = DONE
        return stop

    def _whole_string(self, buf: str, i: int, end: int) -> int:
        rest = REST(buf, i + self._escaped, end)
        i = rest.end()
        if i < end:
            i += 1
            self.status = DONE
        self._escaped = rest.end(1) > rest.start(1)
        self._whole.append(buf[self._mark : i])
        self._mark = i
        if self.status == DONE:
            self._out.append(self._unwrapped("".join(self._whole), i))
            self._whole.clear()
        return i

    def _unwrapped(self, written: str, stop: int) -> str:
        """The object that the string ``written`` holds, or the string itself, malformed."""
        notes: list[tuple[str, int, int]] = []
        content = decode(written, 0, len(written), self._repair, notes)
        if content is not None and content.lstrip(BLANKS).startswith("{"):
            inner = JsonArguments(None, self._repair)
            bound = inner.scan(content, 0, len(content), True)
            if inner.status == DONE and not inner.malformed and not content[bound:].strip(BLANKS):
                self.notes.append(("W207", stop - 1, stop))
                for code, _, _ in notes + inner.notes:
                    self.notes.append((code, stop - 1, stop))
                return inner.text
        self.malformed = True
        return written
