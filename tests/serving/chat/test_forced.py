"""Forced calls as bare JSON, in every format, beside the format's own calls."""

from __future__ import annotations

from typing import Any

import pytest
from serving_chat import SET_LAMP
from toolgrammar_serving.chat.forced import Forced, forced
from toolgrammar_serving.chat.formats import Format

from toolgrammar import Parser, registry
from toolgrammar.readings.render import RenderError, render_calls
from toolgrammar.schema import ToolTable

BARE = '{"room": "hall", "on": true}'
ONE = f'{{"name": "set_lamp", "arguments": {BARE}}}'
LIST = f'[{{"name": "set_lamp", "parameters": {BARE}}}, {{"name": "set_lamp", "parameters": {{}}}}]\n'
#: Formats whose own calls begin with a brace, or a bracket: there the one form hides the other.
BRACES = {"json-fenced", "llama3-json", "llama4-pythonic"}
BRACKETS = {"pythonic"}


def calls(name: str, reading: Forced, text: str, cut: int, start: str = "content") -> Any:
    parser = Parser(grammar=forced(registry.load(name), reading), tools=[SET_LAMP], start=start)  # type: ignore[arg-type]
    for at in range(0, len(text), cut):
        parser.feed(text[at : at + cut])
    parser.finish("stop")
    message = parser.message()
    assert not message.unfinished
    return message.content, [(call.name, call.arguments_raw, call.status) for call in message.calls]


@pytest.mark.parametrize("cut", [1, 1 << 20])
@pytest.mark.parametrize("name", registry.formats())
def test_forms(name: str, cut: int) -> None:
    right = ("set_lamp", BARE, "complete")
    assert calls(name, "required", ONE, cut) == (None, [right])
    assert calls(name, "named", ONE, cut) == (None, [right])
    if name not in BRACKETS:
        assert calls(name, "required", LIST, cut) == (None, [right, ("set_lamp", "{}", "complete")])
    if name not in BRACES:
        assert calls(name, "named", BARE, cut) == (None, [right])


@pytest.mark.parametrize("name", registry.formats())
def test_what_can_be_read_is_known(name: str) -> None:
    format = Format(registry.load(name), {})
    assert ("bare" in format.reads("named")) is (name not in BRACES)
    assert ("list" in format.reads("required")) is (name not in BRACKETS)


@pytest.mark.parametrize("reading", ["named", "required"])
@pytest.mark.parametrize("name", registry.formats())
def test_own_calls_are_read_as_ever(name: str, reading: Forced) -> None:
    table = ToolTable.of([SET_LAMP])
    try:
        text = render_calls(
            registry.load(name), [("set_lamp", {"room": "hall", "on": True})], table, content="Now."
        )
    except RenderError:
        pytest.skip("the format has no calls")
    content, found = calls(name, reading, text, 1)
    assert content == "Now."
    assert [(called, status) for called, _, status in found] == [("set_lamp", "complete")]


def test_behind_a_thought() -> None:
    assert calls("hermes", "named", f"Hm.\n</think>\n\n{BARE}", 1, "reasoning") == (
        None, [("set_lamp", BARE, "complete")],
    )  # fmt: skip


@pytest.mark.parametrize("text", ["A word.", '["a"]', '{"room"', "[", "{", '[{"a": 1}]'])
def test_what_is_no_call_is_content(text: str) -> None:
    assert calls("hermes", "required", text, 1) == (text, [])


def test_a_tool_with_a_parameter_called_name() -> None:
    tool = {"name": "greet", "parameters": {"type": "object", "properties": {"name": {"type": "string"}}}}
    parser = Parser(grammar=forced(registry.load("hermes"), "named"), tools=[tool])
    parser.feed('{"name": "Bob", "loud": true}')
    parser.finish()
    assert [call.arguments for call in parser.message().calls] == [{"name": "Bob", "loud": True}]


def test_arguments_leave_as_they_come() -> None:
    parser = Parser(grammar=forced(registry.load("hermes"), "named"), tools=[SET_LAMP])
    told = [bool(parser.feed(piece)) for piece in ('{"room": "a', " long", " name", ' of a room"', "}")]
    assert told[1:4] == [True, True, True]
