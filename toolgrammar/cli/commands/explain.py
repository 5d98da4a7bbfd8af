"""``toolgrammar explain``: which rule took which characters, what was held, when it was released."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from toolgrammar.cli import options
from toolgrammar.cli.app import Command
from toolgrammar.cli.errors import UNKNOWN, CliError, RecordError
from toolgrammar.cli.feeding import Parsers, pieces_of
from toolgrammar.cli.inputs import Inputs, Record
from toolgrammar.cli.output import Sink, dumps
from toolgrammar.cli.schemas import event_json, explained_json, record_json
from toolgrammar.cli.terminal import Console, Paint, wants_colour

_EXAMPLES = """
toolgrammar explain --model hermes broken.txt
toolgrammar explain --model glm-4.5 --at 212 broken.txt
toolgrammar explain --model deepseek-v3.2 --chunk 4 --held broken.txt
toolgrammar explain --model qwen3-coder --chunk char --timeline broken.txt
"""
_KIND_STYLE = {"content": "", "reasoning": "reason", "call": "good", "framing": "dim", "tail": "warn"}


@click.command("explain", cls=Command, examples=_EXAMPLES)
@options.files
@options.parser_options
@options.input_options
@options.option(
    "--at",
    type=click.IntRange(0),
    metavar="OFFSET",
    group="What to show",
    help="Only what covers this character of the raw output.",
)
@options.option(
    "--call", "call_index", type=click.IntRange(0), metavar="N", group="What to show", help="Only call N."
)
@options.option("--held", "only_held", is_flag=True, group="What to show", help="Only what was held back.")
@options.option(
    "--timeline",
    is_flag=True,
    group="What to show",
    help="Chunk by chunk: what went in, what came out, how much is held.",
)
@options.option(
    "--format",
    "-f",
    "shape",
    type=click.Choice(("pretty", "jsonl")),
    metavar="SHAPE",
    group=options.OUTPUT_GROUP,
    help="pretty or jsonl.  [default: pretty on a terminal, else jsonl]",
)
@options.output_option
@options.quiet_option
@options.colour_option
def command(
    files: tuple[str, ...],
    model: str | None,
    grammar: str | None,
    template: str | None,
    tools: str | None,
    start: str | None,
    prompt: str | None,
    no_repair: bool,
    strict: bool,
    kind: str,
    field: str | None,
    chunk: options.Cut,
    at: int | None,
    call_index: int | None,
    only_held: bool,
    timeline: bool,
    shape: str | None,
    output: str | None,
    quiet: bool,
    colour: str,
) -> int:
    """Show how raw model output is read: for each stretch of characters the rule that took it, whether it was
    given out, was framing, or was held back first, and in which chunk that was decided.
    """
    console = Console.new(colour, quiet)
    parsers = Parsers(
        model=model,
        grammar=grammar,
        template=template,
        tools=tools,
        start=start,
        prompt=prompt,
        repair=not no_repair,
        strict=strict,
    )
    with Sink(output) as sink:
        pretty = (shape or ("pretty" if sink.is_terminal else "jsonl")) == "pretty"
        paint = Paint(wants_colour(colour, sys.stdout) and (sink.path is None or colour == "always"))
        for number, record in enumerate(Inputs(files, kind, field, console)):
            try:
                parser = parsers.make(record)
                pieces = list(pieces_of(record, chunk, None))
                if timeline:
                    lines = _timeline(record, parser, pieces, pretty, paint)
                else:
                    lines = _rules(record, parser, pieces, pretty, paint, (at, call_index, only_held))
                for line in lines:
                    sink.line(line if not (number and pretty and line is lines[0]) else "\n" + line)
            except CliError as error:
                if error.exit < UNKNOWN and not isinstance(error, RecordError):
                    raise
                console.error(error)
    return console.exit


def _rules(
    record: Record,
    parser: Any,
    pieces: Sequence[Any],
    pretty: bool,
    paint: Paint,
    wanted: tuple[int | None, int | None, bool],
) -> list[str]:
    from toolgrammar.readings.explain import explain

    grammar, length = parser.grammar.name, sum(map(len, pieces))
    if wanted[0] is not None and wanted[0] >= length:
        count = f"{length} character" + ("" if length == 1 else "s")
        raise RecordError("E001", f"no character {wanted[0]} in {record.label}: it has {count}, from 0 on")
    twin = parser.copy() if wanted[1] is not None else None
    found = [each for each in explain(pieces, parser) if _shown(each, wanted)]
    if twin is not None:
        start, end = _call_span(record, twin, pieces, wanted[1])
        found = [each for each in found if each.start >= start and each.end <= end]
    if not pretty:
        return [dumps({**explained_json(each), "record": record_json(record)}) for each in found]
    head = f"{paint('head', record.label)}  " + paint(
        "dim", f"{grammar}, {length} characters in {len(pieces)} {'chunk' if len(pieces) == 1 else 'chunks'}"
    )
    return [head, *_table(found, len(pieces) > 1, paint)]


def _shown(each: Any, wanted: tuple[int | None, int | None, bool]) -> bool:
    at, _, only_held = wanted
    return (at is None or each.start <= at < each.end) and (not only_held or bool(each.held))


def _call_span(record: Record, parser: Any, pieces: Sequence[Any], index: int | None) -> tuple[int, int]:
    for piece in pieces:
        parser.feed(piece)
    parser.finish(record.finish)
    calls = parser.message().calls
    if index is None or index >= len(calls):
        count = f"{len(calls)} call" + ("" if len(calls) == 1 else "s")
        raise RecordError("E001", f"no call {index} in {record.label}: it has {count}")
    start, end = calls[index].span
    return start, end


def _table(found: Sequence[Any], chunks: bool, paint: Paint) -> Iterator[str]:
    """Aligned rows; the text takes what is left of the line."""
    from toolgrammar.cli.pretty import one_line
    from toolgrammar.cli.tables import clip

    rows = []
    for each in found:
        cells = [f"{each.start}-{each.end}", each.kind, each.action, each.rule]
        if chunks:
            cells.insert(3, f"{each.held[0][0]}>{each.chunk}" if each.held else str(each.chunk))
        rows.append((cells, each))
    if not rows:
        yield paint("dim", "nothing to show")
        return
    head = ["span", "kind", "action", *(["chunk"] if chunks else []), "rule"]
    widths = [max(len(cells[n]) for cells in [head, *(row[0] for row in rows)]) for n in range(len(head))]
    widths[-1] = min(widths[-1], 36)
    left = max(shutil.get_terminal_size((100, 24)).columns - sum(widths) - 2 * len(widths) - 1, 24)
    yield paint("head", "  ".join(cell.ljust(w) for cell, w in zip(head, widths, strict=True)) + "  text")
    for cells, each in rows:
        line = "  ".join(
            (cell if len(cell) <= w else "…" + cell[len(cell) - w + 1 :]).ljust(w)
            for cell, w in zip(cells, widths, strict=True)
        )
        text = clip(one_line(each.text), left)
        style = _KIND_STYLE.get(each.kind, "")
        yield f"{paint('dim', line)}  {paint(style, text) if style else text}"
        if each.held:
            steps = ", ".join(f"{count} after chunk {chunk}" for chunk, count in each.held[:4])
            more = f", and {len(each.held) - 4} more" if len(each.held) > 4 else ""
            yield paint("warn", f"{'':{widths[0]}}  held: {steps}{more}; decided in chunk {each.chunk}")


def _timeline(record: Record, parser: Any, pieces: Sequence[Any], pretty: bool, paint: Paint) -> list[str]:
    """What each chunk led to; the last line is the end of the stream."""
    from toolgrammar.cli.pretty import one_line
    from toolgrammar.cli.tables import clip

    columns = shutil.get_terminal_size((100, 24)).columns
    lines = [paint("head", record.label)] if pretty else []
    for number, piece in enumerate([*pieces, None]):
        events = parser.feed(piece) if piece is not None else parser.finish(record.finish)
        held = parser.held if piece is not None else 0
        shown = [event_json(event, seq) for seq, event in enumerate(events)]
        if not pretty:
            fed = {"text": piece} if piece is not None else {"end": True}
            line = {"v": 1, "chunk": number, **fed, "held": held}
            lines.append(dumps({**line, "events": shown, "record": record_json(record)}))
            continue
        fed_text = "end" if piece is None else clip(one_line(str(piece)), 40)
        lines.append(
            f"{paint('head', f'{number:>4}')}  {fed_text}" + (paint("warn", f"  holds {held}") if held else "")
        )
        for event in shown:
            said = event.get("text", event.get("delta", event.get("name", event.get("message", ""))))
            what = event["status"] if event["type"] == "call_end" else said
            lines.append(f"      {paint('name', event['type'])}  {clip(one_line(what), max(columns - 24, 24))}")
    return lines
