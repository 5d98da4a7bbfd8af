"""Texts that models should not write: markers in any order, near-markers, turns with mistakes, floods."""

from __future__ import annotations

import functools

from hypothesis import strategies as st
from readings.feeding import grammar_of

from toolgrammar.combinators import Grammar
from toolgrammar.readings.first import literals
from toolgrammar.readings.generate import near_markers, turns

_SCRAPS = [
    " ", "\n", "\n\n", "\r\n", "\t", "\x00", "\ud800", "\udfff", "\ufeff", "é", "🦀", "\u2028", "<", "</", ">",
    "{", "}", "[", "]", "(", ")", '"', "'", "\\", '\\"', "\\u12", "\\ud83d", ":", ",", "=", ";", "|", "｜", "`",
    "```", "1", "-", "12.5", "1e9", "true", "None", "NaN", "a", "word", "to=", "code", "path", "lathe", "fs.read",
    "go", "elsewhere", "functions.go:0", '{"name": "lathe", "arguments": {"code": "x", "rpm": 3,}}', "{}",
    '{"code": "a"}', '{"name": "go", "parameters": {}}', "lathe(code='x', rpm=3)", "call:lathe{", '"name":',
    '"arguments":', "function", "json", "analysis", "thought",
]  # fmt: skip


@functools.cache
def _pieces(name: str) -> list[str]:
    grammar = grammar_of(name)
    markers = literals(grammar) or ["x"]
    near = near_markers(grammar)
    # About as many markers as near-markers as scraps.
    return [*markers * (1 + len(_SCRAPS) // len(markers)), *near[:: 1 + len(near) // len(_SCRAPS)], *_SCRAPS]


def hostile(grammar: Grammar) -> st.SearchStrategy[str]:
    """Texts of markers, near-markers and scraps of every notation."""
    return st.lists(st.sampled_from(_pieces(grammar.name)), min_size=1, max_size=14).map("".join)


@st.composite
def mutated(draw: st.DrawFn, grammar: Grammar) -> tuple[str, str]:
    """A generated turn with a few edits, and the state it starts in."""
    turn = draw(turns(grammar))
    text = turn.text
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = start + draw(st.integers(0, 6))
        text = (
            text[:start]
            + draw(st.one_of(st.just(""), hostile(grammar), st.just(text[start:end] * 2)))
            + text[end:]
        )
    return text, turn.start


def floods(grammar: Grammar) -> list[str]:
    """Long texts of one kind: braces, quotes, markers, names that never end."""
    markers = literals(grammar)
    opener = max(markers, key=len, default="x")
    some = markers[:: 1 + len(markers) // 6]
    return [
        "{" * 100_000, "[" * 100_000, '{"a":' * 20_000, '"' * 100_000, "<" * 100_000, "\\" * 100_000,
        "\n" * 100_000, "\ud800" * 50_000, "\x00" * 50_000, '{"name": "lathe", "arguments": ' + "[" * 50_000,
        '{"name": "lathe", "arguments": {"' + "k" * 100_000, "[lathe(code=" + "[" * 50_000,
        *((marker * (20_000 // len(marker) + 1)) for marker in some),
        *(marker + "x" * 20_000 for marker in some), *(marker + " " * 20_000 + "x" for marker in some),
        "".join(markers) * (20_000 // len("".join(markers) + "x") + 1),
        (opener[:-1] + " ") * (50_000 // len(opener)),
    ]  # fmt: skip
