"""The messages of a replay engine: outputs joined to bodies, the scheduler's statistics, load for the
coordinator."""

from __future__ import annotations

import time
from typing import Final

from toolgrammar_serving.protocol.engine_side import EngineSockets
from toolgrammar_serving.protocol.wire import EngineCoreOutputs, PrefixCacheStats, SchedulerStats
from toolgrammar_serving.replay.counters import Tally
from toolgrammar_serving.replay.laying_out import encode
from toolgrammar_serving.replay.options import WEIGHT_VERSION, EngineOptions
from toolgrammar_serving.replay.schedule import Schedule

_NIL: Final = encode(None)


class Outbox:
    """Writes ``EngineCoreOutputs`` around outputs that are encoded already: two byte strings for each."""

    def __init__(self, sockets: EngineSockets, schedule: Schedule, tally: Tally, options: EngineOptions) -> None:
        self._sockets = sockets
        self._schedule = schedule
        self._tally = tally
        self._options = options
        #: Since the last record.
        self.prefix_cache = PrefixCacheStats()
        self._load = (0, 0)  # what a coordinator takes for granted
        self._stats_of: tuple[int, int] | None = None
        self._stats = _NIL
        # The parts of the array of 9: head, number of outputs, outputs, statistics, time, tail.
        self._head = b"\x99" + encode(options.rank) + b"\xdd"
        self._tail = encode([None, None, None, None, WEIGHT_VERSION])[1:]

    def send_step(self, given: dict[int, list[bytes]]) -> None:
        """Send what a step gave, by front end. One of them gets the statistics, as of a real engine, which says
        once more when there is nothing left to do."""
        stats = self._encoded_stats() if self._options.stats else _NIL
        for client, parts in given.items():
            if parts:
                self.send(client, parts, stats)
                stats = _NIL
        if self._options.stats and not self._schedule.known:
            self.send(0, [], self._encoded_stats())

    def send_ended(self) -> None:
        """Tell of requests that ended without an output, where somebody counts them."""
        for client, ended in enumerate(self._schedule.ended):
            if ended and self._options.data_parallel_size > 1:
                self.send(client, [])
            ended.clear()

    def send(self, client: int, parts: list[bytes], stats: bytes = _NIL) -> None:
        """Send one message of outputs."""
        tail = self._tail
        if ended := self._schedule.ended[client]:
            if self._options.data_parallel_size > 1:
                tail = encode([None, ended, None, None, WEIGHT_VERSION])[1:]
            self._schedule.ended[client] = set()
        count = (len(parts) // 2).to_bytes(4, "big")
        body = b"".join((self._head, count, *parts, stats, encode(time.monotonic()), tail))
        counters = self._tally.counters
        counters.messages += 1
        counters.bytes += len(body)
        self._sockets.send_frames(client, [body, *self._schedule.frames[client]])
        self._schedule.frames[client].clear()
        counters.full += self._sockets.full(client)

    def _encoded_stats(self) -> bytes:
        """The record of this step; built anew only when it would say something else."""
        now = (self._schedule.running, self._schedule.waiting)
        if self.prefix_cache.requests:
            record = encode(self._scheduler_stats())
            self.prefix_cache = PrefixCacheStats()
            self._stats_of = None
            return record
        if now != self._stats_of:
            self._stats_of = now
            self._stats = encode(self._scheduler_stats())
        return self._stats

    def _scheduler_stats(self) -> SchedulerStats:
        running = self._schedule.running
        return SchedulerStats(
            num_running_reqs=running,
            num_waiting_reqs=self._schedule.waiting,
            kv_cache_usage=min(1.0, running / max(1, self._options.max_num_seqs)),
            prefix_cache_stats=self.prefix_cache,
        )

    def tell_load(self) -> None:
        """Tell the coordinator when the numbers of running and waiting requests have changed."""
        load = (self._schedule.waiting, self._schedule.running)
        if self._sockets.coordinated and load != self._load:
            self._load = load
            self._sockets.send_coordinator(
                EngineCoreOutputs(
                    engine_index=self._options.rank,
                    scheduler_stats=self._scheduler_stats(),
                    timestamp=time.monotonic(),
                    weight_version=WEIGHT_VERSION,
                )
            )
