"""The ``toolgrammar`` member of a choice: where everything stood in the raw output, and what was remarked."""

from __future__ import annotations

from typing import Any

from toolgrammar import Message


def extension(message: Message) -> dict[str, Any]:
    """Spans are ``[start, end, kind]`` in code points of the raw output, end exclusive, and tile it."""
    return {
        "format": message.grammar,
        "spans": message.spans,
        "calls": [
            {"index": call.index, "status": call.status, "known": call.known, "span": call.span}
            for call in message.calls
        ],
        "diagnostics": [
            {"code": found.code, "severity": found.severity, "message": found.message, "span": found.span}
            for found in message.diagnostics
        ],
        "unfinished": message.unfinished,
        "tail": message.tail,
    }
