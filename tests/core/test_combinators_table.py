"""Every row of the table in ``docs/combinators.md`` does what it says, for every way of cutting its input."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from docs.notation import cells, code, codes, lines, shown

from toolgrammar import Parser
from toolgrammar import combinators as c
from toolgrammar.language import read_grammar
from toolgrammar.machine.checks import walk
from toolgrammar.testing import every_split

PAGE = Path(__file__).parents[2] / "docs" / "combinators.md"
HEADER = '@start content = turn\n@stop "<|end|>"\n'
PROPERTIES = {"n": {"type": "integer"}, "s": {"type": "string"}}
TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": PROPERTIES}}]


class Row(NamedTuple):
    """One row. ``said``: its events, then ``unfinished`` if the message is."""

    node: str
    written: str
    given: str
    said: list[str]
    rest: str


def rows() -> tuple[list[str], list[Row]]:
    """The themes with the nodes under each, and the rows."""
    themes: list[str] = []
    found: list[Row] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        row = cells(line)
        if len(row) != 6 or row[0] in ("node", "---"):
            continue
        node, _, written, given, said, rest = row
        if (name := code(node) or node.strip("*")) not in themes:
            themes.append(name)
        if written:
            found.append(Row(name, code(written), lines(code(given)), codes(said), lines(code(rest))))
    return themes, found


def feed(row: Row, pieces: list[str]) -> tuple[list[str], str]:
    parser = Parser(grammar=read_grammar(f"{HEADER}turn : {row.written}\n"), tools=TOOLS)
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.finish()
    message = parser.message()
    return shown(events) + ["unfinished"] * message.unfinished, message.tail


THEMES, ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.node}-{n}" for n, row in enumerate(ROWS)])
def test_row(row: Row) -> None:
    assert feed(row, [row.given]) == (row.said, row.rest)
    assert feed(row, list(row.given)) == (row.said, row.rest)
    for pieces in every_split(row.given):
        assert feed(row, pieces) == (row.said, row.rest)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.node}-{n}" for n, row in enumerate(ROWS)])
def test_the_notation_makes_the_node(row: Row) -> None:
    grammar = read_grammar(f"{HEADER}turn : {row.written}\n")
    assert getattr(c, row.node) in {type(node) for rule in grammar.rules.values() for node in walk(rule)}


def test_the_table_has_every_node_by_theme() -> None:
    assert c.__doc__ is not None
    listed = c.__doc__.split("Nodes by theme\n")[1]
    assert [word for line in listed.splitlines() for word in line.split()] == THEMES
