"""``docs/diagnostics.md`` lists every code, and its examples give them."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.notation import cells, code, lines

from toolgrammar import Diagnostic, Parser
from toolgrammar.diagnostics import CODES

ROOT = Path(__file__).parents[2]
TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"s": {"type": "string"}}}}]
ROWS = [
    row for line in (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8").splitlines()
    if len(row := cells(line)) == 5 and row[0] in CODES
]  # fmt: skip
EXAMPLES = [(row[0], row[3], lines(code(row[4])).replace("…", "x" * 70_000)) for row in ROWS if row[4]]


def test_the_table_is_complete() -> None:
    assert [(row[0], row[2]) for row in ROWS] == list(CODES.items())
    assert [row[1] for row in ROWS] == [Diagnostic(number, "", 0, 0).severity for number in CODES]


@pytest.mark.parametrize(("number", "name", "text"), EXAMPLES, ids=[row[0] for row in EXAMPLES])
def test_the_example_gives_the_code(number: str, name: str, text: str) -> None:
    for size in (len(text), 1 if len(text) < 1000 else 400):
        parser = Parser(name, tools=TOOLS)
        for at in range(0, len(text), size):
            parser.feed(text[at : at + size])
        parser.finish()
        found = parser.message().diagnostics
        assert {each.code for each in found} == {number}
        assert all(each.message.startswith(CODES[number]) for each in found)


def test_codes_without_an_example_are_given_by_nothing() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "toolgrammar").rglob("*.py")
        if path.name != "diagnostics.py" and "cli" not in path.parts
    )
    assert [row[0] for row in ROWS if not row[4]] == [each for each in CODES if f'"{each}"' not in sources]
