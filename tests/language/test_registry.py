"""Which format a name, a model id or a model directory stands for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolgrammar import registry as shipped
from toolgrammar.errors import UnknownModelError
from toolgrammar.registry import Registry

FORMATS = {
    "coder": """
        @names qwen3_coder Qwen3_XML qwen3
        @models qwen3-coder qwen3.5
        @detect template "<function=" and "<parameter="
    """,
    "plain": """
        @names hermes qwen25
        @models qwen3 hermes
        @detect template "<tool_call>"
    """,
    "channels": """
        @names gemma_4
        @models gemma-4
        @detect vocab "<|channel>" and not template "<|role|>"
        @detect arch gemma4*
    """,
    "qwen3": "",
    "weak": """
        @rank 2
        @models qwen3-coder-plain llama
        @detect template "<tool_call>" and "a" and "plain" and "word"
    """,
    "last": """
        @rank 10
        @models last
        @detect template "</think>"
    """,
    "tagged": '@detect vocab "<calls*>" and not "<sep*>"',
    "broken": '@names "never closed\n@start content = ((',
}


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    folder = tmp_path / "grammars"
    (folder / "families").mkdir(parents=True)
    (folder / "families" / "think.tg").write_text("think : reasoning\n")
    for name, headers in FORMATS.items():
        lines = [line.strip() for line in f"{headers}\n@start content = turn\nturn : content".split("\n")]
        (folder / f"{name}.tg").write_text("\n".join(lines))
    return Registry(folder, tmp_path / "cache")


def test_formats(registry: Registry) -> None:
    assert registry.formats() == sorted(FORMATS)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("coder", "coder"),
        ("CODER", "coder"),
        ("qwen3-coder", "coder"),
        ("QWEN3_CODER", "coder"),
        ("qwen3_xml", "coder"),
        ("qwen3", "qwen3"),  # a format's own name goes before what another claims
        ("qwen3coder", "coder"),  # whatever separates the parts of a name, before any part of a model id
        ("Qwen 3.XML", "coder"),
        ("gemma4", "channels"),
        ("Gemma-4", "channels"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "coder"),  # the longest pattern
        ("Qwen/Qwen3-8B", "plain"),
        ("qwen/qwen3_coder_next", "coder"),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "plain"),  # the lower rank, whatever the length
        ("Qwen/Qwen3-Coder-Plain", "coder"),
        ("meta/Llama-9", "weak"),
    ],
)
def test_resolve(registry: Registry, model: str, name: str) -> None:
    assert registry.resolve(model) == name
    assert registry.load(model).name == name


@pytest.mark.parametrize("name", ["hf", "response_template", "Response-Template", "default"])
def test_peers_names_that_are_no_format(registry: Registry, name: str) -> None:
    with pytest.raises(UnknownModelError, match=r"template|guessing"):
        registry.resolve(name)


@pytest.mark.parametrize(
    ("model", "near"),
    [
        ("hermse", ("plain",)),
        ("someone/codr", ("coder",)),
        ("qwen_3_xmi", ("coder",)),
        ("plian", ("plain",)),
        ("qwen", ("qwen3",)),
        ("lost", ()),  # one letter away from 'last', but of four
        ("nothing like it at all", ()),
        ("families/think", ()),
        ("../grammars/coder", ("coder",)),
        ("", ()),
    ],
)
def test_unknown(registry: Registry, model: str, near: tuple[str, ...]) -> None:
    with pytest.raises(UnknownModelError) as caught:
        registry.resolve(model)
    assert caught.value.near[: len(near)] == near
    assert bool(caught.value.near) == bool(near)


def test_load_a_path(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "mine.tg"
    path.write_text("@import families/think\n@start content = think content\n")
    assert registry.load(path).name == registry.load(str(path)).name == "mine"
    path.write_text("@start content = content\n")
    assert registry.load(path).rules.keys() == {"start_content"}
    with pytest.raises(UnknownModelError, match="no such file"):
        registry.load(tmp_path / "other.tg")


def test_where(registry: Registry) -> None:
    where = registry.where("qwen3_xml", "turn")
    assert where is not None
    assert (Path(where.file).name, where.text) == ("coder.tg", "turn : content")
    assert registry.where("coder", "other") is None


# ---- model directories -------------------------------------------------------------------------------------


def model(folder: Path, **files: object) -> str:
    """A model directory with these files; names with ``_json`` are JSON."""
    folder.mkdir()
    for name, value in files.items():
        if name.endswith("_json"):
            (folder / f"{name[:-5]}.json").write_text(value if isinstance(value, str) else json.dumps(value))
        else:
            (folder / f"{name}.jinja").write_text(str(value))
    return str(folder)


BOTH = "{{ '<tool_call>' }} <function= <parameter="
DIRECTORIES: dict[str, tuple[dict[str, object], str]] = {
    "template file": ({"chat_template": "a <tool_call> b"}, "plain"),
    "most terms win": ({"chat_template": BOTH}, "coder"),
    "template in the configuration": ({"tokenizer_config_json": {"chat_template": BOTH}}, "coder"),
    "several templates": (
        {"tokenizer_config_json": {"chat_template": [{"name": "tool", "template": BOTH}]}},
        "coder",
    ),
    "vocabulary": (
        {"tokenizer_json": {"added_tokens": [{"id": 1, "content": "<|channel>"}]}},
        "channels",
    ),
    "added tokens": (
        {"tokenizer_config_json": {"added_tokens_decoder": {"7": {"content": "<|channel>"}}}},
        "channels",
    ),
    "vocabulary spelled in the template": ({"chat_template": "<|channel>"}, "channels"),
    "architecture": ({"config_json": {"architectures": ["Gemma4ForCausalLM"]}}, "channels"),
    "model type": ({"config_json": {"model_type": "gemma4_text", "architectures": None}}, "channels"),
    "the lowest rank wins": ({"chat_template": "a plain <tool_call> word"}, "plain"),
    "any suffix": ({"tokenizer_json": {"added_tokens": [{"content": "<calls:1>"}]}}, "tagged"),
    "any suffix in the template": ({"chat_template": "{{ '<calls:a>' }}"}, "tagged"),
    "the last resort": ({"chat_template": "{{ '</think>' }}"}, "last"),
    "its name in the configuration": ({"config_json": {"_name_or_path": "org/Hermes-9"}}, "plain"),
    "a broken configuration": ({"config_json": "{", "chat_template": BOTH}, "coder"),
}


@pytest.mark.parametrize("case", DIRECTORIES)
def test_directory(registry: Registry, tmp_path: Path, case: str) -> None:
    files, name = DIRECTORIES[case]
    assert registry.resolve(model(tmp_path / "model", **files)) == name


def test_the_name_of_a_directory_is_the_last_resort(registry: Registry, tmp_path: Path) -> None:
    assert registry.resolve(model(tmp_path / "Qwen3-8B")) == "plain"
    assert registry.resolve(model(tmp_path / "Qwen3-9B", chat_template=BOTH)) == "coder"
    assert registry.resolve(model(tmp_path / "Qwen3-7B", chat_template="</think>")) == "plain"


def test_negated_evidence(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(UnknownModelError, match="@detect"):
        registry.resolve(model(tmp_path / "model", chat_template="<|channel> <|role|>"))


# ---- what is shipped ---------------------------------------------------------------------------------------


def test_every_shipped_format_loads() -> None:
    for name in shipped.formats():
        assert shipped.load(name).name == name
        assert shipped.resolve(name) == name


def test_no_two_shipped_formats_claim_a_name() -> None:
    claims: dict[str, set[str]] = {}
    for name, known in shipped.default().known.items():
        for alias in known.names:
            claims.setdefault(alias.lower().replace("_", "-"), set()).add(name)
    assert {alias: names for alias, names in claims.items() if len(names) > 1} == {}
