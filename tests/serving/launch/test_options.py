"""The options table: command line over environment over config file; help and documentation follow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from toolgrammar_serving.launch import options
from toolgrammar_serving.launch.command import make_command
from toolgrammar_serving.launch.config_file import read_config
from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.options_page import BEGIN, END, renewed
from toolgrammar_serving.launch.problems import LaunchError


class Given:
    """What the command was called with."""

    options: Options
    rest: tuple[str, ...]


def run(*args: str, env: dict[str, str] | None = None) -> tuple[Given, Result]:
    given = Given()

    def take(found: Options, rest: tuple[str, ...]) -> int:
        given.options, given.rest = found, rest
        return 0

    command = make_command("toolgrammar-serve", take, "Serve.", "toolgrammar-serve --replay captures.jsonl\n")
    return given, CliRunner().invoke(command, list(args), env=env, standalone_mode=False)


def test_without_arguments_all_defaults_hold() -> None:
    given, _ = run()
    assert given.options == Options()
    assert given.rest == ()


def test_every_option_is_taken_from_the_command_line() -> None:
    given, result = run(
        "/models/qwen", "--engine", "vllm", "--data-parallel-size", "2", "--served-model-name", "a",
        "--served-model-name", "b", "--chat-template-kwargs", '{"enable_thinking": false}', "--keep-alive", "2.5",
        "--access-log", "--", "--tensor-parallel-size", "2", "--", "x",
    )  # fmt: skip
    assert result.exception is None
    assert given.options == Options(
        model="/models/qwen",
        engine="vllm",
        data_parallel_size=2,
        served_model_name=("a", "b"),
        chat_template_kwargs={"enable_thinking": False},
        keep_alive=2.5,
        access_log=True,
    )
    assert given.rest == ("--tensor-parallel-size", "2", "--", "x")


FILES = {
    "options.toml": 'model = "m"\nport = 81\nserved-model-name = ["x", "y"]\n[chat_template_kwargs]\nk = 1\n',
    "options.yaml": "model: m\nport: 81\nserved_model_name: [x, y]\nchat-template-kwargs: {k: 1}\n",
    "options.json": '{"model":"m", "port":81, "served_model_name":["x", "y"], "chat_template_kwargs":{"k":1}}',
}


@pytest.mark.parametrize("name", FILES)
def test_a_config_file_is_read_and_loses_to_environment_and_command_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FILES[name])
    given, result = run("--config", str(path))
    assert result.exception is None
    same: dict[str, Any] = {"model": "m", "served_model_name": ("x", "y"), "chat_template_kwargs": {"k": 1}}
    assert given.options == Options(port=81, **same)
    given, _ = run("--config", str(path), env={"TOOLGRAMMAR_PORT": "82", "TOOLGRAMMAR_API_KEY": "k1 k2"})
    assert given.options == Options(port=82, api_key=("k1", "k2"), **same)
    given, _ = run("--config", str(path), "--port", "83", env={"TOOLGRAMMAR_PORT": "82"})
    assert given.options == Options(port=83, **same)


@pytest.mark.parametrize(
    "name,text,message,hint",
    [
        ("a.toml", "prot = 1\n", "no option is called 'prot'", "did you mean port?"),
        ("a.toml", "port = \n", "Invalid value (at line 1, column 8)", ""),
        ("a.yaml", "- port\n", "a config file is a mapping of option to value", ""),
        ("a.yaml", "a: [\n", "while parsing a flow node", ""),
        ("a.txt", "port: 1", "a config file ends in .yaml, .yml, .json or .toml", ""),
    ],
)
def test_a_bad_config_file_is_told(name: str, text: str, message: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(LaunchError) as caught:
        read_config(str(path))
    assert message in caught.value.message
    assert (caught.value.hint, caught.value.exit) == (hint, 2)


def test_a_missing_config_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="cannot be read"):
        read_config(str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    "args,message",
    [
        (["--port", "x"], "'x' is not a valid integer"),
        (["--port", "65536"], "65536 is not in the range 0<=x<=65535"),
        (["--api-server-count", "0"], "0 is not in the range x>=1"),
        (["--engine", "other"], "'other' is not one of 'own', 'vllm'"),
        (["--chat-template-kwargs", "[1]"], "'[1]' is not a JSON object"),
        (["one", "two"], "unexpected extra argument (two)"),
        (["--tensor-parallel-size", "2"], "No such option '--tensor-parallel-size'"),
    ],
)
def test_wrong_usage_is_told(args: list[str], message: str) -> None:
    _, result = run(*args)
    assert isinstance(result.exception, click.UsageError)
    assert message in result.exception.format_message()


def test_a_value_of_the_wrong_type_in_a_config_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('port = "many"\n')
    _, result = run("--config", str(path))
    assert isinstance(result.exception, click.UsageError)
    assert "'many' is not a valid integer" in result.exception.format_message()


def test_help_shows_every_option_with_its_environment_and_group() -> None:
    _, result = run("--help")
    words = " ".join(result.output.split())
    for row in options.rows():
        assert row.env in words, row.name
        assert f"{row.about.group}:" in result.output
        assert (row.about.metavar if row.about.argument else row.flag) in words, row.name
    assert "toolgrammar-serve --replay captures.jsonl" in result.output


def test_a_default_is_said_once() -> None:
    for row in options.rows():
        assert row.about.help.count("default:") <= 1
        assert not (row.default not in (None, (), {}) and "default:" in row.about.help), row.name


def test_the_table_of_the_documentation_is_fresh() -> None:
    page = (Path(__file__).parents[3] / "docs" / "serving.md").read_text(encoding="utf-8")
    assert BEGIN in page and END in page
    assert renewed(page) == page, "python -m toolgrammar_serving.launch.options_page docs/serving.md"
