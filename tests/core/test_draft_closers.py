"""A call that is spelled in reasoning and breaks off at reasoning's end: read the same wherever the end is cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from readings.feeding import grammar_of, joined, outcome, read

from toolgrammar import combinators as c
from toolgrammar import registry
from toolgrammar.combinators import Grammar
from toolgrammar.readings.first import nodes_of
from toolgrammar.readings.generate import TOOLS
from toolgrammar.readings.render import render_calls

CALL = ("go", {"from": [1, {"a": "b"}]})


def spellings(grammar: Grammar, node: Any) -> Iterator[str]:
    """All literals in ``node``."""
    if isinstance(node, c.Lit):
        yield from node.spellings
    elif isinstance(node, c.Ref):
        yield from spellings(grammar, grammar.rules[node.rule])
    elif isinstance(node, tuple):
        for item in node:
            yield from spellings(grammar, item)
    elif hasattr(node, "__struct_fields__"):
        for name in node.__struct_fields__:
            yield from spellings(grammar, getattr(node, name))


def closers(name: str) -> list[str]:
    """What ends reasoning in which calls may be spelled."""
    grammar = grammar_of(name)
    drafts = [node for node in nodes_of(grammar) if isinstance(node, c.Draft)]
    return sorted({text for draft in drafts for text in spellings(grammar, draft.closer)})


NAMES = [name for name in sorted(registry.default().formats()) if closers(name)]


def test_there_are_such_formats() -> None:
    assert {"hermes", "apriel", "glm-4.5", "hunyuan-a13b"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_where_the_closer_is_cut_makes_no_difference(name: str) -> None:
    grammar = grammar_of(name)
    start = "reasoning" if "reasoning" in grammar.starts else "content"
    call = render_calls(grammar, [CALL], TOOLS)
    for closer in closers(name):
        for length in range(1, len(call) + 1):
            text = f"{call[:length]}{closer}x"
            events, message = read(grammar, [text], TOOLS, start)
            pieces = [list(text), *[[text[:at], text[at:]] for at in range(length, len(text))]]
            for each in pieces:
                other, its_message = read(grammar, each, TOOLS, start)
                assert joined(other) == joined(events), each
                assert outcome(its_message) == outcome(message), each
