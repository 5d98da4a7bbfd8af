"""Spans of requests, where the OpenTelemetry SDK is installed and configured; else nothing, at no cost.

With a span the engine's trace headers are the span's; without, the client's own ``traceparent`` is passed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from toolgrammar_serving.server.answer import Answer
from toolgrammar_serving.server.exchange import Exchange


class Traced(Protocol):
    """A request that the engine is told the trace of."""

    trace_headers: dict[str, str] | None


class Span:
    """Where there is no tracing."""

    def answered(self, answer: Answer, finish: str | None = None) -> None:
        """Note the token counts and how it ended."""


class RecordingSpan(Span):
    """A span of the SDK."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def answered(self, answer: Answer, finish: str | None = None) -> None:
        """Note the token counts and how it ended."""
        usages = answer.usages()
        self._span.set_attribute("gen_ai.usage.input_tokens", sum(usage.prompt_tokens for usage in usages))
        self._span.set_attribute("gen_ai.usage.output_tokens", sum(usage.completion_tokens for usage in usages))
        if answer.error is not None:
            self._span.set_attribute("error.type", answer.error.code)


NO_SPAN = Span()


class Tracer:
    """Makes spans if a tracer provider of the SDK was set up before the server."""

    def __init__(self) -> None:
        self._tracer: Any = None
        self._propagate: Any = None
        try:
            from opentelemetry import propagate, trace
            from opentelemetry.sdk.trace import TracerProvider  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            return
        if isinstance(trace.get_tracer_provider(), TracerProvider):
            self._tracer = trace.get_tracer("toolgrammar_serving")
            self._propagate = propagate

    @contextmanager
    def span(self, operation: str, exchange: Exchange, model: str, *requests: Traced) -> Iterator[Span]:
        """A span over ``requests``, whose trace headers it sets."""
        if self._tracer is None:
            yield NO_SPAN
            return
        from opentelemetry.trace import SpanKind, get_current_span

        # FastAPI may have made a span of the HTTP request already (newer ones do); then ours is inside it.
        inside = get_current_span().get_span_context().is_valid
        context = None if inside else self._propagate.extract(exchange.trace_headers or {})
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.request.model": model,
            "gen_ai.request.id": exchange.request_id,
        }
        with self._tracer.start_as_current_span(
            f"{operation} {model}",
            context=context,
            kind=SpanKind.INTERNAL if inside else SpanKind.SERVER,
            attributes=attributes,
        ) as span:
            carrier: dict[str, str] = {}
            self._propagate.inject(carrier)
            for request in requests:
                request.trace_headers = carrier or request.trace_headers
            yield RecordingSpan(span)
