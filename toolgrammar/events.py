"""What a parser says while text arrives: six event types, each with its span in the raw output.

Spans count code points of the raw output, end exclusive. The events of one kind that follow each other may
be joined: their joined text, and every other event, is the same for any cut of the input.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

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
