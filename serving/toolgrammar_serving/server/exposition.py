"""Metrics as Prometheus text: vLLM's names where the meaning is the same, ``toolgrammar_*`` for what was parsed.

The numbers are the meter's; families are made anew for every scrape, so counting costs nothing more than adding.
With several server processes behind one address a scrape meets any one of them: see ``ServerConfig.metrics_dir``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
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
from toolgrammar_serving.server.shared_metrics import Numbers

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LABELS: Final = ("model_name", "engine")


def exposition(service: Service) -> bytes:
    """The text of one scrape."""
    numbers = service.numbers()
    if service.folder is not None:
        numbers = msgspec.msgpack.decode(msgspec.msgpack.encode(numbers), type=Numbers)  # a copy to add to
        service.folder.add_others(numbers)
    registry = CollectorRegistry(auto_describe=False)
    for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
        registry.register(collector)
    registry.register(NumbersCollector(numbers, service.config.models[0], service.config.format or ""))
    return generate_latest(registry)


class NumbersCollector(Collector):
    """The families of ``numbers``."""

    def __init__(self, numbers: Numbers, model: str, format: str) -> None:
        self._numbers = numbers
        self._model = model
        self._format = format
        self._labels = (model, "0")

    def collect(self) -> Iterable[Metric]:
        """All families."""
        meter = self._numbers.meter
        yield from self._engines()
        yield from self._tokens(meter)
        yield from self._times(meter)
        yield from self._parsing(meter)
        yield from self._http(meter)

    def _engines(self) -> Iterable[Metric]:
        """What the engines' schedulers said last, by rank."""
        for kind, name, text, field in (
            (GaugeMetricFamily, "num_requests_running", "Requests in the engine's batch", "running"),
            (GaugeMetricFamily, "num_requests_waiting", "Requests waiting in the engine", "waiting"),
            (GaugeMetricFamily, "kv_cache_usage_perc", "Share of the KV cache in use, 1 is all", "cache_usage"),
            (CounterMetricFamily, "prefix_cache_queries", "Tokens looked up in the prefix cache", "queries"),
            (CounterMetricFamily, "prefix_cache_hits", "Tokens found in the prefix cache", "hits"),
        ):
            family = kind(f"vllm:{name}", text, labels=_LABELS)
            for rank, engine in enumerate(self._numbers.engines):
                family.add_metric((self._model, str(rank)), getattr(engine, field))
            yield family

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
            parsed.add_metric((self._model, self._format, outcome, mode), count)
        yield parsed
        yield self._counters(
            "toolgrammar_diagnostics", "Remarks on model output, by code", ("code",), _keyed(meter.diagnostics)
        )
        held = GaugeMetricFamily(
            "toolgrammar_held_characters",
            "Characters that wait to be decided in the answers in work",
            labels=_LABELS,
        )
        held.add_metric(self._labels, self._numbers.held)
        yield held

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
