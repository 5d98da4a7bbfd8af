"""The client of an EngineCore: requests down, outputs up, everything on one event loop and never waiting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
import zmq

from toolgrammar_serving.engine_client.connections import Connections, OutputConnections
from toolgrammar_serving.engine_client.coordinator import Coordinator
from toolgrammar_serving.engine_client.decoding import Message, Outputs
from toolgrammar_serving.engine_client.delivery import Delivery, Flight, OutputSink
from toolgrammar_serving.engine_client.info import EngineInfo
from toolgrammar_serving.engine_client.ranks import Ranks
from toolgrammar_serving.engine_client.reader import OutputReader
from toolgrammar_serving.engine_client.sockets import Sockets
from toolgrammar_serving.engine_client.stats import StatsBook
from toolgrammar_serving.engine_client.utility import UtilityCalls
from toolgrammar_serving.errors import BadRequest, EngineLost
from toolgrammar_serving.protocol.wire import (
    ABORT,
    ADD,
    UTILITY,
    EngineCoreRequest,
    SchedulerStats,
    identity,
)

_log: Final = logging.getLogger(__name__)

_ABORTS_A_MESSAGE: Final = 1024


class EngineClient:
    """Made by ``connect`` when all ranks are there. ``info``: what they are. ``alive``: no engine was lost so far.

    One rank lost is the whole engine lost: every sink hears it, and nothing is taken any more.
    All methods are for the loop's own thread.
    """

    def __init__(
        self, sockets: Sockets, reader: OutputReader, info: EngineInfo, *, stats: bool, watch_connections: bool
    ) -> None:
        endpoint = sockets.endpoint
        self.info = info
        self.alive = True
        self._sockets = sockets
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._client_index = endpoint.client_index
        self._ranks = Ranks(endpoint.first_rank, endpoint.count, endpoint.client_index, endpoint.client_count)
        self._identities = [identity(endpoint.first_rank + i) for i in range(endpoint.count)]
        self._encode = msgspec.msgpack.Encoder().encode
        self._delivery = Delivery(self._over, self._give_up)
        self._flights = self._delivery.flights
        self._aborts: dict[int, list[str]] = {}
        self._calls = UtilityCalls(endpoint.client_index, self._send_utility)
        self._calling = 0
        self._book = StatsBook(endpoint.count) if stats else None
        self._on_lost: list[Callable[[EngineLost], None]] = []
        self._coordinator = self._subscribe(info.coordinator) if info.coordinator else None
        self._connections = Connections(sockets.router, self._probe) if watch_connections else None
        self._reader = reader
        self._outputs = OutputConnections(
            endpoint.count, connected=reader.connected, busy=self._busy, lose=self.lose
        )
        gone = self._outputs.gone if watch_connections else lambda heard: None
        reader.start(deliver=self._deliver, dead=self._dead, gone=gone)

    # ---- requests

    def add(self, request: EngineCoreRequest, sink: OutputSink) -> None:
        """Send a request; its outputs go to ``sink`` from now on. Fills in ``client_index`` and ``current_wave``.

        EngineLost if there is no engine, BadRequest for a ``data_parallel_rank`` that is none of ours or what no
        message can hold, ValueError for an id that is in flight. If it raises, the sink hears nothing.
        """
        if not self.alive:
            raise EngineLost("the engine is not running")
        request_id = request.request_id
        if request_id in self._flights:
            raise ValueError(f"request {request_id} is in flight already")
        if self._aborts:
            self._flush_aborts()  # one of them may be of this very id
        request.client_index = self._client_index
        coordinator = self._coordinator
        if coordinator is not None:
            request.current_wave = coordinator.wave
        try:
            body = self._encode(request)
        except OverflowError:
            raise BadRequest("a number is too large: it has more than 64 bits", code="invalid_value") from None
        position = self._ranks.choose(request.data_parallel_rank)
        try:
            self._send(position, ADD, body)
        except EngineLost:
            self._ranks.done(position)
            raise
        self._flights[request_id] = Flight(sink, position)
        if coordinator is not None and self.info.announces_waves:
            coordinator.announce(self._ranks.first + position)

    def abort(self, request_ids: Iterable[str]) -> None:
        """End requests: their sinks hear nothing more, from now on. Ids that are not in flight are ignored.

        The engine hears of all aborts of one turn of the loop at once.
        """
        for request_id in request_ids:
            flight = self._flights.pop(request_id, None)
            if flight is not None:
                self._over(flight)
                self._give_up(request_id, flight)

    def in_flight(self) -> int:
        """How many requests the engine has of us."""
        return len(self._flights)

    # ---- the engine itself

    async def call_utility(self, method: str, *args: Any) -> Any:
        """Call a method of the engine on all ranks: booleans are ANDed, of other results the first rank's counts.

        EngineFailed with the engine's words if it refuses, EngineLost if it is or gets lost.
        """
        if not self.alive:
            raise EngineLost("the engine is not running")
        self._calling += 1
        try:
            return await self._calls.call(method, args, range(len(self._identities)))
        finally:
            self._calling -= 1

    def stats(self) -> list[SchedulerStats]:
        """What each rank said last, counters added up; nothing if statistics were not asked for at ``connect``."""
        return list(self._book.latest) if self._book is not None else []

    def on_lost(self, callback: Callable[[EngineLost], None]) -> None:
        """Have ``callback`` called when the engine is lost, after the sinks; at once if it is lost already."""
        if self.alive:
            self._on_lost.append(callback)
        elif not self._closed:
            callback(EngineLost("the engine is not running"))

    def lose(self, why: str) -> None:
        """Whoever watches the engine's process says that it is gone. Only the first time counts."""
        if not self.alive:
            return
        _log.error("engine lost: %s", why)
        error = EngineLost("the engine died")
        self._end(error)
        for callback in self._on_lost:
            try:
                callback(error)
            except Exception:
                _log.exception("a callback failed when told of the engine's loss")

    async def close(self) -> None:
        """Abort what is in flight (sinks hear ``lost``) and let go of the sockets. May be called again."""
        if self._closed:
            return
        self._closed = True
        if self.alive:
            for request_id, flight in self._flights.items():
                self._give_up(request_id, flight)
            self._flush_aborts()
            self._end(EngineLost("the server is shutting down"))
        self._reader.close()
        self._outputs.close()
        if self._connections is not None:
            self._connections.close()
        if self._coordinator is not None:
            self._coordinator.close()
        await asyncio.to_thread(self._sockets.close)

    # ---- inside

    def _deliver(self, messages: Iterator[Message], count: int) -> None:
        if count > 1:
            self._delivery.deliver_joined(self._noted(messages))
            return
        for body, frames in messages:
            self._delivery.deliver(body, frames)
            self._note(body)

    def _noted(self, messages: Iterator[Message]) -> Iterator[Message]:
        for message in messages:
            self._note(message[0])
            yield message

    def _note(self, body: Outputs) -> None:
        """What a message says that is not about a request."""
        if body.utility_output is not None:
            self._calls.answered(body.utility_output)
        if self._book is not None and body.scheduler_stats:
            position = body.engine_index - self._ranks.first
            if 0 <= position < self._ranks.count:
                self._book.keep(position, body.scheduler_stats)

    def _over(self, flight: Flight) -> None:
        self._ranks.done(flight.position)

    def _give_up(self, request_id: str, flight: Flight) -> None:
        if not self._aborts:
            self._loop.call_soon(self._flush_aborts)
        self._aborts.setdefault(flight.position, []).append(request_id)

    def _flush_aborts(self) -> None:
        aborts, self._aborts = self._aborts, {}
        for position, request_ids in aborts.items():
            for start in range(0, len(request_ids), _ABORTS_A_MESSAGE):
                if not self.alive:
                    return
                try:
                    self._send(position, ABORT, self._encode(request_ids[start : start + _ABORTS_A_MESSAGE]))
                except EngineLost:
                    return  # all have been told

    def _send_utility(self, position: int, body: bytes) -> None:
        self._send(position, UTILITY, body)

    def _send(self, position: int, kind: bytes, body: bytes) -> None:
        """EngineLost, and the loss is made known, if that rank is no longer connected."""
        try:
            self._sockets.router.send_multipart((self._identities[position], kind, body), zmq.NOBLOCK)
        except zmq.ZMQError as error:
            self.lose(f"rank {self._ranks.first + position} cannot be reached: {error}")
            raise EngineLost("the engine died") from error

    def _probe(self) -> None:
        """Write to every rank what none minds: an abort of nothing. Who is not there is lost."""
        for position in range(len(self._identities)):
            if not self.alive:
                return
            with contextlib.suppress(EngineLost):
                self._send(position, ABORT, self._encode([]))

    def _subscribe(self, address: str) -> Coordinator:
        return Coordinator(self._sockets.context, address, self._ranks.published)

    def _busy(self) -> bool:
        """Whether an engine has something to tell us."""
        return bool(self._flights) or self._calling > 0

    def _dead(self) -> None:
        self.lose("it said so")

    def _end(self, error: EngineLost) -> None:
        self.alive = False
        self._aborts.clear()
        self._delivery.lose(error)
        self._calls.lose(error)
