"""Anthropic messages: events to stream events, a Message to one with content blocks.

    >>> stream = Stream(model="mine")
    >>> for event in stream.push(parser.feed(piece)):
    ...     send(event)                      # {"type": "content_block_delta", ...}
    >>> for event in stream.finish(parser.message()):
    ...     send(event)

Blocks never interleave: what belongs to another block while a call is open waits until that call has ended;
nothing is dropped. ``input`` is an object in this API: a call that is cut or malformed has ``{}`` there, and in a
message a ``status`` beside it that says so, which clients of the API pass over (its text as received is in
``Message.calls``). Without a whole call the stop reason is never ``tool_use``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolgrammar.adapters.openai import finish_reason
from toolgrammar.events import CallArguments, CallEnd, CallStart, Content, Event, Reasoning
from toolgrammar.message import Message

_STOP_REASONS = {"tool_calls": "tool_use", "length": "max_tokens", "stop": "end_turn"}
_STOPPED = ("end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause_turn")


def message(msg: Message) -> dict[str, Any]:
    """The assistant's message: thinking, text and tool_use blocks; nothing said is one empty text block."""
    blocks: list[dict[str, Any]] = []
    if msg.reasoning is not None:
        blocks.append({"type": "thinking", "thinking": msg.reasoning, "signature": ""})
    if msg.content is not None:
        blocks.append({"type": "text", "text": msg.content})
    for call in msg.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments or {}}
        blocks.append(block if call.status == "complete" else {**block, "status": call.status})
    return {
        "type": "message",
        "role": "assistant",
        "content": blocks or [{"type": "text", "text": ""}],
        "model": msg.model,
        "stop_reason": stop_reason(msg),
        "stop_sequence": None,
    }


def stop_reason(msg: Message) -> str:
    """``tool_use`` if the model stopped by itself with a whole call; ``max_tokens`` if it was cut; else
    end_turn."""
    reason = finish_reason(msg)
    return reason if reason in _STOPPED else _STOP_REASONS.get(reason, "end_turn")


def events(
    events: Iterable[Event],
    msg: Message,
    *,
    id: str = "msg_0",
    model: str | None = None,
    usage: Mapping[str, int] | None = None,
) -> Iterator[dict[str, Any]]:
    """The whole stream of a finished answer: its events and the message they amount to."""
    stream = Stream(id=id, model=msg.model if model is None else model, usage=usage)
    yield from stream.push(events)
    yield from stream.finish(msg)


class Stream:
    """Turns events into stream events as they come."""

    def __init__(self, *, id: str = "msg_0", model: str = "", usage: Mapping[str, int] | None = None) -> None:
        self._head: dict[str, Any] = {
            "id": id,
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": model,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0, **(usage or {})},
        }
        self._started = False
        self._blocks = 0
        #: "thinking", "text", the index of a call, or None: the block that is open.
        self._open: str | int | None = None
        self._waiting: list[Event] = []

    def push(self, events: Iterable[Event]) -> Iterator[dict[str, Any]]:
        """The stream events that ``events`` lead to."""
        yield from self._start()
        for event in events:
            yield from self._one(event)

    def finish(self, msg: Message, usage: Mapping[str, int] | None = None) -> Iterator[dict[str, Any]]:
        """Close the open block and the message."""
        yield from self._start()
        while self._open is not None or self._waiting:
            yield from self._close()
        if self._blocks == 0:
            yield from self._begin("text", {"type": "text", "text": ""})
            yield from self._close()
        delta = {"stop_reason": stop_reason(msg), "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 0, **(usage or {})}}
        yield {"type": "message_stop"}

    def _start(self) -> Iterator[dict[str, Any]]:
        if not self._started:
            self._started = True
            yield {"type": "message_start", "message": self._head}

    def _one(self, event: Event) -> Iterator[dict[str, Any]]:
        if isinstance(self._open, int) and getattr(event, "index", None) != self._open:
            if isinstance(event, Reasoning | Content | CallStart | CallArguments | CallEnd):
                self._waiting.append(event)
            return
        match event:
            case Reasoning(text):
                yield from self._begin("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                yield self._delta({"type": "thinking_delta", "thinking": text})
            case Content(text):
                yield from self._begin("text", {"type": "text", "text": ""})
                yield self._delta({"type": "text_delta", "text": text})
            case CallStart(index, id, name):
                yield from self._begin(index, {"type": "tool_use", "id": id, "name": name, "input": {}})
            case CallArguments(_, delta):
                yield self._delta({"type": "input_json_delta", "partial_json": delta})
            case CallEnd():
                yield from self._close()

    def _begin(self, kind: str | int, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._open == kind:
            return
        if self._open is not None:
            yield {"type": "content_block_stop", "index": self._blocks - 1}
        self._open = kind
        self._blocks += 1
        yield {"type": "content_block_start", "index": self._blocks - 1, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._blocks - 1, "delta": delta}

    def _close(self) -> Iterator[dict[str, Any]]:
        """End the open block, then let go what waited for it."""
        if self._open is not None:
            self._open = None
            yield {"type": "content_block_stop", "index": self._blocks - 1}
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            yield from self._one(event)
