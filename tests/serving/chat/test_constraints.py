"""What engines are asked to enforce: tried with xgrammar, on what models write and on what they must not."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from serving_chat import SET_LAMP, Answer, Chat, fixed, request
from serving_constraints import admits
from toolgrammar_serving.chat import ResponseFormat, ToolChoice
from toolgrammar_serving.errors import BadRequest

THINKING = "<|im_start|>assistant\n<think>\n"
HYBRID = "<|im_start|>assistant\n"
CLOSED = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
HARMONY = ("<|start|>", "<|return|>", "<|end|>", "<|call|>", "<|channel|>", "<|message|>", "<|constrain|>")
CALL = '<tool_call>\n{"name": "set_lamp", "arguments": {"room": "hall", "on": true}}\n</tool_call>'
WRONG = CALL.replace("set_lamp", "set_lump")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LINKED = {
    "type": "function",
    "function": {
        "name": "move",
        "parameters": {
            "type": "object",
            "properties": {"to": {"$ref": "#/$defs/place"}},
            "required": ["to"],
            "$defs": {"place": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
        },
    },
}


def sent(prompt: str, chat: Chat | None = None, **fields: Any) -> Any:
    """The request at the engine, its prompt being ``prompt``."""
    chat = chat or Chat(template=fixed(prompt))
    chat.start(request(**fields))
    return chat.sent


def outputs(prompt: str, **fields: Any) -> Any:
    return sent(prompt, **fields).sampling_params.structured_outputs


def test_nothing_is_enforced_on_a_free_choice() -> None:
    assert outputs(HYBRID) is None
    assert sent(HYBRID).reasoning_ended is None


@pytest.mark.parametrize(("prompt", "thought"), [(THINKING, "I think.\n</think>\n\n"), (CLOSED, "")])
@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice("named", ("set_lamp",))])
def test_forced_choice(prompt: str, thought: str, choice: ToolChoice) -> None:
    got = sent(prompt, tool_choice=choice)
    constraint = got.sampling_params.structured_outputs
    assert got.reasoning_ended is True
    assert constraint.backend == "xgrammar"
    assert admits(constraint, thought + CALL)
    assert not admits(constraint, thought + WRONG)
    assert not admits(constraint, thought + "No call.")


def test_forced_choice_after_thinking() -> None:
    chat = Chat(template=fixed(THINKING))
    steps = [["I think."], ["</think>", "<tool_call>", '\n{"name": '], ['"set_lamp", "arguments": {"room": "x"}}'],
             ["\n</tool_call>"]]  # fmt: skip
    answer = chat.answer(request(tool_choice=ToolChoice("required")), steps)
    assert answer == Answer("I think.", None, [("set_lamp", '{"room": "x"}')], "tool_calls")
    text = "".join(piece for step in steps for piece in step)
    assert admits(chat.sent.sampling_params.structured_outputs, text)
    assert chat.sent.reasoning_ended is True


def test_one_call_where_parallel_calls_are_not_wanted() -> None:
    for parallel in (True, False):
        constraint = outputs(CLOSED, tool_choice=ToolChoice("required"), parallel_tool_calls=parallel)
        assert admits(constraint, CALL)
        assert admits(constraint, f"{CALL}\n{CALL}") is parallel


def test_strict_tools_on_a_free_choice() -> None:
    strict = {"type": "function", "function": {**SET_LAMP["function"], "strict": True}}
    constraint = outputs(CLOSED, tools=[strict])
    assert admits(constraint, "Free text.")
    assert admits(constraint, f"So: {CALL}")
    assert not admits(constraint, f"So: {CALL.replace('true', '1')}")


#: What a level lets pass on a free choice: any text, a call of a tool not offered, one with wrong arguments.
LEVELS = {
    "auto": (True, True, True),
    "function": (True, False, True),
    "parameter": (True, False, False),
}


@pytest.mark.parametrize("level", LEVELS)
def test_a_server_s_strict_level(level: Any) -> None:
    texts = ("Free text.", WRONG, CALL.replace("true", "1"))
    constraint = sent("", Chat(template=fixed(CLOSED), tool_strict_level=level)).sampling_params.structured_outputs
    assert tuple(constraint is None or admits(constraint, text) for text in texts) == LEVELS[level]
    assert constraint is None or admits(constraint, CALL)


def test_allowed_tools() -> None:
    other = {"type": "function", "function": {"name": "read_lamp", "parameters": {"type": "object"}}}
    constraint = outputs(CLOSED, tools=[SET_LAMP, other], tool_choice=ToolChoice("required", ("set_lamp",)))
    assert admits(constraint, CALL)
    assert not admits(constraint, CALL.replace("set_lamp", "read_lamp"))


@pytest.mark.parametrize("format", ["hermes", "none"])
def test_schema_defs_in_constraint(format: str) -> None:
    tools = [LINKED]
    given = copy.deepcopy(tools)
    chat = Chat(format, template=fixed(CLOSED))
    for _ in range(2):
        constraint = sent(
            "", chat, tools=tools, tool_choice=ToolChoice("required")
        ).sampling_params.structured_outputs
        good, bad = '{"to": {"x": 1}}', '{"to": {"y": 1}}'
        if format == "none":
            good, bad = (f'[{{"name": "move", "parameters": {each}}}]' for each in (good, bad))
        else:
            good = f'<tool_call>\n{{"name": "move", "arguments": {good}}}\n</tool_call>'
            bad = good.replace("move", "moved")
        assert admits(constraint, good)
        assert not admits(constraint, bad)
    assert tools == given


# ---- forced calls as JSON, where the format has no calls -----------------------------------------------------


def test_a_named_call_as_its_arguments() -> None:
    chat = Chat("none", template=fixed(HYBRID))
    asked = request(tool_choice=ToolChoice("named", ("set_lamp",)))
    answer = chat.answer(asked, ['{"room": "hall"', "}"])
    assert answer == Answer(None, None, [("set_lamp", '{"room": "hall"}')], "tool_calls")
    constraint = chat.sent.sampling_params.structured_outputs
    assert admits(constraint, '{"room": "hall"}')
    assert not admits(constraint, '{"on": true}')


def test_required_calls_as_a_list() -> None:
    chat = Chat("none", template=fixed(HYBRID))
    text = '[{"name": "set_lamp", "parameters": {"room": "a"}}, {"name": "set_lamp", "parameters": {"room": "b"}}]'
    answer = chat.answer(request(tool_choice=ToolChoice("required")), list(text))
    assert answer.calls == [("set_lamp", '{"room": "a"}'), ("set_lamp", '{"room": "b"}')]
    assert (answer.content, answer.finish) == (None, "tool_calls")
    assert admits(chat.sent.sampling_params.structured_outputs, text)


# ---- formats of the content ----------------------------------------------------------------------------------

JSON = ResponseFormat("json_schema", SCHEMA)


@pytest.mark.parametrize(
    ("prompt", "before"),
    [(CLOSED, ""), (THINKING, "I think.\n</think>\n\n"), (HYBRID, ""), (HYBRID, "<think>\nSo.\n</think>\n\n")],
)
def test_json_schema(prompt: str, before: str) -> None:
    got = sent(prompt, tools=None, response_format=JSON)
    constraint = got.sampling_params.structured_outputs
    assert admits(constraint, before + '{"n": 1}')
    assert not admits(constraint, before + '{"n": "one"}')
    assert got.reasoning_ended is True


def test_json_schema_or_a_call() -> None:
    constraint = outputs(CLOSED, response_format=JSON)
    assert admits(constraint, '{"n": 1}')
    assert admits(constraint, CALL)
    assert not admits(constraint, "Free text.")


def test_json_object() -> None:
    constraint = outputs(CLOSED, tools=None, response_format=ResponseFormat("json_object"))
    assert constraint.json_object is True
    constraint = outputs(THINKING, tools=None, response_format=ResponseFormat("json_object"))
    assert admits(constraint, 'Hm.</think>{"any": [1]}')
    assert not admits(constraint, "Hm.</think>[1]")


def test_a_structural_tag_of_the_client_goes_as_it_is() -> None:
    tag = json.dumps({"type": "structural_tag", "format": {"type": "const_string", "value": "yes"}})
    got = sent(THINKING, tools=None, response_format=ResponseFormat("structural_tag", tag=tag))
    assert got.sampling_params.structured_outputs.structural_tag == tag


@pytest.mark.parametrize("before", ["", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"])
def test_json_schema_in_a_format_of_headers(before: str) -> None:
    chat = Chat("harmony", markers=HARMONY, template="<|start|>assistant")
    got = sent("", chat, tools=None, response_format=JSON)
    assert admits(got.sampling_params.structured_outputs, before + '<|channel|>final<|message|>{"n": 1}')
    assert not admits(got.sampling_params.structured_outputs, before + '<|channel|>final<|message|>{"n": ""}')
    assert got.reasoning_ended is True


@pytest.mark.parametrize(
    ("own", "good", "bad"),
    [
        ({"regex": "[ab]+"}, "abba", "c"),
        ({"choice": ["yes", "no"]}, "yes", "maybe"),
        ({"json": SCHEMA}, '{"n": 1}', "1"),
        ({"grammar": 'root ::= "x" | "y"'}, "x", "z"),
        ({"regex": r"[\u{61}b]{2}", "_backend": "auto"}, "ab", "c"),  # no form that Python knows
    ],
)
def test_the_engines_own_fields_behind_a_thought(own: dict[str, Any], good: str, bad: str) -> None:
    constraint = outputs(THINKING, tools=None, structured_outputs=own)
    assert admits(constraint, f"Hm.</think>{good}")
    assert not admits(constraint, f"Hm.</think>{bad}")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs"),
        ({"structured_outputs": {"regexp": "a"}}, "structured_outputs"),
        ({"structured_outputs": {"choice": "a"}}, "structured_outputs"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs"),
        ({"structured_outputs": {"grammar": " "}}, "structured_outputs"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs"),
        ({"structured_outputs": {"json": "[1]"}}, "structured_outputs"),
        ({"structured_outputs": {"structural_tag": "1"}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "(("}}, "structured_outputs"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"response_format": ResponseFormat("json_schema")}, "response_format"),
        ({"response_format": ResponseFormat("structural_tag", tag="[")}, "response_format"),
        ({"tool_choice": ToolChoice("named", ("other",))}, "tool_choice"),
        ({"tool_choice": ToolChoice("named")}, "tool_choice"),
        ({"tool_choice": ToolChoice("required"), "tools": None}, "tool_choice"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools"),
        ({"start": "section"}, "start"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        sent(CLOSED, **fields)
    assert caught.value.param == param


def test_a_schema_too_deep_is_refused() -> None:
    schema: Any = {"type": "object"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(BadRequest, match="levels"):
        sent(CLOSED, response_format=ResponseFormat("json_schema", schema))
