"""Markdown of texts that are full of markup themselves: what is shown is what the text says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from toolgrammar.language.writer import literal

_SPECIAL = re.compile(r"([\\<*_\[\]|&`~])")


def prose(text: str, *, cell: bool = False) -> str:
    """Running text; what stands between backquotes stays code, everything else is as it is."""
    parts = re.split(r"(?<!`)(`[^`\n]+`)(?!`)", " ".join(text.split()))
    return "".join(
        code(part[1:-1], cell=cell) if place % 2 else _SPECIAL.sub(r"\\\1", part)
        for place, part in enumerate(parts)
    )


def code(text: str, *, cell: bool = False) -> str:
    """A code span; line feeds are ``↵``, blanks at its ends ``␣``. In a table, a ``cell``, bars are escaped."""
    shown = literal(text.replace("\n", "↵"))[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    shown = re.sub("^ +| +$", lambda blanks: "␣" * len(blanks[0]), shown)
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    pad = " " if "`" in (shown[:1], shown[-1:]) else ""
    shown = f"{fence}{pad}{shown}{pad}{fence}"
    return shown.replace("|", "\\|") if cell else shown


def codes(texts: Iterable[str], *, cell: bool = False) -> str:
    """Several code spans."""
    return ", ".join(code(text, cell=cell) for text in texts)


def block(text: str, language: str = "text") -> str:
    """A fenced block."""
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in _lines(head, rows))


def shortened(text: str, limit: int) -> str:
    """The text, its middle left out where it is long."""
    if len(text) <= limit:
        return text
    return f"{text[: limit * 2 // 3]}…{text[-(limit - limit * 2 // 3 - 1) :]}"


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    yield head
    yield ["---"] * len(head)
    yield from rows
