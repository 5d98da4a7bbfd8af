"""When the chunks of a recorded event stream came: comment lines ``: t=SECONDS`` before the events.

Any recorder can write such lines: to readers of event streams they are comments.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_TIME: Final = re.compile(rb":\s*t=([0-9]+(?:\.[0-9]+)?)\s*$")


def event_times(path: str) -> dict[tuple[int, int], list[float]]:
    """For each choice of each stream, known by the line where it begins and its index: the time of each delta that
    has text, in seconds. Empty for a file without such comments."""
    times: dict[tuple[int, int], list[float]] = {}
    open_choices: dict[int, list[float]] = {}
    now_s: float | None = None
    stream: Any = None
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip(b"\r\n")
            if found := _TIME.match(line):
                now_s = float(found[1])
            if now_s is None or not line.startswith(b"data:"):
                continue
            event = _event(line[5:])
            if event is None or (event.get("id") is not None and event["id"] != stream):
                open_choices = {}
            if event is None:
                continue
            stream = event.get("id", stream)
            for choice in event.get("choices") or ():
                if not isinstance(choice, dict):
                    continue
                index = choice.get("index") or 0
                if index not in open_choices:
                    open_choices[index] = times.setdefault((number, index), [])
                if _text(choice):
                    open_choices[index].append(now_s)
    return times


def _event(data: bytes) -> dict[str, Any] | None:
    """The event; None for the end of a stream, and for what is none."""
    try:
        event = json.loads(data)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _text(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    return bool(delta.get("content") if isinstance(delta, dict) else choice.get("text"))
