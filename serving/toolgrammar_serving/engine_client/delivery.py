"""From a step's outputs to the requests they belong to: one loop, one push a request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from toolgrammar_serving.engine_client.decoding import UNREADABLE, Message, Outputs, unreadable
from toolgrammar_serving.engine_client.merging import is_plain, merge
from toolgrammar_serving.errors import EngineLost
from toolgrammar_serving.protocol.arrays import Frame, read_logprobs
from toolgrammar_serving.protocol.wire import ABORTED, EngineCoreOutput

_log: Final = logging.getLogger(__name__)


class OutputSink(Protocol):
    """Takes the outputs of one request, in order."""

    def push(self, output: EngineCoreOutput) -> None:
        """More tokens; several steps at once if we are behind. ``new_logprobs`` and
        ``new_prompt_logprobs_tensors`` are ``Logprobs`` or None. With a ``finish_reason`` it is the last. The
        output is the sink's to keep or change."""

    def lost(self, error: EngineLost) -> None:
        """There will be no more: the engine died, or an earlier push raised."""


class Flight:
    """A request the engine has: whom to tell, and where it runs."""

    __slots__ = ("position", "sink")

    def __init__(self, sink: OutputSink, position: int) -> None:
        self.sink = sink
        self.position = position


class Delivery:
    """The requests in flight. ``over`` is told of each that has ended, ``give_up`` of each that we must abort."""

    def __init__(self, over: Callable[[Flight], None], give_up: Callable[[str, Flight], None]) -> None:
        self.flights: dict[str, Flight] = {}
        self._over = over
        self._give_up = give_up

    def deliver(self, body: Outputs, frames: Sequence[Frame]) -> None:
        """Hand out one message. Never raises for a request's sake."""
        flights = self.flights
        for output in body.outputs:
            flight = flights.get(output.request_id)
            if flight is None:
                continue  # aborted: these tokens were on their way
            if (
                output.finish_reason is None
                and output.new_logprobs is None
                and output.new_prompt_logprobs_tensors is None
            ):
                try:
                    flight.sink.push(output)
                except Exception as error:
                    self._push_failed(output, flight, error)
            else:
                self._hand_over(_with_logprobs(output, frames), flight)
        if body.finished_requests is not None:
            self._end_silent(body.finished_requests)

    def deliver_joined(self, messages: Iterable[Message]) -> None:
        """Hand out several messages as one: what a request got in all of them is pushed at once."""
        flights = self.flights
        joined: dict[str, EngineCoreOutput] = {}
        finished: list[str] = []
        for body, frames in messages:
            for output in body.outputs:
                request_id = output.request_id
                earlier = joined.get(request_id)
                if earlier is None:
                    if request_id in flights:
                        joined[request_id] = _with_logprobs(output, frames)
                elif is_plain(output) and earlier.new_logprobs is None and earlier.finish_reason is None:
                    earlier.new_token_ids += output.new_token_ids
                elif not merge(earlier, output := _with_logprobs(output, frames)):
                    self._push_joined(earlier)
                    joined[request_id] = output
            finished += body.finished_requests or ()
        for output in joined.values():
            self._push_joined(output)
        self._end_silent(finished)

    def lose(self, error: EngineLost) -> None:
        """End everything: every sink hears ``lost``."""
        flights = list(self.flights.items())
        self.flights.clear()
        for request_id, flight in flights:
            self._over(flight)
            _tell_lost(request_id, flight, error)

    def _hand_over(self, output: EngineCoreOutput, flight: Flight) -> None:
        if output.finish_reason is not None:
            del self.flights[output.request_id]
            self._over(flight)
            if output.error is not None and output.error.code == UNREADABLE:
                self._give_up(output.request_id, flight)  # the engine does not know that this was the last
        try:
            flight.sink.push(output)
        except Exception as error:
            self._push_failed(output, flight, error)

    def _push_joined(self, output: EngineCoreOutput) -> None:
        flight = self.flights.get(output.request_id)
        if flight is not None:  # a sink before this one may have aborted it
            self._hand_over(output, flight)

    def _push_failed(self, output: EngineCoreOutput, flight: Flight, error: Exception) -> None:
        """One broken receiver costs its own request only."""
        request_id = output.request_id
        _log.error("request %s: its receiver failed", request_id, exc_info=error)
        if self.flights.pop(request_id, None) is not None:
            self._over(flight)
            self._give_up(request_id, flight)
        _tell_lost(request_id, flight, EngineLost("internal error", code="internal_error"))

    def _end_silent(self, finished: Iterable[str]) -> None:
        """Requests that the engine is done with and sent no last output of: a stream must have an end."""
        for request_id in finished:
            flight = self.flights.get(request_id)
            if flight is not None:
                _log.warning("request %s: ended by the engine without a last output", request_id)
                self._hand_over(EngineCoreOutput(request_id, [], finish_reason=ABORTED), flight)


def _with_logprobs(output: EngineCoreOutput, frames: Sequence[Frame]) -> EngineCoreOutput:
    """The output with its logprobs, if any, as numbers; an error in its place if they cannot be read."""
    try:
        if output.new_logprobs is not None:
            output.new_logprobs = read_logprobs(output.new_logprobs, frames)
        if output.new_prompt_logprobs_tensors is not None:
            output.new_prompt_logprobs_tensors = read_logprobs(output.new_prompt_logprobs_tensors, frames)
    except ValueError as error:
        _log.warning("request %s: unreadable logprobs: %s", output.request_id, error)
        return unreadable(output.request_id)
    return output


def _tell_lost(request_id: str, flight: Flight, error: EngineLost) -> None:
    try:
        flight.sink.lost(error)
    except Exception as failure:
        _log.error("request %s: its receiver failed when told of a loss", request_id, exc_info=failure)
