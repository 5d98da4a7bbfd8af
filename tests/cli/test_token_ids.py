"""Records of token ids, with a stand-in for the package ``tokenizers``."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run

Write = Callable[[str, "str | bytes"], str]

SPECIAL = {300: "<|im_end|>"}
PARSE = ("parse", "-m", "hermes")


class AddedToken:
    def __init__(self, content: str, special: bool) -> None:
        self.content, self.special = content, special


class Tokenizer:
    """Ids below 256 are bytes."""

    @classmethod
    def from_file(cls, file: str) -> Tokenizer:
        if json.loads(Path(file).read_text(encoding="utf-8")) != {}:
            raise Exception("not a tokenizer")
        return cls()

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        return {number: AddedToken(text, True) for number, text in SPECIAL.items()} | {
            301: AddedToken("<tool_call>", False)
        }

    def id_to_token(self, number: int) -> str | None:
        assert 0 <= number < 2**32, "the package raises OverflowError"
        return "a token" if number < 302 else None

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        assert not skip_special_tokens
        return b"".join(b"<tool_call>" if each == 301 else bytes([each]) for each in ids).decode(errors="replace")


@pytest.fixture
def tokenizer(monkeypatch: pytest.MonkeyPatch, write: Write, tmp_path: Path) -> str:
    module: Any = types.ModuleType("tokenizers")
    module.Tokenizer = Tokenizer
    monkeypatch.setitem(sys.modules, "tokenizers", module)
    (tmp_path / "model").mkdir()
    write("model/tokenizer.json", "{}")
    return "model"


def ids(text: str) -> list[int]:
    return list(text.encode())


def test_special_tokens_count_only_as_themselves(run: Run, tokenizer: str, write: Write) -> None:
    records = [
        {"token_ids": [*ids("Grün 満潮 <|im_end|>!"), 300], "text": "not read"},
        {"token_ids": [301, *ids('{"name": "f", "arguments": {}}</tool_call>'), 300]},
    ]
    file = write("a.jsonl", "\n".join(map(json.dumps, records)))
    first, second = run(*PARSE, "--tokenizer", tokenizer, file).lines
    assert first["content"] == "Grün 満潮 <|im_end|>!"
    assert first["lossless"]
    assert second["calls"][0]["name"] == "f"
    assert (
        run(*PARSE, "--tokenizer", tokenizer, "--field", "token_ids", file).lines[0]["content"] == first["content"]
    )
    assert run(*PARSE, file).lines[0]["content"] == "not read"


def test_without_a_tokenizer(run: Run, write: Write) -> None:
    ran = run(*PARSE, write("a.jsonl", '{"token_ids": [1]}'))
    assert ran.code == 2
    assert ran.err == "error[E005]: a.jsonl:1 has token_ids and no text\n  hint: give --tokenizer DIR\n"


def test_ids_that_are_none(run: Run, tokenizer: str, write: Write) -> None:
    wrong: list[Any] = [[-1], [65, 302], [2**40], ["a", "b"], [65, True], [65, 1.0], 65]
    lines = [*({"token_ids": each} for each in wrong), {"token_ids": ids("ok")}, {"text": "fine"}]
    file = write("a.jsonl", "\n".join(map(json.dumps, lines)))
    ran = run(*PARSE, "--tokenizer", tokenizer, file)
    assert (ran.code, [line["content"] for line in ran.lines]) == (4, ["ok", "fine"])
    should = "'token_ids' should be a list of token ids, found"
    assert ran.err.splitlines() == [
        "error[E027]: a.jsonl:1: token_ids.0 is -1, which the tokenizer lacks",
        "error[E027]: a.jsonl:2: token_ids.1 is 302, which the tokenizer lacks",
        f"error[E027]: a.jsonl:3: token_ids.0 is {2**40}, which the tokenizer lacks",
        f"error[E027]: a.jsonl:4: {should} a string at index 0",
        f"error[E027]: a.jsonl:5: {should} a boolean at index 1",
        f"error[E027]: a.jsonl:6: {should} a number that is no integer at index 1",
        f"error[E027]: a.jsonl:7: {should} a number",
    ]


def test_an_unknown_id_is_told_before_anything_is_written(run: Run, tokenizer: str, write: Write) -> None:
    file = write("a.jsonl", json.dumps({"token_ids": [*ids("ok"), 999]}))
    ran = run(*PARSE, "-f", "events", "--tokenizer", tokenizer, file)
    assert (ran.code, ran.out) == (4, "")


def test_tokenizers_that_cannot_be_used(
    run: Run, tokenizer: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("a.jsonl", '{"token_ids": [65]}')
    assert "E005]: no tokenizer.json in missing" in run(*PARSE, "--tokenizer", "missing", file).err
    broken = write("broken.json", "[]")
    assert "broken.json is no usable tokenizer" in run(*PARSE, "--tokenizer", broken, file).err
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    ran = run(*PARSE, "--tokenizer", tokenizer, file)
    assert (ran.code, ran.err.splitlines()[1]) == (2, "  hint: pip install tokenizers")
