"""What docs/serving.md shows is what is seen."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from launch_running import serving
from toolgrammar_serving.launch.config_file import read_config
from toolgrammar_serving.launch.frontend_args import to_options

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_a_start_looks_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command, *shown = block("console").rstrip("\n").splitlines()
    program, *arguments = shlex.split(command.removeprefix("$ "))
    assert program == "toolgrammar-serve"
    with serving(*arguments, "--port", "0") as served:
        served.wait_for("curl")
        assert served.stop() == 0
    assert [re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8000", line) for line in served.lines if line] == [
        line for line in shown if line
    ]


def test_the_config_file_is_one(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(block("yaml"))
    assert read_config(str(path)) == {
        "model": "models/Qwen3-0.6B",
        "engine": "vllm",
        "served_model_name": ["qwen3", "default"],
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_the_options_named_for_the_drop_in_mean_something() -> None:
    page = (ROOT / "docs" / "drop-in.md").read_text(encoding="utf-8")
    samples = {
        "--served-model-name": ["a"],
        "--max-model-len": 5,
        "--default-chat-template-kwargs": {"a": 1},
        "--shutdown-timeout": 3,
        "--api-key": ["k"],
        "--allowed-origins": ["*"],
    }
    plain = to_options({"model": "m"}, {})
    for flag in samples.keys() | {
        "--tokenizer",
        "--chat-template",
        "--root-path",
        "--ssl-keyfile",
        "--ssl-certfile",
    }:
        assert f"`{flag}`" in page
        key = flag[2:].replace("-", "_")
        assert to_options({"model": "m", key: samples.get(flag, "x")}, {}) != plain, flag
