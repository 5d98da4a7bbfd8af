"""A choice of a chat answer as stream events: the path that runs for every token.

One push is at most one write. The common push, one piece of text, is one encoding and one format; all other cases
are in ``several``. The first delta of a call has its id, type, name and empty arguments, later ones only
arguments.
"""

from __future__ import annotations

from bisect import bisect_left
from time import monotonic
from typing import TYPE_CHECKING, Final

from toolgrammar import CallArguments, CallEnd, CallStart, Content, Diagnostic, Event, Reasoning
from toolgrammar.events import joined
from toolgrammar_serving.chat import ChatFinish
from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.server.answer import Write
from toolgrammar_serving.server.extension import extension
from toolgrammar_serving.server.histogram import TOKEN_S
from toolgrammar_serving.server.logprobs import chat_logprobs
from toolgrammar_serving.server.sse import encode, lined, quoted, safe_json
from toolgrammar_serving.server.usage import usage_object
from toolgrammar_serving.text import TokenLogprob

if TYPE_CHECKING:
    from toolgrammar_serving.server.chat_stream import ChatStream

#: Behind a delta's members, in an event that does not end the choice.
TAIL: Final = b'},"finish_reason":null}]}\n\n'
#: Behind an arguments text: its function, call and list, then as ``TAIL``.
_ARGUMENTS_TAIL: Final = b'}}]},"finish_reason":null}]}\n\n'

# What ``push`` uses of other modules, as Final: compiled code then has it at hand.
_now: Final = monotonic
_bucket: Final = bisect_left
_bounds: Final = TOKEN_S
_json: Final = encode
_content: Final = Content
_arguments: Final = CallArguments
_reasoning: Final = Reasoning


