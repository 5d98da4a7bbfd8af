"""Which data-parallel rank a request goes to: the least loaded, by the coordinator's counts and our own.

A rank's load is what is larger: our requests in flight there times the number of front ends (others probably have
as many), or what the coordinator last said waits and runs there. Waiting weighs more the fuller the cache is. Ties
go round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from toolgrammar_serving.errors import BadRequest

_CACHE_PRESSURE: Final = 6.0
_CACHE_AT_EASE: Final = 0.5


class Ranks:
    """``count`` ranks from ``first`` on; positions below are from 0, ranks are the deployment's."""

    def __init__(self, first: int, count: int, client_index: int = 0, client_count: int = 1) -> None:
        self.first = first
        self.count = count
        self.in_flight = [0] * count
        self._clients = client_count
        self._start = count * client_index // client_count
        self._waiting = [0] * count
        self._running = [0] * count
        self._cache_usage = [0.0] * count

    def choose(self, wanted: int | None) -> int:
        """The position of the rank that takes the next request, which counts as in flight there from now on.

        ``wanted`` is a rank that the client named; BadRequest if it is none of ours.
        """
        if wanted is not None:
            position = wanted - self.first
            if not 0 <= position < self.count:
                last = self.first + self.count - 1
                raise BadRequest(
                    f"data_parallel_rank {wanted} is not between {self.first} and {last}",
                    param="data_parallel_rank",
                )
        else:
            position = self._least_loaded() if self.count > 1 else 0
        self.in_flight[position] += 1
        return position

    def done(self, position: int) -> None:
        """A request of that rank is over."""
        self.in_flight[position] -= 1

    def published(self, counts: Sequence[Sequence[float]]) -> None:
        """The coordinator's counts of all ranks of the deployment: waiting, running, and cache usage from 0 to
        1."""
        ours = counts[self.first : self.first + self.count]
        for position, (waiting, running, usage) in enumerate(ours):
            self._waiting[position] = int(waiting)
            self._running[position] = int(running)
            self._cache_usage[position] = usage

    def _least_loaded(self) -> int:
        order = [(self._start + i) % self.count for i in range(self.count)]
        chosen = min(order, key=self._load)
        self._start = (self._start + 1) % self.count
        # Until the next publication this one waits there, and so does, most likely, one of every other front end.
        self._waiting[chosen] += self._clients
        return chosen

    def _load(self, position: int) -> float:
        waiting = self._waiting[position]
        load: float = max(self._clients * self.in_flight[position], waiting + self._running[position])
        return load + _CACHE_PRESSURE * waiting * max(0.0, self._cache_usage[position] - _CACHE_AT_EASE)
