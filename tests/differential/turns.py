"""Turns that a peer is asked to write: what was thought, said and called, with values of every JSON type."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from toolgrammar import Parser
from toolgrammar.message import Message
from toolgrammar.testing import same_value

Call = tuple[str, dict[str, Any]]

_TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
_PROPERTIES = {name: {"type": name} for name in _TYPES} | {"größe": {"type": "string"}}
#: One tool takes anything, one nothing; names with what names may have.
TOOLS: list[dict[str, Any]] = [
    {"name": "get_weather-2", "parameters": {"type": "object", "properties": _PROPERTIES}},
    {"name": "now", "parameters": {"type": "object", "properties": {}}},
]
#: Pieces of many formats' markers, none of them whole, and what JSON, XML and Python quote.
NEAR = (
    "<", ">", "</", "<|", "|>", "<｜", "｜>", "<think", "</thin", "<tool_call", "</tool_cal", "</ tool_call>",
    "<arg_", "</arg_value", "<parameter", "</parameter", "<function", "</function", "<｜DSML", "</｜DSML｜",
    "<｜tool▁call", "<|tool_call_", "<|im_", "<|cal", "<|mess", "functions.", "```", "```json\n", "{", "}", "[",
    "]", '"', "'", "\\", "\\n", "\\u00e9", "\n", "\n\n", "\t", " ", "é", "größe", "日本", "👍🏽", "e\u0301",
    "\u2028", "null", "True", "1e5", "&lt;",
)  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """One assistant turn; None is nothing, never ``""``."""

    reasoning: str | None
    content: str | None
    calls: tuple[Call, ...] = ()


def texts(pieces: Iterable[str] = NEAR) -> st.SearchStrategy[str]:
    """Texts of ``pieces`` and of any characters but those for private use, see ``test_tml_private.py``."""
    characters = st.text(st.characters(exclude_categories=("Cs", "Cc", "Co")), max_size=4)
    return st.lists(st.sampled_from(list(pieces)) | characters, max_size=6).map("".join)


def calls(strings: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[Call, ...]]:
    """Up to three calls whose string values are ``strings``."""
    integers = st.integers(-(2**53), 2**53)
    numbers = integers | st.sampled_from([0.5, -0.0, 1e-07, 2.5e300, -12.25])  # one peer rounds longer ones
    atoms = st.none() | st.booleans() | integers | strings
    arrays = st.lists(atoms | st.lists(atoms, max_size=2), max_size=3)
    objects = st.dictionaries(strings.filter(bool), atoms | arrays, max_size=3)
    values: dict[str, st.SearchStrategy[Any]] = {
        "string": strings, "größe": strings, "number": numbers, "integer": integers, "boolean": st.booleans(),
        "null": st.none(), "array": arrays, "object": objects,
    }  # fmt: skip
    weather = st.tuples(st.just("get_weather-2"), st.fixed_dictionaries({}, optional=values))
    now: st.SearchStrategy[Call] = st.tuples(st.just("now"), st.just(dict[str, Any]()))
    return st.lists(weather | now, max_size=3).map(tuple)


def turns(
    said: st.SearchStrategy[str], values: st.SearchStrategy[str], *, reasons: bool = True, trims: bool = False
) -> st.SearchStrategy[Turn]:
    """Turns in which something is said or called: ``said``, and string values of ``values``.

    What is said is more than white space, which may be framing; where the peer ``trims``, it has none at its ends.
    """
    text = st.none() | (said.map(str.strip).filter(bool) if trims else said.filter(str.strip))
    built = st.builds(Turn, text if reasons else st.none(), text, calls(values))
    return built.filter(lambda turn: bool(turn.content or turn.calls))


def without_both(turn: Turn) -> Turn:
    """``turn`` for a peer that writes content and calls as two turns: calls go without content."""
    return replace(turn, content=None) if turn.calls else turn


def read(format: str, pieces: Iterable[Any], **options: Any) -> Message:
    """What we read from ``pieces``, text or token ids."""
    parser = Parser(format, tools=TOOLS, **options)
    for piece in pieces:
        parser.feed(piece)
    parser.finish()
    return parser.message()


def in_pairs(text: str) -> list[str]:
    """Every two characters: markers are cut at other places than per character."""
    return ["".join(pair) for pair in itertools.zip_longest(text[::2], text[1::2], fillvalue="")]


def difference(message: Message, turn: Turn) -> str:
    """How ``message`` differs from ``turn``; "" if it does not. Arguments count by value, not by order."""
    if (message.reasoning, message.content) != (turn.reasoning, turn.content):
        return f"said {(message.reasoning, message.content)!r}, not {(turn.reasoning, turn.content)!r}"
    got = [(call.name, call.arguments) for call in message.calls]
    if len(got) != len(turn.calls):
        return f"called {got!r}, not {turn.calls!r}"
    for mine, theirs in zip(got, turn.calls, strict=True):
        if mine[0] != theirs[0] or not same_value(mine[1], theirs[1]):
            return f"called {mine!r}, not {theirs!r}"
    if message.diagnostics or message.unfinished:
        return f"remarked {message.diagnostics!r}, unfinished {message.unfinished}"
    return ""
