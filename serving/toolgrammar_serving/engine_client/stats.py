"""Scheduler statistics of every rank: gauges as last said, counters added up."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from toolgrammar_serving.protocol.wire import PrefixCacheStats, SchedulerStats

_log: Final = logging.getLogger(__name__)
_read: Final = msgspec.msgpack.Decoder(SchedulerStats | None).decode

#: So many steps' statistics wait unread. They are small, most are never asked for one by one, and reading many
#: at once costs a fraction of reading each between the tokens of its step.
_WAITING: Final = 64
#: Of speculative decoding: the configuration, not a counter.
_CONSTANT = "num_spec_tokens"


class StatsBook:
    """Engines send what a step added; ``latest`` has the sums since the start, so that a metric only grows."""

    def __init__(self, count: int) -> None:
        self._latest = [SchedulerStats() for _ in range(count)]
        self._waiting: list[tuple[int, bytes]] = []

    def keep(self, position: int, step: msgspec.Raw) -> None:
        """Take in what the rank at that position said after a step, to be read later."""
        self._waiting.append((position, bytes(step)))
        if len(self._waiting) >= _WAITING:
            self._read_waiting()

    @property
    def latest(self) -> list[SchedulerStats]:
        """Of each rank, up to now."""
        self._read_waiting()
        return self._latest

    def _read_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for position, step in waiting:
            try:
                stats = _read(step)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                _log.warning("unreadable statistics of an engine: %s", error)
                continue
            if stats is not None:
                self._add(position, stats)

    def _add(self, position: int, step: SchedulerStats) -> None:
        """Add a step's. It is the book's from now on."""
        before = self._latest[position]
        _add_prefix(step.prefix_cache_stats, before.prefix_cache_stats)
        step.connector_prefix_cache_stats = _added(
            step.connector_prefix_cache_stats, before.connector_prefix_cache_stats
        )
        if before.spec_decoding_stats is not None:
            step.spec_decoding_stats = _sums(before.spec_decoding_stats, step.spec_decoding_stats or {})
        self._latest[position] = step


def _added(step: PrefixCacheStats | None, before: PrefixCacheStats | None) -> PrefixCacheStats | None:
    if step is None or before is None:
        return step or before
    _add_prefix(step, before)
    return step


def _add_prefix(step: PrefixCacheStats, before: PrefixCacheStats) -> None:
    """Add what was before to the step's."""
    step.requests += before.requests
    step.queries += before.queries
    step.hits += before.hits
    step.preempted_requests += before.preempted_requests
    step.preempted_queries += before.preempted_queries
    step.preempted_hits += before.preempted_hits
    if before.hits_by_source:
        step.hits_by_source = _sums(before.hits_by_source, step.hits_by_source)


def _sums(before: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and lists of numbers added by name."""
    total = dict(before)
    for name, value in step.items():
        old = total.get(name)
        if old is None or name == _CONSTANT or type(old) is not type(value):
            total[name] = value
        elif isinstance(value, list):
            total[name] = [a + b for a, b in zip(old, value, strict=False)]
        elif isinstance(value, int | float):
            total[name] = old + value
    return total
