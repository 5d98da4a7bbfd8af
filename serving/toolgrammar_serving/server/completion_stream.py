"""A choice of a completions answer as stream events.

    data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"Hi",
    "logprobs":null,"finish_reason":null}]}

(one line). As in ``chat_stream``, the common push is one encoding and one write.
"""

from __future__ import annotations

from bisect import bisect_left
from time import monotonic
from typing import Any

from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.server.answer import StreamAnswer, Write
from toolgrammar_serving.server.completion_body import CompletionOptions
from toolgrammar_serving.server.echo import Echo
from toolgrammar_serving.server.histogram import TOKEN_S
from toolgrammar_serving.server.logprobs import CompletionLogprobs
from toolgrammar_serving.server.meter import Meter
from toolgrammar_serving.server.sse import DONE, Frame, encode, lined, quoted, safe_json
from toolgrammar_serving.server.usage import usage_object
from toolgrammar_serving.text import Finish, TokenLogprob, Usage

TAIL = b',"logprobs":null,"finish_reason":null}]}\n\n'


class CompletionStream(StreamAnswer):
    """A completions answer as a stream. ``echoes``: one a prompt; its ``n`` choices share it."""

    def __init__(
        self, options: CompletionOptions, frame: Frame, meter: Meter, echoes: list[Echo], *arguments: Any
    ) -> None:
        super().__init__(*arguments)
        self.options = options
        self.frame = frame
        self.meter = meter
        self.sinks = [CompletionChoice(self, index, echoes[index // self.n]) for index in range(self.left)]

    def usages(self) -> list[Usage]:
        """Counts so far; what was generated only to get at the prompt does not count."""
        return uncounted(super().usages()) if self.options.only_prompt else super().usages()

    def sink_over(self, data: bytes, sink: CompletionChoice) -> None:
        """``data`` is the last event of a choice."""
        if not self.choice_over():
            sink.write(data, b"", b"")
            return
        if self.options.usage:
            data += self.frame.usage(usage_object(self.usages()), self.options.fingerprint)
        self.tail = data + DONE
        self.complete()


def uncounted(usages: list[Usage]) -> list[Usage]:
    """The counts of requests that generated nothing for the client."""
    return [Usage(usage.prompt_tokens, 0, usage.cached_tokens) for usage in usages]


class CompletionChoice:
    """One choice (a TextSink)."""

    __slots__ = (
        "_answer",
        "_detailed",
        "_echo",
        "_head",
        "_logprobs",
        "_meter",
        "_start",
        "_token_counts",
        "first",
        "last",
        "tokens",
        "write",
    )

    def __init__(self, answer: CompletionStream, index: int, echo: Echo) -> None:
        options = answer.options
        self._answer = answer
        self._echo: Echo | None = echo
        self._head = b'%b{"index":%d,"text":' % (answer.frame.prefix, index)
        self._logprobs = CompletionLogprobs(options.tokens_as_ids)
        self._meter = answer.meter
        self._token_counts = answer.meter.token_s.counts
        self._detailed = options.logprobs or options.token_ids or options.continuous_usage or options.only_prompt
        self._start = options.arrived
        self.write: Write = answer.hold
        self.first = 0.0
        self.last = 0.0
        self.tokens = 0

    def push(self, text: str, token_ids: list[int], logprobs: list[TokenLogprob] | None) -> None:
        """New text, which may be empty."""
        now = monotonic()
        count = len(token_ids)
        if self.first:
            self._token_counts[bisect_left(TOKEN_S, now - self.last)] += 1
        else:
            self.first = now
            self._answer.begin()
            self._meter.first_token_s.add(now - self._start)
            self._begin()
        self.last = now
        self.tokens += count
        self._meter.generated += count
        if self._detailed:
            self._detail(text, token_ids, logprobs)
        elif text:
            self.write(self._head, encode(text) if text.isascii() else quoted(text), TAIL)

    def _begin(self) -> None:
        """The echoed prompt, as a piece of its own."""
        echo, self._echo = self._echo, None
        options = self._answer.options
        if echo is None or not (options.echo or options.token_ids):
            return
        more = b',"prompt_token_ids":%b' % encode(echo.token_ids) if options.token_ids else b""
        logprobs = b"null"
        if options.echo and options.logprobs:
            logprobs = lined(safe_json(self._logprobs.piece(*echo.positions())))
        text = echo.text() if options.echo else ""
        self.write(
            self._head, quoted(text), b',"logprobs":%b,"finish_reason":null%b%b' % (logprobs, more, self._end())
        )

    def _detail(self, text: str, token_ids: list[int], logprobs: list[TokenLogprob] | None) -> None:
        options = self._answer.options
        if options.only_prompt:
            return
        told = b"null"
        more = b""
        if options.logprobs and logprobs:
            told = lined(safe_json(self._logprobs.piece(logprobs, [found.token.text for found in logprobs])))
        if options.token_ids:
            more = b',"token_ids":%b' % encode(token_ids)
        if text or more or told != b"null":
            self.write(
                self._head, quoted(text), b',"logprobs":%b,"finish_reason":null%b%b' % (told, more, self._end())
            )

    def _end(self) -> bytes:
        """Behind the choice's members."""
        if self._answer.options.continuous_usage:
            return b'}],"usage":%b}\n\n' % encode(usage_object(self._answer.usages()))
        return b"}]}\n\n"

    def finish(self, finish: Finish) -> None:
        """The event with the finish reason; behind the last choice's, the end of the stream."""
        if not self.first:
            self._begin()
        options = self._answer.options
        reason = "length" if options.only_prompt else finish.reason
        self._meter.choice_over(reason, self._start, self.first, self.last, self.tokens)
        data = b'%b"","logprobs":null,"finish_reason":"%b","stop_reason":%b%b' % (
            self._head,
            reason.encode(),
            lined(safe_json(finish.stop_reason)),
            self._end(),
        )
        self._answer.sink_over(data, self)

    def fail(self, error: ServingError) -> None:
        """There will be no more, of no choice."""
        self._answer.fail(error)
