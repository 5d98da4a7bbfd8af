"""Conversations as clients send them, in the shapes that templates take."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from serving_chat import Chat, request
from toolgrammar_serving.chat import ChatRequest
from toolgrammar_serving.chat.files import ChatFiles
from toolgrammar_serving.chat.history import messages_for
from toolgrammar_serving.chat.prompts import TemplateRenderer, variables_of
from toolgrammar_serving.chat.templates import ChatTemplate
from toolgrammar_serving.chat.traits import Traits
from toolgrammar_serving.errors import BadRequest

USER = {"role": "user", "content": "Hi"}
THOUGHT = {"type": "thinking", "thinking": "Hm"}


def call(arguments: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}


def calls(arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [call(arguments)], **fields}


@pytest.mark.parametrize(
    ("message", "traits", "right"),
    [
        ({"role": "user", "content": "a", "name": None}, Traits(), {"role": "user", "content": "a"}),
        ({"role": "user"}, Traits(), {"role": "user", "content": ""}),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]},
            Traits(),
            {"role": "user", "content": "a\nb"},
        ),
        (
            {"role": "user", "content": ["a", {"type": "text", "text": "b"}]},
            Traits(parts=True),
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ),
        (
            {"role": "user", "content": "a"},
            Traits(text=False, parts=True),
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
        ),
        ({"role": "developer", "content": "a"}, Traits(), {"role": "developer", "content": "a"}),
        ({"role": "developer", "content": "a"}, Traits(developer=False), {"role": "system", "content": "a"}),
        (
            {"role": "assistant", "content": [THOUGHT, {"type": "refusal", "refusal": "No"}]},
            Traits(),
            {"role": "assistant", "content": "No", "reasoning_content": "Hm", "reasoning": "Hm", "thinking": "Hm"},
        ),
        (calls('{"a": 1.0}'), Traits(), calls({"a": 1.0})),
        (calls({"a": 1}), Traits(), calls({"a": 1})),
        (calls(None), Traits(), calls({})),
        (calls(""), Traits(), calls({})),
        (calls("[1]"), Traits(), calls("[1]")),
        (calls('{"a"'), Traits(), calls('{"a"')),
        (calls({"a": "ä"}), Traits(arguments="text"), calls('{"a": "ä"}')),
        (calls('{"a":1}'), Traits(arguments="text"), calls('{"a":1}')),
        (calls("{}", content=None), Traits(silent="null"), calls({}, content=None)),
        (calls("{}"), Traits(silent="empty"), calls({}, content="")),
        (calls("{}", content=""), Traits(silent="null", empty=False), calls({}, content=None)),
        (calls("{}", content="so"), Traits(silent="null", empty=False), calls({}, content="so")),
    ],
)  # fmt: skip
def test_a_message(message: dict[str, Any], traits: Traits, right: dict[str, Any]) -> None:
    given = copy.deepcopy(message)
    assert messages_for([message], traits) == [right]
    assert message == given


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content", "thinking"])
def test_reasoning_has_all_its_names(name: str) -> None:
    (found,) = messages_for([{"role": "assistant", "content": "a", name: "Hm"}], Traits())
    assert [found[each] for each in ("reasoning", "reasoning_content", "thinking")] == ["Hm"] * 3


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        (["Hi"], "messages[0]"),
        ([USER, {"content": "Hi"}], "messages[1].role"),
        ([{"role": "user", "content": 1}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text", "text": 1}]}], "messages[0].content[0].text"),
        ([{"role": "assistant", "tool_calls": {}}, USER], None),
        ([{"role": "assistant", "tool_calls": [{"function": {}}]}], "messages[0].tool_calls[0].function"),
    ],
)
def test_what_is_refused(messages: list[Any], param: str | None) -> None:
    if param is None:  # no calls at all
        assert messages_for(messages, Traits())[0]["content"] == ""
        return
    with pytest.raises(BadRequest) as caught:
        messages_for(messages, Traits())
    assert caught.value.param == param


def test_a_part_that_is_no_text_is_named() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}
    with pytest.raises(BadRequest, match="'image_url'") as caught:
        Chat().prepare(request(messages=[message]))
    assert (caught.value.param, caught.value.code) == ("messages[0].content[1]", "unsupported_content")


# ---- what templates take, found out --------------------------------------------------------------------------

LOOP = "{% for message in messages %}{{ message.role }} BODY{% endfor %}"
CONTENT = "{{ message.content }}"
OBJECT = "{% for c in message.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}"
TEXT = "{% for c in message.tool_calls or [] %}{{ '' + c.function.arguments }}{% endfor %}"


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (
            CONTENT + OBJECT,
            {"text": True, "parts": False, "calls": True, "arguments": "object", "silent": "absent"},
        ),
        (CONTENT + TEXT, {"calls": True, "arguments": "text"}),
        (CONTENT, {"calls": False, "tools": False}),
        ("{{ '' + message.content }}" + OBJECT, {"silent": "empty", "empty": True}),
        (
            "{% if message.content is none %}" + OBJECT + "{% else %}" + CONTENT + "{% endif %}",
            {"silent": "null", "empty": False},
        ),
        ("{% for part in message.content %}{{ part.text }}{% endfor %}", {"text": False, "parts": True}),
        ("{% if message.role != 'developer' %}" + CONTENT + "{% endif %}", {"developer": False}),
        (CONTENT + "{{ tools | tojson }}", {"tools": True}),
    ],
)
def test_traits(body: str, right: dict[str, Any]) -> None:
    traits = ChatTemplate(LOOP.replace("BODY", body)).traits
    assert {name: getattr(traits, name) for name in right} == right


# ---- where a template refuses --------------------------------------------------------------------------------


def rendered(template: str, messages: list[dict[str, Any]], tools: Any = None) -> str:
    return TemplateRenderer(ChatFiles({"default": template})).render(ChatRequest("r", messages), tools, {})


def test_arguments_that_are_no_object_are_wrapped_if_they_must_be_one() -> None:
    items = "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}"
    template = LOOP.replace("BODY", CONTENT + "{% for c in message.tool_calls or [] %}" + items + "{% endfor %}")
    assert rendered(template, [USER, calls('{"a": 1}')]).endswith("a=1")
    assert rendered(template, [USER, calls('{"a')]).endswith('arguments={"a')


def test_a_late_system_message_is_the_users_where_it_may_not_be_late() -> None:
    strict = "{% if message.role == 'system' and not loop.first %}{{ raise_exception('first') }}{% endif %}"
    template = LOOP.replace("BODY", strict + CONTENT + ";")
    talk = [{"role": "system", "content": "S"}, USER, {"role": "system", "content": "L"}, {**USER, "content": "B"}]
    assert rendered(template, talk) == "system S;user Hi;user L\n\nB;"


def test_a_system_message_is_the_users_where_there_is_none() -> None:
    none = "{% if message.role == 'system' %}{{ raise_exception('none') }}{% endif %}"
    template = LOOP.replace("BODY", none + CONTENT + ";")
    assert rendered(template, [{"role": "system", "content": "S"}, USER]) == "user S\n\nHi;"
    assert rendered(template, [USER, {"role": "system", "content": "S"}]) == "user Hi;user S;"


def test_a_template_that_needs_a_list_of_tools() -> None:
    assert rendered("{% for tool in tools %}{% endfor %}ok", [USER]) == "ok"


def test_what_no_attempt_can_mend_is_told_in_the_first_words() -> None:
    with pytest.raises(BadRequest, match="never"):
        rendered("{{ raise_exception('never') }}", [{"role": "system", "content": "S"}, USER])


# ---- variables -----------------------------------------------------------------------------------------------


def variables(defaults: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return variables_of(ChatRequest("r", [USER], **fields), defaults)


def test_variables() -> None:
    assert variables({"a": 1}, chat_template_kwargs={"b": 2}) == {"a": 1, "b": 2}
    assert variables({"a": 1}, chat_template_kwargs={"a": 2}) == {"a": 2}
    effort = variables({}, reasoning_effort="high")
    assert effort == {"reasoning_effort": "high", "enable_thinking": True, "thinking": True}
    assert variables({}, reasoning_effort="none")["enable_thinking"] is False
    assert variables({}, reasoning_effort="none", chat_template_kwargs={"enable_thinking": True})[
        "enable_thinking"
    ]


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt"])
def test_variables_that_are_the_requests(name: str) -> None:
    with pytest.raises(BadRequest) as caught:
        variables({}, chat_template_kwargs={name: []})
    assert caught.value.param == "chat_template_kwargs"


def test_continuing_behind_a_generation_prompt_is_refused() -> None:
    with pytest.raises(BadRequest) as caught:
        Chat().prepare(request(continue_final_message=True, add_generation_prompt=True))
    assert caught.value.param == "continue_final_message"
