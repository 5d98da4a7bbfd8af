"""What a parser says while text arrives: six event types, each with its span in the raw output.

Spans count code points of the raw output, end exclusive. The events of one kind that follow each other may
be joined: their joined text, and every other event, is the same for any cut of the input.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

Status: TypeAlias = Literal["complete", "incomplete", "malformed"]


class Reasoning(msgspec.Struct, frozen=True, gc=False, tag="reasoning"):
    """A piece of the model's thinking."""

    text: str
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        """Where the piece stood in the raw output."""
        return (self.start, self.end)


class Content(msgspec.Struct, frozen=True, gc=False, tag="content"):
    """A piece of the answer."""

    text: str
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        """Where the piece stood in the raw output."""
        return (self.start, self.end)


class CallStart(msgspec.Struct, frozen=True, gc=False, tag="call_start"):
    """A tool call is certain: its name is delimited and its body has begun."""

    index: int
    id: str
    name: str
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        """Where the call began; empty, for its end is not known yet."""
        return (self.start, self.end)


class CallArguments(msgspec.Struct, frozen=True, gc=False, tag="call_arguments"):
    """A piece of the arguments of call ``index``: JSON text, to be appended to the pieces before it."""

    index: int
    delta: str
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        """The raw characters the piece was read from."""
        return (self.start, self.end)


class CallEnd(msgspec.Struct, frozen=True, gc=False, tag="call_end"):
    """Call ``index`` is over. ``id`` is the model's own if it came late; ``span`` covers the whole call."""

    index: int
    id: str
    status: Status
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        """The whole call in the raw output."""
        return (self.start, self.end)


class Diagnostic(msgspec.Struct, frozen=True, gc=False, tag="diagnostic"):
    """Something a reader should know: a repair, a flaw, a mismatch. Codes: ``toolgrammar.diagnostics``."""

    code: str
    message: str
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        """The raw characters concerned."""
        return (self.start, self.end)

    @property
    def severity(self) -> Literal["info", "warn", "error"]:
        """By the code's class: W1 and E are for attention, W2 (recovery applied) is for information."""
        if self.code.startswith("E"):
            return "error"
        return "warn" if self.code.startswith("W1") else "info"


Event: TypeAlias = Reasoning | Content | CallStart | CallArguments | CallEnd | Diagnostic


def joined(events: list[Event]) -> list[Event]:
    """The same events with neighbours of one kind made one, where they stand next to each other."""
    found: list[Event] = []
    i = 0
    while i < len(events):
        event = events[i]
        kind = type(event)
        j = i + 1
        if kind is Content or kind is Reasoning or kind is CallArguments:
            while j < len(events) and type(events[j]) is kind and events[j].start == events[j - 1].end:
                j += 1
        found.append(event if j == i + 1 else _one(events[i:j]))
        i = j
    return found


def _one(run: list[Any]) -> Event:
    """A run of neighbours of one kind as one event."""
    first, end = run[0], run[-1].end
    if isinstance(first, CallArguments):
        return CallArguments(first.index, "".join([event.delta for event in run]), first.start, end)
    return type(first)("".join([event.text for event in run]), first.start, end)  # type: ignore[no-any-return]
