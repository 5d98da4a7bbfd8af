"""``bench``: the workloads and the shape of the results; never how fast it is."""

from __future__ import annotations

import pytest

from toolgrammar import registry
from toolgrammar.cli import measuring, workloads

from .conftest import Run


@pytest.mark.parametrize("name", workloads.NAMES)
def test_workloads_say_what_they_should(name: str) -> None:
    from toolgrammar import parse

    workload = workloads.build(registry.load("hermes"), name)
    assert "".join(workload.deltas) == workload.text
    assert max(map(len, workload.deltas)) <= max(map(len, [*workloads.special(registry.load("hermes")), "1234"]))
    message = parse(workload.deltas, "hermes", tools=workload.tools)
    assert not message.diagnostics
    calls = {"short": 1, "five": 5, "code5": 1, "code20": 1}.get(name, 0)
    assert [call.status for call in message.calls] == ["complete"] * calls
    length = {"think100": 100_000, "prose20": 20_000}.get(name, 0)
    said = message.reasoning if name == "think100" else message.content
    assert not length or abs(len(said or "") - length) < 100
    if workload.argument:
        assert message.calls[0].arguments is not None
        assert message.calls[0].arguments["text"] == workload.argument
        assert workloads.argument_deltas(workload) > 1000


def test_special_tokens_arrive_whole() -> None:
    grammar = registry.load("deepseek-v3.1")
    special = workloads.special(grammar)
    assert "<｜tool▁sep｜>" in special
    assert workloads.cut("abcdef<｜tool▁sep｜>gh", special) == ["abcd", "ef", "<｜tool▁sep｜>", "gh"]


def test_the_table_and_json(run: Run) -> None:
    line = ("bench", "--formats", "hermes", "--workloads", "short,code5", "--best-of", "1")
    ran = run(*line)
    assert (ran.code, ran.err) == (0, "")
    rows = [row.split() for row in ran.out.splitlines()[2:]]
    assert [row[:2] for row in rows] == [["hermes", "short"], ["hermes", "code5"]]
    found = run(*line, "--json").json
    assert [row["growth"] is None for row in found["rows"]] == [True, False]
    assert found["rows"][0]["pieces"] is None
    assert 0 < found["rows"][1]["pieces"] <= 1
    assert found["cpu"]
    assert "Python" in found["implementation"]


def test_limits(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ("bench", "--formats", "hermes", "--workloads", "short", "--best-of", "1")
    for limit in ("LIMIT_US", "LIMIT_PLAIN_US", "LIMIT_GROWTH"):
        monkeypatch.setattr(measuring, limit, 1e9)
    assert run(*line, "--limits").code == 0
    monkeypatch.setattr(measuring, "LIMIT_US", 0.0)
    ran = run(*line, "--limits")
    assert ran.code == 1
    assert ran.err.startswith("hermes short: ")
    assert run(*line).code == 0
