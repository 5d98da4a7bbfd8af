"""What a replay engine counts: for benchmarks, and for tests that ask what reached the engine."""

from __future__ import annotations

import time

import msgspec


class Counters(msgspec.Struct):
    """Since the start, or since the last reset. ``active_s``: from the first step to the last; ``cpu_s``: of the
    process, so of the engine alone only if it has a process of its own. ``full``: messages for which a socket had
    no room. ``refused``: requests that ended with an error. ``damaged``: messages that could not be read."""

    requests: int = 0
    finished: int = 0
    aborted: int = 0
    refused: int = 0
    damaged: int = 0
    running: int = 0
    waiting: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    steps: int = 0
    messages: int = 0
    bytes: int = 0
    full: int = 0
    utility_calls: int = 0
    active_s: float = 0.0
    cpu_s: float = 0.0
    tokens_per_s: float = 0.0


class Tally:
    """The running count. ``counters`` is changed in place; ``report`` fills in the times."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin at zero."""
        self.counters = Counters()
        self._cpu_at = time.process_time()
        self.first_step_at = 0.0
        self.last_step_at = 0.0

    def report(self, *, running: int, waiting: int, unfinished_tokens: int) -> Counters:
        """A copy with all fields; ``unfinished_tokens``: of requests that still run."""
        active_s = self.last_step_at - self.first_step_at
        tokens = self.counters.tokens + unfinished_tokens
        return msgspec.structs.replace(
            self.counters,
            running=running,
            waiting=waiting,
            tokens=tokens,
            active_s=round(active_s, 6),
            cpu_s=round(time.process_time() - self._cpu_at, 6),
            tokens_per_s=round(tokens / active_s, 1) if active_s > 0 else 0.0,
        )
