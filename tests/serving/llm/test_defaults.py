"""What a model directory says: ends of sequence, context, sampling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import serving_models
from toolgrammar_serving.llm import ModelDefaults


def write(directory: Path, **files: Any) -> Path:
    for name, value in files.items():
        (directory / f"{name}.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return directory


def test_a_model_with_several_ends(tmp_path: Path) -> None:
    model = serving_models.byte_level(tmp_path, context=512)
    vocabulary = {
        token["content"]: token["id"]
        for token in json.loads((model / "tokenizer.json").read_text())["added_tokens"]
    }
    size = json.loads((model / "config.json").read_text())["vocab_size"]
    assert ModelDefaults.load(model) == ModelDefaults(
        eos_token_id=vocabulary["<|im_end|>"],
        stop_token_ids=(vocabulary["<|endoftext|>"],),
        max_model_len=512,
        vocab_size=size,
        temperature=0.6,
        top_p=0.95,
        top_k=20,
    )


def test_the_tokenizers_end_is_the_main_one(tmp_path: Path) -> None:
    added = {"5": {"content": "<a>"}, "7": {"content": "<b>"}}
    model = write(
        tmp_path,
        generation_config={"eos_token_id": [5, 7, 9]},
        tokenizer_config={"eos_token": {"content": "<b>"}, "added_tokens_decoder": added},
    )
    assert ModelDefaults.load(model) == ModelDefaults(eos_token_id=7, stop_token_ids=(5, 9))
    assert ModelDefaults.load(model, eos_token_id=0) == ModelDefaults(eos_token_id=0, stop_token_ids=(5, 7, 9))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ModelDefaults()),
        ({"config": {"eos_token_id": 3}}, ModelDefaults(eos_token_id=3)),
        (
            {"config": {"eos_token_id": 3}, "generation_config": {"eos_token_id": [1, 3, 1]}},
            ModelDefaults(eos_token_id=1, stop_token_ids=(3,)),
        ),
        (
            {"config": {"vocab_size": 8, "text_config": {"vocab_size": 9, "max_position_embeddings": 64}}},
            ModelDefaults(vocab_size=9, max_model_len=64),
        ),
        (
            {"generation_config": {"repetition_penalty": 1.05, "min_p": 0.1, "max_new_tokens": 99}},
            ModelDefaults(repetition_penalty=1.05, min_p=0.1, max_new_tokens=99),
        ),
    ],
)
def test_files(tmp_path: Path, files: dict[str, Any], expected: ModelDefaults) -> None:
    assert ModelDefaults.load(write(tmp_path, **files)) == expected


@pytest.mark.parametrize(
    "files",
    [
        {"config": "{"},
        {"config": "[]"},
        {"generation_config": {"eos_token_id": "x"}},
        {"config": {"vocab_size": "9"}},
    ],
)
def test_what_makes_no_sense_is_an_error(tmp_path: Path, files: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ModelDefaults.load(write(tmp_path, **files))
