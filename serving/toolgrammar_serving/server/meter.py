"""What the sinks count while tokens pass: plain numbers, cheap to add to, and to send to another process."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from toolgrammar_serving.server.histogram import (
    FIRST_TOKEN_S,
    REQUEST_S,
    SEQUENCES,
    TOKEN_S,
    Bounds,
    Histogram,
    decades,
)

#: Most requests that a process serves are shorter than this, in tokens.
_TOKENS: Final = decades(200_000)


def _buckets(bounds: Bounds) -> Histogram:
    """A field of histogram type."""
    field: Histogram = msgspec.field(default_factory=partial(Histogram, bounds))
    return field


class Meter(msgspec.Struct):
    """Counts of one server process, or of several.

    ``generated``, ``prompted``, ``cached``: tokens. ``finished``: choices by finish reason. ``rejected``:
    requests, by what there was too much of. ``parsed``: calls by (outcome, mode), where an outcome is ``ok``,
    ``incomplete``, ``malformed`` or ``unknown_tool``. ``diagnostics``: by code. ``http``: by (handler, method,
    status).
    """

    generated: int = 0
    prompted: int = 0
    cached: int = 0
    rejected: dict[str, int] = {}
    finished: dict[str, int] = {}
    parsed: dict[tuple[str, str], int] = {}
    diagnostics: dict[str, int] = {}
    http: dict[tuple[str, str, str], int] = {}
    http_s: Histogram = _buckets(REQUEST_S)
    first_token_s: Histogram = _buckets(FIRST_TOKEN_S)
    token_s: Histogram = _buckets(TOKEN_S)
    per_token_s: Histogram = _buckets(TOKEN_S)
    request_s: Histogram = _buckets(REQUEST_S)
    prompt_tokens: Histogram = _buckets(_TOKENS)
    generation_tokens: Histogram = _buckets(_TOKENS)
    max_tokens: Histogram = _buckets(_TOKENS)
    n: Histogram = _buckets(SEQUENCES)

    def choice_over(self, reason: str, arrived: float, first: float, last: float, tokens: int) -> None:
        """A choice ended; times are monotonic seconds, 0 for a choice without tokens."""
        self.finished[reason] = self.finished.get(reason, 0) + 1
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

    def call_over(self, outcome: str, mode: str) -> None:
        """A tool call was read. ``mode``: ``stream`` or ``whole``."""
        self.parsed[outcome, mode] = self.parsed.get((outcome, mode), 0) + 1

    def remarked(self, code: str, mode: str) -> None:
        """The parser made a remark."""
        self.diagnostics[code] = self.diagnostics.get(code, 0) + 1
        if code == "E301":
            self.call_over("unknown_tool", mode)

    def merge(self, other: Meter) -> None:
        """Add another process's counts."""
        for name in self.__struct_fields__:
            ours, theirs = getattr(self, name), getattr(other, name)
            if isinstance(ours, Histogram):
                ours.merge(theirs)
            elif isinstance(ours, dict):
                for key, count in theirs.items():
                    ours[key] = ours.get(key, 0) + count
            else:
                setattr(self, name, ours + theirs)
