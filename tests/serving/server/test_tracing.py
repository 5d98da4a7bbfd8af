"""With the OpenTelemetry SDK set up: a span for each request, whose context the engine gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from serving_http import Script, content, post, read_response, serving
from toolgrammar_serving.errors import EngineFailed

sdk = pytest.importorskip("opentelemetry.sdk.trace")
trace = pytest.importorskip("opentelemetry.trace")

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What was exported by a provider that is there for this test only."""
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def test_a_span_is_the_client_s_child_and_the_engine_s_parent(exported: Any) -> None:
    with serving(Script([content("a", "b")])) as live, live.send(b"") as connection:
        for body in (BODY, {**BODY, "stream": True}):
            connection.sendall(post(CHAT, body, f"traceparent: {PARENT}"))
            read_response(connection)
        requests = live.stage.requests
    finished = exported.get_finished_spans()
    by_id = {span.context.span_id: span for span in finished}
    spans = [span for span in finished if span.name == "chat m"]
    for span, request in zip(spans, requests, strict=True):
        trace_id, span_id = f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"
        top = span
        while top.parent.span_id in by_id:  # the framework's own span may stand between
            top = by_id[top.parent.span_id]
        assert f"{top.parent.span_id:016x}" == "b7ad6b7169203331"
        assert trace_id == "0af7651916cd43dd8448eb211c80319c"
        assert request.trace_headers == {"traceparent": f"00-{trace_id}-{span_id}-01"}
        assert span.attributes["gen_ai.usage.input_tokens"] == 11
        assert span.attributes["gen_ai.usage.output_tokens"] == 2
        assert span.attributes["gen_ai.request.model"] == "m"


def test_an_error_is_on_the_span(exported: Any) -> None:
    with (
        serving(Script([[]], EngineFailed("no"))) as live,
        live.send(post("/v1/completions", {"prompt": "x"})) as c,
    ):
        read_response(c)
    (span,) = [span for span in exported.get_finished_spans() if span.name == "text_completion m"]
    assert span.attributes["error.type"] == "engine_error"
