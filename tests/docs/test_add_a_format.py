"""``docs/add-a-format.md``, followed to the letter: its files are written, its commands and its Python are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolgrammar import Parser, errors

PAGE = Path(__file__).parents[2] / "docs" / "add-a-format.md"
_BLOCK = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [match.groups() for match in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
MISTAKES = [
    (text, BLOCKS[n + 1][2].rstrip("\n")) for n, (kind, _, text) in enumerate(BLOCKS) if kind == "tg-error"
]


def environment(folder: Path) -> dict[str, str]:
    """Where ``toolgrammar`` is the one under test and nothing is kept outside ``folder``."""
    command = folder / "bin" / "toolgrammar"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m toolgrammar.cli "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "COLUMNS")}
    return kept | {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "PYTHONUTF8": "1",
    }


def ran(arguments: list[str], folder: Path, variables: dict[str, str]) -> str:
    found = subprocess.run(
        arguments, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert found.returncode in (0, 1)
    return re.sub(r"call_[0-9a-f]{24}", "call_ID", found.stdout.decode())


def test_the_page_leads_to_a_format(tmp_path: Path) -> None:
    variables = environment(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    commands = 0
    for n, (kind, name, text) in enumerate(BLOCKS):
        if kind == "console":
            for step in text.split("$ ")[1:]:
                command, _, shown = step.partition("\n")
                got = ran(["sh", "-c", command], work, variables)
                assert [line.rstrip() for line in got.splitlines()] == shown.splitlines(), command
                commands += 1
        elif kind == "python":
            assert ran([sys.executable, "-c", text], work, variables) == BLOCKS[n + 1][2]
        elif name not in (None, "python"):
            (work / name).write_text(text, encoding="utf-8")
    assert commands >= 10


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
