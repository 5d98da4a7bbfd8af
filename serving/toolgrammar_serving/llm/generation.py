"""A running request: its sequences, what the engine says of each, and how that reaches a sink.

The path of a token is ``Sequence.push``: a count, two tests, the sink. All else (first output, last output,
logprobs, a reader that is slow) is off that path.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable
from collections.abc import Sequence as Many
from typing import Any, Final, Protocol, cast

from toolgrammar_serving.errors import BadRequest, EngineBusy, EngineFailed, EngineLost, ServingError
from toolgrammar_serving.llm.requests import Finish, FinishReason, GenerateRequest, Position, TokenSink, Usage
from toolgrammar_serving.protocol.wire import ERROR, FINISH_REASONS, STOP, EngineCoreOutput, RequestError

log: Final = logging.getLogger(__name__)


class Aborter(Protocol):
    """The one thing a running request asks of an engine client."""

    def abort(self, request_ids: Iterable[str]) -> None:
        """End requests; their sinks hear nothing more."""


class _Nobody:
    """The sink of a sequence that is over: whoever listened is let go, whatever comes late is dropped."""

    def push(self, token_ids: list[int], logprobs: list[Position] | None) -> None:
        """Nobody listens."""

    def finish(self, finish: Finish) -> None:
        """Nobody listens."""

    def fail(self, error: ServingError) -> None:
        """Nobody listens."""


_NOBODY: Final = _Nobody()


class Generation:
    """A request that runs, for whoever started it: counts, abort, and a hold for readers that are slow."""

    def __init__(
        self, client: Aborter, request: GenerateRequest, sinks: Many[TokenSink], eos_token_id: int | None
    ) -> None:
        self._client = client
        self._prompt_tokens = len(request.prompt_token_ids)
        self.request_id = request.request_id
        #: Of the prompt, if asked for and once the first output is here; the first token has none.
        self.prompt_logprobs: list[Position | None] | None = None
        #: Of the first sequence; None as long as the engine has not said.
        self.cached_tokens: int | None = None
        public = f"{request.request_id}-{secrets.token_hex(4)}"
        ids = [public] if request.n == 1 else [f"{index}_{public}" for index in range(request.n)]
        sampling = request.sampling
        numbers = sampling.logprobs is not None or sampling.prompt_logprobs is not None
        self.sequences = [
            Sequence(self, index, id_, sink, eos_token_id, numbers)
            for index, (id_, sink) in enumerate(zip(ids, sinks, strict=True))
        ]

    @property
    def usage(self) -> Usage:
        """Counts so far, of all sequences."""
        tokens = sum([sequence.tokens for sequence in self.sequences])
        return Usage(self._prompt_tokens, tokens, self.cached_tokens)

    @property
    def done(self) -> bool:
        """No sink will be called again."""
        return all(sequence.done for sequence in self.sequences)

    def abort(self, index: int | None = None) -> None:
        """End one sequence, or all. Their sinks hear nothing more, from now on. Of one that is over: nothing."""
        chosen = self.sequences if index is None else [self.sequences[index]]
        running = [sequence.request_id for sequence in chosen if sequence.running]
        for sequence in chosen:
            sequence.drop()
        if running:
            self._client.abort(running)

    def keep(self, index: int, tokens: int) -> None:
        """Only the first ``tokens`` tokens of a sequence count: whoever reads it stops there, and aborts it."""
        self.sequences[index].tokens = tokens

    def pause(self, index: int) -> None:
        """Keep what comes for this sequence, as token ids, until ``resume``."""
        self.sequences[index].pause()

    def resume(self, index: int) -> None:
        """Push what was kept, in one piece, and go on."""
        self.sequences[index].resume()


class Sequence:
    """One sequence at the engine: takes the engine client's outputs, gives them to ``sink``."""

    __slots__ = (
        "_eos",
        "_finish",
        "_generation",
        "_kept",
        "_kept_positions",
        "_numbers",
        "_paused",
        "_sink",
        "_straight",
        "done",
        "index",
        "request_id",
        "running",
        "tokens",
    )

    def __init__(
        self, generation: Generation, index: int, id_: str, sink: TokenSink, eos: int | None, numbers: bool
    ) -> None:
        #: None when done: the two refer to each other, and are to be freed without waiting for the collector.
        self._generation: Generation | None = generation
        self._sink: TokenSink = sink
        self._eos = eos
        #: Logprobs are to be read.
        self._numbers = numbers
        #: Nothing but token ids is to be expected of an output that is not the last.
        self._straight = False
        self._paused = False
        self._kept: list[int] = []
        self._kept_positions: list[Position] = []
        self._finish: Finish | ServingError | None = None
        self.index = index
        self.request_id = id_
        #: The engine works on it.
        self.running = False
        #: The sink was told the end, or is not to be told.
        self.done = False
        #: Sampled so far.
        self.tokens = 0

    def push(self, output: EngineCoreOutput) -> None:
        """An output of the engine, in order."""
        ids = output.new_token_ids
        self.tokens += len(ids)
        try:
            if self._straight and output.finish_reason is None:
                self._sink.push(ids, None)
            else:
                self._with_care(output)
        except Exception:
            self._failed()

    def lost(self, error: EngineLost) -> None:
        """The engine died; nothing follows."""
        self.running = False
        self._end(error)

    def pause(self) -> None:
        """Keep what comes."""
        self._paused = True
        self._straight = False

    def resume(self) -> None:
        """Push what was kept, in one piece."""
        self._paused = False
        ids, self._kept = self._kept, []
        positions, self._kept_positions = self._kept_positions, []
        end, self._finish = self._finish, None
        try:
            if ids and not self.done:
                self._sink.push(ids, positions or None)
            if end is not None:
                self._end(end)
        except Exception:
            self._failed()

    def drop(self) -> None:
        """The sink is to hear nothing more."""
        self.running = self._straight = False
        self.done = True
        self._generation = None
        self._sink = _NOBODY
        self._kept = []
        self._kept_positions = []

    def _with_care(self, output: EngineCoreOutput) -> None:
        generation = self._generation
        if generation is None:
            return
        if self.index == 0 and output.prefill_stats is not None:
            generation.cached_tokens = output.prefill_stats.num_cached_tokens
        if self.index == 0 and output.new_prompt_logprobs_tensors is not None:
            known = generation.prompt_logprobs or [None]
            generation.prompt_logprobs = known + _positions(output.new_prompt_logprobs_tensors)
        self._straight = not self._numbers and not self._paused
        ids = output.new_token_ids
        positions = None if output.new_logprobs is None else _positions(output.new_logprobs)
        end: Finish | ServingError | None = None
        if output.finish_reason is not None:
            self.running = False
            end = _end_of(output)
            if self._ended_by_token(output):
                ids = ids[:-1]
                positions = positions[:-1] if positions else positions
        if self._paused:
            self._kept += ids
            self._kept_positions += positions or ()
            self._finish = end
            return
        if ids:
            self._sink.push(ids, positions)
        if end is not None:
            self._end(end)

    def _ended_by_token(self, output: EngineCoreOutput) -> bool:
        if output.finish_reason != STOP or not output.new_token_ids:
            return False
        stop = output.stop_reason
        return output.new_token_ids[-1] == (self._eos if stop is None else stop)

    def _end(self, end: Finish | ServingError) -> None:
        if self.done:
            return
        if self._paused:
            self._finish = end
            return
        self.done = True
        self._generation = None
        sink, self._sink = self._sink, _NOBODY
        if isinstance(end, Finish):
            sink.finish(end)
        else:
            sink.fail(end)

    def _failed(self) -> None:
        """A sink raised: it hears of an error, the engine of an abort."""
        log.exception("request %s: its output could not be passed on", self.request_id)
        generation = self._generation
        if generation is None:
            return
        sink = self._sink
        generation.abort(self.index)
        try:
            sink.fail(ServingError("the answer could not be passed on"))
        except Exception:
            log.exception("request %s: nor could its failure", self.request_id)


def _positions(logprobs: Any) -> list[Position]:
    return list(map(Position, logprobs.ids, logprobs.logprobs, logprobs.ranks))


def _end_of(output: EngineCoreOutput) -> Finish | ServingError:
    code = cast(int, output.finish_reason)
    if code == ERROR:
        return _failure(output)
    reason = FINISH_REASONS[code] if code < len(FINISH_REASONS) else "stop"
    return Finish(cast(FinishReason, reason), output.stop_reason)


def _failure(output: EngineCoreOutput) -> ServingError:
    error = output.error or RequestError()
    if error.code == "validation_error":
        return BadRequest(error.message or "the engine refuses this request")
    if error.code == "engine_paused" or error.retryable:
        return EngineBusy(error.message or "the engine takes no requests at the moment")
    log.error("request %s failed in the engine: %s %s", output.request_id, error.code, error.message)
    return EngineFailed("the engine failed on this request")
