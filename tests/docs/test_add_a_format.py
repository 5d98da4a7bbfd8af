"""``docs/add-a-format.md``, followed to the letter: its files are written, its commands and its Python are run."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from docs.running import commands, environment, ran

from toolgrammar import Parser, errors

PAGE = Path(__file__).parents[2] / "docs" / "add-a-format.md"
_BLOCK = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [match.groups() for match in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
MISTAKES = [
    (text, BLOCKS[n + 1][2].rstrip("\n")) for n, (kind, _, text) in enumerate(BLOCKS) if kind == "tg-error"
]


def test_the_page_leads_to_a_format(tmp_path: Path) -> None:
    variables = environment(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    count = 0
    for n, (kind, name, text) in enumerate(BLOCKS):
        if kind == "console":
            for command, shown in commands(text):
                assert ran(["sh", "-c", command], work, variables) == shown, command
                count += 1
        elif kind == "python":
            assert ran([sys.executable, "-c", text], work, variables) == BLOCKS[n + 1][2]
        elif name not in (None, "python"):
            (work / name).write_text(text, encoding="utf-8")
    assert count >= 10


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_the_mistakes_show_their_message(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("grammar.tg").write_text(text, encoding="utf-8")
    with pytest.raises(errors.GrammarError) as caught:
        Parser(grammar="grammar.tg")
    assert str(caught.value) == message


def test_every_file_the_page_names_is_there(root: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"\]\(([\w.-]+)(?:#[\w-]+)?\)", page):
        assert (root / "docs" / name).is_file(), name
    for name in re.findall(r"`(families/[\w-]+)`", page):
        assert (root / "grammars" / f"{name}.tg").is_file(), name
