"""What the sinks count while tokens pass: plain numbers, cheap to add to."""

from __future__ import annotations

from collections import Counter
from typing import Final

from toolgrammar_serving.server.histogram import FIRST_TOKEN_S, REQUEST_S, SEQUENCES, TOKEN_S, Histogram, decades

#: Most requests that a process serves are shorter than this, in tokens.
_TOKENS: Final = decades(200_000)


class Meter:
    """Counts of one server process.

    ``finished``: choices by finish reason. ``parsed``: calls by (outcome, mode), where an outcome is ``ok``,
    ``incomplete``, ``malformed`` or ``unknown_tool``. ``diagnostics``: by code. ``http``: by (handler, method,
    status).
    """

    __slots__ = (
        "cached",
        "diagnostics",
        "finished",
        "first_token_s",
        "generated",
        "generation_tokens",
        "http",
        "http_s",
        "max_tokens",
        "n",
        "parsed",
        "per_token_s",
        "prompt_tokens",
        "prompted",
        "rejected",
        "request_s",
        "token_s",
    )

    def __init__(self) -> None:
        self.generated = 0
        self.prompted = 0
        self.cached = 0
        self.rejected: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.parsed: Counter[tuple[str, str]] = Counter()
        self.diagnostics: Counter[str] = Counter()
        self.http: Counter[tuple[str, str, str]] = Counter()
        self.http_s = Histogram(REQUEST_S)
        self.first_token_s = Histogram(FIRST_TOKEN_S)
        self.token_s = Histogram(TOKEN_S)
        self.per_token_s = Histogram(TOKEN_S)
        self.request_s = Histogram(REQUEST_S)
        self.prompt_tokens = Histogram(_TOKENS)
        self.generation_tokens = Histogram(_TOKENS)
        self.max_tokens = Histogram(_TOKENS)
        self.n = Histogram(SEQUENCES)

    def choice_over(self, reason: str, arrived: float, first: float, last: float, tokens: int) -> None:
        """A choice ended; times are monotonic seconds, 0 for a choice without tokens."""
        self.finished[reason] += 1
        self.generation_tokens.add(tokens)
        self.request_s.add(last - arrived if last else 0.0)
        if tokens > 1:
            self.token_s.total += last - first
            self.per_token_s.add((last - first) / (tokens - 1))

    def prompt_read(self, tokens: int, cached: int | None) -> None:
        """A prompt was processed; ``cached`` of its tokens were known."""
        self.prompted += tokens
        self.cached += cached or 0
        self.prompt_tokens.add(tokens)
