"""``HeldScanner``: a value scanner that reads ahead of what it consumes, so that undecided text is read once.

    list: [1, 2      the ``[`` and the 1 have been consumed and written; the comma and the 2, which may grow,
                     are only read: _mark is at the comma, _ahead is 3, _held is [", "]

While something is undecided the scanner consumes nothing: ``_mark`` is where that text begins and ``_ahead``
how far behind it reading has come. Output that is certain goes to ``_out``, output that depends on the
decision to ``_held``. A decision releases what is held, a flaw drops it and leaves the text from the mark on.

A subclass is a table of steps, one for each state: a step reads on from ``cur`` and returns the position it
came to. Returning ``cur`` without changing the state says that the buffer ends too early to go on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from toolgrammar.machine.scanner import DONE, FLAW, Scanner

#: Reads on in one state: scanner, buffer, position, end of the buffer.
Step: TypeAlias = Callable[[Any, str, int, int], int]
#: Finds what may decide something in a state; None: anything may.
Quiet: TypeAlias = Callable[..., Any] | None

BODY: Final = 0  # the state of every subclass inside a string
STOPPED: Final = -1  # DONE or FLAW: the last step of every table, which goes nowhere

#: The most characters a key may take, white space up to its ``:`` or ``=`` included.
KEY_LIMIT: Final = 4096

SPACE: Final = " \t\r\n"
_space: Final[Callable[..., Any]] = re.compile(f"[{SPACE}]*").match
_nothing: Final = re.compile(r"(?!)").search


def skip_space(buf: str, cur: int, end: int) -> int:
    """The position behind white space. Callers look first if ``buf[cur] <= " "``: mostly there is none."""
    stop: int = _space(buf, cur, end).end()
    return stop


def stopped(scanner: Any, buf: str, cur: int, end: int) -> int:
    """The step of a scanner that is not to read on."""
    return cur


class HeldScanner(Scanner):
    """Base of the scanners of notations that are not JSON."""

    __slots__ = (
        "_ahead",
        "_held",
        "_holding",
        "_key_at",
        "_mark",
        "_out",
        "_separated",
        "_state",
        "in_string",
        "quiet",
        "string_stop",
    )

    def __init__(self, state: int) -> None:
        super().__init__()
        self._state: int = state
        self._mark: int = 0
        self._ahead: int = 0
        self._holding: bool = False
        self._held: list[str] = []
        self._out: list[str] = []
        self._separated: bool = False  # the last held piece is a comma
        self._key_at: int = -1  # where the key being read begins, from the mark; -1: none is
        #: True where a delta in which ``string_stop`` finds nothing is argument text as it stands.
        self.in_string: bool = False
        self.quiet: Callable[..., Any] | None = None
        #: Bound ``search`` for the special characters of the open string. Valid while ``in_string``.
        self.string_stop: Callable[..., Any] = _nothing

    def scan(self, buf: str, pos: int, end: int, eof: bool) -> int:
        """Consume from ``buf[pos:end]``. The end of the input decides nothing: ``eof`` is not looked at."""
        self._mark = pos
        cur = pos + self._ahead
        steps = self._steps()
        state = self._state
        while cur < end:
            at = cur
            cur = steps[state](self, buf, at, end)
            if cur == at and self._state == state:
                break
            state = self._state
        self.text = "".join(self._out)
        self._out.clear()
        # What was cut in two may be decided by any character.
        self.quiet = self._quiet()[state] if cur == end else None
        if not self._holding:
            self._ahead = 0
            self.in_string = state == BODY and cur == end
            return cur
        self.in_string = False
        if state == BODY and cur == end:
            self.quiet = self.string_stop
        mark = self._mark
        ahead = self._ahead = cur - mark
        if ahead > KEY_LIMIT and self._key_at >= 0 and self._key_too_long(cur):
            return self._flaw(cur)
        return mark

    def _steps(self) -> tuple[Step, ...]:
        """The step of each state, ``stopped`` last."""
        raise NotImplementedError

    def _quiet(self) -> tuple[Quiet, ...]:
        """For each state, what finds a character that may decide something there; None last."""
        raise NotImplementedError

    def _put(self, text: str) -> None:
        (self._held if self._holding else self._out).append(text)

    def _hold(self, cur: int) -> None:
        """From ``cur`` on nothing is certain, unless something before it already is not."""
        if not self._holding:
            self._holding = True
            self._mark = cur

    def _separate(self, cur: int) -> None:
        """A comma that counts only if a member follows."""
        self._hold(cur)
        self._held.append(", ")
        self._separated = True

    def _drop_separator(self) -> None:
        if self._separated:
            self._held.pop()
            self._separated = False

    def _release(self) -> None:
        """What is held is certain."""
        self._holding = False
        if self._held:
            self._out += self._held
            self._held.clear()
            self._separated = False

    def _key_too_long(self, cur: int) -> bool:
        """Asked wherever a key may be decided too, so that the answer does not depend on the input's cuts."""
        return cur - self._mark - self._key_at > KEY_LIMIT

    def _flaw(self, cur: int) -> int:
        """Nothing goes on at ``cur``. What is held falls back into the text that was not consumed."""
        self.status = FLAW
        self._state = STOPPED
        self.quiet = None
        self._held.clear()
        if self._holding:
            self._holding = False
            return self._mark
        return cur

    def _done(self, cur: int) -> int:
        self.status = DONE
        self._state = STOPPED
        return cur

    def _copy_to(self, twin: HeldScanner) -> None:
        """Give ``twin`` this scanner's state."""
        twin.text, twin.status, twin.malformed = self.text, self.status, self.malformed
        twin.notes = self.notes[:]
        twin._state, twin._mark, twin._ahead = self._state, self._mark, self._ahead
        twin._holding = self._holding
        twin._held, twin._out = self._held[:], self._out[:]
        twin._separated, twin._key_at = self._separated, self._key_at
        twin.in_string, twin.string_stop, twin.quiet = self.in_string, self.string_stop, self.quiet
