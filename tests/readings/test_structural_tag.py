"""Structural tags by the real xgrammar: what they admit, what they refuse, and that all they admit reads back."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from readings.constraining import accepted, by_chance, vocabulary_of
from readings.feeding import FORMATS, grammar_of, read

from toolgrammar.errors import ToolsError
from toolgrammar.readings.render import render_calls
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
    "$defs": {
        "opts": {"type": "object", "properties": {"deep": {"type": "boolean"}}, "additionalProperties": False}
    },
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
#: A call that nothing marks stands first, or there is none.
WITHOUT_PROSE = ["json-fenced"]
#: What begins a call here is words and white space, which the renderer writes in another way than models do.
LAID_OUT_FREELY = ["command-r"]
#: There is reasoning only if the prompt opens it.
OPENED_BY_THE_PROMPT = ["holo2"]
#: With three tools, calls behind the first one are settled only if something begins them anew.
FIRST_CALL_ONLY = ["llama4-pythonic"]
EXPORTING = [name for name in FORMATS if name not in WITHOUT_CALLS]
CALLS: list[tuple[str, dict[str, Any]]] = [
    (
        "lathe",
        {"code": 'x = "1"\ny', "rpm": 3, "mode": "fast", "opts": {"deep": True}, "items": [1, 2.5], "on": False},
    ),
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
def test_wrong_calls_are_refused(name: str) -> None:
    grammar = grammar_of(name)
    constraint = tag(name, strict=True)
    # The renderer writes them, so nothing but the tools' definitions is in the way.
    tools = [*TOOLS, {"name": "nobody", "parameters": {"type": "object", "properties": {}}}]
    for call in [
        ("nobody", {}),
        ("lathe", {"code": "x"}),
        ("lathe", {"code": "x", "rpm": "fast"}),
        ("lathe", {"code": "x", "rpm": 1, "mode": "medium"}),
        ("lathe", {"code": "x", "rpm": 1, "extra": 1}),
    ]:
        text = render_calls(grammar, [call], _without_types(tools))
        assert accepted(constraint, text) is not None, text


def _without_types(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools with parameters that take any value."""
    names = [tool.get("function", tool)["name"] for tool in tools]
    return [{"name": name} for name in names]


@pytest.mark.parametrize("name", EXPORTING)
def test_auto_is_free_text_until_a_call_begins(name: str) -> None:
    grammar = grammar_of(name)
    constraint = tag(name, "auto")
    assert accepted(constraint, "") is None
    assert accepted(constraint, "A list [1, 2], an object {} and <b>a tag</b>.\nDone.") is None
    text = render_calls(grammar, CALLS[2:3], TOOLS, content=None if name in WITHOUT_PROSE else "Well then.")
    assert accepted(constraint, text) is None
    if name in LAID_OUT_FREELY:
        return
    assert accepted(constraint, text[: text.rindex("home")]) is not None, "a call that is not over is no end"
    again = render_calls(grammar, CALLS[1:3], TOOLS)
    assert accepted(constraint, again) is None
    if name not in FIRST_CALL_ONLY:
        assert accepted(constraint, again[: again.rindex("home")]) is not None


@pytest.mark.parametrize("name", EXPORTING)
def test_one_call_where_there_is_to_be_one(name: str) -> None:
    grammar = grammar_of(name)
    one = render_calls(grammar, CALLS[1:2], TOOLS)
    two = render_calls(grammar, [CALLS[1], CALLS[1]], TOOLS)
    for constraint in (tag(name, parallel=False), tag(name, "named", names=["lathe"])):
        assert accepted(constraint, one) is None
        assert accepted(constraint, two) is not None


@pytest.mark.parametrize("name", [name for name in EXPORTING if "reasoning" in grammar_of(name).starts])
def test_reasoning_comes_first(name: str) -> None:
    grammar = grammar_of(name)
    for start in ("content", "reasoning") if name not in OPENED_BY_THE_PROMPT else ("reasoning",):
        text = render_calls(grammar, CALLS[1:2], TOOLS, reasoning="Hm. I see.", start=start)
        for choice in ("auto", "required"):
            assert accepted(tag(name, choice, start=start, reasoning=True), text) is None, text
    bare = render_calls(grammar, CALLS[1:2], TOOLS)
    assert accepted(tag(name, reasoning=True), bare) is None
    assert accepted(tag(name, reasoning=False), bare) is None


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


@pytest.mark.parametrize("name", [name for name in EXPORTING if "section" in grammar_of(name).starts])
def test_a_section_that_the_prompt_opened(name: str) -> None:
    grammar = grammar_of(name)
    text = render_calls(grammar, CALLS[1:2], TOOLS, start="section")
    assert accepted(tag(name, start="section"), text) is None
    assert accepted(tag(name), text) is not None


