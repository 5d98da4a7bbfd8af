"""The base of the renderer's steps: what is to be said, and how a token comes onto the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from toolgrammar.readings.book import Book
from toolgrammar.readings.paper import Paper, Token, text_before
from toolgrammar.readings.style import Style
from toolgrammar.readings.turns import Called, Part
from toolgrammar.schema import ToolTable


class Pen:
    """Writes tokens. ``parts`` is what must be said, in order."""

    def __init__(self, book: Book, parts: Sequence[Part], table: ToolTable, style: Style) -> None:
        self.book = book
        self.grammar = book.grammar
        self.chains, self.first = book.chains, book.first
        self.kinds, self.controls = book.kinds, book.controls
        self.again, self.sections = book.again, book.sections
        self.parts = parts
        self.table = table
        self.style = style
        self.furthest = -1
        self.why_not = ""

    def done(self, paper: Paper) -> bool:
        """Whether the end of the turn may be here."""
        return paper.part == len(self.parts) and not paper.need and not paper.unfinished

    def trouble(self) -> str:
        """Why the furthest way ended."""
        what = "the turn" if self.furthest < 0 else _name(self.parts, self.furthest)
        return f"{what} cannot be written" + (f": {self.why_not}" if self.why_not else " in this format")

    def no(self, paper: Paper, why: str) -> list[Paper]:
        """This is no way on."""
        if paper.part >= self.furthest:
            self.furthest, self.why_not = paper.part, why
        return []

    def next_call(self, paper: Paper) -> Called | None:
        """The call to be written next, or being written."""
        part = self.parts[paper.part] if paper.part < len(self.parts) else None
        return part if isinstance(part, Called) else None

    def needing(self, paper: Paper, markers: set[str]) -> list[Paper]:
        """``paper`` where one of ``markers`` must follow, and what must follow already."""
        if paper.need:
            markers = {one for one in markers if one.startswith(paper.need)} | {
                one for one in paper.need if one.startswith(tuple(markers))
            }
        return [replace(paper, need=tuple(sorted(markers)))] if markers else []

    def put(self, paper: Paper, kind: Any, text: str, slot: int = -1) -> list[Paper]:
        """``paper`` with one more token, if that is what must follow."""
        if paper.over or (paper.need and not text.startswith(paper.need)):
            return []
        if any(closer in text for closer in paper.closers):
            return self.no(paper, "it holds what ends reasoning, inside a call in reasoning")
        before = text_before(paper.last)
        if before and kind in ("mark", "control"):
            live = (text, *self.grammar.stops, *self.grammar.skips, *self.controls)
            if any(0 <= (before + text).find(marker) < len(before) for marker in live):
                return self.no(replace(paper, part=paper.part - 1), f"its end runs into {text!r}")
        return [
            replace(
                paper,
                last=Token(kind, text, paper.last, slot),
                need=(),
                skipped=frozenset(),
                heads=frozenset(),
                unfinished=False,
            )
        ]


def with_register(paper: Paper, register: str, value: str) -> Paper:
    """``paper`` with ``register`` set."""
    return replace(paper, regs=tuple(sorted({**dict(paper.regs), register: value}.items())))


def _name(parts: Sequence[Part], place: int) -> str:
    if place >= len(parts):
        return "the end of the turn"
    part = parts[place]
    return f"the call of {part.name!r}" if isinstance(part, Called) else f"the {part.sink} {part.text[:40]!r}"
