"""Where templates come from: data, a file, a model directory; and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from templates.samples import TEMPLATES, template

from toolgrammar import Parser, UnknownModelError, parse, registry
from toolgrammar.cli.app import app
from toolgrammar.templates import TemplateError, load_template, read_template

OWN = template(
    "<bot>",
    thinking={"open": "<|th|>", "close": "<|/th|>"},
    tool_calls={
        "open_pattern": r"\[USE\](?P<name>\w+)",
        "close": "[/USE]",
        "content": "json",
        "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
    },
    content={"close": "[END]"},
)
TEXT = '<|th|>Hm.<|/th|>Hi[USE]f{"n": 1}[/USE][END]'


def model(folder: Path, config: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokens = {"1": {"content": "[USE]", "special": True}, "2": {"content": "x", "special": False}}
    return model(
        tmp_path / "new-thing",
        {"response_template": OWN, "eos_token": {"content": "[END]"}, "added_tokens_decoder": tokens},
    )


def test_as_data_as_a_file_and_as_a_directory(folder: Path) -> None:
    file = folder / "template.json"
    file.write_text(json.dumps(OWN))
    for given in (OWN, file, str(file), folder, folder / "tokenizer_config.json"):
        message = parse(TEXT, template=given)
        assert (message.reasoning, message.content) == ("Hm.", "Hi")
        assert [(call.name, call.arguments) for call in message.calls] == [("f", {"n": 1})]
    assert parse(TEXT, "my-model", template=OWN).model == "my-model"


def test_a_directory_without_a_better_format(folder: Path) -> None:
    grammar = registry.load(folder)
    assert grammar.name == "new-thing"
    assert grammar.title == "from a response template (thinking, tool_calls, content)"
    assert grammar.facts["response-template"] == (str(folder),)
    assert Parser(str(folder)).grammar == grammar


def test_what_a_directory_knows_about_tokens(folder: Path) -> None:
    grammar = registry.load(folder)
    assert grammar.stops == ("[END]",)
    assert set(grammar.tokens) == {"[END]", "[USE]"}
    message = parse("a[USE]!b[END]c", str(folder))
    assert (message.content, message.tail) == ("a!b", "c")


def test_a_known_format_goes_before_a_template(tmp_path: Path) -> None:
    config = {"response_template": OWN, "chat_template": "<|channel> <|tool_call>"}
    assert registry.load(model(tmp_path / "new", config)).name == "gemma4"
    assert registry.load(model(tmp_path / "qwen3-8b", {"response_template": OWN})).name == "qwen3"


def test_no_template_no_grammar(tmp_path: Path) -> None:
    for config in ({}, {"response_template": None}, {"response_schema": {"x-regex": "a"}}):
        with pytest.raises(UnknownModelError):
            registry.load(model(tmp_path / "new", config))
    with pytest.raises(TemplateError, match="response_schema is not read"):
        read_template(tmp_path / "new")


def test_a_bad_template_in_a_directory_is_an_error_of_the_template(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="response template 'new', key 'fields'"):
        registry.load(model(tmp_path / "new", {"response_template": {"start_anchor": "A:"}}))


def test_one_of_grammar_and_template() -> None:
    with pytest.raises(TypeError):
        Parser(grammar=load_template(OWN), template=OWN)


# ---- the command line --------------------------------------------------------------------------------------


def run(*arguments: str, text: str = TEXT) -> Result:
    return CliRunner().invoke(app, arguments, input=text, prog_name="toolgrammar", catch_exceptions=False)


def test_parse_and_explain(folder: Path) -> None:
    for given in (("--template", str(folder)), ("--model", str(folder))):
        found = run("parse", *given)
        assert found.exit_code == 0, found.stderr
        line = json.loads(found.stdout)
        assert (line["content"], line["grammar"], line["calls"][0]["name"]) == ("Hi", "new-thing", "f")
        rules = {json.loads(line)["rule_path"][-1] for line in run("explain", *given).stdout.splitlines()}
        assert {"in-thinking", "turn", "call"} <= rules
    shown = run("grammar", "show", str(folder)).stdout
    assert "@response-template" in shown and "in-thinking : reasoning(strip: all)" in shown


def test_check(tmp_path: Path, root: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(TEMPLATES["gemma4"]))
    found = run("check", "--template", str(file), str(root / "fixtures" / "cases" / "gemma4.jsonl"))
    assert found.exit_code == 0, found.stdout


@pytest.mark.parametrize("command", ["parse", "explain", "check"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "response template 't': cannot read t.json: No such file or directory"),
        ("{", "response template 't': t.json is not JSON: Expecting property name enclosed in double quotes"),
        ("[]", "response template 't': it is not a JSON object"),
        (json.dumps({"fields": {"content": {}}}), "response template 't', key 'start_anchor': give one of"),
    ],
)
def test_a_bad_template(
    command: str, content: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("t.json").write_text(content)
    found = run(command, "--template", "t.json")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith(f"error[E002]: {message}")
    assert found.stderr.count("error[") == 1


@pytest.mark.parametrize("command", ["parse", "explain", "check"])
def test_template_and_grammar_exclude_each_other(command: str) -> None:
    assert run(command, "--template", "a.json", "--grammar", "b.tg").exit_code == 2
