"""A chat answer as a stream: what comes before, between and behind its choices' events."""

from __future__ import annotations

from typing import Any

from toolgrammar_serving.server.answer import StreamAnswer
from toolgrammar_serving.server.chat_choice import TAIL, ChatChoice
from toolgrammar_serving.server.chat_options import ChatOptions
from toolgrammar_serving.server.meter import Meter
from toolgrammar_serving.server.sse import DONE, Frame, encode, quoted
from toolgrammar_serving.server.usage import usage_object


class ChatStream(StreamAnswer):
    """A chat answer as a stream: the choices' sinks, and what comes before and after them."""

    def __init__(self, options: ChatOptions, frame: Frame, meter: Meter, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.options = options
        self.frame = frame
        self.meter = meter
        self.sinks = [ChatChoice(self, index) for index in range(self.left)]

    def open(self, prompt_token_ids: list[int] | None) -> None:
        """The first event of each choice: the role, and the echoed message. ``prompt_token_ids`` if they are
        wanted."""
        more = b""
        if self.options.token_ids:
            more = b',"prompt_token_ids":%b' % encode(prompt_token_ids)
        end = b'},"finish_reason":null}]%b}\n\n' % more
        for sink in self.sinks:
            self.open_with(b'%b"role":"assistant","content":""%b' % (sink.head, end))
            if self.options.echo:
                self.open_with(b'%b"content":%b%b' % (sink.head, quoted(self.options.echo), TAIL))

    def sink_over(self, data: bytes, sink: ChatChoice) -> None:
        """``data`` is the last event of a choice."""
        if not self.choice_over():
            sink.write(data, b"", b"")
            return
        if self.options.usage:
            reasoning = sum(sink.reasoning_tokens for sink in self.sinks)
            usage = usage_object(self.usages(), reasoning)
            data += self.frame.usage(usage, self.options.fingerprint)
        self.tail = data + DONE
        self.complete()
