"""The contract of a value scanner: plain state, fed a growing buffer, yielding argument text.

A scanner owns one value of a call (a JSON object, a raw parameter, a Python argument list ...). The
machine gives it the unconsumed input and asks how far it got:

    pos = scanner.scan(buf, pos, end, eof)

* It consumes ``buf[old_pos:pos]``; what lies behind ``pos`` is presented again, with more text behind
  it, at the next call. It may leave unconsumed only what is undecided (a cut escape, a number, a
  possible marker), so that the machine's memory stays bounded.
* ``scanner.text`` is the argument text this call made final (JSON, ready for the client), ``""`` if none.
* ``scanner.status`` is ``MORE``, ``DONE`` (the value ended at ``pos``) or ``FLAW`` (``buf[pos:]`` cannot
  continue the value; everything before ``pos`` stands).
* ``scanner.malformed`` says that the text, passed on as written, is not what the format promises.
* ``scanner.notes`` lists repairs as ``(code, start, end)`` with offsets into ``buf``; the machine drains it.
* While ``in_string`` is true, a delta in which ``string_stop`` finds nothing is argument text as it stands:
  the machine passes it on without calling ``scan``.
* While ``quiet`` is not None, a delta in which it finds nothing decides nothing: the machine adds it to what
  is undecided without calling ``scan``.
* Any cut of the input gives the same joined ``text``, the same end and the same status.
* With ``eof`` true, ``buf[pos:end]`` is all there will ever be: the scanner releases what is sound and
  stays at ``MORE`` if the value did not end.

Cost is linear in the input for any input. Nothing here raises on model output.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

MORE: Final = 0
DONE: Final = 1
FLAW: Final = 2

#: Containers open in one another; what nests deeper is not valid: no decoder would read it.
DEPTH_LIMIT: Final = 512

#: Finds the end of a word, and of a quoted string.
WORD_END: Final = re.compile(r"[^0-9A-Za-z_]").search
STRING_END: Final = re.compile(r"""["'\\]""").search
#: Finds what may end a key with its colon, or show that none comes.
KEY_END: Final = re.compile(r"""[^\w\s"./-]""").search
#: Finds a character that means something inside a JSON string.
JSON_SPECIAL: Final = re.compile(r'["\\\x00-\x1f]').search


class Scanner:
    """Base of all value scanners. Instances are copied with ``copy`` and pickled as plain data."""

    __slots__ = ("malformed", "notes", "status", "text")

    in_string: bool = False
    string_stop: Callable[..., Any] = JSON_SPECIAL
    quiet: Callable[..., Any] | None = None

    @property
    def is_object(self) -> bool:
        """Whether the value began as the object it should be."""
        return True

    @property
    def lost(self) -> bool:
        """Whether the value is broken and passed on as written, to an end that has not come."""
        return self.malformed

    @property
    def quoting(self) -> bool:
        """Whether the scanner stands inside a JSON string, where markers are data."""
        return False

    def __init__(self) -> None:
        self.text: str = ""
        self.status: int = MORE
        self.malformed: bool = False
        self.notes: list[tuple[str, int, int]] = []

    def scan(self, buf: str, pos: int, end: int, eof: bool) -> int:
        """Consume from ``buf[pos:end]``; return the new position."""
        raise NotImplementedError

    def direct(self) -> Scanner | None:
        """The scanner to ask in this one's place as long as it says MORE and notes nothing."""
        return self

    def copy(self) -> Scanner:
        """An independent scanner in the same state."""
        raise NotImplementedError
