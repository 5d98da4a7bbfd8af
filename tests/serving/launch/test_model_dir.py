"""A model's name to its directory; what is none is told, with the next step."""

from __future__ import annotations

from pathlib import Path

import pytest
from toolgrammar_serving.launch.model_dir import find_model, need_model
from toolgrammar_serving.launch.problems import LaunchError


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def test_a_directory_is_itself(tmp_path: Path) -> None:
    folder = make(tmp_path / "m")
    assert find_model(str(folder)) == folder
    assert need_model(str(folder)) == folder


@pytest.mark.parametrize(
    "variable,below", [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")]
)
def test_an_id_is_looked_up_in_the_cache(variable: str, below: str, tmp_path: Path) -> None:
    model = tmp_path / below / "models--org--name"
    snapshot = make(model / "snapshots" / "abc")
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc\n")
    environ = {variable: str(tmp_path)}
    assert find_model("org/name", environ=environ) == snapshot
    assert find_model("org/name", "abc", environ) == snapshot
    assert find_model("org/name", "v2", environ) is None
    assert find_model("org/other", environ=environ) is None


@pytest.mark.parametrize(
    "name,message",
    [
        ("/no/such/model", "there is no model directory /no/such/model"),
        ("./no", "there is no model directory ./no"),
        ("a/b/c", "there is no model directory a/b/c"),
    ],
)
def test_a_path_that_is_not_there_is_told(name: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        find_model(name)


def test_what_is_no_model_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="is no model directory: it has none of"):
        find_model(str(tmp_path))
    file = tmp_path / "captures.jsonl"
    file.write_text("")
    with pytest.raises(LaunchError) as caught:
        find_model(str(file))
    assert caught.value.hint == f"a model is a directory; captured outputs: --replay {file}"


def test_a_model_that_is_nowhere_is_told_with_the_next_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(LaunchError) as caught:
        need_model("org/name")
    assert "hf download org/name" in caught.value.hint
