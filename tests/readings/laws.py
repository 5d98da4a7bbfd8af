"""The laws of ``tests/core/test_promises.py`` as checks; see there for what they say."""

from __future__ import annotations

import json
from typing import Any

from readings.feeding import cut, grammar_of, joined, outcome, read

from toolgrammar import Parser
from toolgrammar import combinators as c
from toolgrammar.combinators import Grammar
from toolgrammar.events import Content, Event, Reasoning
from toolgrammar.message import Message
from toolgrammar.readings.first import nodes_of
from toolgrammar.readings.generate import TOOLS


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
            raw = text[event.start : event.end]
            assert event.text in (raw, "\n" + raw) or grammar_of(message.grammar).mend
            assert at <= event.start
            at = event.end


def check_message(message: Message) -> None:
    """No call is presented as more than it is."""
    for call in message.calls:
        if call.status == "complete":
            assert call.arguments is not None or _too_much_for_python(call.arguments_raw)
        elif call.status == "incomplete":
            assert message.unfinished or {"E103", "E201"} & {note.code for note in message.diagnostics}
    assert message.reasoning != "" and message.content != ""


def _too_much_for_python(text: str) -> bool:
    try:
        json.loads(text)
    except RecursionError:
        return True
    except ValueError as problem:
        return "digits" in str(problem)
    return False


def check_truncations(grammar: Grammar, text: str, start: str, tools: Any) -> None:
    """Every truncation of ``text`` against the whole."""
    nodes = list(nodes_of(grammar))
    drafts = any(isinstance(node, c.Draft) for node in nodes)
    verbatim = any(isinstance(node, c.Verbatim) for node in nodes)
    _, whole = read(grammar, [text], tools, start)
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