def test_forced_choice_after_thinking() -> None:
    """Reasoning that the prompt opened, and a call behind it, are one text to the engine."""
    constraint = tag("hermes", start="reasoning")
    call = '<tool_call>\n{"name": "gopher", "arguments": {"at": "hall"}}\n</tool_call>'
    assert accepted(constraint, "I think.</think>" + call) is None
    assert accepted(constraint, "I think.") is not None
    assert accepted(constraint, "I think.</think>So what?") is not None


def test_tools_are_not_changed() -> None:
    before = json.dumps(TOOLS)
    first = [structural_tag(grammar_of(name), TOOLS, choice="required") for name in FORMATS]
    again = [structural_tag(grammar_of(name), TOOLS, choice="required") for name in FORMATS]
    assert json.dumps(TOOLS) == before
    assert first == again


def test_references_point_into_the_tools_own_schema() -> None:
    """Definitions of one name in two tools; a parameter that refers to another; a schema that holds itself."""

    def tool(name: str, kind: str) -> dict[str, Any]:
        schema = {
            "type": "object",
            "properties": {
                "one": {"$ref": "#/$defs/it"},
                "two": {"type": "array", "items": {"$ref": "#/properties/one"}},
                "tree": {"$ref": "#/$defs/tree"},
            },
            "required": ["one", "two", "tree"],
            "$defs": {
                "it": {"type": kind},
                "tree": {"type": "object", "properties": {"in": {"$ref": "#/$defs/tree"}}},
            },
        }
        return {"name": name, "strict": True, "parameters": schema}

    tools = [tool("ints", "integer"), tool("flags", "boolean")]
    for name in ("hermes", "qwen3-coder", "glm-4.5", "deepseek-v3.2", "gemma4", "pythonic", "minimax-m3"):
        grammar = grammar_of(name)
        constraint = structural_tag(grammar, tools, choice="required")
        tree = {"in": {"in": {}}}
        good = [
            ("ints", {"one": 1, "two": [2, 3], "tree": tree}), ("flags", {"one": True, "two": [], "tree": {}})
        ]  # fmt: skip
        bad = [
            ("ints", {"one": True, "two": [], "tree": tree}),
            ("flags", {"one": True, "two": [1], "tree": tree}),
        ]  # fmt: skip
        assert accepted(constraint, render_calls(grammar, good, tools)) is None
        for call in bad:
            text = render_calls(grammar, [call], [{"name": "ints"}, {"name": "flags"}])
            assert accepted(constraint, text) is not None, text


@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "deepseek-v3.2", "gemma4", "pythonic", "mistral"])
def test_what_is_not_strict_takes_any_arguments(name: str) -> None:
    grammar = grammar_of(name)
    call = ("lathe", {"of": "anything", "at": "all"})
    text = render_calls(grammar, [call], [{"name": "lathe"}])
    assert accepted(tag(name, strict=False), text) is None
    assert accepted(tag(name), text) is not None


@pytest.mark.parametrize("name", EXPORTING)
def test_only_tools_that_are_named_may_be_called(name: str) -> None:
    grammar = grammar_of(name)
    constraint = tag(name, names=["go", "gopher"])
    assert accepted(constraint, render_calls(grammar, CALLS[2:], TOOLS)) is None
    assert accepted(constraint, render_calls(grammar, CALLS[1:2], TOOLS)) is not None


@pytest.mark.parametrize("name", EXPORTING)
def test_markers_that_are_tokens_of_their_own(name: str) -> None:
    """A vocabulary in which each marker is one token: the text is the same, so it is admitted, token by token."""
    grammar = grammar_of(name)
    vocabulary = vocabulary_of(grammar)
    longest = sorted(vocabulary.tokens[: vocabulary.end], key=len, reverse=True)
    text = render_calls(grammar, CALLS[2:], TOOLS).encode()
    for choice in ("auto", "required"):
        matcher = vocabulary.matcher(tag(name, choice))
        at = 0
        while at < len(text):
            token = next(token for token in longest if text.startswith(token, at))
            assert matcher.accept_token(vocabulary.tokens.index(token)), text[:at]
            at += len(token)
        assert matcher.accept_token(vocabulary.end)


def test_mistakes_in_the_request() -> None:
    with pytest.raises(ToolsError, match="'fly' is not among the tools: go, gopher, lathe"):
        tag("hermes", names=["fly"])
    with pytest.raises(ToolsError, match="choice 'required' needs a tool that may be called"):
        structural_tag(grammar_of("hermes"), [], choice="required")
    with pytest.raises(ValueError, match="'granite4' cannot start in 'reasoning'; it can in content"):
        tag("granite4", start="reasoning")
    without = structural_tag(grammar_of("hermes"), [], choice="auto")
    assert without == {"type": "structural_tag", "format": {"type": "any_text"}}


def test_a_name_that_the_format_cannot_write() -> None:
    tools = [{"name": "two words"}, {"name": "go"}]
    constraint = structural_tag(grammar_of("glm-4.5"), tools, choice="required")
    assert "two words" not in json.dumps(constraint)
    assert structural_tag(grammar_of("glm-4.5"), tools[:1], choice="required") is None
