"""A grammar file's text, and what is known of the places in it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from toolgrammar.combinators import Grammar
from toolgrammar.errors import Where


class Source(NamedTuple):
    """A grammar, where each of its rules was written, and the files it is made of."""

    grammar: Grammar
    where: Mapping[str, Where]
    files: tuple[str, ...]


class Page:
    """A grammar file's text, able to say where an offset is."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text

    @cached_property
    def _starts(self) -> list[int]:
        """The offset of each line, and one beyond the last."""
        return [0, *accumulate(len(line) + 1 for line in self.text.split("\n"))]

    def where(self, offset: int) -> Where:
        """The place of the character at ``offset``."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self._starts, offset)
        start = self._starts[line - 1]
        text = self.text[start : self._starts[line] - 1]
        return Where(self.file, line, offset - start + 1, text)
