"""``formats``, ``models``, ``grammar show`` and ``detect``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from toolgrammar import registry
from toolgrammar.language import read_grammar

from .conftest import Run

Write = Callable[[str, "str | bytes"], str]

HERMES = 'Hi <tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
XML = "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"


def test_formats(run: Run) -> None:
    lines = run("formats").out.splitlines()
    assert lines[0].split()[:2] == ["format", "starts"]
    assert [line.split()[0] for line in lines[1:]] == registry.formats()
    found = run("formats", "--json").json
    assert [each["name"] for each in found] == registry.formats()
    assert {each["v"] for each in found} == {1}


@pytest.mark.parametrize("name", registry.formats())
def test_a_format(name: str, run: Run) -> None:
    page = run("formats", name)
    assert page.code == 0
    assert page.out.startswith(name)
    assert all(len(line) <= 110 or "  " not in line.strip() for line in page.out.splitlines()[1:])
    found = run("formats", name, "--json").json
    assert (found["name"], "content" in found["starts"]) == (name, True)


def test_a_format_by_another_name(run: Run, mine: str) -> None:
    assert run("formats", "Qwen/Qwen2.5-7B-Instruct").out == run("formats", "hermes").out
    assert run("formats", mine).out.splitlines() == [
        "mine  Calls in angle brackets",
        "  names     mine-too",
        "  starts    content (turn)",
        "  stops     <|end|>",
        "  markers   <call>  </call>  <|end|>",
    ]


def test_models(run: Run) -> None:
    rows = run("models", "--json").json
    assert {"v": 1, "name": "hermes", "format": "hermes", "kind": "format"} in rows
    assert {row["format"] for row in rows} == set(registry.formats())
    assert len(run("models").out.splitlines()) == len(rows) + 1
    ran = run("models", "Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen25")
    assert [line.split()[:2] for line in ran.out.splitlines()[1:]] == [
        ["Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-coder"],
        ["qwen25", "hermes"],
    ]


@pytest.mark.parametrize("name", registry.formats())
def test_a_shown_grammar_reads_back(name: str, run: Run) -> None:
    assert read_grammar(run("grammar", "show", name).out, file=f"{name}.tg") == registry.load(name)


def test_markers(run: Run, mine: str) -> None:
    assert [line.split() for line in run("grammar", "show", mine, "--markers").out.splitlines()] == [
        ["marker", "kind", "rules"],
        ["<call>", "text", "call"],
        ["</call>", "text", "call"],
        ["<|end|>", "control", "@stop"],
    ]
    found = run("grammar", "show", mine, "--json").json
    assert found["markers"][0] == {"v": 1, "text": "<call>", "control": False, "rules": ["call"]}


@pytest.mark.parametrize(
    ("text", "best"),
    [
        (HERMES, "hermes"),
        (XML, "qwen3-coder"),
        ('<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n', "deepseek-v3.2"),
    ],
)
def test_detect_a_text(text: str, best: str, run: Run) -> None:
    found = run("detect", "--json", stdin=text).json
    assert found[0]["format"] == best
    assert found[0]["reasons"]
    shown = run("detect", "--top", "1", stdin=text).out
    assert shown.startswith(f"1. {best}  ")
    assert "2. " not in shown


def test_nothing_to_detect(run: Run) -> None:
    ran = run("detect", stdin="Just an answer.")
    assert (ran.code, ran.out) == (1, "nothing in this text speaks for any of the formats\n")
    assert run("detect", "--json", stdin="Just an answer.").json == []


@pytest.fixture
def evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two formats with evidence, in place of the shipped ones."""
    folder = tmp_path / "grammars"
    folder.mkdir()
    xml = '@models qwen3-coder\n@detect template "<function=" and "<parameter="\nturn : content\n'
    (folder / "qwen3-coder.tg").write_text(xml, encoding="utf-8")
    (folder / "plain.tg").write_text('@detect template "<function="\nturn : content\n', encoding="utf-8")
    monkeypatch.setattr(registry, "_default", registry.Registry(folder, tmp_path / "cache"))


@pytest.mark.usefixtures("evidence")
def test_detect_a_template(run: Run, write: Write) -> None:
    template = "{% if tools %}<tool_call>\n<function=example>\n<parameter=example>{% endif %}"
    found = run("detect", "--json", write("chat_template.jinja", template)).json
    assert [each["format"] for each in found] == ["qwen3-coder", "plain"]
    assert found[0]["reasons"] == ["template has <function=", "template has <parameter="]
    several = {"chat_template": [{"name": "default", "template": ""}, {"name": "tool_use", "template": template}]}
    config = write("tokenizer_config.json", json.dumps(several))
    assert run("detect", "--json", config).json[0]["format"] == "qwen3-coder"
    assert run("detect", "--from", "template", "--json", stdin=template).json[0]["format"] == "qwen3-coder"


@pytest.mark.usefixtures("evidence")
def test_detect_a_directory(run: Run, tmp_path: Path) -> None:
    model = tmp_path / "some-model"
    model.mkdir()
    template = "<tool_call><function=example><parameter=example>"
    (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}), encoding="utf-8")
    assert run("detect", "--json", "some-model").json[0]["format"] == "qwen3-coder"
    (model / "tokenizer_config.json").unlink()
    assert run("detect", "some-model").code == 1
    named = model.rename(tmp_path / "Qwen3-Coder-Next")
    (found,) = run("detect", "--json", named.name).json
    assert (found["format"], found["reasons"]) == ("qwen3-coder", ["the model's name contains 'qwen3-coder'"])
    assert run("detect", "--from", "directory", "missing").code == 4
