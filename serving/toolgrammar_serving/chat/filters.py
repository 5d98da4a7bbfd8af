"""What of an answer is not for the client: calls that were not to be made, reasoning that is not wanted.

A call left out is left out whole, its markup too; the calls behind it are counted without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from toolgrammar import CallArguments, CallEnd, CallStart, Event, Message, Reasoning
from toolgrammar.message import Call


class Wanted(msgspec.Struct, frozen=True):
    """Which parts of an answer are: ``names`` of tools that may be called (None: any), a second call,
    reasoning."""

    names: frozenset[str] | None = None
    parallel: bool = True
    reasoning: bool = True

    @property
    def all(self) -> bool:
        """Whether nothing is left out."""
        return self.names is None and self.parallel and self.reasoning


class Filter:
    """One answer's events and message, less what is not wanted. ``note(name)`` is told of calls left out."""

    def __init__(self, wanted: Wanted, note: Callable[[str], Any]) -> None:
        self._wanted = wanted
        self._note = note
        #: A call's index to the one it is given out with.
        self._indexes: dict[int, int] = {}

    def events(self, events: list[Event]) -> list[Event]:
        """Those that are wanted."""
        found: list[Event] = []
        for event in events:
            if isinstance(event, CallStart):
                if self._refused(event.name):
                    self._note(event.name)
                    continue
                self._indexes[event.index] = len(self._indexes)
            if isinstance(event, CallStart | CallArguments | CallEnd):
                index = self._indexes.get(event.index)
                if index is None:
                    continue
                if index != event.index:
                    event = msgspec.structs.replace(event, index=index)
            elif isinstance(event, Reasoning) and not self._wanted.reasoning:
                continue
            found.append(event)
        return found

    def calls(self, calls: list[Call]) -> list[Call]:
        """The calls of the whole answer, after all its events have passed."""
        kept = [call for call in calls if call.index in self._indexes]
        return [msgspec.structs.replace(call, index=self._indexes[call.index]) for call in kept]

    def message(self, message: Message) -> Message:
        """The whole answer, after all its events have passed."""
        message = msgspec.structs.replace(message, calls=self.calls(message.calls))
        if not self._wanted.reasoning:
            message.reasoning = None
        return message

    def _refused(self, name: str) -> bool:
        wanted = self._wanted
        if wanted.names is not None and name not in wanted.names:
            return True
        return not wanted.parallel and len(self._indexes) > 0
