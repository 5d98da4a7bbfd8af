"""Chat templates: the same prompts as transformers writes, for templates that use what templates use."""

from __future__ import annotations

import copy
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from serving_chat import SET_LAMP
from serving_models import BRACKETS, CHATML, byte_level
from toolgrammar_serving.chat import ChatRequest
from toolgrammar_serving.chat.files import ChatFiles, chat_files
from toolgrammar_serving.chat.prompts import TemplateRenderer
from toolgrammar_serving.chat.templates import ChatTemplate, TemplateRefused
from toolgrammar_serving.errors import BadRequest

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

#: Namespaces, macros, loop controls, slices, filters, tests, set blocks, whitespace control.
BUSY = """{{ bos_token }}
{%- set ns = namespace(system='', seen=0, tools=false) %}
{%- macro shown(tool, depth=0) %}
  {%- for key, value in tool.items() | sort %}
    {%- if value is mapping %}{{ key }}:({{ shown(value, depth + 1) }})
    {%- else %}{{ key }}={{ value | tojson }};{% endif %}
  {%- endfor %}
{%- endmacro %}
{%- if messages[0]['role'] == 'system' %}
{%- set ns.system = messages[0]['content'] | trim %}
{%- set messages = messages[1:] %}
{%- endif %}
{% set ns.tools = tools is not none and tools | length > 0 %}
<system>{{ ns.system }}
{%- if ns.tools %}|{% for tool in tools %}{{ shown(tool.function) }}{% endfor %}{% endif %}</system>
{% for message in messages %}
    {%- if message.role == 'tool' and loop.first %}{% continue %}{% endif %}
    {%- set ns.seen = ns.seen + 1 %}
    {%- if message.role == 'user' %}
<user {{ loop.index0 }}>{{ message.content }}</user>
    {% elif message.role == 'assistant' %}
        {%- generation %}
<assistant>
            {%- set thought = message.reasoning_content %}
            {%- if thought is defined and thought is string %}[{{ thought.strip('\\n') }}]{% endif %}
{{- message.content or '' }}
            {%- for call in message.tool_calls or [] %}
{{- '\\n' ~ call.function.name ~ '(' ~ (call.function.arguments | tojson(indent=1)) ~ ')' }}
            {%- endfor %}
</assistant>
        {%- endgeneration %}
    {%- elif message.role == 'tool' %}
        {%- if loop.previtem and loop.previtem.role != 'tool' %}<results>{% endif %}
<result>{{ message.content | replace('<', '&lt;') }}</result>
        {%- if loop.last or (loop.nextitem and loop.nextitem.role != 'tool') %}</results>{% endif %}
    {%- else %}
        {{- raise_exception('no role ' + message.role) }}
    {%- endif %}
    {%- if ns.seen > 20 %}{% break %}{% endif %}
{% endfor %}
{%- set words %}{{ ns.seen }} messages, {{ documents | length if documents else 'no' }} documents{% endset %}
{{ words | upper }} {{ flag | default('unset') }} {{ dict(a=1) | tojson(sort_keys=true, separators=(',', ':')) }}
{%- if add_generation_prompt %}
<assistant>{% if enable_thinking is defined and not enable_thinking %}[]{% endif %}
{%- endif %}
"""
PARTS = """{% for message in messages %}{{ message.role }}:
{%- if message.content is string %}{{ message.content }}{% else %}
{%- for part in message.content %}{% if part.type == 'text' %}{{ part.text }}/{% endif %}{% endfor %}{% endif %}
{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"""
TEMPLATES = {"chatml": CHATML, "brackets": BRACKETS, "busy": BUSY, "parts": PARTS}

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "set_lamp", "arguments": {"room": "Flur & Küche", "n": 1}},
}
TALKS: dict[str, list[dict[str, Any]]] = {
    "user": [{"role": "user", "content": "Hi <there> & 'you'"}],
    "history": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello", "reasoning_content": "\nHm.\n"},
        {"role": "user", "content": "  blanks  \n"},
    ],
    "calls": [
        {"role": "system", "content": " Be brief.\n"},
        {"role": "user", "content": "Light"},
        {"role": "assistant", "content": "Now", "tool_calls": [CALL, CALL]},
        {"role": "tool", "tool_call_id": "c1", "name": "set_lamp", "content": "<ok>"},
        {"role": "tool", "tool_call_id": "c1", "name": "set_lamp", "content": "ok 🌿"},
    ],
}
VARIABLES: list[dict[str, Any]] = [
    {},
    {"enable_thinking": False, "flag": [1, "ä"]},
    {"add_generation_prompt": False, "documents": [{"title": "T", "text": "x"}]},
]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tokenizer of transformers."""
    transformers = pytest.importorskip("transformers")
    folder = byte_level(tmp_path_factory.mktemp("model"), template=None)
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **TOKENS)


@pytest.mark.parametrize("variables", VARIABLES, ids=["plain", "variables", "documents"])
@pytest.mark.parametrize("tools", [None, [SET_LAMP]], ids=["bare", "tools"])
@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_the_same_as_transformers(
    peer: Any, template: str, talk: str, tools: Any, variables: dict[str, Any]
) -> None:
    if template == "brackets" and talk == "calls":
        pytest.skip("it has no calls")
    given = {"add_generation_prompt": True, **variables}
    right = peer.apply_chat_template(
        copy.deepcopy(TALKS[talk]), tools=tools, chat_template=TEMPLATES[template], tokenize=False, **given
    )
    own = ChatTemplate(TEMPLATES[template], TOKENS)
    assert own.render(copy.deepcopy(TALKS[talk]), tools, **given) == right
    # And the way that a request goes.
    wanted = dict(given)
    request = ChatRequest(
        "r",
        TALKS[talk],
        documents=wanted.pop("documents", None),
        add_generation_prompt=wanted.pop("add_generation_prompt"),
    )
    renderer = TemplateRenderer(ChatFiles({"default": TEMPLATES[template]}, TOKENS))
    assert renderer.render(request, tools, wanted) == right


@pytest.mark.parametrize("text", ["Sure, ", "Sure,", " two\n\nlines \n", "{{continue"])
@pytest.mark.parametrize("template", ["chatml", "busy", "brackets", "trimmed"])
def test_continued_as_transformers_does(peer: Any, template: str, text: str) -> None:
    source = TEMPLATES.get(template) or CHATML.replace("message.content or ''", "message.content | trim")
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": text}]
    right = peer.apply_chat_template(
        copy.deepcopy(talk), chat_template=source, tokenize=False, continue_final_message=True
    )
    renderer = TemplateRenderer(ChatFiles({"default": source}, TOKENS))
    request = ChatRequest("r", talk, continue_final_message=True, add_generation_prompt=False)
    assert renderer.render(request, None, {}) == right


def test_the_date_is_the_servers() -> None:
    template = ChatTemplate("{{ strftime_now('%d %B %Y') }}", now=lambda: datetime(2031, 4, 5))
    assert template.render([]) == "05 April 2031"


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('not so') }}",
        "{{ messages[3].content.x }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ 'a' + 1 }}",
        "{{ messages.append(1) }}",
        "{% for i in range(1000000000) %}{% endfor %}",
        "{{ 'x' * 1000000000 }}",
        "{{ 9 ** 999999999 }}",
        "{% set ns = namespace() %}{% set ns._x = 1 %}",
        "{{ undefined_function() }}",
        "{{ 1 / 0 }}",
    ],
)
def test_what_a_template_refuses_or_may_not_do(source: str) -> None:
    with pytest.raises(TemplateRefused) as caught:
        ChatTemplate(source).render([{"role": "user", "content": "x"}])
    assert caught.value.status == 400
    assert "Traceback" not in caught.value.message


def test_the_templates_own_words_reach_the_client() -> None:
    with pytest.raises(TemplateRefused, match="roles must alternate"):
        ChatTemplate("{{ raise_exception('roles must alternate') }}").render([])


def test_a_text_that_is_no_template() -> None:
    with pytest.raises(ValueError, match="line 2"):
        ChatTemplate("\n{% if %}")


# ---- which template ------------------------------------------------------------------------------------------


def prompt(renderer: TemplateRenderer, tools: Any = None, **fields: Any) -> str:
    return renderer.render(ChatRequest("r", [{"role": "user", "content": "x"}], **fields), tools, {})


def test_a_template_for_tools() -> None:
    renderer = TemplateRenderer(ChatFiles({"default": "plain", "tool_use": "tools"}))
    assert prompt(renderer) == "plain"
    assert prompt(renderer, [SET_LAMP]) == "tools"
    assert prompt(renderer, chat_template="tool_use") == "tools"


def test_a_requests_own_template() -> None:
    files = ChatFiles({"default": "plain"})
    assert prompt(TemplateRenderer(files, trusted=True), chat_template="own {{ messages[0].content }}") == "own x"
    with pytest.raises(BadRequest) as caught:
        prompt(TemplateRenderer(files), chat_template="own")
    assert caught.value.param == "chat_template"
    with pytest.raises(BadRequest) as caught:
        prompt(TemplateRenderer(files, trusted=True), chat_template="{% if %}")
    assert caught.value.param == "chat_template"


def test_a_model_without_a_template() -> None:
    with pytest.raises(BadRequest) as caught:
        prompt(TemplateRenderer(ChatFiles()))
    assert caught.value.code == "no_chat_template"


def test_files_of_a_model(tmp_path: Path) -> None:
    folder = byte_level(tmp_path / "model", template="from the configuration")
    found = chat_files(folder)
    assert found.templates == {"default": "from the configuration"}
    assert found.tokens == {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (folder / "chat_template.jinja").write_text("from the file", encoding="utf-8")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text("for tools", encoding="utf-8")
    assert chat_files(folder).templates == {"default": "from the file", "tool_use": "for tools"}
    assert chat_files(None) == ChatFiles()


def test_tools_that_a_template_leaves_out_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    deaf = "{% for message in messages %}{{ message.content }}{% endfor %}"
    renderer = TemplateRenderer(ChatFiles({"default": deaf}, {}))
    request = ChatRequest("r", [{"role": "user", "content": "Hi"}])
    assert [renderer.render(request, tools, {}) for tools in (None, [SET_LAMP], [SET_LAMP])] == ["Hi"] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "the chat template has no place for tools: the model hears nothing of those in requests"
    ]
