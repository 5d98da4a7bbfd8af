"""Machine, oracle and the generator's own knowledge say the same of every generated turn, however it is cut."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readings.feeding import FORMATS, cut, difference, examples, grammar_of, places, read, turn_of

from toolgrammar.readings.generate import TOOLS, Generated, turns
from toolgrammar.readings.oracle import oracle

#: Formats whose turns are not generated, with the reason.
SKIPPED: dict[str, str] = {}

everywhere = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.skip(SKIPPED[name])] if name in SKIPPED else []) for name in FORMATS],
)


@functools.cache
def oracle_of(name: str, start: str) -> Any:
    """The oracle of a format for the tools of generated turns."""
    return oracle(grammar_of(name), start, TOOLS)


@everywhere
@examples(8, shrink=False)
@given(data=st.data(), at=places)
def test_machine_oracle_and_expectation_agree(name: str, data: st.DataObject, at: list[int]) -> None:
    grammar = grammar_of(name)
    turn: Generated = data.draw(turns(grammar))
    for pieces in ([turn.text], list(turn.text), cut(turn.text, at)):
        _, message = read(grammar, pieces, turn.tools, turn.start)
        assert difference(turn_of(message), turn.expected) == ""
        assert not message.unfinished
    assert difference(oracle_of(name, turn.start)(turn.text), turn.expected) == ""


@everywhere
def test_skipped_formats_exist(name: str) -> None:
    assert SKIPPED.keys() <= set(FORMATS)


def test_the_readings_are_independent_of_the_machine(root: Path) -> None:
    modules = "first turns style headers paper book pen prose fields calls walk raw elements render"
    modules += " parsing values stretches oracle generate"
    for module in modules.split():
        source = (root / "toolgrammar" / "readings" / f"{module}.py").read_text(encoding="utf-8")
        assert "import" in source and "from toolgrammar.machine" not in source, module