class ChatChoice:
    """One choice (a ChatSink). ``head`` opens every event up to the delta's members."""

    __slots__ = (
        "_answer",
        "_arguments_head",
        "_bare_call",
        "_call",
        "_content_head",
        "_detailed",
        "_meter",
        "_reasoning_again",
        "_reasoning_head",
        "_start",
        "_token_counts",
        "first",
        "head",
        "index",
        "last",
        "reasoning_tokens",
        "tokens",
        "write",
    )

    def __init__(self, answer: ChatStream, index: int) -> None:
        options = answer.options
        self.index = index
        self.head = answer.frame.choice_head(index)
        self._answer = answer
        self._meter = answer.meter
        self._token_counts = answer.meter.token_s.counts
        self._content_head = self.head + b'"content":'
        fields = [b'"%b":' % name.encode() for name in options.reasoning_fields]
        self._reasoning_head = self.head + fields[0] if fields else b""
        self._reasoning_again = b"," + fields[1] if len(fields) > 1 else b""
        self._detailed = options.detailed
        self._call = -1
        self._bare_call = False  # a call has begun and has no arguments yet
        self._arguments_head = b""
        self._start = options.arrived
        self.write: Write = answer.hold
        self.first = 0.0
        self.last = 0.0
        self.tokens = 0
        self.reasoning_tokens = 0

    def push(self, events: list[Event], token_ids: list[int], logprobs: list[TokenLogprob] | None) -> None:
        """What became certain with these tokens."""
        now = _now()
        count = len(token_ids)
        if self.first:
            self._token_counts[_bucket(_bounds, now - self.last)] += 1
        else:
            self.first = now
            self._answer.begin()
            self._meter.first_token_s.add(now - self._start)
        self.last = now
        self.tokens += count
        self._meter.generated += count
        if self._detailed:
            self.detailed(events, token_ids, logprobs)
            return
        if len(events) == 1:
            event = events[0]
            kind = type(event)
            if kind is _content:
                text = event.text  # type: ignore[union-attr]
                self.write(self._content_head, _json(text) if text.isascii() else quoted(text), TAIL)
                return
            if kind is _arguments and event.index == self._call:  # type: ignore[union-attr]
                self._bare_call = False
                text = event.delta  # type: ignore[union-attr]
                self.write(self._arguments_head, _json(text) if text.isascii() else quoted(text), _ARGUMENTS_TAIL)
                return
            if kind is _reasoning and self._reasoning_head:
                text = event.text  # type: ignore[union-attr]
                data = _json(text) if text.isascii() else quoted(text)
                if self._reasoning_again:
                    data = b"%b%b%b" % (data, self._reasoning_again, data)
                self.write(self._reasoning_head, data, TAIL)
                return
        if events:
            self.several(events)

    def several(self, events: list[Event]) -> None:
        """Any number of events of any kind, as one write."""
        deltas = self.deltas(events)
        if deltas:
            self.write(b"".join([b"%b%b%b" % (self.head, delta, TAIL) for delta in deltas]), b"", b"")

    def detailed(self, events: list[Event], token_ids: list[int], logprobs: list[TokenLogprob] | None) -> None:
        """As ``several``, with what belongs to the tokens in the first event; tokens without a delta get an empty
        one."""
        options = self._answer.options
        deltas = self.deltas(events)
        more = b""
        if options.logprobs and logprobs:
            more += b',"logprobs":%b' % lined(encode(chat_logprobs(logprobs, options.tokens_as_ids)))
        if options.token_ids:
            more += b',"token_ids":%b' % encode(token_ids)
        if not deltas and more:
            deltas.append(b"")
        end = self.closing()
        pieces: list[bytes] = []
        for delta in deltas:
            pieces.append(b'%b%b}%b,"finish_reason":null}%b' % (self.head, delta, more, end))
            more = b""
        if pieces:
            self.write(b"".join(pieces), b"", b"")

    def deltas(self, events: list[Event]) -> list[bytes]:
        """The members of one delta for each event that shows."""
        found: list[bytes] = []
        for event in joined(events) if len(events) > 1 else events:
            if isinstance(event, Content):
                found.append(b'"content":%b' % quoted(event.text))
            elif isinstance(event, Reasoning):
                if self._answer.options.reasoning_fields:
                    data = quoted(event.text)
                    names = self._answer.options.reasoning_fields
                    found.append(b",".join([b'"%b":%b' % (name.encode(), data) for name in names]))
            elif isinstance(event, CallArguments):
                found.append(self._arguments(event.index, quoted(event.delta)))
            elif isinstance(event, CallStart):
                found.append(self._begin(event))
            elif isinstance(event, CallEnd):
                if self._bare_call and event.status == "complete":
                    found.append(self._arguments(event.index, b'"{}"'))
                self._bare_call = False
                self._meter.call_over("ok" if event.status == "complete" else event.status, "stream")
            elif isinstance(event, Diagnostic):
                self._meter.remarked(event.code, "stream")
        return found

    def _begin(self, event: CallStart) -> bytes:
        self._call = event.index
        self._bare_call = True
        self._arguments_head = b'%b"tool_calls":[{"index":%d,"function":{"arguments":' % (self.head, event.index)
        return b'"tool_calls":[{"index":%d,"id":%b,"type":"function","function":{"name":%b,"arguments":""}}]' % (
            event.index,
            quoted(event.id),
            quoted(event.name),
        )

    def _arguments(self, index: int, data: bytes) -> bytes:
        self._bare_call = False
        return b'"tool_calls":[{"index":%d,"function":{"arguments":%b}}]' % (index, data)

    def finish(self, finish: ChatFinish) -> None:
        """The event with the finish reason; behind the last choice's, the end of the stream."""
        options = self._answer.options
        reason = finish.reason
        self.reasoning_tokens = finish.reasoning_tokens
        self._meter.choice_over(reason, self._start, self.first, self.last, self.tokens)
        more = b""
        if options.extension and finish.message is not None:
            more += b',"toolgrammar":%b' % lined(encode(extension(finish.message)))
        data = b'%b},"finish_reason":"%b","stop_reason":%b%b}%b' % (
            self.head,
            reason.encode(),
            lined(safe_json(finish.stop_reason)),
            more,
            self.closing(options.fingerprint),
        )
        self._answer.sink_over(data, self)

    def closing(self, fingerprint: str | None = None) -> bytes:
        """Behind the choices: the counts so far if every event has them, and the end of the event."""
        more = b""
        if fingerprint:
            more += b',"system_fingerprint":%b' % encode(fingerprint)
        if self._answer.options.continuous_usage:
            more += b',"usage":%b' % encode(usage_object(self._answer.usages()))
        return b"]%b}\n\n" % more

    def fail(self, error: ServingError) -> None:
        """There will be no more, of no choice."""
        self._answer.fail(error)
