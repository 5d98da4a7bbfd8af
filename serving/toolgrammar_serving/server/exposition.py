"""Metrics as Prometheus text: vLLM's names where the meaning is the same, ``toolgrammar_*`` for what was parsed.

The numbers are the meter's; families are made anew for every scrape, so counting costs nothing more than adding.
With several server processes behind one address a scrape meets any one of them: see ``ServerConfig.metrics_dir``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from toolgrammar_serving.server.histogram import Histogram
from toolgrammar_serving.server.meter import Meter
from toolgrammar_serving.server.service import Service

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LABELS: Final = ("model_name", "engine")


def exposition(service: Service) -> bytes:
    """The text of one scrape."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
        registry.register(collector)
    registry.register(ServiceCollector(service))
    return generate_latest(registry)


class ServiceCollector(Collector):
    """The families of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._model = service.config.models[0]
        self._labels = (self._model, "0")

    def collect(self) -> Iterable[Metric]:
        """All families."""
        yield from self._engines()
        yield from self._tokens(self._service.meter)
        yield from self._times(self._service.meter)
        yield from self._parsing(self._service.meter)
        yield from self._http(self._service.meter)

    def _engines(self) -> Iterable[Metric]:
        """What the engines' schedulers said last, by rank."""
        stats = [
            (str(rank), found) for rank, found in enumerate(self._service.client.stats()) if found is not None
        ]
        gauges = (
            ("num_requests_running", "Requests in the engine's batch", "num_running_reqs"),
            ("num_requests_waiting", "Requests waiting in the engine", "num_waiting_reqs"),
            ("kv_cache_usage_perc", "Share of the KV cache in use, 1 is all", "kv_cache_usage"),
        )
        for name, text, field in gauges:
            gauge = GaugeMetricFamily(f"vllm:{name}", text, labels=_LABELS)
            for rank, found in stats:
                gauge.add_metric((self._model, rank), getattr(found, field))
            yield gauge
        for name, text, field in (
            ("prefix_cache_queries", "Tokens looked up in the prefix cache", "queries"),
            ("prefix_cache_hits", "Tokens found in the prefix cache", "hits"),
        ):
            counter = CounterMetricFamily(f"vllm:{name}", text, labels=_LABELS)
            for rank, found in stats:
                counter.add_metric((self._model, rank), getattr(found.prefix_cache_stats, field))
            yield counter

    def _tokens(self, meter: Meter) -> Iterable[Metric]:
        yield self._counter("vllm:prompt_tokens", "Prompt tokens processed", meter.prompted)
        yield self._counter("vllm:prompt_tokens_cached", "Prompt tokens found in the cache", meter.cached)
        yield self._counter("vllm:generation_tokens", "Tokens generated", meter.generated)
        yield self._counters(
            "vllm:request_success", "Choices that ended, by reason", ("finished_reason",), _keyed(meter.finished)
        )
        yield self._counters(
            "vllm:admission_rejections", "Requests refused as too many", ("reason",), _keyed(meter.rejected)
        )
        yield self._histogram("vllm:request_prompt_tokens", "Prompt tokens of a request", meter.prompt_tokens)
        yield self._histogram("vllm:request_generation_tokens", "Tokens of a choice", meter.generation_tokens)
        yield self._histogram("vllm:request_params_max_tokens", "max_tokens of a request", meter.max_tokens)
        yield self._histogram("vllm:request_params_n", "n of a request", meter.n)

    def _times(self, meter: Meter) -> Iterable[Metric]:
        yield self._histogram(
            "vllm:time_to_first_token_seconds", "From arrival to first token", meter.first_token_s
        )
        yield self._histogram("vllm:inter_token_latency_seconds", "Between outputs of a choice", meter.token_s)
        yield self._histogram(
            "vllm:request_time_per_output_token_seconds", "Mean time per token of a choice", meter.per_token_s
        )
        yield self._histogram("vllm:e2e_request_latency_seconds", "From arrival to last token", meter.request_s)

    def _parsing(self, meter: Meter) -> Iterable[Metric]:
        parsed = CounterMetricFamily(
            "toolgrammar_parse", "Tool calls read, by outcome", labels=("model_name", "format", "outcome", "mode")
        )
        for (outcome, mode), count in sorted(meter.parsed.items()):
            parsed.add_metric((self._model, self._service.config.format or "", outcome, mode), count)
        yield parsed
        yield self._counters(
            "toolgrammar_diagnostics", "Remarks on model output, by code", ("code",), _keyed(meter.diagnostics)
        )

    def _http(self, meter: Meter) -> Iterable[Metric]:
        requests = CounterMetricFamily("http_requests", "HTTP requests", labels=("handler", "method", "status"))
        for key, count in sorted(meter.http.items()):
            requests.add_metric(key, count)
        yield requests
        duration = HistogramMetricFamily("http_request_duration_seconds", "Until the end of the response")
        duration.add_metric((), meter.http_s.buckets(), meter.http_s.total)
        yield duration

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, text, labels=_LABELS)
        family.add_metric(self._labels, value)
        return family

    def _counters(
        self, name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], int]
    ) -> Metric:
        family = CounterMetricFamily(name, text, labels=(*_LABELS, *labels))
        for key, count in sorted(values.items()):
            family.add_metric((*self._labels, *key), count)
        return family

    def _histogram(self, name: str, text: str, histogram: Histogram) -> Metric:
        family = HistogramMetricFamily(name, text, labels=_LABELS)
        family.add_metric(self._labels, histogram.buckets(), histogram.total)
        return family


def _keyed(counts: Mapping[str, int]) -> dict[tuple[str, ...], int]:
    return {(key,): count for key, count in counts.items()}
