"""``toolgrammar grammar show``: a grammar as text, or its markers."""

from __future__ import annotations

import click

from toolgrammar.cli import options
from toolgrammar.cli.app import Command
from toolgrammar.cli.output import Sink, dumps
from toolgrammar.cli.terminal import Console, Paint, wants_colour

_EXAMPLES = """
toolgrammar grammar show qwen3-coder
toolgrammar grammar show mine.tg --markers
toolgrammar grammar show Qwen/Qwen3-Coder-30B-A3B-Instruct > mine.tg
"""


class _Group(click.Group):
    """The group ``grammar`` with the help of our commands."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in _EXAMPLES.strip().splitlines():
                formatter.write(f"  {line}\n")


@click.group(
    "grammar", cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
def command() -> None:
    """Look at the grammar of a format."""


@command.command("show", cls=Command, examples=_EXAMPLES)
@click.argument("name")
@options.option(
    "--markers", is_flag=True, group=options.OUTPUT_GROUP, help="Only the marker texts, with their rules."
)
@options.json_option
@options.output_option
@options.colour_option
def show(name: str, markers: bool, as_json: bool, output: str | None, colour: str) -> int:
    """Write the grammar of NAME (a format, a model or a grammar file) in the grammar language, parameters
    and imports worked out. What is written reads back as the same grammar."""
    import sys

    from toolgrammar.cli.grammars import load, markers_of

    console = Console.new(colour)
    grammar = load(name)
    with Sink(output) as sink:
        if markers or as_json:
            found = markers_of(grammar)
            rows = [
                {"v": 1, "text": marker.text, "control": marker.control, "rules": list(marker.rules)}
                for marker in found
            ]
        if as_json:
            sink.line(
                dumps({"v": 1, "name": grammar.name, "starts": grammar.starts, "markers": rows}, indent=2)
            )
        elif markers:
            from toolgrammar.cli.pretty import one_line
            from toolgrammar.cli.tables import table

            paint = Paint(wants_colour(colour, sys.stdout))
            cells = [
                [one_line(marker.text), "control" if marker.control else "text", " ".join(marker.rules)]
                for marker in found
            ]
            sink.write(table(["marker", "kind", "rules"], cells, paint))
        else:
            from toolgrammar.language import write_grammar

            sink.write(write_grammar(grammar))
    return console.exit
