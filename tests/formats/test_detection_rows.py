"""What is in a model's files selects its format: small templates, vocabularies and architectures of every format.

The texts are made up; each has what the evidence of one format needs, and what real templates have besides.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolgrammar import registry
from toolgrammar.language.detect import Evidence

#: Format, then a chat template.
TEMPLATES: list[tuple[str, str]] = [
    ("harmony", "<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>"),
    ("beam", "<|start|>assistant to={{ n }}<|channel|>analysis<|message|><rfl:parameter name=\"{{ k }}\">"),
    ("muse", "<|start|>assistant to={{ n }}<|message|><atem:function_calls>{{ x }}</atem:function_calls><|eom|>"),
    ("gemma4", "<|turn>model\n<|channel>thought\n{{ t }}<channel|><|tool_call>call:{{ n }}<tool_call|>"),
    ("functiongemma", "<start_of_turn>model\n<start_function_call>call:{{ n }}{a:<escape>x<escape>}"),
    ("gigachat3.5", "assistant<|role_sep|>\n<｜GCML｜tool_calls>{{ c }}</｜GCML｜tool_calls><|message_sep|>"),
    ("gigachat3", "assistant<|role_sep|>\n{{ c }}<|message_sep|>function call<|role_sep|>"),
    ("gigachat3", "assistant<|role_sep|>\n{{ c }}<|function_call|>{{ j }}<|message_sep|>"),
    ("apertus", "<|assistant_start|><|inner_prefix|>{{ t }}<|tools_prefix|>[{{ c }}]<|tools_suffix|>"),
    ("iquest-q1", "<|iquest_assistant|><think>{{ t }}</think><iquest_tool_call>{{ n }}<arg_key>"),
    ("k2-horizon", "<ifm|think>{{ t }}</ifm|think><ifm|tool_calls><ifm|tool_call>{{ n }}"),
    ("plamo3", "<|plamo:op|>assistant<|plamo:msg|><|plamo:begin_tool_requests:plamo|>"),
    ("dots", "<think>{{ t }}</think><dots_function_call><invoke name=\"{{ n }}\">"),
    ("ernie45", "think_mode=True <think>{{ t }}</think><response>{{ c }}</response>"
                "within <tool_call></tool_call> XML tags"),
    ("solar-open", "<|begin|>assistant<|think|>{{ t }}<|end|><|tool_call:begin|>{{ id }}<|tool_call:name|>"),
    ("apriel", "Here are my reasoning steps:\n[BEGIN FINAL RESPONSE]{{ c }}<tool_calls>[{{ j }}]</tool_calls>"),
    ("kimi-k2", "<|im_assistant|>assistant<|im_middle|><|tool_calls_section_begin|><|tool_call_begin|>{{ id }}"),
    ("kimi-k3", "<|open|>message role=\"assistant\"<|sep|>{{ c }}<|close|>message<|sep|><|end_of_msg|>"),
    ("kimi-vl", "<|im_assistant|>assistant<|im_middle|>◁think▷{{ t }}◁/think▷"),
    ("inkling", "<|message_model|><|content_text|>{{ c }}<|end_message|>"),
    ("deepseek-v4.1", "<｜Assistant｜><｜DSML｜ calls>{{ c }}</｜DSML｜ calls>"),
    ("deepseek-v3.2", "<｜Assistant｜><｜DSML｜function_calls>{{ c }}</｜DSML｜function_calls>"),
    ("deepseek-v3.2", "{% set dsml_token = '｜DSML｜' %}<{{ dsml_token }}function_calls>"),
    ("deepseek-v4", "<｜Assistant｜><｜DSML｜tool_calls>{{ c }}</｜DSML｜tool_calls>"),
    ("deepseek-v4", "{% set dsml_token = '｜DSML｜' %}<{{ dsml_token }}tool_calls>"),
    ("deepseek-v3.1", "<｜Assistant｜></think><｜tool▁calls▁begin｜>{{ n }}<｜tool▁sep｜>{{ a }}"),
    ("deepseek-v3", "<｜tool▁calls▁begin｜>function<｜tool▁sep｜>{{ n }}\n```json\n{{ a }}\n```"),
    ("deepseek-r1", "<｜tool▁calls▁begin｜>function<｜tool▁sep｜>{{ n }}\n```json\n{{ a }}\n```"
                    "{{ '<｜Assistant｜><think>\\n' }}"),
    ("step3", "<｜tool_calls_begin｜><｜tool_call_begin｜><steptml:invoke name=\"{{ n }}\">"),
    ("minimax-m3", "]~b]ai\n<mm:think>{{ t }}</mm:think>]<]minimax[>[<tool_call>"),
    ("minimax-m2", "]~b]ai\n<think>{{ t }}</think><minimax:tool_call><invoke name=\"{{ n }}\">"),
    ("minimax-m1", "<beginning_of_sentence>ai name=assistant\nrespond with <tool_calls></tool_calls> XML tags"),
    ("seed-oss", "<seed:think>{{ t }}</seed:think><seed:tool_call>\n<function={{ n }}>\n<parameter={{ k }}>"),
    ("longcat", "ASSISTANT:<longcat_tool_call>{\"name\": {{ n }}}</longcat_tool_call>"),
    ("hy-v3", "<tool_calls{{ HYTK }}><tool_call{{ HYTK }}>{{ n }}<tool_sep{{ HYTK }}>"),
    ("hy-v4", "<tool_calls{{ HYTK }}><tool_call{{ HYTK }}>{{ n }}<arg_key{{ HYTK }}>"),
    ("hunyuan-a13b", "助手：{{ c }}<tool_calls>[{\"name\": {{ n }}}]</tool_calls>"),
    ("hunyuan-a13b", "<|extra_0|>{{ c }}<tool_calls>[{\"name\": {{ n }}}]</tool_calls>"),
    ("ling-3", "<role>ASSISTANT</role>\n<tool_call>{{ n }}\n<arg_key>within <tool_call></tool_call> XML tags"),
    ("ling-3", "<role>SYSTEM</role>{{ s }}<|role_end|>"),
    ("glm-4.5", "[gMASK]<sop><think></think><tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>"),
    ("glm-4.7", "[gMASK]<sop><think></think><tool_call>{function-name}<arg_key>{arg-key-1}</arg_key>"),
    ("poolside-v1", "All available function signatures are listed below <tool_call>{{ n }}<arg_key>"),
    ("poolside-v1", "<assistant><think>unescaped XML-like object<tool_call>{{ n }}<arg_key>"),
    ("spark-2.5", "<|Bot|><think>{{ t }}</think><tool_call>{{ n }}<arg_key>{{ k }}</arg_key>"),
    ("minicpm5", "Tool usage guidelines:<think></think><function name=\"{{ n }}\"><param name=\"{{ k }}\">"),
    ("cohere-command", "<|START_ACTION|>[{{ c }}]<|END_ACTION|><|START_TEXT|>{{ t }}<|END_TEXT|>"),
    ("cohere-command", "Action: tool_name <|START_ACTION|>[{{ c }}]<|END_ACTION|><|START_RESPONSE|>"),
    ("command-r", "Write 'Action:' and a list. Action: ```json\n[{\"tool_name\": {{ n }}}]```"),
    ("mistral", "[INST]{{ u }}[/INST][TOOL_CALLS][{{ c }}]</s>"),
    ("mistral", "[INST]{{ u }}[/INST][THINK]{{ t }}[/THINK][TOOL_CALLS]{{ n }}[CALL_ID]{{ i }}[ARGS]{{ a }}"),
    ("lfm2", "<|im_start|>assistant\n<|tool_call_start|>[{{ c }}]<|tool_call_end|>"),
    ("lfm2", "<|tool_list_start|>[{{ t }}]<|tool_list_end|>"),
    ("lfm2", "List of tools: [{{ t }}]"),
    ("functionary-v3.2", ">>>all\n{{ c }}>>>{{ n }}\n{{ j }}"),
    ("functionary-v3.1", "<function={{ n }}>{{ j }}</function><|python_tag|>{{ code }}<|eom_id|>"),
    ("nemotron-nano-v2", "<SPECIAL_11>Assistant\n<think></think><TOOLCALL>[{{ c }}]</TOOLCALL>"),
    ("mimo", "<think>{{ t }}</think><tool_call><function={{ n }}><parameter={{ k }}>{{ v }}</parameter>"),
    ("nemotron-v3", "truncate_history_thinking <tool_call>\n<function={{ n }}>\n<parameter={{ k }}>"),
    ("granite-thinking", "truncate_history_thinking defer_loading <function={{ n }}>\n<parameter={{ k }}>"),
    ("step3.5", "You are Step-3.5 <think></think><tool_call>\n<function={{ n }}>\n<parameter={{ k }}>"),
    ("step3.5", "<|im_start|>tool_response\n<tool_call>\n<function={{ n }}>\n<parameter={{ k }}>"),
    ("step3.5", "functions in JSONSchema format <tool_call>\n<function={{ n }}>\n<parameter={{ k }}>"),
    ("qwen3-coder", "<think></think><tool_call>\n<function=example_name>\n<parameter=example_parameter_1>"),
    ("internlm", "<|im_start|>assistant\n<|action_start|><|plugin|>{{ j }}<|action_end|>"),
    ("phi4-mini", "Always prefix function calls with functools marker: functools[{{ c }}]"),
    ("phi4-mini", "{{ c }} functools[{{ j }}]"),
    ("granite4", "<|start_of_role|>assistant<|end_of_role|>within <tool_call></tool_call> XML tags"),
    ("granite", "<|start_of_role|>assistant<|end_of_role|><|tool_call|>[{{ c }}]"),
    ("olmo3", "<functions>{{ f }}</functions><function_calls>{{ n }}(x=1)</function_calls>"),
    ("smollm3", "Reasoning Mode: /no_think within <tool_call></tool_call> XML tags <think></think>"),
    ("llama4-pythonic", "<|python_start|>[func_name1(params_name1=params_value1)]<|python_end|>"),
    ("hermes", "within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>}"),
    ("hermes", "<|im_start|>assistant\n<tool_call>{\"name\": \"{{ n }}\"}</tool_call>"),
    ("hermes", "{{ '\\n<tool_call>\\n{\"name\": \"' }}<think></think>"),
    ("hermes", "{{ \"<tool_call>\\n{\\\"name\\\": \" }}"),
    ("hermes", "{{ \"<tool_call>{\\\"name\\\": \" }}[|assistant|]<think></think>"),
    ("pythonic", "in the format of [func_name1(params_name1=params_value1, params_name2=params_value2)]"),
    ("llama3-json", "<|start_header_id|>assistant<|end_header_id|>\n\n<|python_tag|>{{ n }}.call()"),
    ("llama3-json", "{\"name\": function name, \"parameters\": dictionary of argument name and its value}"),
    ("qwen3", "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
    ("qwen3", "{% if '</think>' in content %}{{ content.split('</think>')[-1] }}{% endif %}"),
]  # fmt: skip

#: Format, then an architecture or model type, then a template if it needs one.
ARCHITECTURES: list[tuple[str, str, str]] = [
    ("harmony", "GptOssForCausalLM", ""),
    ("harmony", "gpt_oss", ""),
    ("muse", "MuseGlimmerForConditionalGeneration", ""),
    ("muse", "MuseSparkForConditionalGeneration", ""),
    ("gemma4", "Gemma4ForConditionalGeneration", ""),
    ("gemma4", "gemma4_text", ""),
    ("apertus", "ApertusForCausalLM", ""),
    ("iquest-q1", "IQuestQ1ForCausalLM", ""),
    ("k2-horizon", "K2HorizonForCausalLM", ""),
    ("plamo3", "Plamo3ForCausalLM", ""),
    ("dots", "Dots3NoteForCausalLM", ""),
    ("ernie45", "ernie4_5_moe", "<think>{{ t }}</think>"),
    ("solar-open", "solar_open", ""),
    ("kimi-k3", "KimiK3ForConditionalGeneration", ""),
    ("deepseek-v4", "DeepseekV4ForCausalLM", ""),
    ("deepseek-v4.1", "DeepseekV41ForCausalLM", ""),
    ("ling-3", "BailingMoeV3ForCausalLM", ""),
    ("lfm2", "lfm2_moe", ""),
    ("minicpmv", "MiniCPMV4_6ForConditionalGeneration", "<tool_call>\n<function={{ n }}>\n<parameter={{ k }}>"),
    ("trinity", "afmoe", "within <tool_call></tool_call> XML tags"),
    ("qwen3-coder", "afmoe", "<tool_call>\n<function={{ n }}>\n<parameter={{ k }}>"),
    ("internlm", "internlm2", ""),
    ("internlm", "interns1", "<think></think>"),
    ("granite4", "granitemoehybrid", ""),
    ("jamba", "jamba", "<tool_calls>"),
    ("smollm3", "smollm3", "within <tool_call></tool_call> XML tags"),
]  # fmt: skip

#: Format, then added tokens, then a template if it needs one.
VOCABULARIES: list[tuple[str, list[str], str]] = [
    ("gemma4", ["<|channel>", "<|tool_call>"], ""),
    ("functiongemma", ["<start_function_call>", "<escape>"], ""),
    ("apertus", ["<|inner_prefix|>"], ""),
    ("plamo3", ["<|plamo:begin_think:plamo|>"], ""),
    ("sarashina", ["<|tool_calls|>"], ""),
    ("solar-open", ["<|tool_calls|>", "<|tool_call:begin|>"], "<|tool_call:begin|>"),
    ("kimi-k3", ["<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"], ""),
    ("kimi-k2", ["<|tool_calls_section_begin|>"], ""),
    ("inkling", ["<|content_invoke_tool_json|>"], ""),
    ("step3", ["<｜tool_calls_begin｜>"], ""),
    ("hy-v3", ["<tool_calls>", "<tool_sep>", "<arg_key>"], ""),
    ("hy-v3", ["<tool_calls:opensource>", "<tool_sep:opensource>", "<arg_key:opensource>"], ""),
    ("hy-v4", ["<tool_calls:6124c78e>", "<arg_key:6124c78e>"], ""),
    ("spark-2.5", ["<|Bot|>"], "<arg_key>"),
    ("lfm2", ["<|tool_call_start|>"], ""),
]

#: Format, then a directory's name; nothing else is known.
NAMES: list[tuple[str, str]] = [
    ("harmony", "gpt-oss-20b"),
    ("functiongemma", "functiongemma-270m-it"),
    ("sarashina", "sarashina2.2-3b"),
    ("kimi-k3", "Kimi-K3"),
    ("kimi-k2", "Kimi-K2-Instruct"),
    ("inkling", "Inkling-Small"),
    ("deepseek-v3.2", "DeepSeek-V3.2"),
    ("deepseek-v3", "DeepSeek-V3-0324"),
    ("deepseek-r1", "DeepSeek-R1"),
    ("minimax-m3", "MiniMax-M3"),
    ("minimax-m2", "mm-m2-awq"),
    ("seed-oss", "seedoss-36b"),
    ("glm-4.5", "GLM-4.6"),
    ("glm-4.7", "GLM-5"),
    ("mistral", "Mistral-7B-Instruct-v0.3"),
    ("mistral", "magistral-small"),
    ("step3.5", "step3p5-flash"),
    ("step-5", "step-5"),
    ("qwen3-coder", "Qwen3.6-27B"),
    ("qwen3-coder", "Nanbeige4"),
    ("phi4-mini", "Phi-4-mini-instruct"),
    ("phi4-mini", "firefunction-v2"),
    ("granite4", "granite-4.0-micro"),
    ("granite-20b-fc", "granite-20b-functioncalling"),
    ("xlam", "Llama-xLAM-2-8b-fc-r"),
    ("olmo3", "Olmo-3-7B-Instruct"),
    ("smollm3", "SmolLM3-3B"),
    ("llama4-pythonic", "Llama-4-Scout-17B"),
    ("hermes", "Hermes-3-Llama-3.2-3B"),
    ("hermes", "Qwen2.5-7B-Instruct"),
    ("hermes", "QwQ-32B"),
    ("hermes", "EXAONE-4.0-32B"),
    ("reka-edge", "Reka-Edge-2603"),
    ("hermes", "Bielik-11B-v3"),
    ("qwen3", "Qwen3-8B"),
    ("pythonic", "ToolACE-8B"),
    ("llama3-json", "Llama-3.3-70B-Instruct"),
]

#: What the formats are detected by that come last, weak first: it may stand in the templates of others.
WEAK = {
    "qwen3": "</think>",
    "llama3-json": "<|python_tag|>",
    "pythonic": "[func_name1(params_name1=params_value1",
    "hermes": "within <tool_call></tool_call> XML tags",
    "qwen3-coder": "<function= <parameter=",
}


def best(evidence: Evidence) -> str:
    """The format, which must be alone in the first place."""
    found = registry.default().by_evidence(evidence)
    places = [(registry.default().known[name].rank, *evidence.weight(terms)) for name, terms in found]
    assert found, "nothing fits"
    assert len(places) == 1 or places[0] != places[1], f"a tie of {found[0][0]} and {found[1][0]}"
    return found[0][0]


@pytest.mark.parametrize(("name", "template"), TEMPLATES)
def test_a_template(name: str, template: str) -> None:
    assert best(Evidence(template)) == name


@pytest.mark.parametrize(("name", "arch", "template"), ARCHITECTURES)
def test_an_architecture(name: str, arch: str, template: str) -> None:
    assert best(Evidence(template, archs=(arch,))) == name


@pytest.mark.parametrize(("name", "vocab", "template"), VOCABULARIES)
def test_a_vocabulary(name: str, vocab: list[str], template: str) -> None:
    assert best(Evidence(template, frozenset(vocab))) == name


@pytest.mark.parametrize(("name", "folder"), NAMES)
def test_the_name_of_a_directory(name: str, folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir()
    assert registry.resolve(str(tmp_path / folder)) == name
    (tmp_path / folder / "chat_template.jinja").write_text("{{ '</think>' }}", encoding="utf-8")
    assert registry.resolve(str(tmp_path / folder)) == name, "think tags alone say less than a name"


@pytest.mark.parametrize(("name", "template"), TEMPLATES)
def test_weak_evidence_does_not_win(name: str, template: str) -> None:
    """They are in many templates. Left out: what a line of the format denies."""
    denied = {"granite": "hermes", "functionary-v3.1": "qwen3-coder"}
    for weak, text in WEAK.items():
        if name in WEAK and [*WEAK].index(weak) >= [*WEAK].index(name):
            continue
        if denied.get(name) != weak:
            assert best(Evidence(f"{template}\n{text}")) == name, weak


def test_evidence_wins_over_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "Qwen3-8B-tuned"
    folder.mkdir()
    config = {"chat_template": "<tool_call>\n<function=f>\n<parameter=a>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert registry.resolve(str(folder)) == "qwen3-coder"


def test_every_format_is_detected() -> None:
    """But for those that nothing in a model's files tells."""
    rows = {name for name, *_ in [*TEMPLATES, *ARCHITECTURES, *VOCABULARIES, *NAMES]}
    assert set(registry.formats()) - rows == {"holo2", "identity", "json-fenced"}
