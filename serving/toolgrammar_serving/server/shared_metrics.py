"""One scrape for several processes: each leaves its numbers in a common folder, whoever is asked adds them up.

A process writes a file of its own, every second if anything changed, by renaming a complete one into place: a
reader sees an older or a newer state, never half of one. The numbers of a process that ended stay, as counters
must.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from toolgrammar_serving.server.meter import Meter

INTERVAL_S: Final = 1.0
log: Final = logging.getLogger(__name__)


class EngineNumbers(msgspec.Struct):
    """Of one rank, as its scheduler told this process last. An engine tells one process a step: the process with
    the highest ``step`` knows best how it is; what it told each adds up."""

    step: int = 0
    running: int = 0
    waiting: int = 0
    cache_usage: float = 0.0
    queries: int = 0
    hits: int = 0


class Numbers(msgspec.Struct):
    """All of a process. ``held``: characters of the answers in work that wait to be decided, at this moment."""

    meter: Meter
    engines: list[EngineNumbers]
    held: int = 0

    def merge(self, other: Numbers) -> None:
        """Add another process's."""
        self.meter.merge(other.meter)
        self.held += other.held
        for ours, theirs in zip(self.engines, other.engines, strict=False):
            if theirs.step > ours.step:
                ours.step, ours.running, ours.waiting = theirs.step, theirs.running, theirs.waiting
                ours.cache_usage = theirs.cache_usage
            ours.queries += theirs.queries
            ours.hits += theirs.hits


def engine_numbers(stats: list[Any]) -> list[EngineNumbers]:
    """Of the engine client's statistics, one a rank."""
    return [
        EngineNumbers(
            found.step_counter,
            found.num_running_reqs,
            found.num_waiting_reqs,
            found.kv_cache_usage,
            found.prefix_cache_stats.queries,
            found.prefix_cache_stats.hits,
        )
        for found in stats
    ]


class Folder:
    """The common folder, for process ``index``."""

    def __init__(self, path: str, index: int) -> None:
        self._folder = Path(path)
        self._own = self._folder / f"metrics-{index}.msgpack"
        self._written = b""

    def write(self, numbers: Numbers) -> None:
        """Leave these numbers, if they are new."""
        data = msgspec.msgpack.encode(numbers)
        if data == self._written:
            return
        draft = self._own.with_suffix(".draft")
        try:
            draft.write_bytes(data)
            os.replace(draft, self._own)
        except OSError as error:
            log.warning("metrics cannot be shared: %s", error)
        self._written = data

    def add_others(self, numbers: Numbers) -> None:
        """Add to ``numbers`` what the other processes left."""
        for path in sorted(self._folder.glob("metrics-*.msgpack")):
            if path == self._own:
                continue
            try:
                numbers.merge(msgspec.msgpack.decode(path.read_bytes(), type=Numbers))
            except (OSError, msgspec.DecodeError) as error:
                log.warning("%s cannot be read: %s", path.name, error)
