"""OpenAI shapes, against dicts written by hand."""

from __future__ import annotations

import pytest

from toolgrammar.adapters import openai
from toolgrammar.events import CallArguments, CallEnd, CallStart, Content, Diagnostic, Event, Reasoning
from toolgrammar.message import Call, Message, Status

EVENTS: list[Event] = [
    Reasoning("Two ferries.", 0, 12),
    Content("Booking ", 20, 28),
    Content("both.", 28, 33),
    CallStart(0, "call_a", "book_ferry", 40, 60),
    CallArguments(0, '{"port": ', 60, 69),
    CallArguments(0, '"Oban"}', 69, 76),
    Diagnostic("W201", "trailing comma dropped", 75, 76),
    CallEnd(0, "call_a", "complete", 40, 80),
    CallStart(1, "call_b", "list_ports", 81, 99),
    CallEnd(1, "call_b", "complete", 81, 110),
]


def message(*calls: Call, finish: str | None = None, unfinished: bool = False) -> Message:
    return Message(
        model="Qwen/Qwen3-8B",
        grammar="qwen3",
        reasoning="Two ferries.",
        content="Booking both.",
        calls=list(calls),
        diagnostics=[],
        unfinished=unfinished,
        tail="",
        spans=[],
        finish=finish,
    )


def call(index: int, arguments: str, status: Status = "complete") -> Call:
    return Call(index, f"call_{index}", "book_ferry", arguments, status, True, (0, 1))


def test_deltas() -> None:
    assert list(openai.deltas(EVENTS)) == [
        {"reasoning": "Two ferries.", "reasoning_content": "Two ferries."},
        {"content": "Booking "},
        {"content": "both."},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_a",
                    "type": "function",
                    "function": {"name": "book_ferry", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"port": '}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Oban"}'}}]},
        {
            "tool_calls": [
                {
                    "index": 1,
                    "id": "call_b",
                    "type": "function",
                    "function": {"name": "list_ports", "arguments": ""},
                }
            ]
        },
    ]


def test_the_names_of_reasoning_can_be_chosen() -> None:
    assert list(openai.deltas(EVENTS[:1], reasoning_fields=["reasoning"])) == [{"reasoning": "Two ferries."}]


def test_message() -> None:
    assert openai.message(message(call(0, '{"port": "Oban"}'), call(1, '{"port": "Cr', "incomplete"))) == {
        "role": "assistant",
        "content": "Booking both.",
        "reasoning": "Two ferries.",
        "reasoning_content": "Two ferries.",
        "tool_calls": [
            {
                "id": "call_0",
                "type": "function",
                "function": {"name": "book_ferry", "arguments": '{"port": "Oban"}'},
            },
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "book_ferry", "arguments": '{"port": "Cr'},
            },
        ],
    }


def test_a_plain_answer_has_no_tool_calls() -> None:
    said = message()
    said.reasoning = said.content = None
    assert openai.message(said) == {"role": "assistant", "content": None}


@pytest.mark.parametrize(
    ("calls", "finish", "reason"),
    [
        ([], None, "stop"),
        ([call(0, "{}")], None, "tool_calls"),
        ([call(0, "{}")], "stop", "tool_calls"),
        ([call(0, "{}")], "length", "length"),
        ([call(0, "{", "incomplete")], "stop", "stop"),
        ([call(0, "{}"), call(1, "{", "incomplete")], "stop", "stop"),
        ([call(0, "[", "malformed")], None, "stop"),
        ([], "tool_calls", "stop"),
        ([], "abort", "abort"),
    ],
)
def test_finish_reason(calls: list[Call], finish: str | None, reason: str) -> None:
    assert openai.finish_reason(message(*calls, finish=finish)) == reason
