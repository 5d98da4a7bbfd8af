"""Anthropic shapes, against dicts written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from toolgrammar.adapters import anthropic
from toolgrammar.events import CallArguments, CallEnd, CallStart, Content, Event, Reasoning
from toolgrammar.message import Call, Message, Status


def message(*calls: Call, finish: str | None = None, said: bool = True) -> Message:
    return Message(
        model="glm-4.5",
        grammar="glm-4.5",
        reasoning="Two ferries." if said else None,
        content="Booking." if said else None,
        calls=list(calls),
        diagnostics=[],
        unfinished=False,
        tail="",
        spans=[],
        finish=finish,
    )


def call(index: int, arguments: str, status: Status = "complete") -> Call:
    return Call(index, f"call_{index}", "book_ferry", arguments, status, True, (0, 1))


def test_message() -> None:
    assert anthropic.message(message(call(0, '{"port": "Oban"}'), call(1, '{"port"', "incomplete"))) == {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Two ferries.", "signature": ""},
            {"type": "text", "text": "Booking."},
            {"type": "tool_use", "id": "call_0", "name": "book_ferry", "input": {"port": "Oban"}},
            {"type": "tool_use", "id": "call_1", "name": "book_ferry", "input": {}, "status": "incomplete"},
        ],
        "model": "glm-4.5",
        "stop_reason": "end_turn",
        "stop_sequence": None,
    }


def test_nothing_said_is_an_empty_text_block() -> None:
    assert anthropic.message(message(said=False))["content"] == [{"type": "text", "text": ""}]


@pytest.mark.parametrize(
    ("calls", "finish", "reason"),
    [
        ([], None, "end_turn"),
        ([call(0, "{}")], "stop", "tool_use"),
        ([call(0, "{}")], "length", "max_tokens"),
        ([call(0, "{", "incomplete")], "stop", "end_turn"),
        ([], "stop_sequence", "stop_sequence"),
        ([], "content_filter", "end_turn"),
    ],
)
def test_stop_reason(calls: list[Call], finish: str | None, reason: str) -> None:
    assert anthropic.stop_reason(message(*calls, finish=finish)) == reason


def test_a_stream() -> None:
    events: list[Event] = [
        Reasoning("Two ", 0, 4),
        Reasoning("ferries.", 4, 12),
        Content("Booking.", 20, 28),
        CallStart(0, "call_0", "book_ferry", 30, 40),
        CallArguments(0, '{"port": ', 40, 49),
        CallArguments(0, '"Oban"}', 49, 56),
        CallEnd(0, "call_0", "complete", 30, 60),
    ]
    said = message(call(0, '{"port": "Oban"}'))
    usage = {"input_tokens": 7}
    assert list(anthropic.events(events, said, id="msg_1", usage=usage)) == [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "content": [],
                "model": "glm-4.5",
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 7, "output_tokens": 0},
            },
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        delta(0, {"type": "thinking_delta", "thinking": "Two "}),
        delta(0, {"type": "thinking_delta", "thinking": "ferries."}),
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        delta(1, {"type": "text_delta", "text": "Booking."}),
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "call_0", "name": "book_ferry", "input": {}},
        },
        delta(2, {"type": "input_json_delta", "partial_json": '{"port": '}),
        delta(2, {"type": "input_json_delta", "partial_json": '"Oban"}'}),
        {"type": "content_block_stop", "index": 2},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 0},
        },
        {"type": "message_stop"},
    ]


def delta(index: int, content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": content}


def test_blocks_never_interleave_and_nothing_is_lost() -> None:
    events: list[Event] = [
        CallStart(0, "call_0", "a", 0, 1),
        CallArguments(0, "{", 1, 2),
        Content("meanwhile", 2, 3),
        CallStart(1, "call_1", "b", 3, 4),
        CallArguments(1, "{}", 4, 5),
        CallArguments(0, "}", 5, 6),
        CallEnd(1, "call_1", "complete", 3, 6),
        CallEnd(0, "call_0", "complete", 0, 7),
        Content("later", 8, 9),
    ]
    stream = list(anthropic.events(events, message(call(0, "{}"), call(1, "{}"))))
    blocks: dict[int, str] = {}
    opened: list[int] = []
    for event in stream:
        if event["type"] == "content_block_start":
            assert not opened
            opened.append(event["index"])
            blocks[event["index"]] = event["content_block"]["type"] + ":"
        elif event["type"] == "content_block_delta":
            assert opened == [event["index"]]
            blocks[event["index"]] += next(v for k, v in event["delta"].items() if k != "type")
        elif event["type"] == "content_block_stop":
            assert opened == [event["index"]]
            opened.clear()
    assert list(blocks.values()) == ["tool_use:{}", "text:meanwhile", "tool_use:{}", "text:later"]


def test_an_empty_or_cut_stream_is_still_whole() -> None:
    kinds = [event["type"] for event in anthropic.events([], message(said=False))]
    assert kinds == [
        "message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    cut: list[Event] = [CallStart(0, "call_0", "a", 0, 1), CallArguments(0, "{", 1, 2), Content("x", 2, 3)]
    kinds = [event["type"] for event in anthropic.events(cut, message(call(0, "{", "incomplete")))]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 2


def test_a_stream_can_be_pushed_piece_by_piece() -> None:
    stream = anthropic.Stream(model="m")
    assert [event["type"] for event in stream.push([])] == ["message_start"]
    pushed = [event["type"] for event in stream.push([Content("a", 0, 1)])]
    assert pushed == ["content_block_start", "content_block_delta"]
    assert [event["type"] for event in stream.push([Content("b", 1, 2)])] == ["content_block_delta"]
