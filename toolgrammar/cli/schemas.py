"""The JSON of the command line. Every object has ``"v": 1``; spans count code points of the raw output.

Events keep the type names and fields of the library, plus ``seq`` (from 0 in each record) and ``span``; an
``end`` line closes each record. A message is what ``Parser.message()`` gave, plus where it was read.
"""

from __future__ import annotations

from typing import Any, Final

from toolgrammar.cli.inputs import Record
from toolgrammar.events import CallArguments, CallEnd, CallStart, Content, Diagnostic, Event, Reasoning
from toolgrammar.message import Call, Message

VERSION: Final = 1


def record_json(record: Record) -> dict[str, Any]:
    """Where something was read: the file, and of a record its line, id and choice, and what in it was bad."""
    found: dict[str, Any] = {"file": record.file}
    if record.line is not None:
        found["line"] = record.line
    if record.id:
        found["id"] = record.id
    if record.choice is not None:
        found["choice"] = record.choice
    if record.problems:
        found["problems"] = list(record.problems)
    return found


def event_json(event: Event, seq: int) -> dict[str, Any]:
    """An event line."""
    found: dict[str, Any] = {"v": VERSION}
    match event:
        case Reasoning(text):
            found |= {"type": "reasoning", "seq": seq, "text": text}
        case Content(text):
            found |= {"type": "content", "seq": seq, "text": text}
        case CallStart(index, id, name):
            found |= {"type": "call_start", "seq": seq, "index": index, "id": id, "name": name}
        case CallArguments(index, delta):
            found |= {"type": "call_arguments", "seq": seq, "index": index, "delta": delta}
        case CallEnd(index, id, status):
            found |= {"type": "call_end", "seq": seq, "index": index, "id": id, "status": status}
        case Diagnostic():
            found |= {"type": "diagnostic", "seq": seq, **_diagnostic(event)}
    found["span"] = list(event.span)
    return found


def end_json(record: Record, message: Message, seq: int) -> dict[str, Any]:
    """The line behind the events of a record."""
    return {
        "v": VERSION,
        "type": "end",
        "seq": seq,
        "finish": finish_of(message),
        "unfinished": message.unfinished,
        "tail": message.tail,
        "record": record_json(record),
    }


def message_json(message: Message, record: Record | None = None) -> dict[str, Any]:
    """A message line."""
    found: dict[str, Any] = {
        "v": VERSION,
        "model": message.model,
        "grammar": message.grammar,
        "reasoning": message.reasoning,
        "content": message.content,
        "calls": [_call(call) for call in message.calls],
        "finish": finish_of(message),
        "unfinished": message.unfinished,
        "diagnostics": [diagnostic_json(diagnostic) for diagnostic in message.diagnostics],
        "tail": message.tail,
        "spans": [list(span) for span in message.spans],
        "lossless": lossless(message),
    }
    if record is not None:
        found["record"] = record_json(record)
    return found


def finish_of(message: Message) -> str | None:
    """Why the model stopped, ``tool_calls`` for a stop with a whole call; None if nothing told."""
    from toolgrammar.adapters.openai import finish_reason

    return finish_reason(message) if message.finish is not None else None


def lossless(message: Message) -> bool:
    """Whether the spans tile the raw output."""
    at = 0
    for start, end, _ in message.spans:
        if start != at or end <= start:
            return False
        at = end
    return True


def diagnostic_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic."""
    return {**_diagnostic(diagnostic), "span": list(diagnostic.span)}


def _diagnostic(diagnostic: Diagnostic) -> dict[str, Any]:
    return {"code": diagnostic.code, "severity": diagnostic.severity, "message": diagnostic.message}


def _call(call: Call) -> dict[str, Any]:
    return {
        "index": call.index,
        "id": call.id,
        "name": call.name,
        "arguments_raw": call.arguments_raw,
        "arguments": call.arguments,
        "status": call.status,
        "known": call.known,
        "span": list(call.span),
    }


def explained_json(explained: Any) -> dict[str, Any]:
    """A line of ``explain``."""
    return {
        "v": VERSION,
        "span": [explained.start, explained.end],
        "text": explained.text,
        "rule_path": explained.rule.split(".") if explained.rule else [],
        "action": explained.action,
        "kind": explained.kind,
        "chunk": explained.chunk,
        "held": [list(item) for item in explained.held],
    }
