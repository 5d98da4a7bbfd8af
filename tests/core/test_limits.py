"""Where a value, or a use of the parser, goes beyond what can be: the same for any cut, no wrong claim."""

from __future__ import annotations

from typing import Any

import pytest

from toolgrammar import Parser, parse

DEEP = 5000
ANY = [{"name": "f", "parameters": {"type": "object", "properties": {"x": {}}}}]
WHOLE = [{"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}]
TEXT = [{"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}]


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": {"x": %s}}</tool_call>', "E101"),
        ("deepseek-v3.1", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"x": %s}', "E101"),
        ("pythonic", "[f(x=%s)]", "E103"),
        ("gemma4", "<|tool_call>call:f{x:%s}<tool_call|>", "E103"),
    ],
)  # fmt: skip
def test_a_value_too_deep_for_any_decoder_is_malformed(name: str, text: str, code: str) -> None:
    written = text % ("[" * DEEP + "]" * DEEP)
    for pieces in ([written], [written[at : at + 7] for at in range(0, len(written), 7)]):
        message = parse(pieces, name, tools=ANY)
        assert [(call.status, call.arguments) for call in message.calls] == [("malformed", None)]
        assert code in [note.code for note in message.diagnostics]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qwen3-coder", "<tool_call>\n<function=f>\n<parameter=x>\n%s\n</parameter>\n</function>\n</tool_call>"),
        ("pythonic", "[f(x=%s)]"),
    ],
)
def test_a_number_of_more_digits_than_int_reads(name: str, text: str) -> None:
    (call,) = parse(text % ("9" * 6000), name, tools=WHOLE).calls
    assert (call.status, call.arguments) == ("complete", {"x": 10**6000 - 1})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qwen3-coder", "<tool_call>\n<function=f>\n<parameter=x>\na%sb\n</parameter>\n</function>\n</tool_call>"),
        ("glm-4.5", "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>a%sb</arg_value>\n</tool_call>"),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"x": "a%sb"}}</tool_call>'),
        ("pythonic", '[f(x="a%sb")]'),
        ("gemma4", '<|tool_call>call:f{x:<|"|>a%sb<|"|>}<tool_call|>'),
    ],
)
def test_half_a_surrogate_pair_comes_out_alike_for_any_cut(name: str, text: str) -> None:
    written = text % "\ud800"
    whole, cut = (parse(pieces, name, tools=TEXT).calls for pieces in (written, list(written)))
    assert [call.arguments for call in whole] == [{"x": "a\ud800b"}]
    assert [call.arguments_raw for call in whole] == [call.arguments_raw for call in cut]


@pytest.mark.parametrize("text", ["", "some text", '<tool_call>{"name": "f", "arguments": {"x": "a'])
def test_nothing_can_be_fed_behind_the_end(text: str) -> None:
    parser = Parser("hermes")
    feed = parser.feed
    feed(text)
    parser.finish()
    for late in (feed, parser.feed):
        with pytest.raises(RuntimeError, match="finished"):
            late("more")


def test_a_subclass_may_have_a_feed_of_its_own() -> None:
    seen: list[Any] = []

    class Logged(Parser):
        def feed(self, delta: Any) -> Any:
            seen.append(delta)
            return super().feed(delta)

    parser = Logged("hermes")
    parser.feed("a")
    parser.copy().feed("b")
    assert seen == ["a", "b"]
