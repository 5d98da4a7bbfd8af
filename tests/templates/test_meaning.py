"""What templates mean: where text goes, what becomes a call, what a prompt leaves open."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from templates.samples import HERMES, TEMPLATES, THINK, WHOLE, calls, sample, tags, template

from toolgrammar import Message, Parser, parse
from toolgrammar.events import CallArguments
from toolgrammar.templates import load_template

TOOLS = [
    {
        "name": "f",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}},
    }
]


def read(data: dict[str, Any], text: str, prompt: str | None = None) -> Message:
    """The message, the same whole and by characters."""
    whole = parse(text, template=data, tools=TOOLS, prompt=prompt)
    apart = parse(list(text), template=data, tools=TOOLS, prompt=prompt)
    assert brief(whole) == brief(apart)
    return whole


def brief(message: Message) -> tuple[Any, ...]:
    calls = [(call.name, call.arguments_raw, call.status) for call in message.calls]
    return message.reasoning, message.content, calls, message.unfinished


def heard(message: Message) -> list[tuple[str, Any]]:
    assert all(call.status == "complete" for call in message.calls)
    return [(call.name, call.arguments) for call in message.calls]


# ---- text --------------------------------------------------------------------------------------------------


def test_content_between_regions_is_concatenated() -> None:
    text = 'One. <tool_call>{"name": "f", "arguments": {}}</tool_call> Two.<|im_end|> Three.'
    assert read(HERMES, text).content == "One. Two. Three."


def test_a_strip_that_is_off_keeps_every_character() -> None:
    data = template(
        "A:", thinking=THINK | {"content_args": {"strip": False}}, content={"content_args": {"strip": False}}
    )
    message = read(data, "<think>\n a \n</think>\n b \n")
    assert (message.reasoning, message.content) == ("\n a \n", "\n b \n")


@pytest.mark.parametrize(("join", "together"), [(None, "a\nb"), ("\n", "a\nb"), ("", "ab"), (" | ", "a\nb")])
def test_regions_of_reasoning_are_joined(join: str | None, together: str) -> None:
    field: dict[str, Any] = {"open": "<|t|>", "close": "<|/t|>", "repeats": True}
    data = template("A:", thinking=field if join is None else field | {"join": join}, content={})
    assert read(data, "<|t|>a<|/t|>c<|t|>b<|/t|>d").reasoning == together
    assert ("note" in load_template(data).facts) == (join == " | ")


def test_without_an_implicit_field_the_rest_is_dropped_and_said_so() -> None:
    assert read(TEMPLATES["cohere-command"], "x<|START_TEXT|>y<|END_TEXT|>z").content == "y"
    assert any("dropped" in note for note in sample("cohere-command").facts["note"])


def test_other_fields_are_dropped_and_said_so() -> None:
    data = template("A:", plan={"open": "<plan>", "close": "</plan>"}, content={"close": "<|e|>"})
    assert read(data, "a<plan>b</plan>c<|e|>").content == "ac"
    assert load_template(data).facts["note"] == ("dropped, for a message has no place for them: plan",)


def test_a_missing_close_does_not_swallow_the_rest() -> None:
    message = read(TEMPLATES["gemma4"], "<|channel>thought\nHm.<|tool_call>call:f{n:1}<tool_call|>Done.<turn|>")
    assert (message.reasoning, message.content, heard(message)) == ("Hm.", "Done.", [("f", {"n": 1})])


def test_half_an_opener_is_no_content() -> None:
    assert read(TEMPLATES["gemma4"], "Hi<|channel>thou").content == "Hi"
    assert read(TEMPLATES["gemma4"], "Hi<|channel>else").content == "Hielse"


def test_a_draft_inside_plain_reasoning() -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert read(HERMES, f"<think>a {call} b</think>c").reasoning == f"a {call} b"
    assert heard(read(HERMES, f"<think>a {call}")) == [("f", {})]


# ---- calls -------------------------------------------------------------------------------------------------


def test_arguments_stream() -> None:
    for name, text in {
        "hermes": '<tool_call>{"name": "f", "arguments": {"s": "abcdef',
        "gemma4": '<|tool_call>call:f{s:<|"|>abcdef',
        "qwen3-coder": "<tool_call>\n<function=f>\n<parameter=s>\nabcdef",
        "cohere-command": '<|START_ACTION|>[{"tool_name": "f", "parameters": {"s": "abcdef',
    }.items():
        parser = Parser(grammar=sample(name), tools=TOOLS)
        parser.feed(text[:-3])
        assert [event.delta for event in parser.feed("d") if isinstance(event, CallArguments)] == ["d"], name


@pytest.mark.parametrize(
    ("transform", "body"),
    [
        (None, {"name": "f", "arguments": {"n": 1}}),
        (None, {"type": "function", "function": {"name": "f", "arguments": {"n": 1}}}),
        ("{content}", {"name": "f", "arguments": {"n": 1}}),
        (WHOLE, {"name": "f", "arguments": {"n": 1}}),
        (
            {"function": {"name": "{content.tool}", "arguments": "{content.input}"}},
            {"input": {"n": 1}, "tool": "f"},
        ),
        (
            {"function": {"name": "{content.call.tool}", "arguments": "{content.call.input}"}},
            {"call": {"tool": "f", "input": {"n": 1}}},
        ),
        ({"name": "{content.tool}", "arguments": "{content.input}"}, {"tool": "f", "input": {"n": 1}}),
    ],
)
def test_the_name_in_the_body(transform: Any, body: Any) -> None:
    field = {"open": "<c>", "close": "</c>", "content": "json", "repeats": True, "transform": transform}
    data = template("A:", tool_calls={key: value for key, value in field.items() if value is not None}, content={})
    assert heard(read(data, f"<c>{json.dumps(body)}</c>")) == [("f", {"n": 1})]


def test_an_id_of_the_template() -> None:
    transform = {"id": "{cid}", "type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
    data = template(
        "A:", tool_calls=calls(r"<c (?P<name>\w+) (?P<cid>\w+)>", "</c>", transform=transform), content={}
    )
    assert [(call.name, call.id) for call in read(data, "<c f x7>{}</c>").calls] == [("f", "x7")]


def test_an_opener_at_the_start_only() -> None:
    data = template("A:", tool_calls=calls(r"^<c (?P<name>\w+)>", "</c>"), content={})
    assert heard(read(data, "<c f>{}</c>x")) == [("f", {})]
    assert read(data, "x<c f>{}</c>").content == "x<c f>{}</c>"


def test_openers_of_both_kinds_in_reasoning() -> None:
    """A control token ends reasoning at once, a plain tag is a candidate."""
    data = TEMPLATES["granite"]
    call = '[{"name": "f", "arguments": {}}]'
    assert read(data, f"<think>a <|tool_call|>{call} b</think>c").content == "b</think>c"
    assert read(data, f"<think>a <tool_call>{call} b</think>c").reasoning == f"a <tool_call>{call} b"


def test_a_list_of_calls() -> None:
    items = '{"tool_name": "f", "parameters": {"n": 1}}, {"tool_name": "f", "parameters": {}}'
    text = f"<|START_ACTION|>[{items}]<|END_ACTION|>"
    assert heard(read(TEMPLATES["cohere-command"], text)) == [("f", {"n": 1}), ("f", {})]
    assert read(TEMPLATES["cohere-command"], "<|START_ACTION|>[]<|END_ACTION|>").calls == []


def test_groups_in_an_opener() -> None:
    data = template(
        "A:", tool_calls=calls(r'<invoke\b[^>]*?\bname="(?P<name>[^"]+)"[^>]*>', "</invoke>",
                               **tags(r'<p\b[^>]*?name="(?P<key>[^"]+)"[^>]*?>(?P<value>.*?)</p>')), content={},
    )  # fmt: skip
    text = '<invoke id="1" name="f" x><p name="n" t="int">1</p><p name="s">1</p></invoke>'
    assert heard(read(data, text)) == [("f", {"n": 1, "s": "1"})]


def test_a_name_of_several_classes_is_checked() -> None:
    data = template(
        "A:", tool_calls=calls(r"<\|tool\|>(?P<name>[A-Za-z_][\w.]*)<\|args\|>", "<|done|>"), content={}
    )
    assert heard(read(data, "<|tool|>f<|args|>{}<|done|>")) == [("f", {})]
    assert read(data, "<|tool|>9f<|args|>{}<|done|>").calls == []


def test_a_name_among_fixed_ones() -> None:
    data = template("A:", tool_calls=calls("<(?P<name>f|go)>", "</end>"), content={})
    assert heard(read(data, '<go>{"n": 2}</end><f>{}</end>')) == [("go", {"n": 2}), ("f", {})]


def test_a_closer_of_the_body_counts_only_outside_strings() -> None:
    message = read(TEMPLATES["gemma4"], '<|tool_call>call:f{s:<|"|>a<tool_call|>b<|"|>}<tool_call|>')
    assert heard(message) == [("f", {"s": "a<tool_call|>b"})]


def test_values_are_typed_by_the_schema() -> None:
    text = "<tool_call><function=f><parameter=s>1</parameter><parameter=n>1</parameter></function></tool_call>"
    assert heard(read(TEMPLATES["qwen3-coder"], text)) == [("f", {"s": "1", "n": 1})]


KEY_VALUES = template("A:", tool_calls=calls(r"<c (?P<name>\w+)>", "</c>", content="kv-lines"), content={})


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ("n: 1", {"n": 1}),
        ("\n n : 1 \n s:a: b\n", {"n": 1, "s": "a: b"}),
        ("no pair\nn:2\n\n\ns: x", {"n": 2, "s": "x"}),
        ("", {}),
        ("s:", {"s": ""}),
    ],
)
def test_lines_of_key_and_value(body: str, arguments: dict[str, Any]) -> None:
    assert heard(read(KEY_VALUES, f"x<c f>{body}</c>y")) == [("f", arguments)]


def test_code_as_one_argument() -> None:
    transform = {"type": "function", "function": {"name": "f", "arguments": {"s": "{content}"}}}
    data = template("A:", tool_calls={"open": "<|py|>", "close": "<|eom|>", "transform": transform}, content={})
    assert heard(read(data, "Hm<|py|>\nprint(1)<|eom|>")) == [("f", {"s": "print(1)"})]


# ---- prompts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "reasoning"),
    [
        ("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n", "a"),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", None),
        ("<|im_start|>assistant\n", None),
        ("<think>", "a"),  # no anchor: the whole prompt
    ],
)
def test_the_prompt_decides_where_the_output_starts(prompt: str, reasoning: str | None) -> None:
    assert read(HERMES, "a</think>b" if reasoning else "b", prompt).reasoning == reasoning


def test_anchors() -> None:
    assert sample("gemma4").anchors == ("<|turn>model\n", "<tool_response|>")
    data = {"start_anchor_pattern": r"<\|turn\|>(?:bot|model)", "fields": {"content": {}}}
    assert load_template(data).anchors == ("<|turn|>bot", "<|turn|>model")


# ---- any text ----------------------------------------------------------------------------------------------

_PIECES = {
    name: [
        *sample(name).skips,
        *sample(name).tokens,
        *("x", " ", "\n", "{", "}", '"', ":", ",", "[", "]", "<", "f", '{"name": "f", "arguments": {"n": 1}}'),
        *("<think>", "</think>", "<tool_call>", "</tool_call>", "<function=f>", "<parameter=n>", "</parameter>"),
        *(
            "<|channel>thought\n",
            "<|tool_call>call:f",
            '<|"|>',
            "[TOOL_CALLS]",
            "[ARGS]",
            "<arg_key>",
            "<|channel|>",
        ),
        *(
            "<|START_ACTION|>",
            "<|START_TEXT|>",
            "<|message|>",
            "<response>\n",
            "</function>",
            "commentary to=functions.",
        ),
    ]
    for name in TEMPLATES
}


@pytest.mark.parametrize("name", TEMPLATES)
@given(data=st.data())
def test_any_text_any_cut(name: str, data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.sampled_from(_PIECES[name]), max_size=14))
    text = "".join(pieces)
    start = data.draw(st.sampled_from(sorted(sample(name).starts)))
    found = []
    for cut in ([text], pieces, list(text)):
        parser = Parser(grammar=sample(name), tools=TOOLS, start=start)  # type: ignore[arg-type]
        for piece in cut:
            parser.feed(piece)
        parser.finish()
        message = parser.message()
        found.append((brief(message), message.tail, [note.code for note in message.diagnostics]))
        assert sum(end - start for start, end, _ in message.spans) == len(text)
    assert found[0] == found[1] == found[2]
