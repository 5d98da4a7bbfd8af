"""The cases of all formats: inputs with right answers that did not come from this code.

Each is fed whole, one code point at a time, in its own chunks, and over seeded random cuts. White space that
differs at an end of a text is a failure too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolgrammar import registry
from toolgrammar.testing import run_case

FOLDER = Path(__file__).parents[2] / "fixtures" / "cases"
CASES = [
    json.loads(line)
    for path in sorted(FOLDER.glob("*.jsonl"))
    for line in path.read_text(encoding="utf-8").split("\n")
    if line
]

#: Cases that do not hold, and why. A case that is here and holds is a failure too.
KNOWN: dict[str, str] = {}


def _marked(case: dict[str, Any]) -> Any:
    marks = []
    if case["id"] in KNOWN:
        marks.append(pytest.mark.xfail(reason=KNOWN[case["id"]], strict=True))
    elif case.get("soft"):
        marks.append(pytest.mark.xfail(reason="an arguable case", strict=False))
    return pytest.param(case, id=case["id"], marks=marks)


@pytest.mark.parametrize("case", [_marked(case) for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    result = run_case(case)
    assert all(way.ok for way in result.ways), result.report()


def test_every_format_has_cases() -> None:
    named = {case["format"] for case in CASES}
    assert set(registry.formats()) - named == set()


def test_ids_are_unique() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES)
