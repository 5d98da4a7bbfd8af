"""``strict``: a call of a tool that nobody offered is text. It is shown as content, as it was written."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from toolgrammar.events import CallArguments, CallEnd, CallStart, Content, Event

if TYPE_CHECKING:
    from toolgrammar.machine.session import Session


class OfferedOnly:
    """Passes events on, with calls of unknown tools turned back into what was written, from end to end."""

    def __init__(self) -> None:
        #: The raw output from ``kept_from`` to ``length``, in pieces: as far back as an open call may begin.
        self.pieces: deque[str] = deque()
        self.kept_from = 0
        self.length = 0
        #: Where the call that is turned back began; -1: none is.
        self.since = -1
        #: Calls turned back so far: the others are counted without them.
        self.turned = 0

    def copy(self) -> OfferedOnly:
        """An independent one in the same state."""
        new = OfferedOnly()
        new.__dict__.update(self.__dict__)
        new.pieces = self.pieces.copy()
        return new

    def take(self, text: str) -> None:
        """The output goes on with ``text``."""
        self.pieces.append(text)
        self.length += len(text)

    def events(self, events: list[Event], session: Session) -> list[Event]:
        """What is to be told for ``events``, which ``session`` gave out."""
        found = [told for told in (self._one(event, session) for event in events) if told is not None]
        self._trim(session)
        return found

    def _one(self, event: Event, session: Session) -> Event | None:
        if isinstance(event, CallStart) and not session.tools.known(event.name):
            self.since = event.start
        if not isinstance(event, CallStart | CallArguments | CallEnd):
            return event
        if self.since < 0:
            index = event.index - self.turned
            return msgspec.structs.replace(event, index=index) if self.turned else event
        if not isinstance(event, CallEnd):
            return None
        start, self.since = self.since, -1
        self.turned += 1
        if len(self.pieces) > 1:
            self.pieces = deque(["".join(self.pieces)])
        text = self.pieces[0][start - self.kept_from : event.end - self.kept_from] if self.pieces else ""
        return Content(text, start, event.end) if text else None

    def _trim(self, session: Session) -> None:
        """Forget the raw output that no call can reach back to."""
        keep = session.undecided_from
        if session.call is not None and not session.call.announced:
            keep = min(keep, session.call.start)
        if self.since >= 0:
            keep = min(keep, self.since)
        while self.pieces and self.kept_from + len(self.pieces[0]) <= keep:
            self.kept_from += len(self.pieces.popleft())
