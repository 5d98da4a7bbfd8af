"""``toolgrammar.testing``: the cuts, and what counts as a difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from toolgrammar.events import CallArguments, CallEnd, CallStart, Content, Event
from toolgrammar.message import Call, Message, SpanKind, Status
from toolgrammar.testing import every_split, random_splits, run_case, same_value


def test_every_split() -> None:
    assert list(every_split("abc")) == [["a", "bc"], ["ab", "c"]]
    assert list(every_split("a")) == list(every_split("")) == []


def test_random_splits_join_to_the_text_and_repeat() -> None:
    text = "a longer text, with some ünïcödé 満潮"
    once, again = list(random_splits(text, 20, 7)), list(random_splits(text, 20, 7))
    assert once == again != list(random_splits(text, 20, 8))
    assert {"".join(pieces) for pieces in once} == {text}
    assert all(piece for pieces in once for piece in pieces)
    assert len({len(pieces) for pieces in once}) > 5
    assert list(random_splits("", 2, 0)) == [[""], [""]]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (0, False, False),
        ({"a": [1, {"b": None}]}, {"a": [1.0, {"b": None}]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [2, 1], False),
        ("1", 1, False),
    ],
)
def test_same_value(a: Any, b: Any, same: bool) -> None:
    assert same_value(a, b) is same


class Told:
    """A parser that gives what it was told to."""

    def __init__(
        self,
        content: str | None = None,
        calls: list[tuple[str, str, Status]] | None = None,
        unfinished: bool = False,
        spans: list[tuple[int, int, SpanKind]] | None = None,
    ) -> None:
        self.content, self.calls, self.unfinished, self.spans = content, calls or [], unfinished, spans
        self.fed = ""

    def feed(self, text: str) -> list[Event]:
        self.fed += text
        return []

    def finish(self) -> list[Event]:
        events: list[Event] = [Content(self.content, 0, 1)] if self.content else []
        for n, (name, arguments, status) in enumerate(self.calls):
            start = CallStart(n, f"id_{n}", name, 0, 1)
            events += [start, CallArguments(n, arguments, 0, 1), CallEnd(n, f"id_{n}", status, 0, 1)]
        return events

    def message(self) -> Message:
        spans = self.spans if self.spans is not None else [(0, len(self.fed), "content")]
        calls = [Call(n, f"id_{n}", *call, True, (0, 1)) for n, call in enumerate(self.calls)]
        return Message("m", "g", None, self.content, calls, [], self.unfinished, "", spans)


def differences(expect: dict[str, Any], told: Told) -> list[str]:
    """The fields that differ when the text is fed whole."""

    def factory(case: Mapping[str, Any]) -> Told:
        return Told(told.content, told.calls, told.unfinished, told.spans)

    result = run_case({"format": "g", "text": "raw text", "expect": expect}, factory, cuts=2)
    assert [way.name for way in result.ways] == ["whole", "code points", "random[0]", "random[1]"]
    assert result.ok == (not result.ways[0].differences)
    return [diff.field for diff in result.ways[0].differences]


CALL = {"name": "f", "arguments": {"x": 1}}


@pytest.mark.parametrize(
    ("expect", "told", "fields"),
    [
        ({"content": "hi"}, Told("hi"), []),
        ({"content": "hi"}, Told("hi "), ["content"]),
        ({"content": None}, Told("hi"), ["content"]),
        ({"unfinished": True}, Told(), ["unfinished"]),
        ({"tool_calls": [CALL]}, Told(calls=[("f", '{"x": 1.0}', "complete")]), []),
        ({"tool_calls": [CALL]}, Told(calls=[("f", '{"x": true}', "complete")]), ["calls[0].arguments"]),
        ({"tool_calls": [CALL]}, Told(calls=[("g", '{"x": 1}', "complete")]), ["calls"]),
        ({"tool_calls": [CALL]}, Told(), ["calls"]),
        (
            {"tool_calls": [CALL]},
            Told(calls=[("f", '{"x": 1}', "malformed")]),
            ["calls[0].status", "calls[0].arguments"],
        ),
        ({"tool_calls": [{**CALL, "id": "id_0"}]}, Told(calls=[("f", '{"x": 1}', "complete")]), []),
        ({"tool_calls": [{**CALL, "id": "no"}]}, Told(calls=[("f", '{"x":1}', "complete")]), ["calls[0].id"]),
        ({}, Told(spans=[(0, 4, "content")]), ["spans"]),
        ({}, Told(spans=[(0, 4, "content"), (5, 8, "content")]), ["spans"]),
    ],
)
def test_differences(expect: dict[str, Any], told: Told, fields: list[str]) -> None:
    assert differences(expect, told) == fields


@pytest.mark.parametrize(
    ("want", "got", "ok"),
    [
        ('{"zone": "na', '{"zone": "na', True),
        ('{"zone": "na', '{"zone":"n', True),  # earlier is late, not wrong
        ('{"zone": "na', '{"zone": "no', False),
        ('{"zone": "a b', '{"zone": "ab', False),  # white space inside a string counts
        ('{"a": 1', '{"a": 1,', False),  # a comma that may turn out to trail
        ('{"a": ', '{"a": tru', False),  # a word that is not decided
        ('{"a": "x', '{"a": "x\\', False),  # half an escape
        ('{"a": "x', '{"a": "x\\u00e', False),
        ('{"a": "x', '{"a": "x\\u00e9', True),
        ('{"a": "x', '{"a": "x\\\\', True),
        ('{"a": "x"', '{"a": "x", "b": ', True),
    ],
)
def test_arguments_text(want: str, got: str, ok: bool) -> None:
    expect = {"tool_calls": [{"name": "f", "arguments_text": want}], "unfinished": True}
    told = Told(calls=[("f", got, "incomplete")], unfinished=True)
    assert differences(expect, told) == ([] if ok else ["calls[0].arguments_text"])


def test_a_malformed_call_must_be_said_to_be_one() -> None:
    expect = {"tool_calls": [{"name": "f", "arguments_text": "[22]", "status": "malformed"}]}
    assert differences(expect, Told(calls=[("f", "[22]", "malformed")])) == []
    assert differences(expect, Told(calls=[("f", "[22]", "incomplete")])) == ["calls[0].status"]


def test_white_space_alone_is_a_failure_and_is_told_apart() -> None:
    case = {"id": "mine/1", "format": "g", "text": "hi\n", "expect": {"content": "hi"}, "soft": True}
    result = run_case(case, lambda case: Told("hi\n"), cuts=1)
    assert (result.ok, result.white_only, result.soft) == (False, True, True)
    assert result.report() == (
        "mine/1, every way:\n"
        '  content (white space only): expected "hi", got "hi\\n"'
    )  # fmt: skip


def test_own_chunks_are_fed() -> None:
    fed: list[Told] = []

    def factory(case: Mapping[str, Any]) -> Told:
        fed.append(Told("x"))
        return fed[-1]

    case = {"format": "g", "text": "abc", "expect": {"content": "x"}, "chunks": [["ab", "c"], ["a", "bc"]]}
    result = run_case(case, factory, cuts=0)
    assert [way.name for way in result.ways] == ["whole", "code points", "chunks[0]", "chunks[1]"]
    assert run_case({**case, "chunks": ["ab", "c"]}, factory, cuts=0).ways[2].name == "chunks[0]"


def test_events_must_be_the_message() -> None:
    class Lying(Told):
        def finish(self) -> list[Event]:
            return [Content("other", 0, 1)]

    result = run_case({"format": "g", "text": "abc", "expect": {"content": "x"}}, lambda case: Lying("x"), cuts=0)
    assert [diff.field for diff in result.ways[0].differences] == ["joined content events"]


def test_the_default_parser_reads_the_case() -> None:
    case = {
        "format": "hermes",
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "starts_in": "content",
        "text": 'Hi <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>',
        "expect": {"content": "Hi ", "tool_calls": [CALL], "unfinished": False, "reasoning": None},
    }
    result = run_case(case)
    assert result.ok, result.report()
