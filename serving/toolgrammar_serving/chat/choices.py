"""One choice of an answer on its way up: text in, chat events out. This is the per-token path of the layer."""

from __future__ import annotations

from typing import Literal, TypeAlias

from toolgrammar import CallArguments, Content, Event, Message, Parser, Reasoning
from toolgrammar.machine.tokens import Marks
from toolgrammar.message import Call
from toolgrammar_serving.chat.filters import Filter
from toolgrammar_serving.chat.requests import ChatFinish, ChatFinishReason, ChatSink
from toolgrammar_serving.chat.thinking import Thinking
from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.text import Finish, TokenLogprob
from toolgrammar_serving.text.sequence import TokenTexts

#: With which reason a choice ends that holds the call that was named in the request.
NamedFinish: TypeAlias = Literal["tool_calls", "stop"]


class Choice:
    """A text sink that parses for a chat sink. ``collect``: the message is wanted at the end. ``called``: the
    finish reason of a choice that made its calls."""

    __slots__ = (
        "_called",
        "_collect",
        "_end",
        "_feed",
        "_marks",
        "_parser",
        "_sink",
        "_thinking",
        "token_texts",
    )

    def __init__(
        self,
        parser: Parser,
        sink: ChatSink,
        collect: bool,
        called: ChatFinishReason,
        marks: Marks,
    ) -> None:
        self._parser = parser
        self._feed = parser.feed
        self._sink = sink
        self._collect = collect
        self._called = called
        self._marks = marks
        self._thinking = Thinking(parser, marks)
        self.token_texts: TokenTexts | None = None
        #: Text that came without tokens: what the sequence ended with.
        self._end = ""

    def push(self, text: str, token_ids: list[int], logprobs: list[TokenLogprob] | None) -> None:
        """Parse what came, hand on what is certain."""
        if not token_ids:
            self._end += text
            return
        events = self._feed(text) if text else []
        assert self.token_texts is not None, "pushed before it runs"
        self._thinking.add(text, token_ids, events, self.token_texts)
        self._sink.push(events, token_ids, logprobs)

    def finish(self, finish: Finish) -> None:
        """The sequence is over: what is held is decided, and how the choice ended."""
        events = self._last(finish.reason)
        if events:
            self._sink.push(events, [], None)
        message = self._message() if self._collect or self._parser.calls else None
        reason = reason_of(finish, message.calls if message is not None else [], self._called)
        why = finish.stop_reason
        if message is not None:
            message.finish = reason
        self._sink.finish(
            ChatFinish(
                reason,
                self._marks.outward(why) if isinstance(why, str) else why,
                message if self._collect else None,
                self._thinking.tokens,
            )
        )

    @property
    def held(self) -> int:
        """Characters that wait to be decided."""
        return self._parser.held

    def fail(self, error: ServingError) -> None:
        """Nothing more will come."""
        self._sink.fail(error)

    def _last(self, reason: str) -> list[Event]:
        """What the end decides, the last text and the token that ended the sequence included."""
        parser, end = self._parser, self._end
        if end and not parser.in_text and self._marks.find(end) is not None:
            # Where a value is cut off, the end of the turn would be part of it.
            ahead = parser.copy()
            if self._shown(ahead.feed(end) + ahead.finish(reason)):
                end = self._marks.without(end)
        events = (parser.feed(end) if end else []) + parser.finish(reason)
        if self.token_texts is not None:
            self._thinking.add(end, [], events, self.token_texts)
        return events

    def _shown(self, events: list[Event]) -> bool:
        """Whether a special token is part of what the client would see."""
        for event in events:
            if isinstance(event, CallArguments | Content | Reasoning):
                text = event.delta if isinstance(event, CallArguments) else event.text
                if any(token in text for token in self._marks.tokens):
                    return True
        return False

    def _message(self) -> Message:
        return self._parser.message()


class FilteredChoice(Choice):
    """The same, with some of the events left out."""

    __slots__ = ("_filter",)

    def __init__(
        self,
        parser: Parser,
        sink: ChatSink,
        collect: bool,
        called: ChatFinishReason,
        marks: Marks,
        filter_: Filter,
    ) -> None:
        super().__init__(parser, sink, collect, called, marks)
        self._filter = filter_

    def push(self, text: str, token_ids: list[int], logprobs: list[TokenLogprob] | None) -> None:
        """Parse what came, hand on what is certain and wanted."""
        if not token_ids:
            self._end += text
            return
        events = self._feed(text) if text else []
        assert self.token_texts is not None, "pushed before it runs"
        self._thinking.add(text, token_ids, events, self.token_texts)
        self._sink.push(self._filter.events(events), token_ids, logprobs)

    def _last(self, reason: str) -> list[Event]:
        return self._filter.events(super()._last(reason))

    def _message(self) -> Message:
        return self._filter.message(self._parser.message())


def reason_of(finish: Finish, calls: list[Call], called: ChatFinishReason) -> ChatFinishReason:
    """The reason for the client: ``called`` for a model that stopped by itself, with a whole call and no cut
    one."""
    if finish.reason != "stop":
        return finish.reason
    whole = any(call.status == "complete" for call in calls)
    return called if whole and not any(call.status == "incomplete" for call in calls) else "stop"
