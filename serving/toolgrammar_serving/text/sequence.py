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

    def keep(self, index: int, tokens: int) -> None:
        """Only the first ``tokens`` tokens of the sequence ``index`` count: a stop string ends with them."""


class TokenTexts:
    """What the tokens of a push are, one by one: for a sink that must tell them apart, and asks while it is
    pushed to."""

    __slots__ = ("_decoder", "held", "searched")

    def __init__(self, decoder: IncrementalDecoder, searched: bool = False) -> None:
        self._decoder = decoder
        #: Text may be held: stop strings are looked for.
        self.searched = searched
        #: The end of what came so far that may be the beginning of a stop string, and was not pushed.
        self.held = ""

    def of(self, token_ids: list[int]) -> list[str]:
        """The text that each of ``token_ids``, the list that is being pushed, brought; ``held`` included."""
        return self._decoder.pieces(token_ids)


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
    """With stop strings, texts of logprobs, or both. Who starts it sets ``generation`` before the first push.

    Tokens, logprobs and the count of tokens end with the token that completes the stop string, however many came
    behind it in the same push.
    """

    __slots__ = (
        "_decoder",
        "_end_text",
        "_include_stop",
        "_index",
        "_sink",
        "_stops",
        "_texts",
        "_tokenizer",
        "_tokens",
        "_unsearched",
        "generation",
    )

    def __init__(
        self,
        sink: TextSink,
        decoder: IncrementalDecoder,
        texts: TokenTexts,
        end_text: EndText,
        tokenizer: Tokenizer,
        index: int,
        *,
        stops: Stops | None,
        include_stop: bool,
        unsearched: int,
    ) -> None:
        """``texts``: of ``decoder``. ``unsearched``: so many tokens come before a stop string may end."""
        self._sink = sink
        self._decoder = decoder
        self._texts = texts
        self._end_text = end_text
        self._tokenizer = tokenizer
        self._index = index
        self._stops = stops
        self._include_stop = include_stop
        self._unsearched = unsearched
        #: Pushed so far.
        self._tokens = 0
        self.generation: Abortable | None = None

    def push(self, token_ids: list[int], logprobs: list[Position] | None) -> None:
        """New tokens."""
        stops, texts = self._stops, self._texts
        text = texts.held + self._decoder.push(token_ids)
        known = len(texts.held)
        if self._unsearched:
            known = self._free(token_ids, known)
        if stops is not None and stops.first(text) is not None:
            found = stops.find(text, known)
            if found is not None:
                self._stopped(text, found, token_ids, logprobs)
                return
            sure = stops.waiting(text)
            texts.held = text[sure:]
            text = text[:sure]
        else:
            texts.held = ""
        self._tokens += len(token_ids)
        self._sink.push(text, token_ids, self._entries(logprobs))

    def finish(self, finish: Finish) -> None:
        """The last token was pushed."""
        held, self._texts.held = self._texts.held, ""
        text = held + self._decoder.flush() + self._end_text(finish)
        found = self._stops.find(text, len(held)) if text and self._stops is not None else None
        if found is not None:
            self._over(text, found, [], None)
            return
        if text:
            self._sink.push(text, [], None)
        self._sink.finish(finish)

    def fail(self, error: ServingError) -> None:
        """There will be no more."""
        self._sink.fail(error)

    def _entries(self, logprobs: list[Position] | None) -> list[TokenLogprob] | None:
        return None if logprobs is None else with_texts(self._tokenizer, logprobs)

    def _free(self, token_ids: list[int], held: int) -> int:
        """Up to where no stop string may end, in what is held and the text of ``token_ids``: in the first tokens
        of a sequence none may."""
        free = self._unsearched
        self._unsearched = max(0, free - len(token_ids))
        return held + sum([len(text) for text in self._texts.of(token_ids)[:free]])

    def _stopped(
        self, text: str, found: tuple[int, str], token_ids: list[int], logprobs: list[Position] | None
    ) -> None:
        """A stop string ends in ``text``: what was held, and the text of ``token_ids``, which are cut there."""
        at, string = found
        read = len(self._texts.held)
        count = 0
        for piece in self._texts.of(token_ids):
            count += 1
            read += len(piece)
            if read >= at + len(string):
                break
        del token_ids[count:]
        assert self.generation is not None, "pushed before it runs"
        self.generation.keep(self._index, self._tokens + count)
        self._over(text[:read], found, token_ids, None if logprobs is None else logprobs[:count])

    def _over(
        self, text: str, found: tuple[int, str], token_ids: list[int], logprobs: list[Position] | None
    ) -> None:
        """Push what stands before the stop string that was found, and end the sequence with it."""
        at, string = found
        end = at + len(string)
        shown = end if self._include_stop else at
        self._texts.held = text[shown:]
        self._sink.push(text[:shown], token_ids, self._entries(logprobs))
        assert self.generation is not None, "pushed before it runs"
        self.generation.abort(self._index)
        self._sink.finish(Finish("stop", string))
