"""The README: its Python and its commands run, what it names is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from docs.running import commands, environment, ran

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_the_commands_show_what_it_says(tmp_path: Path) -> None:
    variables = environment(tmp_path)
    steps = [step for kind, block in BLOCKS if kind == "console" for step in commands(block)]
    assert len(steps) >= 2
    for command, shown in steps:
        assert ran(["sh", "-c", command], ROOT, variables) == shown, command


def test_the_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "fixtures" / "captures" / "deepseek-v3.txt").read_text(encoding="utf-8")
    coder = (ROOT / "fixtures" / "captures" / "qwen3-coder.txt").read_text(encoding="utf-8")
    given: dict[str, Any] = {"text": text, "tools": None, "stream": [coder[:500], coder[500:]]}
    for kind, block in BLOCKS:
        if kind == "python":
            exec(block, given)
    out = capsys.readouterr().out
    assert "[('find_trains', {'origin': 'Basel SBB', " in out
    assert "CallEnd(index=1, " in out
    assert [call.name for call in given["message"].calls] == ["edit_file", "run_tests"]


def test_the_tests_that_keep_the_promises_are_there() -> None:
    rows = re.findall(r"^\| (\d) \| .* \| `(\S+)::(\w+)` \|$", README, re.MULTILINE)
    assert [number for number, *_ in rows] == list("123456")
    for _, file, name in rows:
        assert f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    file = ROOT / page
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", file.read_text(encoding="utf-8")):
        found = file.parent / target if target else file
        assert found.is_file(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_the_folders_it_lists_are_there() -> None:
    for name in re.findall(r"^\| `([\w./]+)` \|", README, re.MULTILINE):
        assert (ROOT / name).exists(), name
