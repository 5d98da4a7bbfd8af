"""A list of Python calls in the output of a format that has no such list is named (W101)."""

from __future__ import annotations

import pytest

from toolgrammar import parse

TOOLS = [{"name": "search", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}]


@pytest.mark.parametrize("format_", ["hermes", "qwen3-coder", "json-fenced"])
@pytest.mark.parametrize("text", ['[search(q="cats")]', 'Let me look: [ search(q="cats"), search(q="dogs")]'])
def test_a_list_of_calls_is_pythonic(format_: str, text: str) -> None:
    message = parse(text, format_, tools=TOOLS)
    assert message.calls == []
    (found,) = message.diagnostics
    assert found.code == "W101"
    assert found.message.endswith("pythonic reads a call of 'search' there; try --model pythonic")


@pytest.mark.parametrize("text", ["see [search(the docs)]", "[search(", '[find(q="cats")] search', "search(q=1)"])
def test_what_is_no_such_list_is_not(text: str) -> None:
    assert parse(text, "hermes", tools=TOOLS).diagnostics == []
