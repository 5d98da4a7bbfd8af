"""Structural tags by the real xgrammar: what they admit, what they refuse, and that all they admit reads back."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import jsonschema
import pytest
from readings.constraining import accepted, by_chance
from readings.feeding import FORMATS, grammar_of, read

from toolgrammar.errors import ToolsError
from toolgrammar.readings.render import RenderError, render_calls
from toolgrammar.readings.structural_tag import exports, structural_tag

LATHE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "rpm": {"type": "integer"},
        "mode": {"enum": ["fast", "slow"]},
        "opts": {"$ref": "#/$defs/opts"},
        "items": {"type": "array", "items": {"type": "number"}},
        "on": {"type": "boolean"},
    },
    "required": ["code", "rpm"],
    "additionalProperties": False,
    "$defs": {"opts": {"type": "object", "properties": {"deep": {"type": "boolean"}}, "additionalProperties": False}},
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "lathe", "strict": True, "parameters": LATHE}},
    {"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {}}}},
    {
        "type": "function",
        "function": {"name": "gopher", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
    },
]
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
WITHOUT_CALLS = ["identity", "kimi-vl"]
EXPORTING = [name for name in FORMATS if name not in WITHOUT_CALLS]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("lathe", {"code": 'x = "1"\ny', "rpm": 3, "mode": "fast", "opts": {"deep": True}, "items": [1, 2.5], "on": False}),
    ("lathe", {"code": "z", "rpm": -12, "items": []}),
    ("gopher", {"at": "home"}),
    ("go", {}),
]


def tag(name: str, choice: Any = "required", **more: Any) -> dict[str, Any]:
    """The constraint, which there must be."""
    found = structural_tag(grammar_of(name), TOOLS, choice=choice, **more)
    assert found is not None
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_formats_with_calls_export(name: str) -> None:
    grammar = grammar_of(name)
    found = structural_tag(grammar, TOOLS, choice="required")
    assert (found is not None) == exports(grammar) == (name not in WITHOUT_CALLS)


@pytest.mark.parametrize("name", EXPORTING)
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_what_the_renderer_writes_is_admitted(name: str, choice: str) -> None:
    grammar = grammar_of(name)
    constraint = tag(name, choice)
    for calls in (CALLS[:1], CALLS[1:2], CALLS[2:3], CALLS[3:], CALLS[:2], CALLS):
        assert accepted(constraint, render_calls(grammar, calls, TOOLS)) is None


@pytest.mark.parametrize("name", EXPORTING)
@pytest.mark.parametrize("choice", ["required", "named"])
def test_by_chance_there_are_complete_calls(name: str, choice: str) -> None:
    grammar = grammar_of(name)
    chance = random.Random(f"{name} {choice}")
    names = ["lathe"] if choice == "named" else None
    constraint = tag(name, choice, names=names)
    for _ in range(20):
        text = by_chance(constraint, grammar, chance)
        _, message = read(grammar, [text], TOOLS, "content")
        assert message.calls, text
        assert message.content is None and message.reasoning is None and not message.unfinished, text
        for call in message.calls:
            assert call.status == "complete" and call.name in SCHEMAS, (text, call)
            if call.name == "lathe":
                jsonschema.validate(call.arguments, LATHE)
        if choice == "named":
            assert [call.name for call in message.calls] == ["lathe"], text
