"""Scheduler statistics of every rank: gauges as last said, counters added up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgrammar_serving.protocol.wire import PrefixCacheStats, SchedulerStats

#: Of speculative decoding: the configuration, not a counter.
_CONSTANT = "num_spec_tokens"


class StatsBook:
    """Engines send what a step added; ``latest`` has the sums since the start, so that a metric only grows."""

    def __init__(self, count: int) -> None:
        self.latest = [SchedulerStats() for _ in range(count)]

    def add(self, position: int, step: SchedulerStats) -> None:
        """Take in what the rank at that position said after a step. ``step`` is the book's from now on."""
        before = self.latest[position]
        _add_prefix(step.prefix_cache_stats, before.prefix_cache_stats)
        step.connector_prefix_cache_stats = _added(
            step.connector_prefix_cache_stats, before.connector_prefix_cache_stats
        )
        if before.spec_decoding_stats is not None:
            step.spec_decoding_stats = _sums(before.spec_decoding_stats, step.spec_decoding_stats or {})
        self.latest[position] = step


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
