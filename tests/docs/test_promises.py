"""The six promises of the README, over the captures and the cases of the formats it shows, and hostile text.

One small test a promise, the same on every run.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from docs.notation import shown  # isort: skip
from toolgrammar import CallArguments, Message, Parser, registry
from toolgrammar.machine.held_scanner import KEY_LIMIT
from toolgrammar.machine.speculation import HELD_LIMIT
from toolgrammar.testing import every_split, random_splits

FIXTURES = Path(__file__).parents[2] / "fixtures"
TOOLS = json.loads((FIXTURES / "captures" / "tools.json").read_text(encoding="utf-8"))
FORMATS = [
    "deepseek-r1", "deepseek-v3", "deepseek-v3.1", "deepseek-v3.2", "gemma4", "glm-4.5", "harmony", "hermes",
    "kimi-k2", "llama3-json", "mistral", "pythonic", "qwen3", "qwen3-coder",
]  # fmt: skip
CAPTURES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((FIXTURES / "captures").glob("*.txt"))}
STARTS = {"deepseek-v3.2": "reasoning"}
JSON = '<tool_call>{"name": "f", "arguments": {"s": "'
V3 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
FENCED = V3 + 'function<｜tool▁sep｜>f\n```json\n{"s": "'
#: A call of ``f`` with the string ``s`` open.
OPENED = {
    "deepseek-r1": FENCED,
    "deepseek-v3": FENCED,
    "deepseek-v3.1": V3 + 'f<｜tool▁sep｜>{"s": "',
    "deepseek-v3.2": '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="s" string="true">',
    "gemma4": '<|tool_call>call:f{s:<|"|>',
    "glm-4.5": "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>",
    "harmony": '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"s": "',
    "hermes": JSON,
    "kimi-k2": '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"s": "',
    "llama3-json": '{"name": "f", "parameters": {"s": "',
    "mistral": '[TOOL_CALLS]f[ARGS]{"s": "',
    "pythonic": '[f(s="',
    "qwen3": JSON,
    "qwen3-coder": "<tool_call>\n<function=f>\n<parameter=s>\n",
}
HOSTILE = [
    "{" * 100_000,
    "<" * 20_000,
    '[[{"name": ' * 2_000,
    "<tool_call>" * 2_000,
    "<｜tool▁call▁begin｜><|channel|>[TOOL_CALLS]<|tool_call>" * 500,
    '<tool_call>{"name": "' + "n" * 20_000,
    '<tool_call>{"name": "f", "arguments": ' + '{"a": [' * 5_000,
    '<tool_call>{"name": "f", "x": "' + "x" * 70_000,
    "\ud800\udfff\x00\u2028" * 1_000,
    " \n" * 10_000,
]  # fmt: skip


def made(name: str, **options: Any) -> Parser:
    return Parser(name, start=STARTS.get(name, "auto"), **{"tools": TOOLS, **options})


def read(parser: Parser, pieces: list[str]) -> tuple[list[str], Message]:
    """The events, neighbours joined, and the message."""
    events = [event for piece in pieces for event in parser.feed(piece)]
    return shown(events + parser.finish()), parser.message()


def cases(name: str) -> list[dict[str, Any]]:
    text = (FIXTURES / "cases" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", FORMATS)
def test_1_one_path(name: str) -> None:
    for case in cases(name):
        text = case["text"]
        ways = [[text], list(text), *random_splits(text, 6), *(every_split(text) if len(text) < 400 else ())]
        first, *others = (read(Parser(name, case["tools"], case["starts_in"]), pieces) for pieces in ways)
        for said, message in others:
            assert said == first[0]
            assert (message.spans, message.unfinished) == (first[1].spans, first[1].unfinished)
            assert message.diagnostics == first[1].diagnostics


@pytest.mark.parametrize("name", FORMATS)
def test_2_nothing_lost(name: str) -> None:
    texts = [case["text"] for case in cases(name)] + HOSTILE
    for text in texts:
        at = 0
        for start, end, _ in read(made(name), [text])[1].spans:
            assert start == at < end
            at = end
        assert at == len(text)


@pytest.mark.parametrize("name", [name for name in FORMATS if name in CAPTURES])
def test_3_nothing_invented(name: str) -> None:
    text = CAPTURES[name]
    whole = read(made(name), [text])[1]
    running = made(name)
    for char in text:
        running.feed(char)
        cut = running.copy()
        cut.finish()
        calls = cut.message().calls
        assert len(calls) <= len(whole.calls)
        for call, final in zip(calls, whole.calls, strict=False):
            assert call.name == final.name
            assert final.arguments_raw.startswith(call.arguments_raw)
            assert call.arguments == (final.arguments if call.status == "complete" else None)


@pytest.mark.parametrize("name", FORMATS)
def test_4_early(name: str) -> None:
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"s": {"type": "string"}}}}]
    text = "if 3 < 5 & {x}: say [so] (once), 'no' more than that; " * 100
    parser = Parser(name, tools=tools)
    parser.feed(OPENED[name])
    deltas = [text[at : at + 4] for at in range(0, len(text), 4)]
    pieces = [event for delta in deltas for event in parser.feed(delta)]
    assert all(isinstance(piece, CallArguments) for piece in pieces)
    assert len(pieces) >= 0.9 * len(deltas)


@pytest.mark.parametrize("name", FORMATS)
def test_5_linear_what_is_held_is_bounded(name: str) -> None:
    for text in HOSTILE:
        parser = made(name)
        for at in range(0, len(text), 997):
            parser.feed(text[at : at + 997])
            assert parser.held <= HELD_LIMIT + KEY_LIMIT + 2 * 997
        assert len(pickle.dumps(parser._session)) < 4 * HELD_LIMIT + len(pickle.dumps(made(name)._session))


@pytest.mark.parametrize("name", FORMATS)
def test_6_never_raises_on_model_output(name: str) -> None:
    for text in HOSTILE:
        for start in registry.load(name).starts:
            parser = Parser(name, start=start)  # type: ignore[arg-type]
            read(parser, [text[at : at + 4099] for at in range(0, len(text), 4099)])
    for text in (case["text"] for case in cases(name)):
        for other in FORMATS:
            read(Parser(other), [text])
