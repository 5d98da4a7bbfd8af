"""``explain``: how explanations are shown. What they say is tested beside the reading itself."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from .conftest import Run

Write = Callable[[str, "str | bytes"], str]

TEXT = 'Sì.\n<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
EXPLAIN = ("explain", "-m", "hermes")


@dataclass
class Told:
    """An explanation, as ``toolgrammar.readings.explain`` gives them."""

    start: int
    end: int
    text: str
    rule: str
    action: str
    kind: str
    chunk: int
    held: list[tuple[int, int]] = field(default_factory=list)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading that gives fixed explanations."""

    def explain(chunks: Iterable[str], parser: Any) -> list[Told]:
        for chunk in chunks:
            parser.feed(chunk)
        return [
            Told(0, 3, TEXT[0:3], "turn.answer", "emit", "content", 0),
            Told(3, 16, TEXT[3:16], "turn.call", "skip", "framing", 1, [(0, 5), (1, 12)]),
            Told(16, 52, TEXT[16:52], "turn.call.envelope", "emit", "call", 2),
            Told(52, 65, TEXT[52:65], "turn.call", "skip", "framing", 2),
        ]

    module = types.ModuleType("toolgrammar.readings.explain")
    module.explain = explain  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toolgrammar.readings.explain", module)


@pytest.mark.usefixtures("told")
def test_pretty(run: Run, snapshot: SnapshotAssertion) -> None:
    ran = run(*EXPLAIN, "-f", "pretty", "--chunk", "30", stdin=TEXT)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == snapshot


@pytest.mark.usefixtures("told")
def test_one_chunk_needs_no_chunk_column(run: Run) -> None:
    head = run(*EXPLAIN, "-f", "pretty", "--chunk", "whole", stdin=TEXT).out.splitlines()[:2]
    assert head == [
        "<stdin>  hermes, 65 characters in 1 chunk",
        "span   kind     action  rule                text",
    ]


@pytest.mark.usefixtures("told")
def test_jsonl(run: Run) -> None:
    lines = run(*EXPLAIN, stdin=TEXT).lines
    assert lines[1] == {
        "v": 1,
        "span": [3, 16],
        "text": "\n<tool_call>\n",
        "rule_path": ["turn", "call"],
        "action": "skip",
        "kind": "framing",
        "chunk": 1,
        "held": [[0, 5], [1, 12]],
        "record": {"file": "<stdin>"},
    }


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("flags", "spans"),
    [
        (["--at", "20"], [[16, 52]]),
        (["--at", "64"], [[52, 65]]),
        (["--held"], [[3, 16]]),
        (["--call", "0"], [[16, 52]]),
    ],
)
def test_choosing(flags: list[str], spans: list[list[int]], run: Run) -> None:
    assert [line["span"] for line in run(*EXPLAIN, *flags, stdin=TEXT).lines] == spans
    assert run(*EXPLAIN, "-f", "pretty", *flags, stdin=TEXT).code == 0


@pytest.mark.usefixtures("told")
def test_a_call_that_is_not_there(run: Run) -> None:
    ran = run(*EXPLAIN, "--call", "3", stdin=TEXT)
    assert (ran.code, ran.err) == (2, "error[E001]: no call 3 in <stdin>: it has 1 call\n")


@pytest.mark.usefixtures("told")
def test_a_character_that_is_not_there(run: Run, write: Write) -> None:
    ran = run(*EXPLAIN, "--at", "65", stdin=TEXT)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error[E001]: no character 65 in <stdin>: it has 65 characters, from 0 on\n"
    ran = run(*EXPLAIN, "--at", "60", write("short.txt", "x"), write("long.txt", TEXT))
    assert (ran.code, [line["span"] for line in ran.lines]) == (2, [[52, 65]])


def test_timeline(run: Run, snapshot: SnapshotAssertion) -> None:
    ran = run(*EXPLAIN, "--timeline", "-f", "pretty", "--chunk", "9", stdin=TEXT)
    assert ran.out == snapshot
    lines = run(*EXPLAIN, "--timeline", "--chunk", "9", stdin=TEXT).lines
    assert "".join(line.get("text", "") for line in lines) == TEXT
    assert lines[0].keys() == {"v", "chunk", "text", "held", "events", "record"}
    assert lines[-1]["end"] is True


def test_the_real_reading(run: Run) -> None:
    pytest.importorskip("toolgrammar.readings.explain")
    lines = run(*EXPLAIN, "--chunk", "5", stdin=TEXT).lines
    assert "".join(line["text"] for line in lines) == TEXT
    assert {line["action"] for line in lines} <= {"emit", "hold", "release", "skip"}
    pretty = run(*EXPLAIN, "--chunk", "5", "-f", "pretty", stdin=TEXT)
    assert (pretty.code, pretty.err) == (0, "")
