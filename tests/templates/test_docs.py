"""The examples of ``docs/response-templates.md`` are what happens."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from templates.samples import NOT_EXPRESSED, TEMPLATES

from toolgrammar import parse
from toolgrammar.templates import TemplateError, load_template

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "response-templates.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.S | re.M)


def test_the_example() -> None:
    message = parse(blocks("text")[0].rstrip("\n"), template=json.loads(blocks("json")[0]))
    assert (message.reasoning, message.content) == ("Look it up.", "One moment.")
    assert [(call.name, call.arguments, call.status) for call in message.calls] == [("find", {"n": 1}, "complete")]


def test_the_mistake() -> None:
    with pytest.raises(TemplateError) as caught:
        load_template(json.loads(blocks("json-error")[0]), "mine")
    assert str(caught.value) + "\n" == blocks("text")[1]


def test_the_numbers() -> None:
    cases = sum(len((ROOT / f"fixtures/cases/{name}.jsonl").read_text("utf-8").splitlines()) for name in TEMPLATES)
    assert f"{cases - len(NOT_EXPRESSED)} of {cases}" in PAGE
    assert (len(TEMPLATES), len(NOT_EXPRESSED)) == (13, 19)
