"""W101: an output without calls that another format would read is said to be one, with what would read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolgrammar import Parser, parse

TOOLS = [{"name": "weld", "parameters": {"properties": {"n": {"type": "integer"}}}}]
CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures" / "qwen2.5-coder-0.5b.jsonl"
BARE = '{"name": "weld", "arguments": {"n": 2}}'
DSML = (
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="weld">\n<｜DSML｜parameter name="n" string="false">2'
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
)


@pytest.mark.parametrize(
    ("model", "text", "reads", "what"),
    [
        ("hermes", f"```json\n{BARE}\n```", "json-fenced", BARE),
        ("hermes", f"Sure:\n{BARE}", "json-fenced", BARE),
        ("qwen3-coder", f"<tool_call>\n{BARE}\n</tool_call>", "hermes", BARE),
        ("mistral", DSML, "deepseek-v3.2", DSML.partition("\n")[2].rpartition("\n")[0]),
    ],
)
def test_what_would_read_it(model: str, text: str, reads: str, what: str) -> None:
    parser = Parser(model, tools=TOOLS)
    last = [event for char in text for event in parser.feed(char)] + parser.finish()
    message = parser.message()
    assert message.calls == []
    (found,) = [event for event in message.diagnostics if event.code == "W101"]
    assert found.message.endswith(f"{reads} reads a call of 'weld' there; try --model {reads}")
    assert text[found.start : found.end] == what
    assert last[-1] == found


@pytest.mark.parametrize(
    ("model", "text", "tools"),
    [
        ("hermes", "I would weld it.", TOOLS),
        ("hermes", '{"name": "weld", "arguments": {}}', None),
        ("hermes", '{"name": "weld", "arguments": {}}', []),
        ("hermes", '<tool_call>{"name": "weld", "arguments": {}}</tool_call>', TOOLS),
        ("hermes", '{"weld": {"n": 2}}', TOOLS),
    ],
)
def test_nothing_to_say(model: str, text: str, tools: list[dict[str, object]] | None) -> None:
    message = parse(text, model=model, tools=tools)
    assert [event.code for event in message.diagnostics] == []


def test_captures_of_a_small_model() -> None:
    """Of 24 answers to a template that asks for hermes calls, 15 are fenced or bare JSON calls of tools."""
    records = [json.loads(line) for line in CAPTURES.read_text(encoding="utf-8").split("\n") if line]
    said = 0
    for record in records:
        message = parse(record["token_texts"], model="hermes", tools=record["tools"])
        assert message.calls == []
        assert message.content
        codes = [event for event in message.diagnostics if event.code == "W101"]
        fenced = parse(record["raw"], model="json-fenced", tools=record["tools"])
        assert len(codes) == bool(fenced.calls)
        assert all(call.known for call in fenced.calls)
        said += len(codes)
    assert (len(records), said) == (24, 15)
