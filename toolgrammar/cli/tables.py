"""Plain tables: columns by a blank or two, as wide as their contents look in a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from toolgrammar.cli.terminal import Paint, visible


def width(text: str) -> int:
    """How many columns ``text`` takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def clip(text: str, columns: int) -> str:
    """``text`` on one line, cut to ``columns`` with an ellipsis."""
    if width(text) <= columns:
        return text
    while text and width(text) > columns - 1:
        text = text[: min(len(text) - 1, columns)]
    return text + "…"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], paint: Paint, *, right: Sequence[int] = ()) -> str:
    """Rows under a head; the columns in ``right`` are numbers."""
    shown = [[visible(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(width, column)) for column in zip(*shown, strict=True)]
    lines = []
    for number, row in enumerate(shown):
        cells = []
        for at, cell in enumerate(row):
            pad = " " * (widths[at] - width(cell))
            cells.append(pad + cell if at in right else cell + pad)
        line = "  ".join(cells).rstrip()
        lines.append(paint("head", line) if number == 0 else line)
    return "\n".join(lines) + "\n"
