"""The promises of the design, each as a property, over every format, on good, cut, mutated and hostile text.

The laws, where they need saying:

cuts        Any cut gives the same events once neighbours of one kind are joined: kinds, texts, names, statuses,
            indices and spans. Ids of our own making differ by nature. Diagnostics are compared on their own, as
            where they stand among pieces of arguments depends on how many pieces there are.
spans       The message's spans tile the text. The text of a content or reasoning event is the raw text of its
            span, up to one joining line feed in front, and to line feeds mended where the format asks for it.
emitted     What ``feed`` gave out is never taken back: it is a prefix of all later events. Follows from cuts;
            what ``finish`` adds to text that was cut is the next law's.
truncation  A text cut at any point and finished: a call that is complete there is the same call in the whole,
            with the same arguments; the arguments of one that is not are a prefix of the whole's, and sound JSON
            as far as they go; a call that is not complete is reported as cut or broken off. By convention, a call
            spelled in open reasoning is one at the end of the stream and may be thought in the whole (7);
            verbatim code ends where the stream does; so does a single-quoted string whose quote comes last (12).
complete    The arguments of a complete call are one JSON object.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from readings.feeding import (
    FORMATS,
    cut,
    examples,
    grammar_of,
    joined,
    outcome,
    places,
    read,
    token_pieces,
    tokenizers,
)
from readings.hostile import floods, hostile, mutated
from readings.laws import check_cuts, check_message, check_spans, check_truncations

from toolgrammar import Parser
from toolgrammar.combinators import Grammar
from toolgrammar.events import CallArguments
from toolgrammar.readings.first import literals
from toolgrammar.readings.generate import TOOLS, turns

everywhere = pytest.mark.parametrize("name", FORMATS)


def starts_of(grammar: Grammar) -> list[str]:
    """The states generation may start in."""
    return list(grammar.starts)


# ---- 1, 2, 3: one path, nothing lost, nothing invented -----------------------------------------------------


@everywhere
@examples(25)
@given(data=st.data(), at=places)
def test_hostile_text_reads_the_same_however_it_is_cut(name: str, data: st.DataObject, at: list[int]) -> None:
    grammar = grammar_of(name)
    text = data.draw(hostile(grammar))
    start = data.draw(st.sampled_from(starts_of(grammar)))
    events, message = check_cuts(grammar, text, start, at)
    check_spans(text, events, message)
    check_message(message)


@everywhere
@examples(8, shrink=False)
@given(data=st.data(), at=places)
def test_broken_turns_read_the_same_however_they_are_cut(name: str, data: st.DataObject, at: list[int]) -> None:
    grammar = grammar_of(name)
    text, start = data.draw(mutated(grammar))
    events, message = check_cuts(grammar, text, start, at)
    check_spans(text, events, message)
    check_message(message)


@everywhere
@examples(3, shrink=False)
@given(data=st.data())
def test_tokens_of_real_vocabularies_are_cuts_like_any_other(name: str, data: st.DataObject) -> None:
    if not tokenizers():
        pytest.skip("no tokenizer package is installed")
    grammar = grammar_of(name)
    turn = data.draw(turns(grammar))
    events, message = read(grammar, [turn.text], turn.tools, turn.start)
    for tokenizer in tokenizers():
        pieces = token_pieces(tokenizer, turn.text)
        if pieces is not None:
            other, its_message = read(grammar, pieces, turn.tools, turn.start)
            assert joined(other) == joined(events), pieces
            assert outcome(its_message) == outcome(message), pieces


# ---- truncation --------------------------------------------------------------------------------------------


@everywhere
@examples(3, shrink=False)
@given(data=st.data())
def test_a_turn_cut_short_never_lies(name: str, data: st.DataObject) -> None:
    grammar = grammar_of(name)
    turn = data.draw(turns(grammar))
    check_truncations(grammar, turn.text, turn.start, turn.tools)


def test_cases_cut_short_never_lie(fixtures: Any) -> None:
    for path in sorted((fixtures / "cases").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            if case["format"] in FORMATS and len(case["text"]) < 400:
                start = case["starts_in"].replace("auto", "content")
                try:
                    check_truncations(grammar_of(case["format"]), case["text"], start, case["tools"])
                except AssertionError as lie:
                    raise AssertionError(f"{case['id']}: {lie}") from lie


# ---- state -------------------------------------------------------------------------------------------------


@everywhere
@examples(8)
@given(data=st.data(), place=st.integers(0, 10_000))
def test_copies_and_pickles_go_on_alike(name: str, data: st.DataObject, place: int) -> None:
    grammar = grammar_of(name)
    text, start = data.draw(st.tuples(hostile(grammar), st.sampled_from(starts_of(grammar))))
    first, rest = cut(text, [place])
    parser = Parser(grammar=grammar, tools=TOOLS, start=start)  # type: ignore[arg-type]
    parser.feed(first)
    copies = [parser.copy(), pickle.loads(pickle.dumps(parser)), parser]
    results = []
    for each in copies:
        events = each.feed(rest) + each.finish()
        results.append((joined(events), outcome(each.message())))
    assert results[0] == results[2] and results[1] == results[2]


@everywhere
@examples(8)
@given(data=st.data())
def test_nothing_is_held_behind_the_end(name: str, data: st.DataObject) -> None:
    grammar = grammar_of(name)
    parser = Parser(grammar=grammar, tools=TOOLS, start=data.draw(st.sampled_from(starts_of(grammar))))  # type: ignore[arg-type]
    parser.feed(data.draw(hostile(grammar)))
    parser.finish("length")
    assert parser.held == 0
    assert parser.finish() == []
    assert parser.message().finish == "length"
    with pytest.raises(RuntimeError):
        parser.feed("x")


@everywhere
@examples(4)
@given(data=st.data())
def test_plain_text_is_held_no_longer_than_a_marker(name: str, data: st.DataObject) -> None:
    grammar = grammar_of(name)
    starters = "".join({marker[0] for marker in literals(grammar)}) + "{["  # a bare call may begin so
    words = st.text(
        st.characters(blacklist_characters=starters + " \t\r\n", blacklist_categories=["Cs"]),
        min_size=1,
        max_size=9,
    )
    text = data.draw(st.lists(words, min_size=40, max_size=80).map(" ".join))
    assume(text.strip())
    longest = max(map(len, literals(grammar)), default=1)
    parser = Parser(grammar=grammar, tools=TOOLS)
    for char in "A. " + text:
        parser.feed(char)
        assert parser.held <= longest + 1


# ---- 5, 6: linear, and never raises ------------------------------------------------------------------------


@pytest.mark.slow
@everywhere
def test_floods_are_read_to_their_end(name: str) -> None:
    grammar = grammar_of(name)
    for flood in floods(grammar):
        for start in starts_of(grammar):
            pieces = [flood[at : at + 4000] for at in range(0, len(flood), 4000)]
            events, message = read(grammar, pieces, TOOLS, start)
            check_spans(flood, events, message)


@everywhere
@examples(6)
@example(text="\ud83e\udd80\x00")
@given(text=st.text(st.characters(exclude_categories=[]), max_size=40))
def test_any_text_at_all(name: str, text: str) -> None:
    grammar = grammar_of(name)
    for start in starts_of(grammar):
        events, message = check_cuts(grammar, text, start, [1, 2, 7])
        check_spans(text, events, message)


# ---- 4: early ----------------------------------------------------------------------------------------------


def test_given_out_is_never_taken_back() -> None:
    """Pieces of arguments only ever grow: every event of ``feed`` is in the final list, in order."""
    grammar = grammar_of("hermes")
    parser = Parser(grammar=grammar, tools=TOOLS)
    pieces = [
        event.delta
        for char in '<tool_call>{"name": "lathe", "arguments": {"code": "abc def"}}</tool_call>'
        for event in parser.feed(char)
        if isinstance(event, CallArguments)
    ]
    parser.finish()
    assert "".join(pieces) == parser.message().calls[0].arguments_raw == '{"code": "abc def"}'
    assert len(pieces) >= 12
