"""``check``: case files, counted by format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from .conftest import Run

Write = Callable[[str, "str | bytes"], str]


def case(id: str, content: str | None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    text = 'So.\n<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>'
    expect = {"reasoning": None, "content": content, "tool_calls": list(calls), "unfinished": False}
    return {
        "id": id,
        "format": "hermes",
        "tools": [],
        "starts_in": "content",
        "text": text,
        "expect": expect,
        **more,
    }


CALL = {"name": "f", "arguments": {"x": 1}}
GOOD = case("hermes/good", "So.", CALL)
WHITE = case("hermes/white", "So.\n", CALL)
WRONG = case("hermes/wrong", "So.", {"name": "f", "arguments": {"x": 2}})
SOFT = case("hermes/soft", None, CALL, soft=True)
PLAIN = {**case("qwen3/plain", "Hi."), "format": "qwen3", "text": "Hi.", "chunks": [["H", "i."]]}


@pytest.fixture
def cases(write: Write) -> str:
    lines = [GOOD, WHITE, WRONG, SOFT, PLAIN]
    return write("cases.jsonl", "\n".join(map(json.dumps, lines)))


def test_the_table(run: Run, cases: str, snapshot: SnapshotAssertion) -> None:
    ran = run("check", cases)
    assert (ran.code, ran.err) == (1, "")
    assert ran.out == snapshot


def test_verbose(run: Run, cases: str, snapshot: SnapshotAssertion) -> None:
    assert run("check", "-v", cases).out == snapshot


def test_json(run: Run, cases: str) -> None:
    found = run("check", "--json", "--cuts", "2", cases).json
    assert found["v"] == 1
    assert found["formats"]["hermes"] == {
        "cases": 3,
        "held": 1,
        "failed": 1,
        "white": 1,
        "soft": 1,
        "soft_failed": 1,
        "ways": 16,
    }
    assert found["formats"]["qwen3"]["ways"] == 5
    assert [each["id"] for each in found["failing"]] == ["hermes/white", "hermes/wrong", "hermes/soft"]
    assert found["failing"][1]["ways"][0] == {
        "way": "whole",
        "differences": [{"field": "calls[0].arguments", "expected": {"x": 2}, "got": {"x": 1}, "white": False}],
    }


@pytest.mark.parametrize(("cases", "code"), [([GOOD], 0), ([GOOD, SOFT], 0), ([WHITE], 1), ([WRONG], 1), ([], 2)])
def test_exit_code(cases: list[dict[str, Any]], code: int, run: Run) -> None:
    assert run("check", stdin="\n".join(map(json.dumps, cases))).code == code


def test_choosing_cases(run: Run, cases: str) -> None:
    assert list(run("check", "--json", "--format", "qwen3", cases).json["formats"]) == ["qwen3"]
    assert run("check", "--case", "good", "--case", "plain", cases).code == 0


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        (["--case", "nothing"], "none fits --case"),
        (["--format", "deepseek-v3"], "none fits --format"),
        (["--format", "qwen3", "--case", "good"], "none fits --format and --case"),
    ],
)
def test_that_nothing_was_run_is_an_error(chosen: list[str], why: str, run: Run, cases: str) -> None:
    ran = run("check", *chosen, cases)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"error[E001]: no case was run: {why}\n"
        "  hint: there are cases of: hermes, qwen3; --format takes one of these, --case a part of an id\n"
    )


def test_an_empty_input_is_an_error(run: Run) -> None:
    ran = run("check", "--json", stdin="\n")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error[E001]: no case was run: the input has none\n  hint: ")


def test_an_alias_counts_for_its_format(run: Run) -> None:
    found = run("check", "--json", stdin=json.dumps({**GOOD, "format": "qwen25"})).json
    assert list(found["formats"]) == ["hermes"]


def test_a_grammar_of_ones_own(run: Run, mine: str) -> None:
    own = {**GOOD, "format": "mine", "text": 'So.<call>f:{"x": 1}</call>'}
    assert run("check", "--grammar", mine, stdin=json.dumps(own)).code == 0


def test_a_parser_that_raises_fails_its_case(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolgrammar.machine.session import Session

    def broken(*_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(Session, "feed", broken)
    ran = run("check", "-v", stdin=json.dumps(GOOD))
    assert ran.code == 1
    assert "KeyError: 'oops'" in ran.out
