"""The notation of events in the tables of ``docs/``."""

from __future__ import annotations

import json
import re

from toolgrammar import CallArguments, CallEnd, CallStart, Content, Diagnostic, Event, Reasoning


def shown(events: list[Event]) -> list[str]:
    """``content "..."``, ``reasoning "..."``, ``start NAME [ID]``, ``args ...``, ``end [STATUS]``, ``note CODE``.

    Neighbours of one kind are joined.
    """
    joined: list[tuple[str, str]] = []
    for event in events:
        match event:
            case Content() | Reasoning():
                new = ("content" if isinstance(event, Content) else "reasoning", event.text)
            case CallStart():
                ours = re.fullmatch("call_[0-9a-f]{24}|[0-9A-Za-z]{9}", event.id)
                new = ("start", event.name if ours else f"{event.name} {event.id}")
            case CallArguments():
                new = ("args", event.delta)
            case CallEnd():
                new = ("end", "" if event.status == "complete" else event.status)
            case Diagnostic():
                new = ("note", event.code)
        if joined and joined[-1][0] == new[0] and new[0] in ("content", "reasoning", "args"):
            joined[-1] = (new[0], joined[-1][1] + new[1])
        else:
            joined.append(new)
    return [_written(kind, text) for kind, text in joined]


def _written(kind: str, text: str) -> str:
    if kind in ("content", "reasoning"):
        text = json.dumps(text, ensure_ascii=False)
    return f"{kind} {text}" if text else kind


def cells(line: str) -> list[str]:
    """The cells of a table's line."""
    return [cell.strip(" ").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def code(cell: str) -> str:
    """What stands between the backquotes of a cell; nothing if there are none."""
    found = re.fullmatch("`(.*)`", cell)
    return found[1] if found else ""


def codes(cell: str) -> list[str]:
    """Everything that stands between backquotes."""
    return re.findall(r"`(.*?)`", cell)


def lines(text: str) -> str:
    r"""``\n`` is a line feed."""
    return text.replace("\\n", "\n")
