"""``strict`` in every format: a call of a tool that nobody offered is content, as written; others are calls."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from toolgrammar import Parser, parse, registry
from toolgrammar.readings.render import RenderError, render_calls
from toolgrammar.testing import random_splits


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}


OFFERED, OTHER = [tool("weld")], [tool("drill")]


def written(name: str, calls: list[str]) -> str:
    try:
        return render_calls(registry.load(name), [(call, {"a": "xyzzy"}) for call in calls], OFFERED + OTHER)
    except RenderError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", registry.formats())
def test_a_call_nobody_offered_is_text(name: str) -> None:
    text = written(name, ["drill"])
    if not parse(text, name, tools=OFFERED).calls:
        pytest.skip("only offered tools are called in this format")
    for pieces in ([text], list(text), *random_splits(text, 5, seed=1)):
        message = parse(pieces, name, tools=OFFERED, strict=True)
        assert message.calls == []
        assert message.reasoning is None
        assert message.content is not None
        assert message.content in text
        assert "xyzzy" in message.content


@pytest.mark.parametrize("name", registry.formats())
def test_the_others_are_calls_and_counted_without_it(name: str) -> None:
    text = written(name, ["weld", "drill", "weld"])
    wanted = [call for call in parse(text, name, tools=OFFERED).calls if call.known]
    for pieces in ([text], list(text)):
        message = parse(pieces, name, tools=OFFERED, strict=True)
        assert [(call.index, call.arguments) for call in message.calls] == [
            (index, call.arguments) for index, call in enumerate(wanted)
        ]


def test_without_tools_every_call_counts() -> None:
    message = parse('<tool_call>{"name": "g"}</tool_call>', "hermes", strict=True)
    assert [call.name for call in message.calls] == ["g"]


def test_a_cut_call_is_text_too() -> None:
    text = '<tool_call>{"name": "drill", "arguments": {"a": "x'
    message = parse(text, "hermes", tools=OFFERED, strict=True)
    assert (message.calls, message.content, message.unfinished) == ([], text.removeprefix("<tool_call>"), True)


def test_what_is_held_for_it_survives_copy_and_pickle() -> None:
    parser = Parser("qwen3-coder", tools=OFFERED, strict=True)
    text = written("qwen3-coder", ["drill"])
    parser.feed(text[:-20])
    assert parser.held > 20
    wanted = parse(text, "qwen3-coder", tools=OFFERED, strict=True).content
    for other in (parser.copy(), pickle.loads(pickle.dumps(parser)), parser):
        other.feed(text[-20:])
        other.finish()
        assert other.message().content == wanted
