"""Imported templates give the answers of the formats' own cases, but for those they cannot express."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from templates.samples import NOT_EXPRESSED, TEMPLATES, sample

from toolgrammar import Parser
from toolgrammar.language import read_grammar, write_grammar
from toolgrammar.testing import compare, run_case

CASES = Path(__file__).parents[2] / "fixtures" / "cases"


def cases() -> list[Any]:
    lines = [line for name in TEMPLATES for line in (CASES / f"{name}.jsonl").read_text("utf-8").splitlines()]
    return [pytest.param(case, id=case["id"]) for case in map(json.loads, lines)]


def parser(case: dict[str, Any]) -> Parser:
    return Parser(grammar=sample(case["format"]), tools=case.get("tools"), start=case.get("starts_in", "auto"))


@pytest.mark.parametrize("case", cases())
def test_case(case: dict[str, Any]) -> None:
    """Fed in every way. A case that a template cannot express fails, and the same way whatever the cuts."""
    result = run_case(case, parser)
    assert result.ok == (case["id"] not in NOT_EXPRESSED), result.report()
    ways = {tuple(map(str, way.differences)) for way in result.ways}
    assert len(ways) == 1, result.report()
    assert "spans" not in result.report()


def test_the_list_of_exceptions_names_cases() -> None:
    assert set(NOT_EXPRESSED) <= {param.id for param in cases()}


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_grammar_language_can_say_it(name: str) -> None:
    grammar = sample(name)
    assert read_grammar(write_grammar(grammar), file=f"{name}.tg") == grammar


@pytest.mark.parametrize("case", cases())
def test_cut_anywhere(case: dict[str, Any]) -> None:
    """Cut off behind any character: nothing raises, whole and by characters are the same, every character has
    a place, and arguments only grow."""
    text = case["text"]
    stream = parser(case)
    for end in range(1, len(text) + 1):
        stream.feed(text[end - 1])
        cut = stream.copy()
        cut.finish()
        whole = parser(case)
        whole.feed(text[:end])
        whole.finish()
        got = whole.message()
        expect = {
            "reasoning": got.reasoning,
            "content": got.content,
            "unfinished": got.unfinished,
            "tool_calls": [
                {"name": call.name, "status": call.status, "arguments_text": call.arguments_raw}
                for call in got.calls
            ],
        }
        message = cut.message()
        assert not compare(expect, message), text[:end]
        assert [call.arguments_raw for call in message.calls] == [call.arguments_raw for call in got.calls]
        assert [span[0] for span in message.spans] == [0, *(span[1] for span in message.spans[:-1])]
        assert message.spans[-1][1] == end
