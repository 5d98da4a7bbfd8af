"""The tables of ``docs/holdback.md`` and ``docs/truncation.md`` are what happens, and the limits the code's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from docs.notation import cells, code, codes, lines, shown

from toolgrammar import Parser, combinators
from toolgrammar.machine import held_scanner, program, speculation, steps

DOCS = Path(__file__).parents[2] / "docs"
PROPERTIES = {"n": {"type": "integer"}, "s": {"type": "string"}}
TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": PROPERTIES}}]


def table(page: str, width: int) -> list[list[str]]:
    rows = [cells(line) for line in (DOCS / page).read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if len(row) == width and row[0] not in ("format", "limit", "part", "---")]


@pytest.mark.parametrize("row", table("holdback.md", 5), ids=lambda row: row[1])
def test_what_leaves_when(row: list[str]) -> None:
    name, _, fed, said, held = row
    parser = Parser(name, tools=TOOLS)
    got: list[Any] = []
    for piece in codes(fed):
        got.append((shown(parser.feed(lines(piece))), parser.held))
    wanted = [codes(part) for part in re.split(r"(?:^|(?<= ))/(?= |$)", said)]
    assert got == list(zip(wanted, map(int, held.split()), strict=True))


@pytest.mark.parametrize("row", table("truncation.md", 4), ids=lambda row: row[1])
def test_what_a_cut_output_gives(row: list[str]) -> None:
    name, text, said, tail = row
    for pieces in ([code(text)], list(code(text))):
        parser = Parser(name, tools=TOOLS)
        events = [event for piece in pieces for event in parser.feed(piece)]
        events += parser.finish()
        message = parser.message()
        assert shown(events) + ["unfinished"] * message.unfinished == codes(said)
        assert message.tail == code(tail)


def test_the_limits_are_those_of_the_code() -> None:
    assert held_scanner.KEY_LIMIT == steps.FRESH_LIMIT
    limits = [combinators.FIELD_LIMIT, program.RUN_LIMIT, steps.FRESH_LIMIT, speculation.HELD_LIMIT]
    assert [int(row[0]) for row in table("holdback.md", 2)] == limits
