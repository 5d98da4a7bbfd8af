"""One call object: a tool's name, its arguments and perhaps an id, in any order, among other members.

    {"name": "weld", "arguments": {"n": 2}, "id": "c1"}       hermes, mistral, json-fenced ...
    {"type": "function", "function": {"name": "weld", ...}}   a wrapper: its object is the call
    {"weld": {"n": 2}}                                        ``tool_key``: the key is the name

Contract, on top of ``scanner``'s:

* ``name`` is "" until it is complete. ``announced`` turns True in the scan in which it is certain that this
  is a call (``EnvelopeSpec.decide``); ``text`` is empty before, and arguments that came first leave then.
* Before that, what does not fit is a FLAW: ``pos`` is the start of the token that does not fit, the attempt
  is text, and the notes it gave are void. After it, a flaw makes the call ``malformed``: inside the arguments
  the text goes on as written (``json_object``), elsewhere it is passed over, up to an end marker outside a
  string.
* Only the object's own members count, of several names, ids or arguments the first.
* Keys and names are held unconsumed but are not looked at again; other members are passed over.
* ``in_string``: the arguments' own (``json_object``): plain text may be passed on without asking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from toolgrammar.machine.envelope_spec import (
    ARGUMENTS,
    BEGUN,
    ID,
    KEY,
    NAME,
    OTHER,
    STRONG,
    TYPE,
    WEAK,
    WRAPPER,
    EnvelopeSpec,
)
from toolgrammar.machine.json_skip import JsonSkip
from toolgrammar.machine.json_strings import BARE, BLANKS, REST, REST_SINGLE, SPACE, UNDECIDED_LIMIT, decode
from toolgrammar.machine.json_value import JsonArguments
from toolgrammar.machine.safe_text import SafeText
from toolgrammar.machine.scanner import DONE, FLAW, KEY_END, MORE, STRING_END, Scanner

__all__ = ["EnvelopeScanner", "EnvelopeSpec"]

NAME_LIMIT: Final = 1024

# What is expected next. From _ARGUMENTS on, unconsumed text is looked at again.
_OPEN: Final = 0
_FIRST_KEY: Final = 1  # behind {
_KEY: Final = 2  # behind a comma, which is held
_COLON: Final = 3
_VALUE: Final = 4
_TEXT: Final = 5  # in a string that is read: a key, a name, an id
_QUOTE: Final = 6  # behind a single quote that may end it
_WORD: Final = 7  # in a bare word or number nobody reads
_AFTER: Final = 8
_ARGUMENTS: Final = 9
_SKIPPED: Final = 10  # in a string, list or object nobody reads
_LOST: Final = 11  # malformed behind the announcement


class EnvelopeScanner(Scanner):
    """Scan one call object, from its brace to its brace. ``offered``: the tools' names, None if not known."""

    __slots__ = (
        "_begun",
        "_ends",
        "_escaped",
        "_held",
        "_hold",
        "_inner",
        "_offered",
        "_quote",
        "_repair",
        "_role",
        "_skip",
        "_spec",
        "_state",
        "_waiting",
        "_wrapped",
        "announced",
        "early_id",
        "id",
        "in_string",
        "name",
        "quiet",
    )

    def __init__(
        self, spec: EnvelopeSpec, ends: SafeText | None, repair: bool, offered: frozenset[str] | None
    ) -> None:
        super().__init__()
        self.name: str = ""
        self.id: str = ""
        #: The id as far as it was known when the call was announced.
        self.early_id: str = ""
        self.announced: bool = False
        self.in_string: bool = False
        self.quiet: Callable[..., Any] | None = None
        self._spec: EnvelopeSpec = spec
        self._ends: SafeText | None = ends
        self._repair: bool = repair
        self._offered: frozenset[str] = frozenset() if offered is None else offered
        self._state: int = _OPEN
        self._role: int = KEY  # of the string that is read, or of the value that follows
        self._wrapped: int = 0  # open wrapper objects
        self._begun: bool = False  # the arguments' key and colon were read
        self._inner: JsonArguments | None = None
        self._skip: JsonSkip | None = None
        self._waiting: list[str] = []  # argument text from before the announcement
        self._held: int = 0  # unconsumed characters that were looked at
        self._quote: str = '"'  # of the open string
        self._escaped: bool = False  # the input ended behind a backslash in it
        self._hold: int = -1  # of the scan that runs: where its undecided text begins

    def copy(self) -> EnvelopeScanner:
        other = EnvelopeScanner(self._spec, self._ends, self._repair, self._offered)
        other.__setstate__(self._progress())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return (EnvelopeScanner, (self._spec, self._ends, self._repair, self._offered), self._progress())

    def _progress(self) -> tuple[Any, ...]:
        """All that changes, as its own copy; what is of one scan only is left out."""
        return (
            (self.text, self.status, self.malformed, self.notes.copy()),
            (self.name, self.id, self.early_id, self.announced, self.in_string),
            (self._state, self._role, self._wrapped, self._begun, self._waiting.copy()),
            (self._held, self._quote, self._escaped),
            None if self._inner is None else self._inner.copy(),
            None if self._skip is None else self._skip.copy(),
        )

    def __setstate__(self, progress: tuple[Any, ...]) -> None:
        said, told, place, string, self._inner, self._skip = progress
        self.text, self.status, self.malformed, self.notes = said
        self.name, self.id, self.early_id, self.announced, self.in_string = told
        self._state, self._role, self._wrapped, self._begun, self._waiting = place
        self._held, self._quote, self._escaped = string

    def scan(self, buf: str, pos: int, end: int, eof: bool) -> int:
        if self._state == _ARGUMENTS:
            inner = self._inner
            assert inner is not None
            return self.resume(buf, inner.scan(buf, pos, end, eof), end, eof)
        self._hold = -1
        self.text = ""
        return self._read(buf, pos, end, eof)

    @property
    def is_object(self) -> bool:
        return self._inner is None or self._inner.is_object

    @property
    def lost(self) -> bool:
        return self.malformed or (self._inner is not None and self.announced and self._inner.lost)

    @property
    def quoting(self) -> bool:
        if self._state == _ARGUMENTS and self._inner is not None:
            return self._inner.quoting
        return self._state == _TEXT or (self._state == _SKIPPED and self._skip is not None and self._skip.quoting)

    def direct(self) -> JsonArguments | None:
        """The scanner that may be asked in this one's place, as long as it says MORE and notes nothing."""
        return self._inner if self._state == _ARGUMENTS and self.announced else None

    def resume(self, buf: str, stop: int, end: int, eof: bool) -> int:
        """Go on where the arguments' own scanner stopped."""
        self._hold = -1
        self._held = 0
        i = self._took(stop, end)
        if self._state == _ARGUMENTS and self.announced:
            return i if self._hold < 0 else self._hold
        return self._read(buf, i, end, eof)

    def _read(self, buf: str, pos: int, end: int, eof: bool) -> int:
        i = pos
        if self._held and self._state < _ARGUMENTS:
            self._hold = pos
            i = pos + self._held
        i = self._run(buf, i, end, eof)
        if self._hold < 0:
            self._held = 0
            self.quiet = None
            return i
        if self._state < _ARGUMENTS:
            if self._too_long(i):
                i = self._run(buf, self._flaw(self._hold, "W212"), end, eof)
            elif eof and self._state == _QUOTE:
                i = self._run(buf, self._string_done(buf, self._hold, i, i), end, eof)
        cut = self._hold if self._hold >= 0 else i
        self._held = i - cut
        self.quiet = None
        if self._state == _TEXT and cut < i:
            self.quiet = KEY_END if self._role == KEY and not self._spec.tool_key else STRING_END
        return cut

    def _run(self, buf: str, i: int, end: int, eof: bool) -> int:
        while i < end and self.status == MORE:
            state = self._state
            if state in _LAYOUT and buf[i] in BLANKS:
                i = SPACE(buf, i, end).end()
            else:
                i = _STEPS[state](self, buf, i, end, eof)
        return i

    def _bare(self, buf: str, i: int, end: int, eof: bool) -> int:
        i = BARE(buf, i, end).end()
        if i < end:
            self._state = _AFTER
        return i

    # -- members -------------------------------------------------------------------------------------

    def _open(self, buf: str, i: int, end: int, eof: bool) -> int:
        if buf[i] != "{":
            return self._flaw(i)
        self._state = _FIRST_KEY
        return i + 1

    def _is_quote(self, char: str) -> bool:
        return char == '"' or (char == "'" and self._repair)

    def _key(self, buf: str, i: int, end: int, eof: bool) -> int:
        char = buf[i]
        if self._state == _KEY and self._too_long(i):
            return self._flaw(self._hold, "W212")
        if self._is_quote(char) and not (self._spec.tool_key and self.name):
            return self._begin_string(i, char, KEY)
        if char != "}" or (self._state == _KEY and not self._repair):
            return self._flaw(i)
        if self._state == _KEY:
            self.notes.append(("W201", self._hold, self._hold + 1))
            self._hold = -1
        return self._close(i)

    def _colon(self, buf: str, i: int, end: int, eof: bool) -> int:
        if buf[i] != ":":
            return self._flaw(i)
        self._state = _VALUE
        if self._role == ARGUMENTS:
            if self._begun:
                self._role = OTHER
            else:
                self._begun = True
                self._announce()
        return i + 1

    def _value(self, buf: str, i: int, end: int, eof: bool) -> int:
        char = buf[i]
        role = self._role
        if role == ARGUMENTS:
            return self._begin_arguments(buf, i)
        if role == WRAPPER and char == "{":
            self._wrapped += 1
            self._state = _FIRST_KEY
            return i + 1
        if role == WRAPPER:
            role = self._role = NAME
        if role == NAME and (self.name or self.announced):
            role = OTHER  # the first name counts
        if self._is_quote(char) and (role != OTHER or char == "'"):
            return self._begin_string(i, char, role)
        if role == NAME:
            return self._flaw(i)
        if char in '"[{':
            self._skip = JsonSkip(self._ends, value=True)
            self._state = _SKIPPED
            return i
        self._state = _WORD
        stop = BARE(buf, i, i + 1).end()
        return self._flaw(i) if stop == i else stop

    def _after(self, buf: str, i: int, end: int, eof: bool) -> int:
        if buf[i] == ",":
            self._hold = i
            self._state = _KEY
            return i + 1
        return self._close(i) if buf[i] == "}" else self._flaw(i)

    def _close(self, i: int) -> int:
        if self._wrapped:
            self._wrapped -= 1
            self._state = _AFTER
            return i + 1
        if not self.announced:
            if not self.name or self._spec.decision in (STRONG, WEAK):
                return self._flaw(i)
            self.announced = True
            self.early_id = self.id
            self._release()
        if not self._begun:
            self.text += "{}"
        self.status = DONE
        return i + 1

    # -- the arguments -------------------------------------------------------------------------------

    def _begin_arguments(self, buf: str, i: int) -> int:
        if self.name and not self.announced:
            self.announced = True
            self.early_id = self.id
        if buf[i] == "}" and self._spec.tool_key:
            self._begun = False  # no value
            return self._close(i)
        self._inner = JsonArguments(self._ends, self._repair)
        self._state = _ARGUMENTS
        return i

    def _arguments(self, buf: str, i: int, end: int, eof: bool) -> int:
        inner = self._inner
        assert inner is not None
        return self._took(inner.scan(buf, i, end, eof), end)

    def _took(self, stop: int, end: int) -> int:
        """What the arguments' scanner says after it read up to ``stop``."""
        inner = self._inner
        assert inner is not None
        self.in_string = inner.in_string and self.announced
        if inner.notes:
            self.notes += inner.notes
            inner.notes = []
        if self.announced:
            self.text = inner.text
            self.malformed = inner.malformed
        else:
            self.text = ""
            if inner.flaw_at >= 0:
                return self._flaw(inner.flaw_at)
            self._waiting.append(inner.text)
        if inner.status == DONE and inner.as_written:
            self.status = DONE  # at an end marker
        elif inner.status == DONE:
            self._state = _AFTER
        elif stop < end:
            self._hold = stop
            return end
        return stop

    def _announce(self) -> None:
        """Announce the call if it is certain by its name and the arguments' key; FLAWs are the caller's."""
        if self.announced or not self.name:
            return
        decide = self._spec.decision
        if decide == BEGUN:
            # The value's first character is wanted too: it was read if the arguments came first.
            certain = self._inner is not None
        elif decide == STRONG:
            certain = self._begun or self.name in self._offered
        else:
            certain = self._begun
        if certain:
            self.announced = True
            self.early_id = self.id
            self._release()

    def _release(self) -> None:
        self.text += "".join(self._waiting)
        self._waiting = []
        if self._inner is not None and self._inner.malformed:
            self.malformed = True

    # -- strings that are read -----------------------------------------------------------------------

    def _begin_string(self, i: int, quote: str, role: int) -> int:
        self._hold = i
        self._quote = quote
        self._role = role
        self._state = _TEXT
        return i + 1

    def _text(self, buf: str, i: int, end: int, eof: bool) -> int:
        i += self._escaped
        rest = REST(buf, i, end) if self._quote == '"' else REST_SINGLE(buf, i, end)
        self._escaped = rest.end(1) > rest.start(1)
        i = rest.end()
        if i == end:
            return end
        if self._quote == '"':
            return self._string_done(buf, self._hold, i + 1, i)
        self._state = _QUOTE
        return i + 1

    def _single_quote(self, buf: str, i: int, end: int, eof: bool) -> int:
        if buf[i] in ",}]:":
            return self._string_done(buf, self._hold, i, i)
        self._state = _TEXT  # an apostrophe
        return i

    def _too_long(self, i: int) -> bool:
        """Whether the held text, looked at up to ``i``, is over the limit of what it is."""
        naming = self._role == NAME or (self._role == KEY and self._spec.tool_key)
        limit = NAME_LIMIT if naming and self._state != _KEY else UNDECIDED_LIMIT
        return i - self._hold - 1 > limit

    def _string_done(self, buf: str, start: int, stop: int, seen: int) -> int:
        """A string, whole at ``seen``, was read: ``buf[start:stop]`` is it and blanks behind it."""
        if self._too_long(seen):
            return self._flaw(start, "W212")
        notes: list[tuple[str, int, int]] = []
        closed = buf.rfind(self._quote, start, stop) + 1
        value = decode(buf, start, closed, self._repair, notes)
        if value is None:
            return self._flaw(start)
        self.notes += notes
        self._hold = -1
        role = self._role
        self._state = _COLON if role == KEY else _AFTER
        fits = True
        if role == NAME or (role == KEY and self._spec.tool_key):
            fits = self._named(value)
        elif role == KEY:
            fits = self._keyed(value)
        elif role == TYPE:
            fits = self.announced or value == self._spec.type_value
        elif role == ID and not self.id:
            self.id = value
        return stop if fits else self._flaw(start)

    def _keyed(self, key: str) -> bool:
        spec = self._spec
        role = spec.roles.get(key, -1)
        self._role = OTHER if role < 0 else role
        return role >= 0 or self.announced or not spec.strict

    def _named(self, name: str) -> bool:
        if not name or (self._spec.decision >= WEAK and name not in self._offered):
            return False
        self.name = name
        if self._spec.tool_key:
            self._role = ARGUMENTS
        self._announce()
        return True

    # -- what is passed over -------------------------------------------------------------------------

    def _skipped(self, buf: str, i: int, end: int, eof: bool) -> int:
        skip = self._skip
        assert skip is not None
        i = skip.scan(buf, i, end, eof)
        if skip.status == DONE:
            if self._state == _LOST:
                self.status = DONE
            else:
                self._state = _AFTER
        elif i < end:
            self._hold = i
            return end
        return i

    def _flaw(self, i: int, note: str = "") -> int:
        """``buf[i]`` does not fit: no call, or a malformed one if it was announced."""
        self._hold = -1
        self.in_string = False
        if self.announced:
            self.malformed = True
            self._skip = JsonSkip(self._ends, value=False)
            self._state = _LOST
            return i
        if note:
            self.notes.append((note, i, i + 1))
        self.status = FLAW
        return i


#: States in which white space is layout.
_LAYOUT: Final = frozenset((_OPEN, _FIRST_KEY, _KEY, _COLON, _VALUE, _QUOTE, _AFTER))
#: The step of each state, by its number.
_STEPS: Final[tuple[Callable[[EnvelopeScanner, str, int, int, bool], int], ...]] = (
    EnvelopeScanner._open, EnvelopeScanner._key, EnvelopeScanner._key, EnvelopeScanner._colon,
    EnvelopeScanner._value, EnvelopeScanner._text, EnvelopeScanner._single_quote, EnvelopeScanner._bare,
    EnvelopeScanner._after, EnvelopeScanner._arguments, EnvelopeScanner._skipped, EnvelopeScanner._skipped,
)  # fmt: skip
