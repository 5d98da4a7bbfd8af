"""Figures as a railroad picture: SVG of plain shapes, on its own ground, light or dark as the reader's system is.

    >>> svg = railroad(figures(registry.load("hermes")), "hermes")

One diagram per rule, read left to right. Rounded boxes are literals, rectangles rules, words text and values,
slanted boxes conditions; a dashed frame must follow and is not taken, a plain one is the extent of a call.
A diagram too wide goes on in a line below. The same figures give the same bytes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from toolgrammar.language.writer import literal
from toolgrammar.readings.figures import AHEAD, Figure, Figures, Frame, Leaf, Loop, Row, Ways, shown_spellings

#: Pixels: a character, the radius of a bend, space between things, half a box, the widest diagram.
_CHAR, _BEND, _GAP, _HALF, _WIDEST = 7.25, 8, 10, 12, 880
#: Characters of a condition that are shown.
_SHOWN = 44

_STYLE = """
svg { --page: #ffffff; --ink: #24292f; --line: #57606a; --dim: #6e7781;
  --lit: #ddf4ff; --rule: #fff8c5; --cond: #f6f8fa }
@media (prefers-color-scheme: dark) {
  svg { --page: #0d1117; --ink: #e6edf3; --line: #8b949e; --dim: #9198a1;
    --lit: #0c2d6b; --rule: #4d3800; --cond: #21262d }
}
.page { fill: var(--page, #ffffff) }
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: var(--ink, #24292f); white-space: pre }
.name { font-weight: bold; font-size: 13px }
.dim { fill: var(--dim, #6e7781); font-style: italic }
.start { fill: var(--dim, #6e7781); font-size: 11px; font-weight: normal }
path { fill: none; stroke: var(--line, #57606a); stroke-width: 1.4 }
rect, polygon { stroke: var(--line, #57606a); stroke-width: 1 }
.literal { fill: var(--lit, #ddf4ff) } .rule { fill: var(--rule, #fff8c5) }
.word { fill: none; stroke: none } .guard { fill: var(--cond, #f6f8fa) }
.frame { fill: none; stroke: var(--dim, #6e7781) }
.ahead { stroke-dasharray: 4 3 }
.end { fill: var(--line, #57606a); stroke: none }
""".strip()

Draw = Callable[[float, float], list[str]]


@dataclass(frozen=True)
class Box:
    """Something to draw from where the line comes in. It leaves at the right, ``fall`` further down."""

    width: float
    up: float
    fall: float
    down: float
    draw: Draw


def railroad(found: Figures, title: str) -> str:
    """The picture of all rules, one below the other."""
    starts = {rule: state for state, rule in reversed(found.starts.items())}
    parts: list[str] = []
    y, width = 14.0, 0.0
    for name, body in found.rules.items():
        box = _laid(body, _WIDEST)
        said = (
            f'<tspan class="start" dx="12">the turn starts here: {starts[name]}</tspan>' if name in starts else ""
        )
        parts.append(f'<text class="name" x="14" y="{_n(y + 10)}">{escape(name)}{said}</text>')
        y += 24 + box.up
        parts += _framed(box, y)
        y += box.fall + box.down + 22
        width = max(width, box.width + 68)
    size = f'width="{_n(width)}" height="{_n(y)}" viewBox="0 0 {_n(width)} {_n(y)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<title>{escape(title)}</title>'
    ground = f'<rect class="page" x="0.5" y="0.5" width="{_n(width - 1)}" height="{_n(y - 1)}" rx="6"/>'
    return "\n".join([head, f"<style>\n{_STYLE}\n</style>", ground, *parts, "</svg>"]) + "\n"


def _framed(box: Box, y: float) -> list[str]:
    """A diagram with its ends."""
    x, end = 34.0, 34.0 + box.width
    return [
        f'<circle class="end" cx="20" cy="{_n(y)}" r="4"/>',
        _path(20, y, f"H {_n(x)}"),
        *box.draw(x, y),
        _path(end, y + box.fall, "h 14"),
        f'<circle class="end" cx="{_n(end + 14)}" cy="{_n(y + box.fall)}" r="4"/>',
    ]


# ---- layout -----------------------------------------------------------------------------------------------------


def _laid(figure: Figure, room: float) -> Box:
    match figure:
        case Leaf():
            return _leaf(figure)
        case Row(items):
            return _row([_laid(item, room) for item in items], room)
        case Ways(arms):
            return _ways([_laid(arm, room - 4 * _BEND) for arm in arms])
        case Loop(item, between):
            return _loop(_laid(item, room - 2 * _BEND), _laid(_backwards(between), room - 2 * _BEND))
        case Frame(item, label):
            return _frame(_laid(item, room - 2 * _GAP), label)
    raise TypeError(f"{figure!r} is no figure")


def _leaf(leaf: Leaf) -> Box:
    text = leaf.text
    if leaf.kind == "literal":
        several = shown_spellings(leaf)
        if len(several) > 1:
            return _ways([_leaf(Leaf("literal", each, place=leaf.place)) for each in several])
        text = literal(text)[1:-1].replace('\\"', '"').replace(" ", "␣" if text.strip() != text else " ")
    if leaf.kind == "guard" and len(text) > _SHOWN:
        text = text[: _SHOWN - 1] + "…"
    before = f"{leaf.place} " if leaf.place else ""
    after = " …" if leaf.more else ""
    margin = 4 if leaf.kind == "word" else 12
    width = _width(before + text + after) * _CHAR + 2 * margin
    hints = [f'<tspan class="dim">{hint}</tspan>' if hint else "" for hint in (before, after)]

    def draw(x: float, y: float) -> list[str]:
        label = f'<text x="{_n(x + margin)}" y="{_n(y + 4)}">{hints[0]}{escape(text)}{hints[1]}</text>'
        return [_shape(leaf.kind, x, y, width), label]

    return Box(width, _HALF, 0, _HALF, draw)


def _shape(kind: str, x: float, y: float, width: float) -> str:
    if kind == "guard":
        a, b, c, d = x + 5, x + width, x + width - 5, x
        corners = [(a, y - _HALF), (b, y - _HALF), (c, y + _HALF), (d, y + _HALF)]
        return f'<polygon class="guard" points="{" ".join(f"{_n(p)},{_n(q)}" for p, q in corners)}"/>'
    return _rectangle(kind, x, y - _HALF, width, 2 * _HALF, _HALF if kind == "literal" else 0)


def _row(boxes: Sequence[Box], room: float) -> Box:
    """One after the other, in several lines if they are wider than the room."""
    lines: list[list[Box]] = [[]]
    for box in boxes:
        if lines[-1] and sum(each.width + _GAP for each in lines[-1]) + box.width > room - 2 * _BEND:
            lines.append([])
        lines[-1].append(box)
    rows = [_line(line) for line in lines]
    return rows[0] if len(rows) == 1 else _stack(rows)


def _line(boxes: Sequence[Box]) -> Box:
    if len(boxes) == 1:
        return boxes[0]
    falls = [sum(box.fall for box in boxes[:n]) for n in range(len(boxes) + 1)]
    up = max((box.up - fall for box, fall in zip(boxes, falls, strict=False)), default=0)
    low = max((fall + box.fall + box.down for box, fall in zip(boxes, falls, strict=False)), default=0)
    width = sum(box.width for box in boxes) + _GAP * max(len(boxes) - 1, 0)

    def draw(x: float, y: float) -> list[str]:
        parts: list[str] = []
        for n, box in enumerate(boxes):
            if n:
                parts.append(_path(x, y, f"h {_GAP}"))
                x += _GAP
            parts += box.draw(x, y)
            x, y = x + box.width, y + box.fall
        return parts

    return Box(width, up, falls[-1], low - falls[-1], draw)


def _stack(rows: Sequence[Box]) -> Box:
    """Lines below each other: the end of one goes back to the left, to where the next begins."""
    width = max(row.width for row in rows) + 2 * _BEND
    entries, turns = [0.0], []
    for row, after in pairwise(rows):
        leaves_at = entries[-1] + row.fall
        turns.append(max(leaves_at + 2 * _BEND, leaves_at + row.down + _GAP))
        entries.append(max(turns[-1] + 2 * _BEND, turns[-1] + _GAP + after.up))
    fall = entries[-1] + rows[-1].fall

    def draw(x: float, y: float) -> list[str]:
        parts = [_path(x, y, f"h {_BEND}")]
        left = x + _BEND
        for n, row in enumerate(rows):
            at = y + entries[n]
            parts += row.draw(left, at)
            end = at + row.fall
            if n == len(rows) - 1:
                parts.append(_path(left + row.width, end, f"H {_n(x + width)}"))
            else:
                back, down = y + turns[n], y + entries[n + 1]
                parts.append(
                    _path(left + row.width, end, _bend(1, 1), f"V {_n(back - _BEND)}", _bend(-1, 1, 1),
                          f"H {_n(left)}", _bend(-1, 1, 0), f"V {_n(down - _BEND)}", _bend(1, 1, 0))
                )  # fmt: skip
        return parts

    return Box(width, rows[0].up, fall, rows[-1].down, draw)


def _ways(arms: Sequence[Box]) -> Box:
    """The first way straight on, the others below it."""
    offsets = [0.0]
    for before, arm in pairwise(arms):
        least = max(2 * _BEND, arms[0].fall + 2 * _BEND - arm.fall)
        offsets.append(max(least, offsets[-1] + before.fall + before.down + _GAP + arm.up))
    inner = max(arm.width for arm in arms)
    width = inner + 4 * _BEND
    fall = arms[0].fall
    low = max(at + arm.fall + arm.down for at, arm in zip(offsets, arms, strict=True))

    def draw(x: float, y: float) -> list[str]:
        left, right, end = x + 2 * _BEND, x + width, y + fall
        parts = [
            _path(x, y, f"h {2 * _BEND}"),
            *arms[0].draw(left, y),
            _path(left + arms[0].width, end, f"H {_n(right)}"),
        ]
        for at, arm in zip(offsets[1:], arms[1:], strict=True):
            parts.append(_path(x, y, _bend(1, 1), f"V {_n(y + at - _BEND)}", _bend(1, 1, 0)))
            parts += arm.draw(left, y + at)
            to = f"H {_n(right - 2 * _BEND)}", _bend(1, -1, 0), f"V {_n(end + _BEND)}", _bend(1, -1)
            parts.append(_path(left + arm.width, y + at + arm.fall, *to))
        return parts

    return Box(width, arms[0].up, fall, low - fall, draw)


def _loop(item: Box, between: Box) -> Box:
    """The item, and below it a way back through what stands between."""
    inner = max(item.width, between.width)
    width = inner + 2 * _BEND
    at = max(item.fall + 2 * _BEND, item.fall + item.down + _GAP + between.up)

    def draw(x: float, y: float) -> list[str]:
        left, right, end, back = x + _BEND, x + width - _BEND, y + item.fall, y + at
        start = left + (inner - between.width) / 2
        parts = [
            _path(x, y, f"h {_BEND}"),
            *item.draw(left, y),
            _path(left + item.width, end, f"H {_n(right + _BEND)}"),
        ]
        parts.append(
            _path(right, end, _bend(1, 1), f"V {_n(back - _BEND)}", _bend(-1, 1), f"H {_n(start + between.width)}")
        )
        parts.append(_path(start, back, f"H {_n(left)}", _bend(-1, -1), f"V {_n(y + _BEND)}", _bend(1, -1)))
        parts.append(f'<path class="end" d="M {_n(left + 1)} {_n(back)} l 6 -4 v 8 z"/>')
        return [*parts, *between.draw(start, back)]

    return Box(width, item.up, item.fall, at - item.fall + between.fall + between.down, draw)


def _backwards(figure: Figure) -> Figure:
    """What stands on a way back, in the order in which it is come by."""
    return Row(figure.items[::-1]) if isinstance(figure, Row) else figure


def _frame(item: Box, label: str) -> Box:
    width = max(item.width, _width(label) * 6.5) + 2 * _GAP

    def draw(x: float, y: float) -> list[str]:
        top = y - item.up - 6
        kind = "frame ahead" if label == AHEAD else "frame"
        return [
            _rectangle(kind, x, top, width, item.up + item.fall + item.down + 12, 4),
            f'<text class="dim" x="{_n(x + 2)}" y="{_n(top - 3)}" style="font-size:10px">{escape(label)}</text>',
            _path(x, y, f"h {_GAP}"),
            *item.draw(x + _GAP, y),
            _path(x + _GAP + item.width, y + item.fall, f"H {_n(x + width)}"),
        ]

    return Box(width, item.up + 20, item.fall, item.down + 8, draw)


# ---- drawing ----------------------------------------------------------------------------------------------------


def _path(x: float, y: float, *steps: str) -> str:
    return f'<path d="M {_n(x)} {_n(y)} {" ".join(steps)}"/>'


def _bend(right: int, down: int, clockwise: int = 1) -> str:
    return f"a {_BEND} {_BEND} 0 0 {clockwise} {right * _BEND} {down * _BEND}"


def _rectangle(kind: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    where = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
    return f'<rect class="{kind}" {where}' + (f' rx="{_n(radius)}"/>' if radius else "/>")


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
