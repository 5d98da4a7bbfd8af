"""Stop strings, found across tokens.

Of all occurrences in a text, the one that ends first counts, and of those that end together the longest. That is
what a reader sees who looks after every character, so it depends on no cut. Text that may begin a stop string is
held back; it is shorter than the longest one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


class Stops:
    """The stop strings of a request; may be shared by its sequences."""

    __slots__ = ("_strings", "first")

    def __init__(self, strings: Sequence[str]) -> None:
        """``strings``: none of them empty."""
        self._strings = tuple(dict.fromkeys(strings))
        #: Searches for the first character of any of them.
        self.first = re.compile("[" + "".join(re.escape(s[0]) for s in self._strings) + "]").search

    def find(self, text: str, known: int = 0) -> tuple[int, str] | None:
        """Where the first of them begins in ``text``, and which it is; none that ends within the first ``known``
        characters."""
        best: tuple[int, int, str] | None = None
        for string in self._strings:
            at = text.find(string, max(0, known + 1 - len(string)))
            if at >= 0 and (best is None or (at + len(string), at) < best[:2]):
                best = (at + len(string), at, string)
        return None if best is None else (best[1], best[2])

    def waiting(self, text: str) -> int:
        """Where the longest end of ``text`` begins that a stop string begins with; its length if there is none."""
        least = len(text)
        for string in self._strings:
            at = text.find(string[0], max(0, len(text) - len(string) + 1))
            while 0 <= at < least:
                if string.startswith(text[at:]):
                    least = at
                    break
                at = text.find(string[0], at + 1)
        return least
