"""OpenAI chat completions: events to deltas, a Message to a chat message.

    >>> for delta in deltas(parser.feed(piece)):
    ...     send({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})

A call's ``id``, ``type`` and ``name`` are sent once, with its first delta; its arguments follow as pieces
of a JSON text. Reasoning is given under every name in ``reasoning_fields``, as clients disagree about it.
An id that the model gave after the call had begun is in the message only. Diagnostics have no place here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from toolgrammar.events import CallArguments, CallStart, Content, Event, Reasoning
from toolgrammar.message import Message

REASONING_FIELDS: Final = ("reasoning", "reasoning_content")


def deltas(
    events: Iterable[Event], *, reasoning_fields: Sequence[str] = REASONING_FIELDS
) -> Iterator[dict[str, Any]]:
    """The ``delta`` of one chat.completion.chunk for each event that a client sees."""
    for event in events:
        match event:
            case Reasoning(text):
                yield dict.fromkeys(reasoning_fields, text)
            case Content(text):
                yield {"content": text}
            case CallStart(index, id, name):
                function = {"name": name, "arguments": ""}
                yield {"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}
            case CallArguments(index, delta):
                yield {"tool_calls": [{"index": index, "function": {"arguments": delta}}]}


def message(msg: Message, *, reasoning_fields: Sequence[str] = REASONING_FIELDS) -> dict[str, Any]:
    """The assistant's chat message. Calls keep their arguments as received, even if cut or malformed."""
    found: dict[str, Any] = {"role": "assistant", "content": msg.content}
    if msg.reasoning is not None:
        found |= dict.fromkeys(reasoning_fields, msg.reasoning)
    if msg.calls:
        found["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_raw},
            }
            for call in msg.calls
        ]
    return found


def finish_reason(msg: Message) -> str:
    """``tool_calls`` if the model stopped by itself with a whole call and no cut one; else what was told."""
    if msg.finish not in (None, "stop", "tool_calls"):
        return str(msg.finish)
    states = {call.status for call in msg.calls}
    return "tool_calls" if "complete" in states and "incomplete" not in states else "stop"
