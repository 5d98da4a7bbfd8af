"""The renderer: whole turns as the formats' pages show them, and what it refuses to write.

Where a template writes more than the grammar says it may (``x?``), the renderer leaves it out; the line says so.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from readings.feeding import FORMATS, difference, grammar_of, read, turn_of

from toolgrammar import combinators as c
from toolgrammar.combinators import Grammar
from toolgrammar.language import read_grammar
from toolgrammar.readings.first import nodes_of
from toolgrammar.readings.render import RenderError, render, render_calls
from toolgrammar.readings.turns import Called, Said, Turn, fold, parts_of

_TYPES = {"code": "string", "rpm": "integer", "opts": "object"}
TOOLS = [
    {"name": "lathe", "parameters": {"properties": {key: {"type": kind} for key, kind in _TYPES.items()}}},
    {"name": "go"},
]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("lathe", {"code": 'x = "1"\ny', "rpm": 3, "opts": {"a": [True, None]}}),
    ("go", {}),
]
_JSON = r'{"code": "x = \"1\"\ny", "rpm": 3, "opts": {"a": [true, null]}}'

#: Reasoning "Think." where the format has it, content "Sure.", and CALLS.
EXPECTED = {
    # The template also closes the fence, and writes ```json: both are `?` in the grammar.
    "deepseek-r1": (
        "<think>Think.</think>Sure.<｜tool▁calls▁begin｜>"
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>lathe\n```\n" + _JSON +
        "<｜tool▁call▁end｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>go\n```\n{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "deepseek-v3": (
        "<think>Think.</think>Sure.<｜tool▁calls▁begin｜>"
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>lathe\n```\n" + _JSON +
        "<｜tool▁call▁end｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>go\n```\n{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "deepseek-v3.1": (
        "<think>Think.</think>Sure.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>lathe<｜tool▁sep｜>" + _JSON +
        "<｜tool▁call▁end｜><｜tool▁call▁begin｜>go<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    # The template puts a line feed behind </｜DSML｜invoke>, where the grammar has content.
    "deepseek-v3.2": (
        "<think>Think.</think>Sure.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"lathe\">\n"
        '<｜DSML｜parameter name="code" string="true">x = "1"\ny</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="rpm" string="false">3</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="opts" string="false">{"a": [true, null]}</｜DSML｜parameter>\n'
        '</｜DSML｜invoke><｜DSML｜invoke name="go">\n</｜DSML｜invoke></｜DSML｜function_calls>'
    ),
    "gemma4": (
        '<|channel>thought\nThink.\n<channel|>Sure.<|tool_call>call:lathe{code:<|"|>x = "1"\ny<|"|>,rpm:3,'
        "opts:{a:[true,null]}}<tool_call|><|tool_call>call:go{}<tool_call|>"
    ),
    "glm-4.5": (
        "<think>Think.</think>Sure.\n<tool_call>lathe\n"
        "<arg_key>code</arg_key>\n<arg_value>x = \"1\"\ny</arg_value>\n"
        "<arg_key>rpm</arg_key>\n<arg_value>3</arg_value>\n<arg_key>opts</arg_key>\n"
        '<arg_value>{"a": [true, null]}</arg_value>\n</tool_call>\n<tool_call>go\n</tool_call>'
    ),
    # The template also ends each call with <|call|>.
    "harmony": (
        "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Sure.<|end|>"
        "<|start|>assistant<|channel|>commentary to=functions.lathe<|message|>" + _JSON +
        "<|start|>assistant<|channel|>commentary to=functions.go<|message|>{}"
    ),
    "hermes": (
        "<think>\nThink.\n</think>\nSure.\n<tool_call>\n{\"name\": \"lathe\", \"arguments\": " + _JSON +
        "}\n</tool_call>\n<tool_call>\n{\"name\": \"go\", \"arguments\": {}}\n</tool_call>"
    ),
    "kimi-k2": (
        "<think>Think.</think>Sure.<|tool_calls_section_begin|><|tool_call_begin|>functions.lathe:0"
        "<|tool_call_argument_begin|>" + _JSON + "<|tool_call_end|><|tool_call_begin|>functions.go:1"
        "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    # The grammar's first arm has the tag, its envelope "arguments" first.
    "llama3-json": (
        'Sure.<|python_tag|>{"name": "lathe", "arguments": ' + _JSON +
        '}<|python_tag|>{"name": "go", "arguments": {}}'
    ),
    "mistral": (
        '[THINK]Think.[/THINK]Sure.[TOOL_CALLS][{"name": "lathe", "arguments": ' + _JSON +
        '}, {"name": "go", "arguments": {}}]'
    ),
    "pythonic": r'Sure.<|python_tag|>[lathe(code="x = \"1\"\ny", rpm=3, opts={"a": [True, None]}), go()]',
    "qwen3": (
        "<think>\nThink.\n</think>\nSure.\n<tool_call>\n{\"name\": \"lathe\", \"arguments\": " + _JSON +
        "}\n</tool_call>\n<tool_call>\n{\"name\": \"go\", \"arguments\": {}}\n</tool_call>"
    ),
    "qwen3-coder": (
        "<think>\nThink.\n</think>\nSure.\n<tool_call>\n<function=lathe>\n"
        '<parameter=code>\nx = "1"\ny\n</parameter>\n'
        '<parameter=rpm>\n3\n</parameter>\n<parameter=opts>\n{"a": [true, null]}\n</parameter>\n</function>\n'
        "</tool_call>\n<tool_call>\n<function=go>\n</function>\n</tool_call>"
    ),
}  # fmt: skip
_NO_REASONING = {"llama3-json", "pythonic"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_turn_is_written_as_the_page_shows(name: str) -> None:
    reasoning = None if name in _NO_REASONING else "Think."
    assert render_calls(grammar_of(name), CALLS, TOOLS, content="Sure.", reasoning=reasoning) == EXPECTED[name]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("parts", [[], CALLS[:1], CALLS], ids=["none", "one", "two"])
def test_what_is_written_reads_back(name: str, parts: list[tuple[str, dict[str, Any]]]) -> None:
    grammar = grammar_of(name)
    for start in grammar.starts:
        if (start == "section" and not parts) or (parts and not has_calls(grammar)):
            continue
        text = render_calls(grammar, parts, TOOLS, start=start)
        _, message = read(grammar, [text], TOOLS, start)
        assert difference(turn_of(message), fold(grammar, parts_of(parts))) == ""
        assert not message.unfinished and message.diagnostics == []


def has_calls(grammar: Grammar) -> bool:
    """Whether a format knows calls at all."""
    return any(isinstance(node, (c.Call, c.Envelope)) for node in nodes_of(grammar))


def test_the_prompt_may_have_opened_the_reasoning() -> None:
    text = render_calls(grammar_of("qwen3-coder"), [("go", {})], TOOLS, reasoning="Hm.", start="reasoning")
    assert text == "Hm.\n</think>\n\n<tool_call>\n<function=go>\n</function>\n</tool_call>"


def test_ids_are_written_where_the_format_has_them() -> None:
    call = ("go", {}, "aB3dE5gH7")
    assert render_calls(grammar_of("mistral"), [call]) == (
        '[TOOL_CALLS][{"name": "go", "arguments": {}, "id": "aB3dE5gH7"}]'
    )
    assert "functions.go:7" in render_calls(grammar_of("kimi-k2"), [("go", {}, "functions.go:7")])
    assert render_calls(grammar_of("deepseek-v3.1"), [call]) == render_calls(
        grammar_of("deepseek-v3.1"), [call[:2]]
    )


def test_content_between_calls() -> None:
    parts = [Called("go", {}), Said("content", "\nNow again."), Called("go", {})]
    call = "<tool_call>\n<function=go>\n</function>\n</tool_call>"
    assert render(grammar_of("qwen3-coder"), parts, TOOLS) == f"{call}\nNow again.\n{call}"


# ---- how a grammar says what is written --------------------------------------------------------------------


def test_canonical_white_space_and_optional_parts() -> None:
    grammar = read_grammar(
        """
        @start content = turn
        turn : content ("<call>" ws("\\n ") call(name ws1(" ") json) ("!" | ()) "?"? gap("\\n\\n") "</call>" turn)?
        """.replace("\n        ", "\n")
    )
    assert render_calls(grammar, [("go", {}), ("go", {"a": 1})], content="C") == (
        'C<call>\n go {}!\n\n</call><call>\n go {"a": 1}!\n\n</call>'
    )


def test_a_write_line_gives_the_text_of_a_header() -> None:
    harmony = grammar_of("harmony")
    lines = ('header "assistant<|channel|>commentary to=functions.{name} <|constrain|>json"',)
    grammar: Grammar = msgspec.structs.replace(harmony, facts={"write": lines})
    assert (
        render_calls(grammar, [("go", {})])
        == "<|channel|>commentary to=functions.go <|constrain|>json<|message|>{}"
    )


# ---- what cannot be said -----------------------------------------------------------------------------------


CANNOT: list[tuple[str, list[Any], str, str]] = [
    (
        "seed-oss", [Called("lathe", {"code": "</parameter></function>"})],
        "the call of 'lathe'", "'code' holds the closer '</parameter>'",
    ),
    (
        "qwen3-coder", [Called("lathe", {"code": "a\n</parameter>\n</function>"})],
        "the call of 'lathe'", "'code' holds the closer '</parameter>'",
    ),
    (
        "glm-4.5", [Called("lathe", {"rpm": "3"})],
        "the call of 'lathe'", "'rpm' would be read as 3: the tool's schema decides its type",
    ),
    (
        "gemma4", [Called("lathe", {"code": '<|"|>'})],
        "the call of 'lathe'", "a string holds the format's string delimiter '<|\"|>'",
    ),
    (
        "hermes", [Called("go", {"x": float("nan")})],
        "the call of 'go'", "Out of range float values are not JSON compliant",
    ),
    (
        "glm-4.5", [Called("two words", {})],
        "the call of 'two words'", "'two words' cannot be written as its name",
    ),
    (
        "hermes", [Said("content", "Done. \n"), Called("go", {})],
        r"the content 'Done. \n'", "the white space at its end would be taken for framing",
    ),
    (
        "kimi-k2", [Said("content", "a<|tool_call_begin|>b")],
        "the content 'a<|tool_call_begin|>b'", "it holds the marker '<|tool_call_begin|>'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parts", "what", "why"), CANNOT)
def test_what_the_format_cannot_say_is_an_error(name: str, parts: list[Any], what: str, why: str) -> None:
    with pytest.raises(RenderError) as caught:
        render(grammar_of(name), parts, TOOLS)
    assert str(caught.value).removesuffix(": nan") == f"{name}: {what} cannot be written: {why}"


def test_a_format_without_reasoning_cannot_say_it() -> None:
    with pytest.raises(RenderError, match="pythonic: the turn cannot be written in this format"):
        render_calls(grammar_of("pythonic"), [], reasoning="Hm.")


def test_another_way_of_the_format_may_say_what_one_cannot() -> None:
    held = {"code": "</｜DSML｜parameter>"}
    assert '<｜DSML｜invoke name="lathe">\n{"code": "</｜DSML｜parameter>"}\n</｜DSML｜invoke>' in render_calls(
        grammar_of("deepseek-v3.2"), [("lathe", held)], TOOLS
    )
    assert render_calls(grammar_of("mistral"), [], content=" <think>") == "[THINK][/THINK] <think>"


def test_a_marker_that_does_not_count_may_stand_in_a_value() -> None:
    code = "a</parameter> b <tool_call> </function>"
    text = render_calls(grammar_of("qwen3-coder"), [("lathe", {"code": code})], TOOLS)
    _, message = read(grammar_of("qwen3-coder"), [text], TOOLS, "content")
    assert turn_of(message).calls[0][1] == {"code": code}


def test_generation_starts_only_where_the_format_says() -> None:
    with pytest.raises(RenderError, match="pythonic: generation cannot start in 'reasoning'; it can in content"):
        render_calls(grammar_of("pythonic"), [], start="reasoning")


def test_fold_joins_blocks_and_leaves_other_stretches_as_they_are() -> None:
    parts = [Said("reasoning", "a"), Said("content", "b"), Said("reasoning", "c"), Said("content", "d")]
    assert fold(grammar_of("harmony"), parts) == Turn("a\nc", "b\nd", [])
    assert fold(grammar_of("deepseek-v3"), parts) == Turn("a\nc", "bd", [])
    assert fold(grammar_of("deepseek-v3"), [Said("content", "b"), Said("content", "d", block=True)]) == Turn(
        None, "b\nd", []
    )
