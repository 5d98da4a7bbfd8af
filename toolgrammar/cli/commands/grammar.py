"""``toolgrammar grammar``: a grammar as text, as EBNF, as a picture, its markers; or as a constraint."""

from __future__ import annotations

from typing import Any

import click

from toolgrammar.cli import options
from toolgrammar.cli.app import Command
from toolgrammar.cli.output import Sink, dumps
from toolgrammar.cli.terminal import Console, Paint, wants_colour

_EXAMPLES = """
toolgrammar grammar show qwen3-coder
toolgrammar grammar show mine.tg --markers
toolgrammar grammar show hermes --ebnf --svg hermes.svg
toolgrammar grammar show Qwen/Qwen3-Coder-30B-A3B-Instruct > mine.tg
"""
_EXPORTS = """
toolgrammar grammar export hermes --tools tools.json
toolgrammar grammar export qwen3-coder --tools tools.json --tool-choice required --reasoning
toolgrammar grammar export mine.tg --tools tools.json --tool-choice get_weather --strict
"""
#: What the choice of no particular tool is called.
_CHOICES = ("auto", "required")
_OFFERED = "What is offered"


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
@options.option("--ebnf", is_flag=True, group=options.OUTPUT_GROUP, help="The rules as EBNF, for people.")
@options.option(
    "--svg",
    metavar="FILE",
    group=options.OUTPUT_GROUP,
    help="Draw the rules as railroad diagrams into FILE; nothing else is written unless it is asked for.",
)
@options.json_option
@options.output_option
@options.colour_option
def show(
    name: str, markers: bool, ebnf: bool, svg: str | None, as_json: bool, output: str | None, colour: str
) -> int:
    """Write the grammar of NAME (a format, a model or a grammar file) in the grammar language, parameters
    and imports worked out. What is written reads back as the same grammar."""
    import sys

    from toolgrammar.cli.grammars import load, markers_of

    console = Console.new(colour)
    grammar = load(name)
    if svg is not None:
        from toolgrammar.readings.figures import figures
        from toolgrammar.readings.railroad import railroad

        with Sink(svg) as sink:
            sink.write(railroad(figures(grammar), f"The rules of {grammar.name}"))
        if not (markers or ebnf or as_json):
            return console.exit
    with Sink(output) as sink:
        if markers or as_json:
            found = markers_of(grammar)
            rows = [
                {"v": 1, "text": marker.text, "control": marker.control, "rules": list(marker.rules)}
                for marker in found
            ]
        if as_json:
            sink.line(dumps({"v": 1, "name": grammar.name, "starts": grammar.starts, "markers": rows}, indent=2))
        elif markers:
            from toolgrammar.cli.pretty import one_line
            from toolgrammar.cli.tables import table

            paint = Paint(wants_colour(colour, sys.stdout))
            cells = [
                [one_line(marker.text), "control" if marker.control else "text", " ".join(marker.rules)]
                for marker in found
            ]
            sink.write(table(["marker", "kind", "rules"], cells, paint))
        elif ebnf:
            from toolgrammar.readings.ebnf import ebnf as rules

            sink.write(rules(grammar))
        else:
            from toolgrammar.language import write_grammar

            sink.write(write_grammar(grammar))
    return console.exit


@command.command("export", cls=Command, examples=_EXPORTS)
@click.argument("name")
@options.option(
    "--to",
    type=click.Choice(("structural-tag",)),
    metavar="KIND",
    default="structural-tag",
    group=options.OUTPUT_GROUP,
    help="structural-tag: what xgrammar and engines with it take.  [default: structural-tag]",
)
@options.option(
    "--tools", metavar="FILE", required=True, group=_OFFERED, help="The tools that may be called: a JSON list."
)
@options.option(
    "--tool-choice",
    "choice",
    metavar="CHOICE",
    default="auto",
    group=_OFFERED,
    help="auto, required, or a tool's name: exactly one call of it.  [default: auto]",
)
@options.option("--single", is_flag=True, group=_OFFERED, help="At most one call.")
@options.option("--strict", is_flag=True, group=_OFFERED, help="Arguments follow the schemas of all tools.")
@options.option(
    "--start",
    type=click.Choice(options.STARTS[1:]),
    metavar="STATE",
    default="content",
    group=_OFFERED,
    help="What the prompt leaves open: reasoning, content or section.  [default: content]",
)
@options.option("--reasoning", is_flag=True, group=_OFFERED, help="The turn may begin with reasoning.")
@options.output_option
def export(
    name: str, to: str, tools: str, choice: str, single: bool, strict: bool, start: Any, reasoning: bool,
    output: str | None,
) -> int:  # fmt: skip
    """Write the grammar of NAME as a constraint for guided decoding: what an engine lets the model write, so that
    it calls the tools rightly."""
    from toolgrammar.cli.errors import CliError
    from toolgrammar.cli.feeding import read_tools
    from toolgrammar.cli.grammars import load
    from toolgrammar.readings.structural_tag import structural_tag

    grammar = load(name)
    if start not in grammar.starts:
        known = ", ".join(grammar.starts)
        raise CliError("E001", f"format {grammar.name!r} cannot start in {start!r}; it can in {known}")
    named = choice not in _CHOICES
    found = structural_tag(
        grammar, read_tools(tools) or [], choice="named" if named else choice,  # type: ignore[arg-type]
        names=[choice] if named else None, parallel=not single, strict=strict or None, reasoning=reasoning,
        start=start,
    )  # fmt: skip
    if found is None:
        raise CliError("E001", f"format {grammar.name!r} has no call that could be constrained")
    with Sink(output) as sink:
        sink.line(dumps(found, indent=2))
    return 0
