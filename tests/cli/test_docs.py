"""``docs/cli.md`` says what is there."""

from __future__ import annotations

import re
from pathlib import Path

from toolgrammar.cli.app import COMMANDS
from toolgrammar.cli.errors import EXIT_CODES, PAGES


def test_the_tables_are_complete(root: Path) -> None:
    page = (root / "docs" / "cli.md").read_text(encoding="utf-8")
    codes = re.findall(r"^\| (E\d+) \| (\d) \| (.*) \|$", page, re.MULTILINE)
    assert codes == [(code, str(each.exit), each.title) for code, each in PAGES.items()]
    exits = re.findall(r"^\| (\d+) \| ", page, re.MULTILINE)
    assert [int(code) for code in exits] == list(EXIT_CODES)
    for name in COMMANDS:
        assert f"`{name}" in page
