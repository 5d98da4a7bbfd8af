"""``toolgrammar models``: every name that selects a format."""

from __future__ import annotations

import sys

import click

from toolgrammar.cli import options
from toolgrammar.cli.app import Command
from toolgrammar.cli.output import Sink, dumps
from toolgrammar.cli.terminal import Console, Paint, wants_colour

_EXAMPLES = """
toolgrammar models
toolgrammar models Qwen/Qwen3-Coder-30B-A3B-Instruct
toolgrammar models --json
"""


@click.command("models", cls=Command, examples=_EXAMPLES)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@options.json_option
@options.colour_option
def command(names: tuple[str, ...], as_json: bool, colour: str) -> int:
    """List the names that --model understands, with the format each stands for: formats, parser names of
    other projects, and parts of model ids (any id that contains one selects the format). With NAMEs, resolve
    those.
    """
    from toolgrammar import registry
    from toolgrammar.cli.tables import table
    from toolgrammar.errors import UnknownModelError

    console = Console.new(colour)
    rows: list[tuple[str, str, str]] = []
    if names:
        for name in names:
            try:
                rows.append((name, registry.resolve(name), "asked for"))
            except UnknownModelError as error:
                from toolgrammar.cli.errors import CliError

                console.error(CliError("E012", str(error), error.hint))
    else:
        for name in registry.formats():
            grammar = registry.load(name)
            rows.append((name, name, "format"))
            rows += [(alias, name, "name") for alias in grammar.names if alias != name]
            rows += [(f"*{part}*", name, "model id") for part in grammar.models]
    with Sink() as sink:
        if as_json:
            found = [{"v": 1, "name": name, "format": target, "kind": kind} for name, target, kind in rows]
            sink.line(dumps(found, indent=2))
        elif rows:
            cells = [[name, target, kind] for name, target, kind in rows]
            sink.write(table(["name", "format", "kind"], cells, Paint(wants_colour(colour, sys.stdout))))
    return console.exit
