"""The parser names of serving stacks, and the model names people meet, stand for the format that reads them."""

from __future__ import annotations

import pytest

from toolgrammar import registry
from toolgrammar.errors import UnknownModelError

#: Names of tool parsers.
TOOLS = {
    "apertus": "apertus apertus2509",
    "beam": "beam",
    "cohere-command": "cohere cohere2moe cohere_command3 cohere_command4",
    "deepseek-v3": "deepseek_v3 deepseekv3 deepseek",
    "deepseek-v3.1": "deepseek31 deepseek_v31 deepseek_v3_1 deepseekv31",
    "deepseek-v3.2": "deepseek32 deepseek_v32 deepseek_v3_2 deepseekv32",
    "deepseek-v4": "deepseek_v4 deepseek-v4 deepseekv4",
    "deepseek-v4.1": "deepseek_v41 deepseekv41",
    "dots": "dots",
    "ernie45": "ernie45",
    "functionary-v3.2": "functionary-v3-2",
    "functiongemma": "functiongemma",
    "gemma4": "gemma4 gemma-4",
    "gigachat3": "gigachat3 gigachat-v3",
    "gigachat3.5": "gigachat35",
    "glm-4.5": "glm glm45 glm45_moe",
    "glm-4.7": "glm47 glm47_moe",
    "granite": "granite",
    "granite-20b-fc": "granite-20b-fc",
    "granite4": "granite4",
    "harmony": "gpt-oss harmony openai",
    "hermes": "hermes qwen qwen25 qwen3_json",
    "hunyuan-a13b": "hunyuan_a13b",
    "hy-v3": "hy_v3 hunyuan",
    "hy-v4": "hy_v4",
    "identity": "passthrough auto none",
    "inkling": "inkling",
    "internlm": "internlm interns1",
    "iquest-q1": "iquest_q1",
    "jamba": "jamba",
    "json-fenced": "json-fenced",
    "k2-horizon": "k2_horizon",
    "kimi-k2": "kimi-k2 kimi_k2 kimi_k25 kimik2",
    "kimi-k3": "kimi_k3 kimi-k3",
    "lfm2": "lfm2",
    "ling-3": "ling3",
    "llama3-json": "json llama llama3 llama3_json llama4_json",
    "llama4-pythonic": "llama4_pythonic",
    "longcat": "longcat",
    "mimo": "mimo",
    "minicpm5": "minicpm5",
    "minimax-m2": "minimax-m2 minimax_m2",
    "minimax-m3": "minimax-m3 minimax_m3 minimax_m3_nom minimax-m3-nom",
    "mistral": "ministral3 mistral",
    "muse": "muse muse-glimmer muse_glimmer musespark1x",
    "nemotron-nano-v2": "nemotron_deci",
    "olmo3": "olmo3",
    "phi4-mini": "phi4 phi4_mini_json",
    "plamo3": "plamo3",
    "poolside-v1": "poolside_v1",
    "pythonic": "pythonic",
    "qwen3": "qwen3",  # hermes, with the reasoning that goes by this name
    "qwen3-coder": "nanbeige nemotron_nano qwen3-coder qwen3_coder qwen3_xml qwen_coder qwen_xml",
    "sarashina": "sarashina",
    "seed-oss": "seed_oss",
    "spark-2.5": "spark25",
    "step3": "step3",
    "step3.5": "step3p5",
    "step-5": "step5",  # the calls of step3.5 with the reasoning that goes by this name
    "trinity": "trinity",
    "xlam": "xlam",
}
#: Names of reasoning parsers. One that names a tool parser too stands for the format of that.
REASONING = {
    "apertus": "apertus2509",
    "beam": "beam",
    "cohere-command": "cohere_cmd cohere_command3 cohere_command4",
    "deepseek-r1": "base basic deepseek-r1 deepseek_r1",
    "deepseek-v3": "deepseek_v3 deepseek-v3",
    "deepseek-v3.1": "deepseek_v31 deepseek_v3_1",
    "deepseek-v3.2": "deepseek_v3_2",
    "deepseek-v4": "deepseek_v4 deepseek-v4 deepseekv4",
    "deepseek-v4.1": "deepseek-v41 deepseek_v41",
    "dots": "dots",
    "ernie45": "ernie45",
    "gemma4": "gemma4 gemma-4",
    "gigachat3.5": "gigachat35",
    "glm-4.5": "glm45",
    "glm-4.7": "glm47",
    "granite": "granite",
    "granite-thinking": "granite_thinking_parser",
    "harmony": "gpt_oss gpt-oss openai_gptoss",
    "holo2": "holo2",
    "hunyuan-a13b": "hunyuan_a13b",
    "hy-v3": "hy_v3 hunyuan",
    "hy-v4": "hy_v4",
    "identity": "passthrough identity",
    "inkling": "inkling",
    "internlm": "interns1",
    "iquest-q1": "iquest_q1",
    "k2-horizon": "k2_horizon",
    "kimi-k2": "kimi_k2 kimi_k25 kimi_thinking",
    "kimi-k3": "kimi_k3 kimi-k3",
    "kimi-vl": "kimi",
    "ling-3": "ling3",
    "mimo": "mimo",
    "minicpmv": "minicpmv",
    "minimax-m2": "minimax minimax_m2 minimax_append_think minimax-append-think minimax_m2_append_think",
    "minimax-m3": "minimax-m3 minimax_m3",
    "mistral": "mistral",
    "muse": "muse muse_glimmer musespark1x",
    "nemotron-nano-v2": "nemotron_deci",
    "nemotron-v3": "nano_v3 nemotron3 nemotron_3 nemotron_v3",
    "olmo3": "olmo3",
    "plamo3": "plamo3",
    "poolside-v1": "poolside_v1",
    "qwen3": "qwen3 qwen3_thinking qwen3-thinking",
    "qwen3-coder": "nanbeige nemotron_nano qwen3_coder",
    "seed-oss": "seed_oss",
    "step3": "step3",
    "step3.5": "step3p5",
    "step-5": "step5",
}
#: Aliases, and model ids: no parser name, but found by a part of them.
MODELS = {
    "hermes": "LGAI-EXAONE/EXAONE-4.0-32B LGAI-EXAONE/K-EXAONE-236B speakleash/Bielik-11B-v3.0-Instruct "
    "XiaomiMiMo/MiMo-VL-7B-RL XiaomiMiMo/MiMo-7B-RL NousResearch/Hermes-3-Llama-3.1-8B Qwen/QwQ-32B",
    "reka-edge": "RekaAI/reka-edge",
    "qwen3": "Qwen/Qwen3-8B",
    "qwen3-coder": "Nanbeige/Nanbeige4-3B Qwen/Qwen3-Coder-30B-A3B-Instruct Qwen/Qwen3.5-35B-A3B Qwen/Qwen3.6-27B",
    "internlm": "internlm/Intern-S1 internlm/internlm2_5-7b-chat",
    "cohere-command": "CohereLabs/command-a-plus CohereLabs/c4ai-command-r7b-12-2024 c4ai-command-a-03-2025",
    "command-r": "CohereForAI/c4ai-command-r-plus",
    "poolside-v1": "poolside/Laguna-XS.2",
    "step-5": "stepfun-ai/Step-5",
    "step3.5": "stepfun-ai/Step-3.5-Flash",
    "step3": "stepfun-ai/step3",
    "gemma4": "google/gemma-4-31B-it gemma-4",
    "llama3-json": "llama4-json meta-llama/Llama-3.3-70B-Instruct",
    "llama4-pythonic": "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "phi4-mini": "firefunction-v2 fireworks-ai/llama-3-firefunction-v2 microsoft/Phi-4-mini-instruct",
    "nemotron-v3": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B nvidia/Nemotron-3-Super nvidia/Nemotron-3-Ultra",
    "nemotron-nano-v2": "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
    "holo2": "Hcompany/Holo2-8B",
    "gigachat3": "ai-sage/GigaChat3.1-10B-A1.8B ai-sage/GigaChat3-10B-A1.8B",
    "gigachat3.5": "ai-sage/GigaChat3.5-432B-A28B",
    "muse": "muse-glimmer muse-spark",
    "kimi-vl": "moonshotai/Kimi-VL-A3B-Thinking",
    "kimi-k2": "moonshotai/Kimi-K2-Thinking moonshotai/Kimi-K2.5",
    "deepseek-r1": "deepseek-ai/DeepSeek-R1 DeepSeek-R1-Distill-Llama-8B DeepSeek-R1-0528-Qwen3-8B",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3-0324",
    "deepseek-v3.1": "deepseek-ai/DeepSeek-V3.1 deepseek-ai/DeepSeek-V3.2-Exp",
    "deepseek-v3.2": "deepseek-ai/DeepSeek-V3.2",
    "deepseek-v4": "deepseek-ai/DeepSeek-V4-Pro",
    "deepseek-v4.1": "deepseek-ai/DeepSeek-V4.1-Flash",
    "mistral": "mistralai/Ministral-3-8B mistralai/Mixtral-8x22B-Instruct mistralai/Devstral-Small-2507",
    "granite": "ibm-granite/granite-3.3-8b-instruct",
    "granite4": "ibm-granite/granite-4.0-h-small",
    "granite-thinking": "ibm-granite/granite-4.2-8b",
    "granite-20b-fc": "ibm-granite/granite-20b-functioncalling",
    "glm-4.7": "zai-org/GLM-5.1 zai-org/GLM-4.7-Flash",
    "solar-open": "upstage/Solar-Open-100B",
    "minimax-m2": "MiniMaxAI/MiniMax-M2.5",
    "harmony": "openai/gpt-oss-120b",
}


