"""The promises of the design, each as a property, over every format, on good, cut, mutated and hostile text.

The laws, where they need saying:

cuts        Any cut gives the same events once neighbours of one kind are joined: kinds, texts, names, statuses,
            indices and spans. Ids of our own making differ by nature. Diagnostics are compared on their own, as
            where they stand among pieces of arguments depends on how many pieces there are.
spans       The message's spans tile the text. The text of a content or reasoning event is the raw text of its
            span, up to one joining line feed in front.
emitted     What ``feed`` gave out is never taken back: it is a prefix of all later events. (Follows from cuts; what
            ``finish`` adds for text that was cut is the next law's.)
truncation  A text cut at any point and finished: a call that is complete there is the same call in the whole, with
            the same arguments; the arguments of one that is not are a prefix of the whole's and are sound JSON as far
            as they go; a call that is not complete leaves the turn unfinished. Three exceptions, by convention:
            a call spelled in open reasoning is one at the end of the stream and may be thought in the whole (7);
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

from toolgrammar import Parser
from toolgrammar import combinators as c
from toolgrammar.combinators import Grammar
from toolgrammar.events import CallArguments, Content, Event, Reasoning
from toolgrammar.message import Message
from toolgrammar.readings.first import literals, nodes_of
from toolgrammar.readings.generate import TOOLS, near_markers, turns

everywhere = pytest.mark.parametrize("name", FORMATS)

_SCRAPS = [
    " ", "\n", "\n\n", "\r\n", "\t", "\x00", "\ud800", "\udfff", "\ufeff", "é", "🦀", "\u2028", "<", "</", ">", "{", "}", "[",
    "]", "(", ")", '"', "'", "\\", '\\"', "\\u12", "\\ud83d", ":", ",", "=", ";", "|", "｜", "`", "```", "1", "-", "12.5", "1e9",
    "true", "None", "NaN", "a", "word", "to=", "code", "path", "lathe", "fs.read", "go", "elsewhere", "functions.go:0",
    '{"name": "lathe", "arguments": {"code": "x", "rpm": 3,}}', '{"name": "go", "parameters": {}}', '{"code": "a"}', "{}",
    "lathe(code='x', rpm=3)", "call:lathe{", '"name":', '"arguments":', "function", "json", "analysis", "thought",
]  # fmt: skip


def hostile(grammar: Grammar) -> st.SearchStrategy[str]:
    """Texts of markers, near-markers, scraps of every notation, and anything at all."""
    piece = st.one_of(
        st.sampled_from(literals(grammar) or ["x"]), st.sampled_from(literals(grammar) or ["x"]),
        st.sampled_from(near_markers(grammar) or ["x"]), st.sampled_from(_SCRAPS), st.text(max_size=3),
    )  # fmt: skip
    return st.lists(piece, min_size=1, max_size=14).map("".join)


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


def starts_of(grammar: Grammar) -> list[str]:
    """The states generation may start in."""
    return list(grammar.starts)


# ---- checks -------------------------------------------------------------------------------------------------------


def check_cuts(grammar: Grammar, text: str, start: str, at: list[int]) -> tuple[list[Event], Message]:
    """The same events whole, by code points, and cut anywhere. Returns those of the whole."""
    events, message = read(grammar, [text], TOOLS, start)
    for pieces in (list(text), cut(text, at)):
        other, its_message = read(grammar, pieces, TOOLS, start)
        assert joined(other) == joined(events), pieces
        assert outcome(its_message) == outcome(message), pieces
    return events, message


def check_spans(text: str, events: list[Event], message: Message) -> None:
    """The spans tile the text, and what was said stood there."""
    at = 0
    for begin, end, _ in message.spans:
        assert begin == at < end
        at = end
    assert at == len(text)
    at = 0
    for event in events:
        if isinstance(event, (Content, Reasoning)):
            assert event.text in (text[event.start : event.end], "\n" + text[event.start : event.end])
            assert at <= event.start
            at = event.end


def check_message(message: Message) -> None:
    """No call is presented as more than it is."""
    for call in message.calls:
        if call.status == "complete":
            assert call.arguments is not None or _too_much_for_python(call.arguments_raw)
        elif call.status == "incomplete":
            assert message.unfinished or "E201" in [note.code for note in message.diagnostics]
    assert message.reasoning != "" and message.content != ""


def _too_much_for_python(text: str) -> bool:
    try:
        json.loads(text)
    except RecursionError:
        return True
    except ValueError as problem:
        return "digits" in str(problem)
    return False


# ---- 1, 2, 3: one path, nothing lost, nothing invented -----------------------------------------------------------------


@everywhere
@examples(40)
@given(data=st.data(), at=places)
def test_hostile_text_reads_the_same_however_it_is_cut(name: str, data: st.DataObject, at: list[int]) -> None:
    grammar = grammar_of(name)
    text = data.draw(hostile(grammar))
    start = data.draw(st.sampled_from(starts_of(grammar)))
    events, message = check_cuts(grammar, text, start, at)
    check_spans(text, events, message)
    check_message(message)


@everywhere
@examples(8)
@given(data=st.data(), at=places)
def test_broken_turns_read_the_same_however_they_are_cut(name: str, data: st.DataObject, at: list[int]) -> None:
    grammar = grammar_of(name)
    text, start = data.draw(mutated(grammar))
    events, message = check_cuts(grammar, text, start, at)
    check_spans(text, events, message)
    check_message(message)


@everywhere
@examples(3)
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


# ---- truncation ---------------------------------------------------------------------------------------------------


@everywhere
@examples(3)
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


def check_truncations(grammar: Grammar, text: str, start: str, tools: Any) -> None:
    """Every truncation of ``text`` against the whole."""
    nodes = list(nodes_of(grammar))
    drafts = any(isinstance(node, c.Draft) for node in nodes)
    verbatim = any(isinstance(node, c.Verbatim) for node in nodes)
    whole_events, whole = read(grammar, [text], tools, start)
    thought = [span[:2] for span in whole.spans if span[2] == "reasoning"]
    running = Parser(grammar=grammar, tools=tools, start=start)  # type: ignore[arg-type]
    given_out: list[Event] = []
    for length in range(len(text) + 1):
        parser = running.copy()
        before = given_out[:]
        given_out_now = parser.finish()
        message = parser.message()
        cut_text = text[:length]
        check_spans(cut_text, before + given_out_now, message)
        check_message(message)
        for place, call in enumerate(message.calls):
            at = call.span[0]
            if drafts and any(begin <= at < end for begin, end in thought):
                continue
            same = whole.calls[place] if place < len(whole.calls) else None
            if call.status == "complete" and not verbatim:
                assert same is not None and (same.name, same.arguments_raw) == (call.name, call.arguments_raw), (
                    f"cut at {length}, {call.name!r} is complete, in the whole it is {same}"
                )
            elif call.status == "incomplete":
                assert sound(call.arguments_raw), f"cut at {length}, unsound: {call.arguments_raw!r}"
                if same is not None and same.span[0] == at:
                    said = call.arguments_raw
                    if cut_text.endswith("'") and not same.arguments_raw.startswith(said):
                        said = said.removesuffix('"')
                    assert same.arguments_raw.startswith(said), (
                        f"cut at {length}, {call.arguments_raw!r} is no prefix of {same.arguments_raw!r}"
                    )
        if length < len(text):
            given_out += running.feed(text[length])


def sound(text: str) -> bool:
    """Whether ``text`` may be the beginning of a JSON object, with nothing undecided at its end."""
    if not text:
        return True
    closers: list[str] = []
    inside = escaped = False
    for char in text:
        if inside:
            inside = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            inside = True
        elif char in "{[":
            closers.append({"{": "}", "[": "]"}[char])
        elif char in "}]":
            closers.pop()
    end = "".join(reversed(closers))
    rest = text.rstrip()
    if inside:
        tries = [text + '"' + end, text + '": null' + end]
    elif rest.endswith(":"):
        tries = [text + " null" + end]
    elif rest.endswith(","):
        return False
    else:
        tries = [text + end, text + ": null" + end]
    for each in tries:
        try:
            json.loads(each, strict=False)
        except ValueError:
            continue
        return True
    return False


# ---- state --------------------------------------------------------------------------------------------------------


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
    starters = "".join({marker[0] for marker in literals(grammar)})
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


# ---- 5, 6: linear, and never raises -------------------------------------------------------------------------------------


def _floods(grammar: Grammar) -> list[str]:
    markers = literals(grammar)
    opener = max(markers, key=len, default="x")
    return [
        "{" * 100_000, "[" * 100_000, '{"a":' * 20_000, '"' * 100_000, "<" * 100_000, "\\" * 100_000, "\n" * 100_000,
        '{"name": "lathe", "arguments": ' + "[" * 50_000, '{"name": "lathe", "arguments": {"' + "k" * 100_000,
        "[lathe(code=" + "[" * 50_000, *((marker * (30_000 // len(marker) + 1)) for marker in markers),
        *(marker + "x" * 30_000 for marker in markers), *(marker + " " * 30_000 + "x" for marker in markers),
        "".join(markers) * (20_000 // len("".join(markers) + "x") + 1), (opener[:-1] + " ") * (50_000 // len(opener)),
        "\ud800" * 50_000, "\x00" * 50_000,
    ]  # fmt: skip


@pytest.mark.slow
@everywhere
def test_floods_are_read_to_their_end(name: str) -> None:
    grammar = grammar_of(name)
    for flood in _floods(grammar):
        for start in starts_of(grammar):
            pieces = [flood[at : at + 1000] for at in range(0, len(flood), 1000)]
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


# ---- 4: early ------------------------------------------------------------------------------------------------------


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
    assert len(pieces) > 15
