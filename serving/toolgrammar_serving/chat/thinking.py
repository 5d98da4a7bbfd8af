"""Which tokens of a choice were reasoning, counted as they come."""

from __future__ import annotations

from typing import Final

from toolgrammar import CallArguments, Content, Event, Parser, Reasoning
from toolgrammar.machine.tokens import Marks
from toolgrammar_serving.text.sequence import TokenTexts

# As Final: compiled code then has them at hand.
_content: Final = Content
_arguments: Final = CallArguments
_reasoning: Final = Reasoning

#: Tokens that are noted before it is asked whether any of them is undecided still.
_MANY: Final = 64
#: Events that say text.
_TEXTS: Final = (Content, CallArguments, Reasoning)


class Thinking:
    """How many tokens of a choice are reasoning.

    A token is if any of its text is given out as reasoning. One that has no text (a special token that is hidden,
    a first half of a character) is if reasoning stands next to it. So markers are none, and the number depends on
    the tokens and what they are in the end: not on how many came at once, nor on how long text was held.
    """

    __slots__ = ("_at", "_marks", "_open", "_parser", "_until", "tokens")

    def __init__(self, parser: Parser, marks: Marks) -> None:
        self._parser = parser
        self._marks = marks
        #: Raw characters read so far.
        self._at = 0
        #: Where the latest reasoning ended.
        self._until = -1
        #: Begin and end of tokens that may still become reasoning, and are not counted.
        self._open: list[tuple[int, int]] = []
        self.tokens = 0

    def add(self, text: str, token_ids: list[int], events: list[Event], texts: TokenTexts) -> None:
        """``text`` came with ``token_ids``, and ``events`` of it. Usually one event is all the text, and nothing
        waits: then it says what all the tokens are."""
        if len(events) == 1 and not self._open and not texts.held:
            event = events[0]
            at = self._at
            if event.start == at:
                end = event.end
                if end - at == len(text) and (len(token_ids) == 1 or text.isascii() or not self._marks.find(text)):
                    kind = type(event)
                    if kind is _content or kind is _arguments:
                        self._at = end
                        return
                    if kind is _reasoning:
                        self._at = self._until = end
                        self.tokens += len(token_ids)
                        return
        self._look(text, token_ids, events, texts)

    def _look(self, text: str, token_ids: list[int], events: list[Event], texts: TokenTexts) -> None:
        """Where one event is not all: what may still be thought is noted, and looked through when some is."""
        begin = self._at
        self._at = at = begin + self._length(text)
        for event in events:
            if type(event) is _reasoning:
                self._sort(token_ids, events, texts)
                return
        alone = len(token_ids) == 1
        if (
            events
            and events[-1].end == at
            and type(events[-1]) in _TEXTS
            and not texts.held
            and (alone or begin != self._until)  # a token without text may stand behind reasoning
        ):
            self._open.clear()  # events come in order: what stands before the end of one is decided
        elif texts.searched or not alone:
            self._sort(token_ids, events, texts)
        elif begin == at == self._until:
            self.tokens += 1
        else:
            self._open.append((begin, at))
            if len(self._open) > _MANY and not self._parser.held:
                self._open = self._sift(self._open, [], at)

    def _sort(self, token_ids: list[int], events: list[Event], texts: TokenTexts) -> None:
        """Token by token, against the spans of what was thought."""
        decided = self._at
        if self._parser.held:
            decided = max([event.end for event in events if type(event) in _TEXTS], default=-1)
        new = self._places(token_ids, texts)
        spans = [(event.start, event.end) for event in events if type(event) is _reasoning]
        spans.append((self._until, self._until))
        self._until = max([end for _, end in spans])
        if decided < 0:
            self._open += self._sift(new, spans, decided)
        else:
            self._open = self._sift(self._open + new, spans, decided)

    def _places(self, token_ids: list[int], texts: TokenTexts) -> list[tuple[int, int]]:
        """Begin and end of tokens that are being pushed, in raw characters."""
        end = self._at + self._length(texts.held)
        found = []
        for text in reversed(texts.of(token_ids)):
            start = end - self._length(text)
            found.append((start, end))
            end = start
        found.reverse()
        return found

    def _sift(
        self, places: list[tuple[int, int]], spans: list[tuple[int, int]], decided: int
    ) -> list[tuple[int, int]]:
        """Count the tokens at ``places`` that ``spans`` make reasoning; return those that may still become it."""
        kept = []
        for place in places:
            begin, end = place
            for start, stop in spans:
                if (start < end and begin < stop) or (begin == end and start <= begin <= stop):
                    self.tokens += 1
                    break
            else:
                if end > decided or begin == end == decided:
                    kept.append(place)
        return kept

    def _length(self, text: str) -> int:
        """Raw characters of ``text``, in which marks stand for special tokens."""
        if text.isascii():
            return len(text)
        extra = self._marks.extra
        return len(text) + sum([extra[found.group()] for found in self._marks.each(text)])