def rows(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, format_) for format_, names in table.items() for name in names.split()]


@pytest.mark.parametrize(("name", "format_"), [*rows(TOOLS), *rows(REASONING)])
def test_a_parser_name(name: str, format_: str) -> None:
    assert registry.resolve(name) == format_
    assert registry.resolve(name.upper()) == format_
    known = registry.default().known[format_]
    plain = [each.lower().replace("_", "-") for each in (format_, *known.names)]
    assert name.replace("_", "-") in plain, "found only by the part of a model id"


@pytest.mark.parametrize(("name", "format_"), rows(MODELS))
def test_a_model_name(name: str, format_: str) -> None:
    assert registry.resolve(name) == format_


@pytest.mark.parametrize(("name", "format_"), [*rows(TOOLS), *rows(REASONING)])
def test_a_parser_name_without_its_separators(name: str, format_: str) -> None:
    assert registry.resolve(name.translate(str.maketrans("", "", "-_."))) == format_


@pytest.mark.parametrize(
    ("name", "near"),
    [("nope", ()), ("hermse", ("hermes",)), ("qwn3-coder", ("qwen3-coder",)), ("xyz", ())],
)
def test_only_near_names_are_suggested(name: str, near: tuple[str, ...]) -> None:
    try:
        found = registry.resolve(name)
    except UnknownModelError as error:
        assert error.near[:1] == near
    else:
        pytest.fail(f"{name} is {found}")


def test_the_tables_have_every_format() -> None:
    """json-fenced and the like are found by their own names alone."""
    named = {*TOOLS, *REASONING, *MODELS}
    assert set(registry.formats()) - named == {
        "apriel", "functionary-v3.1", "minimax-m1", "smollm3",
    }  # fmt: skip
    assert named <= set(registry.formats())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("hf", "--template"),
        ("response_template", "--template"),
        ("default", "guessing"),
        ("Kwaipilot/KAT-Dev", "no grammar for model"),  # nobody has a parser for it: its template tells
        ("upstage/Solar-Open-2-100B", "no grammar for model"),  # other markers than Solar Open
    ],
)
def test_a_name_that_is_no_format(name: str, why: str) -> None:
    with pytest.raises(UnknownModelError, match=why):
        registry.resolve(name)


@pytest.mark.parametrize("name", registry.formats())
def test_a_format_says_who_writes_it_and_where_it_starts(name: str) -> None:
    users, start, *others = registry.load(name).facts["note"]
    assert users.startswith(("Written by", "For models"))
    assert start.startswith("Starts ")
    assert len(others) <= 5
