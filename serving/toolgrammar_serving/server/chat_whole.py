"""A chat answer in one piece: the same events as the stream's, folded."""

from __future__ import annotations

import time
from typing import Any

from toolgrammar import CallArguments, CallEnd, CallStart, Content, Diagnostic, Event, Reasoning
from toolgrammar_serving.chat import ChatFinish
from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.server.answer import Answer
from toolgrammar_serving.server.chat_options import ChatOptions
from toolgrammar_serving.server.extension import extension
from toolgrammar_serving.server.logprobs import chat_logprobs
from toolgrammar_serving.server.meter import Meter
from toolgrammar_serving.server.sse import Frame, safe_json
from toolgrammar_serving.server.usage import usage_object
from toolgrammar_serving.text import TokenLogprob


class ChatWhole(Answer):
    """A chat answer that is sent when it is complete."""

    def __init__(self, options: ChatOptions, frame: Frame, meter: Meter, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.options = options
        self._frame = frame
        self.meter = meter
        self.sinks = [WholeChoice(self, index) for index in range(self.left)]

    def sink_over(self) -> None:
        """One choice more is over."""
        if self.choice_over():
            self.complete()

    def response(self, prompt_token_ids: list[int], prompt_logprobs: list[dict[str, Any] | None] | None) -> bytes:
        """The response's body."""
        reasoning = sum(sink.reasoning_tokens for sink in self.sinks)
        found: dict[str, Any] = {
            "id": self._frame.response_id,
            "object": "chat.completion",
            "created": self._frame.created,
            "model": self._frame.model,
            "choices": [sink.choice() for sink in self.sinks],
            "service_tier": None,
            "system_fingerprint": self.options.fingerprint,
            "usage": usage_object(self.usages(), reasoning),
        }
        if self.options.prompt_logprobs:
            found["prompt_logprobs"] = prompt_logprobs
        if self.options.token_ids:
            found["prompt_token_ids"] = prompt_token_ids
        return safe_json(found)


class WholeChoice:
    """One choice (a ChatSink), collected."""

    def __init__(self, answer: ChatWhole, index: int) -> None:
        self._answer = answer
        self._index = index
        self._content: list[str] = [answer.options.echo] if answer.options.echo else []
        self._reasoning: list[str] = []
        self._calls: list[CallStart] = []
        self._arguments: list[list[str]] = []
        self._logprobs: list[TokenLogprob] = []
        self._token_ids: list[int] = []
        self._finish = ChatFinish("abort")
        self._first = 0.0
        self._tokens = 0
        self.reasoning_tokens = 0

    def push(self, events: list[Event], token_ids: list[int], logprobs: list[TokenLogprob] | None) -> None:
        """What became certain with these tokens."""
        meter, options = self._answer.meter, self._answer.options
        if not self._first:
            self._first = time.monotonic()
            meter.first_token_s.add(self._first - options.arrived)
        self._tokens += len(token_ids)
        meter.generated += len(token_ids)
        if options.token_ids:
            self._token_ids += token_ids
        if options.logprobs and logprobs:
            self._logprobs += logprobs
        for event in events:
            if isinstance(event, Content):
                self._content.append(event.text)
            elif isinstance(event, Reasoning):
                self._reasoning.append(event.text)
            elif isinstance(event, CallArguments):
                self._arguments[event.index].append(event.delta)
            elif isinstance(event, CallStart):
                self._calls.append(event)
                self._arguments.append([])
            elif isinstance(event, CallEnd):
                if event.status == "complete" and not self._arguments[event.index]:
                    self._arguments[event.index].append("{}")
                meter.call_over("ok" if event.status == "complete" else event.status, "whole")
            elif isinstance(event, Diagnostic):
                meter.remarked(event.code, "whole")

    def finish(self, finish: ChatFinish) -> None:
        """The choice is over."""
        self._finish = finish
        self.reasoning_tokens = finish.reasoning_tokens
        now = time.monotonic()
        arrived = self._answer.options.arrived
        self._answer.meter.choice_over(finish.reason, arrived, self._first, now, self._tokens)
        self._answer.sink_over()

    def fail(self, error: ServingError) -> None:
        """There will be no more, of no choice."""
        self._answer.fail(error)

    def choice(self) -> dict[str, Any]:
        """The choice as the response has it."""
        options = self._answer.options
        found: dict[str, Any] = {
            "index": self._index,
            "message": self._message(),
            "logprobs": chat_logprobs(self._logprobs, options.tokens_as_ids) if options.logprobs else None,
            "finish_reason": self._finish.reason,
            "stop_reason": self._finish.stop_reason,
        }
        if options.token_ids:
            found["token_ids"] = self._token_ids
        if options.extension and self._finish.message is not None:
            found["toolgrammar"] = extension(self._finish.message)
        return found

    def _message(self) -> dict[str, Any]:
        """``content`` is null beside reasoning or calls if there is none, and else a text, be it empty."""
        content = "".join(self._content)
        reasoning = "".join(self._reasoning) if self._answer.options.reasoning_fields else ""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": content or (None if reasoning or self._calls else ""),
            "refusal": None,
        }
        for name in self._answer.options.reasoning_fields:
            message[name] = reasoning or None
        if self._calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": "".join(pieces)},
                }
                for call, pieces in zip(self._calls, self._arguments, strict=True)
            ]
        return message
