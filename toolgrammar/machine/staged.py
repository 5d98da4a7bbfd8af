"""A session whose events go through further stages: what ``strict`` and a grammar's ``@mend`` ask for."""

from __future__ import annotations

from typing import Any

from toolgrammar.events import Event
from toolgrammar.machine.line_feeds import SPECIAL, LineFeeds
from toolgrammar.machine.offered import OfferedOnly
from toolgrammar.machine.program import Program
from toolgrammar.machine.session import Session, fill
from toolgrammar.schema import ToolTable


class StagedSession(Session):
    """As ``Session``; spans stay those of the raw text. A stage is a few tests per event, none per character."""

    def __init__(
        self, program: Program, tools: ToolTable, repair: bool = True, start: str = "content", strict: bool = False
    ) -> None:
        super().__init__(program, tools, repair, start)
        self.offered = OfferedOnly() if strict else None
        self.line_feeds = LineFeeds() if self.program.grammar.mend == "line-feeds" else None
        #: A delta without a special character may pass the stages by.
        self.idle = False

    def feed(self, delta: str) -> list[Event]:
        """As ``Session.feed``."""
        if self.idle and not self.buf and not self.spec and SPECIAL(delta) is None:
            return super().feed(delta)  # nothing in it, or before it, that a stage would change
        told, self.story = self.story, []
        if self.offered is not None:
            self.offered.take(delta)
        events = self._staged(super().feed(delta))
        told += events
        self.story = told
        self.idle = self.offered is None and self.line_feeds is not None and self.line_feeds.idle
        return events

    def finish(self) -> list[Event]:
        """As ``Session.finish``."""
        told, self.story = self.story, []
        events = self._staged(super().finish())
        if self.line_feeds is not None:
            self.line_feeds.end(events)
        self.story = told + events
        return events

    def _staged(self, events: list[Event]) -> list[Event]:
        if self.offered is not None:
            events = self.offered.events(events, self)
        return events if self.line_feeds is None else self.line_feeds.events(events)

    @property
    def held_characters(self) -> int:
        """Raw characters that are fed and not given out, those that a stage holds among them."""
        held = super().held_characters
        if self.offered is not None and self.offered.since >= 0:
            held = self.base + len(self.buf) - self.offered.since
        return held + (self.line_feeds.held if self.line_feeds is not None else 0)

    def forget(self) -> None:
        """As ``Session.forget``: what the prompt said is none of the output."""
        super().forget()
        self.offered = OfferedOnly() if self.offered is not None else None
        self.line_feeds = LineFeeds() if self.line_feeds is not None else None

    def copy(self) -> Session:
        """As ``Session.copy``."""
        new = super().copy()
        assert isinstance(new, StagedSession)
        new.offered = self.offered.copy() if self.offered is not None else None
        new.line_feeds = self.line_feeds.copy() if self.line_feeds is not None else None
        new.idle = self.idle
        return new

    def blank(self) -> Session:
        """A new session of the same kind."""
        start = next(iter(self.program.starts))
        return StagedSession(self.program, self.tools, self.repair, start, self.offered is not None)

    def __reduce__(self) -> tuple[Any, ...]:
        given = super().__reduce__()[1]
        return restored_staged, (self.offered, self.line_feeds, self.idle, *given)


def restored_staged(
    offered: OfferedOnly | None, line_feeds: LineFeeds | None, idle: bool, made: tuple[Any, ...], *state: Any
) -> StagedSession:
    """The session that was pickled."""
    from toolgrammar.machine.cache import program_of

    program = program_of(made[0], made[1])
    session = StagedSession(program, made[2], made[3], next(iter(program.starts)), offered is not None)
    fill(session, *state)
    session.offered, session.line_feeds, session.idle = offered, line_feeds, idle
    return session
