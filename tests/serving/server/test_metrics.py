"""The numbers of /metrics are those of what was served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import msgspec
from prometheus_client.parser import text_string_to_metric_families
from serving_http import Script, Step, call, content, serving
from toolgrammar_serving.chat import ChatFinish
from toolgrammar_serving.server.histogram import Histogram, decades
from toolgrammar_serving.server.meter import Meter
from toolgrammar_serving.server.shared_metrics import EngineNumbers, Folder, Numbers

from toolgrammar import Diagnostic

CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}


def samples(text: str) -> dict[str, float]:
    """Every sample by name and labels, without those of the process and of the model's name."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name not in ("model_name", "engine")}
            shown = ",".join([f"{name}={value}" for name, value in sorted(labels.items())])
            found[f"{sample.name}{{{shown}}}"] = sample.value
    return found


def test_what_was_served_is_counted() -> None:
    steps = [
        *content("a", "b"),
        *call(0, "f", "{}"),
        *call(1, "g", status="malformed"),
        Step([Diagnostic("E301", "m", 0, 0)]),
    ]
    with serving(Script([steps], ChatFinish("tool_calls"))) as live, httpx.Client(base_url=live.base) as api:
        live.stage.waiting = 4
        api.post(CHAT, json={**BODY, "stream": True, "max_tokens": 30})
        api.post(CHAT, json={**BODY, "n": 2, "max_tokens": 400})
        api.post("/v1/completions", json={"prompt": "abc"})
        api.post(CHAT, json={})
        api.get("/nothing/here")
        api.get("/health")
        answer = api.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found = samples(answer.text)
    per_choice = 8
    expected = {
        "vllm:prompt_tokens_total{}": 11 + 11 + 3,
        "vllm:prompt_tokens_cached_total{}": 9,
        "vllm:generation_tokens_total{}": 4 * per_choice,
        "vllm:request_success_total{finished_reason=tool_calls}": 4,
        "vllm:num_requests_waiting{}": 4,
        "vllm:request_params_n_count{}": 3,
        "vllm:request_params_n_sum{}": 4,
        "vllm:request_params_max_tokens_sum{}": 30 + 400 + 16,
        "vllm:request_params_max_tokens_bucket{le=50.0}": 2,
        "vllm:request_generation_tokens_bucket{le=5.0}": 0,
        "vllm:request_generation_tokens_bucket{le=10.0}": 4,
        "vllm:time_to_first_token_seconds_count{}": 4,
        "vllm:inter_token_latency_seconds_count{}": per_choice - 1,
        "vllm:e2e_request_latency_seconds_count{}": 4,
        "toolgrammar_parse_total{format=,mode=stream,outcome=ok}": 1,
        "toolgrammar_parse_total{format=,mode=stream,outcome=malformed}": 1,
        "toolgrammar_parse_total{format=,mode=stream,outcome=unknown_tool}": 1,
        "toolgrammar_parse_total{format=,mode=whole,outcome=ok}": 2,
        "toolgrammar_diagnostics_total{code=E301}": 3,
        f"http_requests_total{{handler={CHAT},method=POST,status=2xx}}": 2,
        f"http_requests_total{{handler={CHAT},method=POST,status=4xx}}": 1,
        "http_requests_total{handler=/v1/completions,method=POST,status=2xx}": 1,
        "http_requests_total{handler=none,method=none,status=4xx}": 1,
        "http_requests_total{handler=/health,method=GET,status=2xx}": 1,
    }
    assert {name: found.get(name) for name in expected} == expected


def test_what_is_held_is_told_while_it_is() -> None:
    name = "toolgrammar_held_characters{}"
    with serving(Script([content("a", "b")], hold=[1])) as live, httpx.Client(base_url=live.base) as api:
        with api.stream("POST", CHAT, json={**BODY, "stream": True}) as answer:
            lines = answer.iter_lines()
            while '"a"' not in next(lines):
                pass
            with httpx.Client(base_url=live.base) as other:
                assert samples(other.get("/metrics").text)[name] == 3
            live.go()
            assert '"b"' in "".join(lines)
        assert samples(api.get("/metrics").text)[name] == 0


def test_buckets_are_cumulative() -> None:
    histogram = Histogram((1.0, 2.0, 5.0))
    for value in (0.5, 1.0, 1.5, 5.0, 7.0):
        histogram.add(value)
    assert histogram.buckets() == [("1.0", 2), ("2.0", 3), ("5.0", 4), ("+Inf", 5)]
    assert histogram.total == 15.0
    assert decades(100) == (1, 2, 5, 10, 20, 50, 100)


def numbers(generated: int, step: int, running: int, finished: dict[str, int]) -> Numbers:
    meter = Meter(generated=generated, finished=finished, parsed={("ok", "stream"): generated})
    meter.token_s.add(0.2)
    return Numbers(meter, [EngineNumbers(step, running, running + 1, 0.5, 10, 5)], held=running)


def test_processes_add_up(tmp_path: Path) -> None:
    ours = numbers(5, 7, 3, {"stop": 2})
    Folder(str(tmp_path), 1).write(numbers(6, 9, 4, {"stop": 1, "length": 1}))
    Folder(str(tmp_path), 2).write(numbers(7, 8, 5, {}))
    folder = Folder(str(tmp_path), 0)
    folder.write(numbers(100, 100, 100, {}))  # what we left ourselves does not count again
    (tmp_path / "metrics-3.msgpack").write_bytes(b"\xff")
    folder.add_others(ours)
    assert (ours.meter.generated, ours.meter.finished) == (18, {"stop": 3, "length": 1})
    assert ours.meter.parsed == {("ok", "stream"): 18}
    assert sum(ours.meter.token_s.counts) == 3
    assert ours.engines == [EngineNumbers(9, 4, 5, 0.5, 30, 15)]
    assert ours.held == 3 + 4 + 5


def test_a_scrape_of_any_process_has_all(tmp_path: Path) -> None:
    options: dict[str, Any] = {"metrics_dir": str(tmp_path), "process_index": 0}
    Folder(str(tmp_path), 1).write(Numbers(Meter(generated=40), []))
    with serving(Script([content("a", "b")]), **options) as live, httpx.Client(base_url=live.base) as api:
        api.post(CHAT, json=BODY)
        for _ in range(2):  # a scrape adds to nothing
            assert samples(api.get("/metrics").text)["vllm:generation_tokens_total{}"] == 42
        live.on_loop(live.server.service.share_numbers)
        left = msgspec.msgpack.decode((tmp_path / "metrics-0.msgpack").read_bytes(), type=Numbers)
    assert left.meter.generated == 2
