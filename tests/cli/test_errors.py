"""Bad input: one clear error each, the right exit code, nothing swallowed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from toolgrammar.cli.errors import PAGES

from .conftest import Run

Write = Callable[[str, "str | bytes"], str]
PARSE = ("parse", "-m", "hermes")

FILES: dict[str, str | bytes] = {
    "ok.txt": "fine",
    "latin1.txt": b"one\ntwo caf\xe9\n",
    "bad.jsonl": b'{"text": "1"}\nnot json\n{"text": "\xff"}\n[1]\n{"nope": 1}\n{"text": 5}\n{"text": "7"}\n',
    "tools.jsonl": '{"text": "a", "tools": 3}\n{"text": "b", "tools": [3]}\n{"text": "c"}\n',
    "start.jsonl": '{"text": "a", "starts_in": "nowhere"}\n',
    "model.jsonl": '{"text": "a", "model": "acme-7b"}\n{"text": "b", "format": "hermes"}\n',
    "ids.jsonl": '{"token_ids": [1, 2]}\n',
    "broken.tg": "@start content = turn\nturn : content(\n",
    "outside.tg": '@start content = turn\nturn : content "<run>" name ":" json\n',
    "outside.txt": '@start content = turn\nturn : content "<run>" name ":" json\n',
    "outside.jsonl": '{"id": "x", "format": "outside.tg", "text": "a", "expect": {"content": "a"}}\n',
    "binary.tg": b"\xff\xfe\x00",
    "broken.json": '{"a": ',
    "number.json": "3",
    "shape.json": '[{"nothing": 1}]',
    "latin1.json": b'["\xe9"]',
    "cut.txt": '<tool_call>{"name": "f", "arguments": {"a": ',
    "case.jsonl": '{"id": "x", "format": "hermes", "text": "a"}\n',
    "foreign.jsonl": '{"id": "x", "format": "acme", "text": "a", "expect": {"content": "a"}}\n',
}

LINES: list[tuple[int, list[str]]] = [
    (0, [*PARSE, "ok.txt"]),
    (1, [*PARSE, "cut.txt"]),
    (2, [*PARSE, "--bogus"]),
    (2, ["pars"]),
    (2, [*PARSE, "--chunk", "0", "ok.txt"]),
    (2, [*PARSE, "--chunk", "randon:1", "ok.txt"]),
    (2, [*PARSE, "--fail-on", "sins", "ok.txt"]),
    (2, [*PARSE, "--grammar", "broken.tg", "ok.txt"]),
    (2, ["parse", "--grammar", "broken.tg", "ok.txt"]),
    (2, ["parse", "--grammar", "binary.tg", "ok.txt"]),
    (2, ["parse", "--grammar", "missing.tg", "ok.txt"]),
    (2, ["parse", "--grammar", "outside.tg", "ok.txt"]),
    (2, ["parse", "--grammar", "outside.txt", "ok.txt"]),
    (2, ["parse", "-m", "outside.tg", "ok.txt"]),
    (2, ["parse", "outside.jsonl"]),
    (2, ["explain", "--grammar", "outside.tg", "ok.txt"]),
    (2, ["check", "--grammar", "outside.tg", "outside.jsonl"]),
    (2, ["check", "outside.jsonl"]),
    (2, ["grammar", "show", "outside.tg"]),
    (2, ["formats", "outside.tg"]),
    (2, [*PARSE, "--tools", "broken.json", "ok.txt"]),
    (2, [*PARSE, "--tools", "number.json", "ok.txt"]),
    (2, [*PARSE, "--tools", "shape.json", "ok.txt"]),
    (2, [*PARSE, "--tools", "latin1.json", "ok.txt"]),
    (2, [*PARSE, "--tools", "missing.json", "ok.txt"]),
    (2, [*PARSE, "--prompt", "missing.txt", "ok.txt"]),
    (2, [*PARSE, "--prompt", "latin1.txt", "ok.txt"]),
    (2, [*PARSE, "--prompt", "ok.txt", "--start", "content", "ok.txt"]),
    (2, [*PARSE, "--start", "section", "ok.txt"]),
    (2, [*PARSE, "-o", "missing/out.jsonl", "ok.txt"]),
    (2, [*PARSE, "ids.jsonl"]),
    (2, ["parse", "ok.txt"]),
    (2, ["help", "E999"]),
    (2, ["bench", "--workloads", "huge"]),
    (2, ["formats", "missing.tg"]),
    (3, ["parse", "-m", "zzz", "ok.txt"]),
    (3, ["formats", "acme-7b"]),
    (3, ["grammar", "show", "acme-7b"]),
    (3, ["models", "hermes", "acme-7b"]),
    (3, ["parse", "model.jsonl"]),
    (3, ["check", "foreign.jsonl"]),
    (4, [*PARSE, "missing.txt", "ok.txt"]),
    (4, [*PARSE, ".", "ok.txt"]),
    (4, [*PARSE, "latin1.txt", "ok.txt"]),
    (4, [*PARSE, "bad.jsonl"]),
    (4, [*PARSE, "tools.jsonl"]),
    (4, [*PARSE, "start.jsonl"]),
    (4, [*PARSE, "--field", "wrong", "bad.jsonl"]),
    (4, ["check", "case.jsonl", "missing.jsonl"]),
    (4, ["detect", "missing.txt"]),
    (4, ["detect", "latin1.txt"]),
]


@pytest.mark.parametrize(
    ("code", "line"), LINES, ids=lambda each: " ".join(each) if isinstance(each, list) else ""
)
def test_exit_codes(code: int, line: list[str], run: Run, write: Write, snapshot: SnapshotAssertion) -> None:
    for name, content in FILES.items():
        write(name, content)
    ran = run(*line)
    assert ran.code == code
    assert ran.err == snapshot
    found = [part[:4] for part in ran.err.split("error[")[1:]]
    assert all(PAGES[each].exit == code for each in found)
    assert bool(found) == (code > 1)


def test_a_bad_line_does_not_stop_the_others(run: Run, write: Write) -> None:
    ran = run(*PARSE, write("bad.jsonl", FILES["bad.jsonl"]))
    assert [line["content"] for line in ran.lines] == ["1", "7"]
    ran = run(*PARSE, "-q", "missing.txt", "bad.jsonl", write("ok.txt", "fine"))
    assert [line["content"] for line in ran.lines] == ["1", "7", "fine"]
    assert ran.code == 4


@pytest.mark.parametrize("command", ["parse", "explain"])
def test_a_bad_record_does_not_stop_the_others(command: str, run: Run, write: Write) -> None:
    lines: list[dict[str, Any]] = [
        {"text": "no format"},
        {"token_ids": [1], "format": "hermes"},
        {"text": "acme", "format": "acme"},
        {"text": "broken", "format": "outside.tg"},
        {"text": "one", "format": "hermes"},
    ]
    write("outside.tg", FILES["outside.tg"])
    file = write("a.jsonl", "\n".join(map(json.dumps, lines)))
    ran = run(command, "-f", "jsonl", file, write("b.jsonl", '{"text": "two", "format": "hermes"}'))
    assert [line.get("content", line.get("text")) for line in ran.lines] == ["one", "two"]
    told = [line[6:10] for line in ran.err.splitlines() if line.startswith("error[")]
    assert told == ["E007", "E005", "E012", "E002"]
    for number in range(1, 5):
        assert f"a.jsonl:{number}" in ran.err
    assert ran.code == 3
    assert run(command, "--input", "jsonl", stdin='{"text": "no format"}').code == 2


def test_the_worst_exit_code_counts(run: Run, write: Write) -> None:
    lines: list[dict[str, Any]] = [
        {"text": FILES["cut.txt"], "format": "hermes"},
        {"text": "a", "format": "acme"},
    ]
    file = write("a.jsonl", "\n".join(map(json.dumps, lines)))
    assert run("parse", file).code == 3
    assert run("parse", file, "missing.txt").code == 4


def test_an_unknown_model_names_its_neighbours(run: Run, write: Write) -> None:
    ran = run("parse", "-m", "hermse", write("ok.txt", "fine"))
    assert ran.err.startswith("error[E012]: no grammar for model 'hermse'\n  hint: did you mean hermes")


def test_a_bug_is_shown_with_its_trace(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolgrammar.machine.session import Session

    def broken(*_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(Session, "feed", broken)
    ran = run(*PARSE, stdin="text")
    assert ran.code == 5
    assert "Traceback" in ran.err
    assert ran.err.endswith("error[E090]: KeyError: 'oops'\n  hint: this is a bug: toolgrammar help E090\n")


def test_colour_of_an_error(run: Run) -> None:
    assert run("parse", "--color", "always", "-m", "acme", stdin="x").err.startswith(
        "\x1b[1;31merror[E012]\x1b[0m: "
    )
