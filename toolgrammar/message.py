"""The collected answer: reasoning, content, calls, and what was remarked on the way."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from toolgrammar.events import (
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Diagnostic,
    Event,
    Reasoning,
    Status,
)

SpanKind: TypeAlias = Literal["reasoning", "content", "call", "framing", "tail"]


class Call(msgspec.Struct):
    """One tool call. ``arguments`` is None unless ``arguments_raw`` is one whole JSON object."""

    index: int
    id: str
    name: str
    arguments_raw: str
    status: Status
    known: bool
    span: tuple[int, int]

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The decoded arguments; a repeated member keeps its last value. None for a call that is not complete, or
        with a number of more than 20 000 digits."""
        if self.status != "complete":
            return None
        import json  # not before it is needed: who imports toolgrammar may only want events

        try:
            value = json.loads(self.arguments_raw, parse_int=_integer)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


def _integer(text: str) -> int:
    """``text`` as an integer: ``int`` refuses more digits than its limit, for the time they take."""
    if len(text) <= 4000:
        return int(text)
    if len(text) > 20_000:
        raise ValueError("too many digits")
    from decimal import Decimal

    return int(Decimal(text))


class Message(msgspec.Struct):
    """What a model said. Empty reasoning or content is None, never ``""``.

    ``spans`` tile the raw output, as ``(start, end, kind)``. ``unfinished``: the stream ended inside a call,
    a call section, or a header that may be a call's. ``tail`` is raw text at the end that could not be placed
    (an unfinished section's opener, what stands behind the end of the turn).
    """

    model: str
    grammar: str
    reasoning: str | None
    content: str | None
    calls: list[Call]
    diagnostics: list[Diagnostic]
    unfinished: bool
    tail: str
    spans: list[tuple[int, int, SpanKind]]
    finish: str | None = None


class Collector:
    """Folds events into a Message. Plain data, copyable; memory is the text said and its spans."""

    __slots__ = ("_args", "_calls", "_content", "_diagnostics", "_reasoning", "_spans")

    def __init__(self) -> None:
        self._reasoning: list[str] = []
        self._content: list[str] = []
        self._calls: list[Call] = []
        self._args: list[list[str]] = []
        self._diagnostics: list[Diagnostic] = []
        self._spans: list[tuple[int, int, SpanKind]] = []

    def copy(self) -> Collector:
        """An independent collector with the same past."""
        new = Collector()
        new._reasoning = self._reasoning[:]
        new._content = self._content[:]
        new._calls = [msgspec.structs.replace(call) for call in self._calls]
        new._args = [pieces[:] for pieces in self._args]
        new._diagnostics = self._diagnostics[:]
        new._spans = self._spans[:]
        return new

    def add(self, events: list[Event], known: Any) -> None:
        """Take in ``events``; ``known(name)`` says whether a tool was offered."""
        i = 0
        n = len(events)
        while i < n:
            event = events[i]
            kind = type(event)
            if kind is Content or kind is Reasoning or kind is CallArguments:
                # A run of one kind is the common case, and goes through one short loop.
                j = i + 1
                while j < n and type(events[j]) is kind:
                    j += 1
                self._run(events[i:j])
                i = j
                continue
            self._single(event, known)
            i += 1

    def _run(self, events: list[Any]) -> None:
        first = events[0]
        if type(first) is CallArguments:
            for event in events:
                self._args[event.index].append(event.delta)
            return
        kind: SpanKind = "content" if type(first) is Content else "reasoning"
        (self._content if kind == "content" else self._reasoning).extend([event.text for event in events])
        start = first.start
        end = first.end
        for event in events:
            if event.start != end and event is not first:
                self._span(start, end, kind)
                start = event.start
            end = event.end
        self._span(start, end, kind)

    def _single(self, event: Event, known: Any) -> None:
        if isinstance(event, CallStart):
            self._calls.append(
                Call(event.index, event.id, event.name, "", "incomplete", known(event.name), event.span)
            )
            self._args.append([])
        elif isinstance(event, CallEnd):
            call = self._calls[event.index]
            call.id, call.status, call.span = event.id, event.status, event.span
            self._span(event.start, event.end, "call")
        elif isinstance(event, Diagnostic):
            self._diagnostics.append(event)

    def _span(self, start: int, end: int, kind: SpanKind) -> None:
        if start == end:
            return
        if self._spans and self._spans[-1][1] == start and self._spans[-1][2] == kind != "call":
            self._spans[-1] = (self._spans[-1][0], end, kind)
        else:
            self._spans.append((start, end, kind))

    def message(
        self,
        *,
        model: str,
        grammar: str,
        unfinished: bool,
        tail: str,
        tail_start: int,
        length: int,
        finish: str | None,
    ) -> Message:
        """The message so far; ``length`` is the number of raw characters fed."""
        for call, pieces in zip(self._calls, self._args, strict=True):
            pieces[:] = ["".join(pieces)]
            call.arguments_raw = pieces[0]
        return Message(
            model=model,
            grammar=grammar,
            reasoning="".join(self._reasoning) or None,
            content="".join(self._content) or None,
            calls=[msgspec.structs.replace(call) for call in self._calls],
            diagnostics=self._diagnostics[:],
            unfinished=unfinished,
            tail=tail,
            spans=_tile(self._spans, length, tail_start),
            finish=finish,
        )


def _tile(spans: list[tuple[int, int, SpanKind]], length: int, tail_start: int) -> list[tuple[int, int, SpanKind]]:
    """Fill the gaps between ``spans`` with framing; from ``tail_start`` on (if not negative) all is tail."""
    tiled: list[tuple[int, int, SpanKind]] = []
    at = 0
    stop = length if tail_start < 0 else tail_start
    for start, end, kind in spans:
        if start > at:
            tiled.append((at, start, "framing"))
        tiled.append((start, end, kind))
        at = end
    if stop > at:
        tiled.append((at, stop, "framing"))
    if length > max(at, stop):
        tiled.append((max(at, stop), length, "tail"))
    return tiled
