"""The results of ``check``, counted by format, as JSON and as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolgrammar.cli.terminal import Paint, visible
from toolgrammar.testing import CaseResult


@dataclass
class Tally:
    """The results of one format."""

    cases: int = 0
    held: int = 0
    failed: int = 0
    white: int = 0
    soft: int = 0
    soft_failed: int = 0
    ways: int = 0
    failing: list[CaseResult] = field(default_factory=list)

    def add(self, result: CaseResult) -> None:
        """Count one case."""
        self.ways += len(result.ways)
        if result.soft:
            self.soft += 1
            self.soft_failed += not result.ok
        else:
            self.cases += 1
            self.held += result.ok
            self.white += result.white_only
            self.failed += not result.ok and not result.white_only
        if not result.ok:
            self.failing.append(result)

    def json(self) -> dict[str, int]:
        """The counts."""
        names = ("cases", "held", "failed", "white", "soft", "soft_failed", "ways")
        return {name: getattr(self, name) for name in names}


def document(tallies: dict[str, Tally]) -> dict[str, Any]:
    """The results as JSON."""
    return {
        "v": 1,
        "formats": {name: tallies[name].json() for name in sorted(tallies)},
        "failing": [
            {
                "id": result.id,
                "format": result.format,
                "soft": result.soft,
                "white_only": result.white_only,
                "ways": [
                    {
                        "way": way.name,
                        "differences": [
                            {
                                "field": diff.field,
                                "expected": diff.expected,
                                "got": diff.got,
                                "white": diff.white,
                            }
                            for diff in way.differences
                        ],
                    }
                    for way in result.ways
                    if not way.ok
                ],
            }
            for name in sorted(tallies)
            for result in tallies[name].failing
        ],
    }


def report(tallies: dict[str, Tally], verbose: bool, paint: Paint) -> Iterator[str]:
    """The failing cases, if ``verbose``, and the table by format."""
    from toolgrammar.cli.tables import table

    failing = [result for name in sorted(tallies) for result in tallies[name].failing]
    if verbose:
        for result in failing:
            mark = paint("warn", "soft") if result.soft else paint("error", "fails")
            yield f"{mark}  {visible(result.report())}\n"
        if failing:
            yield "\n"
    rows = []
    total = Tally()
    for name in sorted(tallies):
        rows.append(_row(name, tallies[name]))
        for key, value in tallies[name].json().items():
            setattr(total, key, getattr(total, key) + value)
    if len(rows) != 1:
        rows.append(_row("all", total))
    head = ["format", "cases", "hold", "fail", "white space", "soft", "soft fail"]
    yield table(head, rows, paint, right=range(1, 7))
    if failing and not verbose:
        yield paint("dim", "-v shows what was expected and what came\n")


def _row(name: str, tally: Tally) -> list[str]:
    numbers = (tally.cases, tally.held, tally.failed, tally.white, tally.soft, tally.soft_failed)
    return [name, *map(str, numbers)]
