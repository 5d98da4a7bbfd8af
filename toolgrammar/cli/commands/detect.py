"""``toolgrammar detect``: rank the formats for something at hand."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from toolgrammar.cli import options
from toolgrammar.cli.app import Command
from toolgrammar.cli.errors import FINDINGS, CliError
from toolgrammar.cli.inputs import Source
from toolgrammar.cli.output import Sink, dumps
from toolgrammar.cli.terminal import Console, Paint, wants_colour

_EXAMPLES = """
toolgrammar detect captured.txt
toolgrammar detect tokenizer_config.json
toolgrammar detect models/Qwen3-8B --top 1
some-model | toolgrammar detect --json
"""


@click.command("detect", cls=Command, examples=_EXAMPLES)
@click.argument("path", required=False, default="-", metavar="[FILE|DIR]")
@options.option(
    "--from",
    "kind",
    type=click.Choice(("auto", "text", "template", "directory")),
    default="auto",
    metavar="KIND",
    group=options.INPUT_GROUP,
    help="text, template, directory or auto.  [default: auto, by name]",
)
@options.option(
    "--top",
    type=click.IntRange(1),
    default=3,
    group=options.OUTPUT_GROUP,
    help="How many formats to show.  [default: 3]",
)
@options.json_option
@options.colour_option
def command(path: str, kind: str, top: int, as_json: bool, colour: str) -> int:
    """Rank the formats for a raw model output, a chat template, or a model or tokenizer directory, with the
    reasons for each. Exit code 1: nothing speaks for any format.
    """
    from toolgrammar.cli import detecting

    console = Console.new(colour)
    kind = _kind(path) if kind == "auto" else kind
    if kind == "directory":
        if not Path(path).is_dir():
            raise CliError("E021", f"cannot read {path}: not a directory")
        found = detecting.rank_directory(Path(path))
    else:
        with Source(path) as source:
            text = "".join(source.text())
        found = detecting.rank_template(_template(text)) if kind == "template" else detecting.rank_text(text)
    if not found:
        console.finding(FINDINGS)
    with Sink() as sink:
        if as_json:
            rows = [
                {"v": 1, "format": each.format, "score": round(each.score, 2), "reasons": each.reasons}
                for each in found[:top]
            ]
            sink.line(dumps(rows, indent=2))
        elif not found:
            sink.line(f"nothing in this {kind} speaks for any of the formats")
        else:
            from toolgrammar.cli.pretty import one_line

            paint = Paint(wants_colour(colour, sys.stdout))
            for number, each in enumerate(found[:top], 1):
                sink.line(f"{number}. {paint('head', each.format)}  {paint('dim', f'{each.score:.1f}')}")
                for reason in each.reasons:
                    sink.line(f"   {one_line(reason)}")
    return console.exit


def _kind(path: str) -> str:
    if path != "-" and Path(path).is_dir():
        return "directory"
    name = Path(path).name
    return "template" if name.endswith((".jinja", ".jinja2")) or name == "tokenizer_config.json" else "text"


def _template(text: str) -> str:
    """The template, also out of a tokenizer's configuration (where it may be several)."""
    import json

    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return text
    value = config.get("chat_template") if isinstance(config, dict) else config
    parts = value if isinstance(value, list) else [value]
    return "\n".join(
        str(part.get("template", "")) if isinstance(part, dict) else str(part or "") for part in parts
    )
