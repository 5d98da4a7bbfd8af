"""``grammar export``: the constraint of the library, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolgrammar import registry
from toolgrammar.readings.structural_tag import structural_tag

LATHE = {"name": "lathe", "parameters": {"type": "object", "properties": {"rpm": {"type": "integer"}}}}
TOOLS: list[dict[str, Any]] = [LATHE, {"name": "go"}]


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(TOOLS), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ([], {"choice": "auto"}),
        (["--tool-choice", "required", "--single"], {"choice": "required", "parallel": False}),
        (["--tool-choice", "go", "--strict"], {"choice": "named", "names": ["go"], "strict": True}),
        (["--start", "reasoning", "--to", "structural-tag"], {"choice": "auto", "start": "reasoning"}),
        (["--tool-choice", "required", "--reasoning"], {"choice": "required", "reasoning": True}),
    ],
)
def test_it_is_what_the_library_says(options: list[str], asked: dict[str, Any], tools: str, run: Any) -> None:
    shown = run("grammar", "export", "hermes", "--tools", tools, *options)
    assert shown.code == 0
    assert shown.json == structural_tag(registry.load("hermes"), TOOLS, **asked)


def test_a_grammar_of_ones_own(mine: str, tools: str, tmp_path: Path, run: Any) -> None:
    written = tmp_path / "tag.json"
    assert run("grammar", "export", mine, "--tools", tools, "-o", str(written)).out == ""
    assert json.loads(written.read_text(encoding="utf-8"))["type"] == "structural_tag"


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("identity", [], "error[E001]: format 'identity' has no call that could be constrained"),
        ("granite4", ["--start", "reasoning"], "error[E001]: format 'granite4' cannot start in 'reasoning'"),
        ("hermes", ["--tool-choice", "fly"], "error[E003]: names: 'fly' is not among the tools: go, lathe"),
        ("hermes", ["--to", "lark"], "error[E001]"),
    ],
)
def test_what_cannot_be_exported(name: str, options: list[str], said: str, tools: str, run: Any) -> None:
    shown = run("grammar", "export", name, "--tools", tools, *options)
    assert (shown.code, shown.out) == (2, "")
    assert said in shown.err
