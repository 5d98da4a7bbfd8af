"""The explanation of an output: which rule took which characters, what was held, and when it was released.

The machine keeps a trace while it reads, one entry for each stretch of raw text: the rule it was read by and
whether it was given out (``emit``), dropped as framing (``skip``), or first held and then given out as text
(``release``). What is still held at the end is the tail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolgrammar.message import Message
from toolgrammar.parser import Parser

Action: TypeAlias = Literal["emit", "hold", "release", "skip"]


@dataclass(frozen=True)
class Explained:
    """One stretch of raw output. ``chunk``: the piece of input with which it was decided, counted from 0.

    ``held``: after which pieces it was still undecided, as ``(chunk, characters of it held)``.
    """

    start: int
    end: int
    text: str
    rule: str
    action: Action
    kind: str
    chunk: int
    held: tuple[tuple[int, int], ...] = ()


def explain(chunks: Iterable[str], parser: Parser) -> list[Explained]:
    """Feed ``chunks`` to the fresh ``parser`` and explain every character. The result tiles the output."""
    session = parser._session
    session.trace = []
    session.set_path()
    text = ""
    waits: list[tuple[int, int, int]] = []  # chunk, and the raw characters undecided behind it
    for number, chunk in enumerate(chunks):
        session.chunk = number
        parser.feed(chunk)
        text += chunk
        if parser.held:
            waits.append((number, len(text) - parser.held, len(text)))
    session.chunk = max(session.chunk, 0)
    parser.finish()
    return _tiled(text, session.trace or [], waits, parser.message())


def _tiled(
    text: str,
    trace: list[tuple[int, int, str, str, int]],
    waits: list[tuple[int, int, int]],
    message: Message,
) -> list[Explained]:
    """The trace, cut at the borders of the message's spans, its gaps filled."""
    entries = sorted(trace)
    found: list[Explained] = []
    spans = iter(message.spans)
    span = next(spans, None)
    at = 0
    while span is not None and at < len(text):
        entries = [entry for entry in entries if entry[1] > at] if entries and entries[0][1] <= at else entries
        end = span[1]
        rule, action, chunk = (
            "",
            "skip" if span[2] == "framing" else "hold" if span[2] == "tail" else "emit",
            0,
        )
        if entries and entries[0][0] <= at:
            end = min(end, entries[0][1])
            rule, action, chunk = entries[0][2:]
        elif entries:
            end = min(end, entries[0][0])
        held = tuple((n, min(end, upto) - max(at, since)) for n, since, upto in waits if since < end and upto > at)
        found.append(Explained(at, end, text[at:end], rule, action, span[2], chunk, held))  # type: ignore[arg-type]
        at = end
        if at >= span[1]:
            span = next(spans, None)
    return found
