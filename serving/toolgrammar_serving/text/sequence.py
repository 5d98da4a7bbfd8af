"""One sequence of a text request: token ids in, text out.

``Plain`` is the path of a token in most requests: a table look-up between two calls. ``Careful`` does what only
some ask for: stop strings, texts of logprobs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.llm import Finish, Position
from toolgrammar_serving.text.logprobs import with_texts
from toolgrammar_serving.text.requests import TextSink, TokenLogprob
from toolgrammar_serving.text.stops import Stops
from toolgrammar_serving.text.tokenizer import IncrementalDecoder, Tokenizer

#: The text of the token that ended a sequence, if it is to be seen; else empty.
EndText: TypeAlias = Callable[[Finish], str]


class Abortable(Protocol):
    """What a sequence asks of the generation it is of."""

    def abort(self, index: int | None = None) -> None:
        """End the sequence ``index``; its sink hears nothing more."""


class Plain:
    """Without stop strings and logprobs."""

    # No bound methods are kept: each would be one more piece of memory to fetch for every token.
    __slots__ = ("_decoder", "_end_text", "_sink")

    def __init__(self, sink: TextSink, decoder: IncrementalDecoder, end_text: EndText) -> None:
        self._sink = sink
        self._decoder = decoder
        self._end_text = end_text

    def push(self, token_ids: list[int], logprobs: list[Position] | None) -> None:
        """New tokens."""
        self._sink.push(self._decoder.push(token_ids), token_ids, None)

    def finish(self, finish: Finish) -> None:
        """The last token was pushed."""
        rest = self._decoder.flush() + self._end_text(finish)
        if rest:
            self._sink.push(rest, [], None)
        self._sink.finish(finish)

    def fail(self, error: ServingError) -> None:
        """There will be no more."""
        self._sink.fail(error)


class Careful:
    """With stop strings, texts of logprobs, or both. Who starts it sets ``generation`` before the first push."""

    __slots__ = (
        "_decoder",
        "_end_text",
        "_held",
        "_include_stop",
        "_index",
        "_sink",
        "_stops",
        "_tokenizer",
        "_unsearched",
        "generation",
    )

    def __init__(
        self,
        sink: TextSink,
        decoder: IncrementalDecoder,
        end_text: EndText,
        tokenizer: Tokenizer,
        index: int,
        *,
        stops: Stops | None,
        include_stop: bool,
        unsearched: int,
    ) -> None:
        """``unsearched``: so many tokens come before a stop string may end."""
        self._sink = sink
        self._decoder = decoder
        self._end_text = end_text
        self._tokenizer = tokenizer
        self._index = index
        self._stops = stops
        self._include_stop = include_stop
        self._unsearched = unsearched
        #: Text that may be the beginning of a stop string.
        self._held = ""
        self.generation: Abortable | None = None

    def push(self, token_ids: list[int], logprobs: list[Position] | None) -> None:
        """New tokens."""
        entries = None if logprobs is None else with_texts(self._tokenizer, logprobs)
        text = self._held
        new = token_ids
        if self._unsearched:
            text += self._decoder.push(token_ids[: self._unsearched])
            new = token_ids[self._unsearched :]
            self._unsearched = max(0, self._unsearched - len(token_ids))
        known = len(text)
        if new:
            text += self._decoder.push(new)
        self._give(text, known, token_ids, entries)

    def finish(self, finish: Finish) -> None:
        """The last token was pushed."""
        text = self._held + self._decoder.flush() + self._end_text(finish)
        if text and self._give(text, len(self._held), [], None, last=True):
            return
        self._sink.finish(finish)

    def fail(self, error: ServingError) -> None:
        """There will be no more."""
        self._sink.fail(error)

    def _give(
        self, text: str, known: int, ids: list[int], entries: list[TokenLogprob] | None, last: bool = False
    ) -> bool:
        """Push what of ``text`` is certain, and say whether a stop string ended it. No stop string ends within the
        first ``known`` characters."""
        stops = self._stops
        if stops is None or stops.first(text) is None:
            self._held = ""
            self._sink.push(text, ids, entries)
            return False
        found = stops.find(text, known)
        if found is None:
            sure = len(text) if last else stops.waiting(text)
            self._held = text[sure:]
            self._sink.push(text[:sure], ids, entries)
            return False
        at, string = found
        self._sink.push(text[: at + len(string)] if self._include_stop else text[:at], ids, entries)
        assert self.generation is not None, "pushed before it runs"
        self.generation.abort(self._index)
        self._sink.finish(Finish("stop", string))
        return True
