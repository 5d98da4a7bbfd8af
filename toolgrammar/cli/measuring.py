"""How ``bench`` measures: one stream at a time, best of several, the clock read ten times a stream."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from toolgrammar.cli.workloads import PLAIN, Workload, argument_deltas
from toolgrammar.events import CallArguments

#: Fewer deltas than this, and a tenth of them is too short to be compared with another.
GROWTH_FROM = 500
#: The last deltas close calls and sections, and what was told is put together: there once, and no growth.
CLOSING = 16

LIMIT_US, LIMIT_PLAIN_US, LIMIT_GROWTH, LIMIT_PIECES = 2.0, 0.6, 1.3, 0.9


@dataclass(frozen=True)
class Row:
    """The measurements of one workload in one format. None: the workload does not have it."""

    format: str
    workload: str
    deltas: int
    us: float
    growth: float | None
    pieces: float | None
    mb_s: float

    def over(self) -> list[str]:
        """The limits it breaks."""
        limit = LIMIT_PLAIN_US if self.workload in PLAIN else LIMIT_US
        found = [f"{self.us:.2f} µs per delta, limit {limit}"] if self.us > limit else []
        if self.growth is not None and self.growth > LIMIT_GROWTH:
            found.append(f"growth {self.growth:.2f}, limit {LIMIT_GROWTH}")
        if self.pieces is not None and self.pieces < LIMIT_PIECES:
            found.append(f"{self.pieces:.2f} pieces per delta, limit {LIMIT_PIECES}")
        return found


def measure(workload: Workload, fresh: Any, best_of: int) -> Row:
    """Measure ``workload``; ``fresh`` is a parser that was fed nothing."""
    # The grammars of all formats are in this process. Walking over them before every stream would empty the
    # processor's caches, and a short stream would pay for what is none of its own.
    gc.collect()
    gc.freeze()
    try:
        return _measured(workload, fresh, best_of)
    finally:
        gc.unfreeze()


def _measured(workload: Workload, fresh: Any, best_of: int) -> Row:
    tenths: list[float] = []
    for _ in range(best_of):
        times = _stream(workload.deltas, fresh.copy())
        tenths = [min(pair) for pair in zip(tenths, times, strict=True)] if tenths else times
    whole = min(_whole(workload.text, fresh.copy()) for _ in range(best_of))
    count = len(workload.deltas)
    return Row(
        format=workload.format,
        workload=workload.name,
        deltas=count,
        us=sum(tenths) / count * 1e6,
        growth=tenths[9] / tenths[1] if count >= GROWTH_FROM else None,
        pieces=_pieces(workload, fresh.copy()),
        mb_s=len(workload.text.encode()) / whole / 1e6,
    )


def _stream(deltas: list[str], parser: Any) -> list[float]:
    """Seconds for each tenth of the deltas, and for the closing ones and the end of the stream."""
    count = max(len(deltas) - CLOSING, 0)
    feed = parser.feed
    times = []
    gc.collect()
    for n in range(10):
        part = deltas[n * count // 10 : (n + 1) * count // 10]
        begin = perf_counter()
        for delta in part:
            feed(delta)
        times.append(perf_counter() - begin)
    begin = perf_counter()
    for delta in deltas[count:]:
        feed(delta)
    parser.finish()
    return [*times, perf_counter() - begin]


def _whole(text: str, parser: Any) -> float:
    begin = perf_counter()
    parser.feed(text)
    parser.finish()
    return perf_counter() - begin


def _pieces(workload: Workload, parser: Any) -> float | None:
    """Argument events per delta that lies in the long string."""
    inside = argument_deltas(workload) if workload.argument else 0
    if not inside:
        return None
    events = sum(isinstance(event, CallArguments) for delta in workload.deltas for event in parser.feed(delta))
    return min(events / inside, 1.0)


def implementation() -> str:
    """Interpreter and build that is being measured."""
    import platform

    from toolgrammar.machine import scanner

    compiled = not str(scanner.__file__).endswith((".py", ".pyc"))
    build = "mypyc" if compiled else "pure Python"
    return f"{platform.python_implementation()} {platform.python_version()}, {build}"


def processor() -> str:
    """The CPU model, nothing else about the machine."""
    import platform

    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
