"""Buckets that are cheap to fill: a list of counts, and a sum. The exposition is made when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import msgspec

Bounds = tuple[float, ...]


class Histogram(msgspec.Struct):
    """Counts of values ``<=`` each bound, the last bucket without bound.

    Per token, callers do the two steps of ``add`` themselves: ``counts[bisect_left(BOUNDS, value)] += 1``, and the
    sum later, for many values at once.
    """

    bounds: Bounds
    counts: list[int] = []
    total: float = 0.0

    def __post_init__(self) -> None:
        """Empty buckets, unless they were given."""
        if not self.counts:
            self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """One value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def merge(self, other: Histogram) -> None:
        """The values of another with the same bounds."""
        self.counts = [ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as Prometheus wants them: (upper bound, count)."""
        found: list[tuple[str, float]] = []
        so_far = 0
        for bound, count in zip([*map(repr, self.bounds), "+Inf"], self.counts, strict=True):
            so_far += count
            found.append((bound, so_far))
        return found


def decades(highest: float) -> Bounds:
    """1, 2, 5, 10, 20, 50, … up to ``highest``: what token counts are sorted into."""
    found: list[float] = []
    step = 1.0
    while step <= highest:
        found += [step * factor for factor in (1, 2, 5) if step * factor <= highest]
        step *= 10
    return tuple(found)


FIRST_TOKEN_S: Final[Bounds] = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
TOKEN_S: Final[Bounds] = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
REQUEST_S: Final[Bounds] = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip
SEQUENCES: Final[Bounds] = (1.0, 2.0, 5.0, 10.0, 20.0)
