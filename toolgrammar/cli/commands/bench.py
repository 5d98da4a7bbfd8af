"""``toolgrammar bench``: cost per delta, growth and pieces of every format and workload."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from toolgrammar.cli import options
from toolgrammar.cli.app import Command
from toolgrammar.cli.errors import FINDINGS
from toolgrammar.cli.output import Sink, dumps
from toolgrammar.cli.terminal import Console, Paint, wants_colour

_EXAMPLES = """
toolgrammar bench
toolgrammar bench --formats hermes,qwen3-coder --workloads code20 --best-of 9
toolgrammar bench --limits --json > bench.json
"""


class _ListType(click.ParamType[tuple[str, ...]]):
    """A comma-separated list."""

    name = "LIST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(part.strip() for part in str(value).split(",") if part.strip())


@click.command("bench", cls=Command, examples=_EXAMPLES)
@options.option(
    "--formats", type=_ListType(), default="", group="What to measure", help="Formats.  [default: all]"
)
@options.option(
    "--workloads",
    type=_ListType(),
    default="",
    group="What to measure",
    help="Of short, five, code5, code20, think100, prose20.  [default: all]",
)
@options.option(
    "--best-of",
    type=click.IntRange(1),
    default=5,
    group="What to measure",
    help="Streams per workload; the best counts.  [default: 5]",
)
@options.option(
    "--limits", is_flag=True, group=options.OUTPUT_GROUP, help="Exit code 1 if a documented limit is broken."
)
@options.json_option
@options.quiet_option
@options.colour_option
def command(
    formats: tuple[str, ...],
    workloads: tuple[str, ...],
    best_of: int,
    limits: bool,
    as_json: bool,
    quiet: bool,
    colour: str,
) -> int:
    """Measure the streaming parser on outputs written in each format: microseconds per 4-character delta,
    growth (what a delta of the last tenth costs, relative to the second tenth), pieces (argument events per
    delta inside a long string argument) and the speed on the whole text in one piece."""
    from toolgrammar import Parser, registry
    from toolgrammar.cli import measuring
    from toolgrammar.cli import workloads as data
    from toolgrammar.cli.grammars import load
    from toolgrammar.readings.render import RenderError

    console = Console.new(colour, quiet)
    for name in workloads:
        if name not in data.NAMES:
            raise click.UsageError(f"no workload {name!r}; there are {', '.join(data.NAMES)}")
    rows: list[measuring.Row] = []
    unsaid: list[tuple[str, str]] = []
    for grammar in [load(name) for name in (formats or registry.formats())]:
        for name in workloads or data.NAMES:
            try:
                workload = data.build(grammar, name)
            except RenderError:
                unsaid.append((grammar.name, name))
                continue
            fresh = Parser(grammar=grammar, tools=workload.tools, start=workload.start)
            rows.append(measuring.measure(workload, fresh, best_of))
    broken = [(row, text) for row in rows for text in row.over()]
    head = {"implementation": measuring.implementation(), "cpu": measuring.processor(), "best_of": best_of}
    with Sink() as sink:
        if as_json:
            found = [{**asdict(row), "over": row.over()} for row in rows]
            missing = [{"format": format, "workload": name} for format, name in unsaid]
            sink.line(dumps({"v": 1, **head, "rows": found, "cannot_say": missing}, indent=2))
        else:
            sink.line(f"{head['implementation']}; {head['cpu']}; best of {best_of}")
            sink.write(_table(rows, Paint(wants_colour(colour, sys.stdout))))
            for format, name in unsaid:
                sink.line(f"{format} has no way to say {name}")
    if limits and broken:
        for row, text in broken:
            console.note(f"{row.format} {row.workload}: {text}")
        console.finding(FINDINGS)
    return console.exit


def _table(rows: Sequence[Any], paint: Paint) -> str:
    from toolgrammar.cli.tables import table

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    cells = [
        [
            row.format,
            row.workload,
            str(row.deltas),
            number(row.us),
            number(row.growth),
            number(row.pieces),
            f"{row.mb_s:.0f}",
        ]
        for row in rows
    ]
    head = ["format", "workload", "deltas", "µs/delta", "growth", "pieces", "whole MB/s"]
    return table(head, cells, paint, right=range(2, 7))
