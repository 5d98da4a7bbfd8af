"""A completions answer in one piece."""

from __future__ import annotations

import time
from typing import Any

from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.server.answer import Answer
from toolgrammar_serving.server.completion_body import CompletionOptions
from toolgrammar_serving.server.completion_stream import uncounted
from toolgrammar_serving.server.echo import Echo, prompt_logprobs
from toolgrammar_serving.server.logprobs import CompletionLogprobs
from toolgrammar_serving.server.meter import Meter
from toolgrammar_serving.server.sse import Frame, safe_json
from toolgrammar_serving.server.usage import usage_object
from toolgrammar_serving.text import Finish, TokenLogprob, Usage


class CompletionWhole(Answer):
    """A completions answer that is sent when it is complete. ``echoes``: one a prompt; its ``n`` choices share
    it."""

    def __init__(
        self, options: CompletionOptions, frame: Frame, meter: Meter, echoes: list[Echo], *arguments: Any
    ) -> None:
        super().__init__(*arguments)
        self.options = options
        self.meter = meter
        self._frame = frame
        self.sinks = [WholeCompletion(self, index, echoes[index // self.n]) for index in range(self.left)]

    def usages(self) -> list[Usage]:
        """Counts so far; what was generated only to get at the prompt does not count."""
        return uncounted(super().usages()) if self.options.only_prompt else super().usages()

    def sink_over(self) -> None:
        """One choice more is over."""
        if self.choice_over():
            self.complete()

    def response(self) -> bytes:
        """The response's body."""
        return safe_json(
            {
                "id": self._frame.response_id,
                "object": "text_completion",
                "created": self._frame.created,
                "model": self._frame.model,
                "choices": [sink.choice() for sink in self.sinks],
                "service_tier": None,
                "system_fingerprint": self.options.fingerprint,
                "usage": usage_object(self.usages()),
            }
        )


class WholeCompletion:
    """One choice (a TextSink), collected."""

    def __init__(self, answer: CompletionWhole, index: int, echo: Echo) -> None:
        self._answer = answer
        self._index = index
        self._echo = echo
        self._text: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._token_ids: list[int] = []
        self._finish = Finish("abort")
        self._first = 0.0
        self._tokens = 0

    def push(self, text: str, token_ids: list[int], logprobs: list[TokenLogprob] | None) -> None:
        """New text, which may be empty."""
        answer = self._answer
        if not self._first:
            self._first = time.monotonic()
            answer.meter.first_token_s.add(self._first - answer.options.arrived)
        self._tokens += len(token_ids)
        answer.meter.generated += len(token_ids)
        if answer.options.only_prompt:
            return
        self._text.append(text)
        self._token_ids += token_ids
        self._logprobs += logprobs or ()

    def finish(self, finish: Finish) -> None:
        """The choice is over."""
        self._finish = Finish("length") if self._answer.options.only_prompt else finish
        arrived = self._answer.options.arrived
        self._answer.meter.choice_over(self._finish.reason, arrived, self._first, time.monotonic(), self._tokens)
        self._answer.sink_over()

    def fail(self, error: ServingError) -> None:
        """There will be no more, of no choice."""
        self._answer.fail(error)

    def choice(self) -> dict[str, Any]:
        """The choice as the response has it."""
        options = self._answer.options
        text = "".join(self._text)
        found: dict[str, Any] = {
            "index": self._index,
            "text": self._echo.text() + text if options.echo else text,
            "logprobs": self._choice_logprobs() if options.logprobs else None,
            "finish_reason": self._finish.reason,
            "stop_reason": self._finish.stop_reason,
        }
        if options.prompt_logprobs:
            found["prompt_logprobs"] = prompt_logprobs(self._echo.logprobs())
        if options.token_ids:
            found["token_ids"] = self._token_ids
            found["prompt_token_ids"] = self._echo.token_ids
        return found

    def _choice_logprobs(self) -> dict[str, Any]:
        options = self._answer.options
        positions: list[TokenLogprob | None] = []
        texts: list[str] = []
        if options.echo:
            positions, texts = self._echo.positions()
        positions = [*positions, *self._logprobs]
        texts = [*texts, *[found.token.text for found in self._logprobs]]
        return CompletionLogprobs(options.tokens_as_ids).piece(positions, texts)
