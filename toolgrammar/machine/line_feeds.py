"""Line feeds that a model spells as a backslash and a letter, mended in what it says (``@mend line-feeds``).

Some tokenizers have tokens that decode to the two characters ``\\`` and ``n`` where a line feed is meant. In
content and in reasoning, each read from its first to its last piece, ``\\r\\n``, ``\\n`` and ``\\r`` become a line
feed, but not in code and mathematics (``` `…` ```, fences, ``$…$``, ``$$…$$``, ``\\(…\\)``, ``\\[…\\]``; one left
open lasts to the end), and not behind a run of backslashes, which stays as it is. Arguments of calls are never
touched.
"""

from __future__ import annotations

import re
from typing import Final

from toolgrammar.events import CallStart, Content, Event, Reasoning

_OPENERS: Final = {"`": "`", "```": "```", "$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}
#: What means something outside of a span. A run of backslashes goes first: it protects itself only.
_MEANT: Final = re.compile(r"\\{2,}|\\r\\n|\\r|\\n|\\[(\[]|```|`|\$\$|\$")
#: Finds a character that may mean something.
SPECIAL: Final = re.compile(r"[\\`$]").search
#: The end of a piece that the next one may change.
_UNDECIDED: Final = re.compile(r"(?:(?<!\\)(?:\\r\\|\\r|\\)|(?<!`)``?|(?<!\$)\$)\Z")


class Mender:
    """One channel's text, mended as it comes."""

    def __init__(self) -> None:
        #: The text that closes the open span; empty outside of one.
        self.closer = ""
        #: What was given out last is a run of backslashes, which may go on.
        self.run = False
        self.held = ""
        #: Where ``held`` stands in the raw output.
        self.start = self.end = 0

    def copy(self) -> Mender:
        """An independent one in the same state."""
        new = Mender.__new__(Mender)
        new.__dict__.update(self.__dict__)
        return new

    def feed(self, text: str, last: bool = False) -> str:
        """What is certain of the text so far; what is not is held."""
        text, self.held = self.held + text, ""
        done: list[str] = []
        at = 0
        if self.run:
            at = len(text) - len(text.lstrip("\\"))
            done.append(text[:at])
            self.run = at == len(text)
        while at < len(text):
            at = self._span(text, at, done, last) if self.closer else self._plain(text, at, done, last)
        return "".join(done)

    def _span(self, text: str, at: int, done: list[str], last: bool) -> int:
        """Within code or mathematics everything stays."""
        end = text.find(self.closer, at)
        if end >= 0:
            end += len(self.closer)
            self.closer = ""
        else:
            end = len(text)
            for length in range(min(len(self.closer) - 1, end - at), 0, -1):
                if not last and self.closer.startswith(text[-length:]):
                    end -= length
                    break
            self.held = text[end:]
        done.append(text[at:end])
        return len(text) if self.held else end

    def _plain(self, text: str, at: int, done: list[str], last: bool) -> int:
        """Up to the next span, or to what is not decided yet."""
        near = max(at, len(text) - 4)
        undecided = None if last else _UNDECIDED.search(text[near:])
        limit = near + undecided.start() if undecided else len(text)
        while found := _MEANT.search(text, at):
            if found.start() >= limit:
                break
            done.append(text[at : found.start()])
            at, what = found.end(), found[0]
            closer = _OPENERS.get(what)
            if closer is None and what[:2] != "\\\\":
                what = "\n"
            done.append(what)
            if closer is not None:
                self.closer = closer
                return at
            self.run = what[0] == "\\" and at == len(text)
        done.append(text[at:limit])
        self.held = text[limit:]
        return len(text)


class LineFeeds:
    """Passes events on, with the text of both channels mended. Spans stay those of the raw text."""

    def __init__(self) -> None:
        self.menders: dict[type[Event], Mender] = {Content: Mender(), Reasoning: Mender()}
        #: Where the last event given out ended.
        self.told_to = 0

    def copy(self) -> LineFeeds:
        """An independent one in the same state."""
        new = LineFeeds()
        new.menders = {kind: mender.copy() for kind, mender in self.menders.items()}
        new.told_to = self.told_to
        return new

    @property
    def held(self) -> int:
        """Characters that may be a part of a spelled line feed."""
        return sum(len(mender.held) for mender in self.menders.values())

    @property
    def idle(self) -> bool:
        """Whether text without a ``SPECIAL`` character passes as it is."""
        return not any(mender.held or mender.run for mender in self.menders.values())

    def events(self, events: list[Event]) -> list[Event]:
        """What is to be told for ``events``."""
        found: list[Event] = []
        for event in events:
            if isinstance(event, Content | CallStart):
                self._close(Reasoning, found)  # reasoning is over where something else begins
            told = self._piece(event) if isinstance(event, Content | Reasoning) else event
            if told is not None:
                found.append(told)
                self.told_to = told.end
        return found

    def end(self, found: list[Event]) -> None:
        """The output is over: add to ``found`` what is held."""
        for kind in (Reasoning, Content):
            self._close(kind, found)

    def _piece(self, event: Content | Reasoning) -> Event | None:
        mender = self.menders[type(event)]
        if not mender.held and SPECIAL(event.text) is None:
            mender.run = False
            return event
        start = mender.start if mender.held and mender.end == event.start else event.start
        text = mender.feed(event.text)
        mender.end = event.end
        mender.start = max(event.end - len(mender.held), start)
        return type(event)(text, start, mender.start) if text else None

    def _close(self, kind: type[Content] | type[Reasoning], found: list[Event]) -> None:
        mender = self.menders[kind]
        if mender.held:
            start = max(mender.start, self.told_to)
            text = mender.feed("", last=True)
            self.told_to = max(mender.end, start)
            found.append(kind(text, start, self.told_to))
