"""Prompts of models without a chat template, letter by letter. Right answers: the formats' descriptions; for
DeepSeek V4 and V4.1 ``tests/differential`` asks DeepSeek's own encoder too."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from serving_chat import Chat
from toolgrammar_serving.chat import ChatRequest
from toolgrammar_serving.chat.renderers import renderer_of
from toolgrammar_serving.chat.renderers.typescript import declaration
from toolgrammar_serving.errors import BadRequest

SYSTEM = {"role": "system", "content": "Be brief."}
ASKED = {"role": "user", "content": "Light!"}
MORE = {"role": "user", "content": "More!"}
TOOL = {
    "type": "function",
    "function": {
        "name": "set_light",
        "description": "Switch a light.",
        "parameters": {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]},
    },
}


def call(id_: str, arguments: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "set_light", "arguments": arguments}}


CALLED = {
    "role": "assistant",
    "content": "So.",
    "reasoning_content": "Two.",
    "tool_calls": [call("a", '{"room": " \\"x\\" ", "level": 15, "at": [1, {"ä": null}]}'), call("b", "{}")],
}
RESULTS = [
    {"role": "tool", "tool_call_id": "b", "content": "second"},
    {"role": "tool", "tool_call_id": "a", "content": "first"},
]
DONE = {"role": "assistant", "content": "Done.", "reasoning_content": "Fine."}


def prompt(format: str, messages: list[dict[str, Any]], tools: Any = None, **fields: Any) -> str:
    variables = fields.pop("variables", {})
    renderer = renderer_of(format, lambda: datetime(2031, 4, 5))
    assert renderer is not None
    return renderer.render(ChatRequest("r", messages, **fields), tools, variables)


# ---- DeepSeek V3.2 -------------------------------------------------------------------------------------------

V32_CALLS = (
    "\n\n<｜DSML｜function_calls>\n"
    '<｜DSML｜invoke name="set_light">\n'
    '<｜DSML｜parameter name="room" string="true"> "x" </｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="level" string="false">15</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="at" string="false">[1, {"ä": null}]</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n"
    '<｜DSML｜invoke name="set_light">\n\n</｜DSML｜invoke>\n'
    "</｜DSML｜function_calls>"
)
V32_RESULTS = "\n\n<function_results>\n<result>first</result>\n<result>second</result>\n</function_results>"


@pytest.mark.parametrize(
    ("messages", "variables", "right"),
    [
        ([ASKED], {}, "<｜User｜>Light!<｜Assistant｜></think>"),
        ([ASKED], {"thinking": True}, "<｜User｜>Light!<｜Assistant｜><think>"),
        ([SYSTEM, ASKED], {"enable_thinking": True}, "Be brief.<｜User｜>Light!<｜Assistant｜><think>"),
        (
            [ASKED, CALLED, *RESULTS],
            {"thinking": True},
            f"<｜User｜>Light!<｜Assistant｜><think>Two.</think>So.{V32_CALLS}<｜end▁of▁sentence｜>{V32_RESULTS}\n\n<think>",
        ),
        (
            [ASKED, CALLED, *RESULTS],
            {},
            f"<｜User｜>Light!<｜Assistant｜></think>So.{V32_CALLS}<｜end▁of▁sentence｜>{V32_RESULTS}\n\n</think>",
        ),
        (
            [ASKED, CALLED, *RESULTS, DONE, MORE],
            {"thinking": True},
            f"<｜User｜>Light!<｜Assistant｜></think>So.{V32_CALLS}<｜end▁of▁sentence｜>{V32_RESULTS}\n\n</think>Done."
            "<｜end▁of▁sentence｜><｜User｜>More!<｜Assistant｜><think>",
        ),
    ],
)
def test_deepseek_v32(messages: list[dict[str, Any]], variables: dict[str, Any], right: str) -> None:
    assert prompt("deepseek-v3.2", messages, variables=variables) == "<｜begin▁of▁sentence｜>" + right


def test_deepseek_v32_tools() -> None:
    found = prompt("deepseek-v3.2", [SYSTEM, ASKED], [TOOL])
    assert found.startswith(
        "<｜begin▁of▁sentence｜>Be brief.\n\n## Tools\n\nYou have access to a set of tools you can use to answer "
        'the user\'s question.\nYou can invoke functions by writing a "<｜DSML｜function_calls>" block like the '
        "following as part of your reply to the user:\n<｜DSML｜function_calls>\n"
        '<｜DSML｜invoke name="$FUNCTION_NAME">\n'
        '<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>\n'
        '...\n</｜DSML｜invoke>\n<｜DSML｜invoke name="$FUNCTION_NAME2">\n...\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>\n\nString and scalar parameters should be specified as is"
    )
    assert found.endswith(
        "<think>...thinking about results</think>\n\nHere are the functions available in JSONSchema format:\n"
        '<functions>\n{"name": "set_light", "description": "Switch a light.", "parameters": {"type": "object", '
        '"properties": {"room": {"type": "string"}}, "required": ["room"]}}\n</functions>\n'
        "<｜User｜>Light!<｜Assistant｜></think>"
    )


# ---- DeepSeek V4 and V4.1 ------------------------------------------------------------------------------------


def test_deepseek_v4() -> None:
    assert prompt("deepseek-v4", [SYSTEM, ASKED]) == (
        "<｜begin▁of▁sentence｜>Be brief.<｜User｜>Light!<｜Assistant｜><think>"
    )
    calls = V32_CALLS.replace("function_calls", "tool_calls")
    talk = [ASKED, CALLED, *RESULTS]
    results = "<｜User｜><tool_result>first</tool_result>\n\n<tool_result>second</tool_result>"
    for tools, thought in ((None, ""), ([TOOL], "<think>Two.")):
        found = prompt("deepseek-v4", talk, tools)
        assert found.endswith(
            f"<｜User｜>Light!<｜Assistant｜>{thought}</think>So.{calls}<｜end▁of▁sentence｜>{results}<｜Assistant｜><think>"
        )
    assert prompt("deepseek-v4", [ASKED], variables={"thinking": False}).endswith("<｜Assistant｜></think>")


def test_deepseek_v4_effort() -> None:
    plain = prompt("deepseek-v4", [ASKED])
    assert prompt("deepseek-v4", [ASKED], variables={"reasoning_effort": "low"}) == plain
    high = prompt("deepseek-v4", [ASKED], variables={"reasoning_effort": "high"})
    assert high.startswith(
        "<｜begin▁of▁sentence｜>Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    )
    quiet = prompt("deepseek-v4", [ASKED], variables={"reasoning_effort": "high", "thinking": False})
    assert quiet == "<｜begin▁of▁sentence｜><｜User｜>Light!<｜Assistant｜></think>"
    with pytest.raises(BadRequest) as caught:
        prompt("deepseek-v4", [ASKED], variables={"reasoning_effort": "extreme"})
    assert caught.value.param == "reasoning_effort"


@pytest.mark.parametrize(("effort", "level"), [(None, 75), ("low", 50), ("max", 100), (33, 33)])
def test_deepseek_v41(effort: Any, level: int) -> None:
    talk = [ASKED, DONE, {"role": "system", "content": "Late."}, MORE]
    assert prompt("deepseek-v4.1", talk, variables={"reasoning_effort": effort}) == (
        f"<｜begin▁of▁sentence｜><｜System｜>Reasoning Effort: {level} (range 1-100, the higher the value, "
        "the more thorough the reasoning)\n\n<｜User｜>Light!<｜Assistant｜></think>Done.<｜end▁of▁sentence｜>"
        "<｜System｜>Late.<｜User｜>More!<｜Assistant｜><think>"
    )


def test_deepseek_v41_calls() -> None:
    found = prompt("deepseek-v4.1", [ASKED, CALLED, *RESULTS])
    assert '\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="set_light">\n' in found
    assert '<｜DSML｜ parameter name="level" string="false">15</｜DSML｜ parameter>\n' in found
    assert found.count("</｜DSML｜ calls><｜end▁of▁sentence｜>") == 1


@pytest.mark.parametrize("format", ["deepseek-v3.2", "deepseek-v4", "deepseek-v4.1"])
def test_arguments_that_are_no_object(format: str) -> None:
    said = {"role": "assistant", "content": None, "tool_calls": [call("a", '{"room": "ha')]}
    space = " " if format == "deepseek-v4.1" else ""
    assert f'<｜DSML｜{space}parameter name="arguments" string="true">{{"room": "ha</｜DSML｜' in prompt(
        format, [ASKED, said, RESULTS[1]]
    )


# ---- harmony -------------------------------------------------------------------------------------------------

HARMONY_SYSTEM = (
    "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
    "Knowledge cutoff: 2024-06\nCurrent date: 2031-04-05\n\nReasoning: medium\n\n# Valid channels: analysis, "
    "commentary, final. Channel must be included for every message."
)
HARMONY_CALLS = (
    "<|start|>assistant to=functions.set_light<|channel|>commentary json<|message|>"
    '{"room": " \\"x\\" ", "level": 15, "at": [1, {"ä": null}]}<|call|>'
    "<|start|>assistant to=functions.set_light<|channel|>commentary json<|message|>{}<|call|>"
    "<|start|>functions.set_light to=assistant<|channel|>commentary<|message|>second<|end|>"
    "<|start|>functions.set_light to=assistant<|channel|>commentary<|message|>first<|end|>"
)


@pytest.mark.parametrize(
    ("messages", "right"),
    [
        ([ASKED], "<|start|>user<|message|>Light!<|end|><|start|>assistant"),
        (
            [SYSTEM, ASKED],
            "<|start|>developer<|message|># Instructions\n\nBe brief.<|end|><|start|>user<|message|>Light!<|end|>"
            "<|start|>assistant",
        ),
        (
            [ASKED, CALLED, *RESULTS],
            "<|start|>user<|message|>Light!<|end|><|start|>assistant<|channel|>analysis<|message|>Two.<|end|>"
            f"<|start|>assistant<|channel|>commentary<|message|>So.<|end|>{HARMONY_CALLS}<|start|>assistant",
        ),
        (
            [ASKED, CALLED, *RESULTS, DONE, MORE],
            "<|start|>user<|message|>Light!<|end|><|start|>assistant<|channel|>commentary<|message|>So.<|end|>"
            f"{HARMONY_CALLS}<|start|>assistant<|channel|>final<|message|>Done.<|end|>"
            "<|start|>user<|message|>More!<|end|><|start|>assistant",
        ),
    ],
)
def test_harmony(messages: list[dict[str, Any]], right: str) -> None:
    assert prompt("harmony", messages) == f"{HARMONY_SYSTEM}<|end|>{right}"


def test_harmony_tools_and_effort() -> None:
    found = prompt("harmony", [SYSTEM, ASKED], [TOOL], variables={"reasoning_effort": "high"})
    assert "\n\nReasoning: high\n\n" in found
    assert (
        "for every message.\nCalls to these tools must go to the commentary channel: 'functions'.<|end|>" in found
    )
    assert (
        "<|start|>developer<|message|># Instructions\n\nBe brief.\n\n# Tools\n\n## functions\n\n"
        "namespace functions {\n\n// Switch a light.\ntype set_light = (_: {\nroom: string,\n}) => any;\n\n"
        "} // namespace functions<|end|>"
    ) in found


@pytest.mark.parametrize(
    ("function", "right"),
    [
        ({"name": "now"}, "type now = () => any;"),
        (
            {"name": "now", "description": "One.\nTwo.", "parameters": {"type": "object", "properties": {}}},
            "// One.\n// Two.\ntype now = () => any;",
        ),
        (
            {
                "name": "f",
                "parameters": {
                    "type": "object",
                    "required": ["a", "o"],
                    "properties": {
                        "a": {"type": "string", "enum": ["x", "y"], "description": "An a.", "default": "x"},
                        "b": {"type": "array", "items": {"type": "integer"}},
                        "c": {"type": "boolean", "default": True},
                        "d": {"type": ["number", "null"]},
                        "e": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "number"}]},
                        "f": {"type": "array", "items": {"enum": ["p", "q"]}},
                        "g": {"type": "object"},
                        "o": {
                            "type": "object",
                            "properties": {"in": {"type": "string", "description": "Inner."}},
                        },
                        "r": {"$ref": "#/$defs/x"},
                    },
                },
            },
            'type f = (_: {\n// An a.\na: "x" | "y", // default: x\nb?: number[],\nc?: boolean, // default: true\n'
            'd?: number | null,\ne?: string | number,\nf?: Array<"p" | "q">,\ng?: object,\n'
            "o: {\n    // Inner.\n    in?: string,\n    },\nr?: any,\n}) => any;",
        ),
    ],
)
def test_declarations(function: dict[str, Any], right: str) -> None:
    assert declaration(function) == right


# ---- continued messages, and which renderer ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "end"),
    [
        ("deepseek-v3.2", "<｜Assistant｜></think>Done"),
        ("deepseek-v4", "<｜Assistant｜><think></think>Done"),
        ("deepseek-v4.1", "<｜Assistant｜><think></think>Done"),
        ("harmony", "<|start|>assistant<|channel|>final<|message|>Done"),
    ],
)
def test_continued(format: str, end: str) -> None:
    talk = [ASKED, {"role": "assistant", "content": "Done"}]
    assert prompt(format, talk, continue_final_message=True, add_generation_prompt=False).endswith(end)


@pytest.mark.parametrize("format", ["deepseek-v3.2", "deepseek-v4", "deepseek-v4.1", "harmony"])
def test_a_renderer_is_used_where_there_is_no_template(format: str) -> None:
    chat = Chat(format, template=None)
    assert chat.model.prompt(ChatRequest("r", [ASKED])) == prompt_of_today(format)
    assert Chat(format, template="own").model.prompt(ChatRequest("r", [ASKED])) == "own"


def prompt_of_today(format: str) -> str:
    renderer = renderer_of(format)
    assert renderer is not None
    return renderer.render(ChatRequest("r", [ASKED]), None, {})


def test_a_role_that_is_none() -> None:
    with pytest.raises(BadRequest, match="critic"):
        prompt("harmony", [{"role": "critic", "content": "x"}])
