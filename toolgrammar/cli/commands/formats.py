"""``toolgrammar formats``: which formats there are, and what is known about one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from toolgrammar.cli import options
from toolgrammar.cli.app import Command
from toolgrammar.cli.output import Sink, dumps
from toolgrammar.cli.terminal import Console, Paint, wants_colour

_EXAMPLES = """
toolgrammar formats
toolgrammar formats qwen3-coder
toolgrammar formats --json | jq -r '.[].name'
"""


@click.command("formats", cls=Command, examples=_EXAMPLES)
@click.argument("name", required=False)
@options.json_option
@options.colour_option
def command(name: str | None, as_json: bool, colour: str) -> int:
    """List the output formats that have a grammar. With NAME (a format, alias, model id or grammar file),
    show what is known about that one: names, models, where generation may start, stop tokens, markers.
    """
    from toolgrammar import registry
    from toolgrammar.cli.grammars import load
    from toolgrammar.cli.tables import table

    console = Console.new(colour)
    paint = Paint(wants_colour(colour, sys.stdout))
    with Sink() as sink:
        if name is not None:
            found = _details(load(name))
            sink.write(dumps(found, indent=2) + "\n" if as_json else "".join(_page(found, paint)))
            return console.exit
        grammars = [load(each) for each in registry.formats()]
        if as_json:
            sink.line(dumps([_details(grammar) for grammar in grammars], indent=2))
        else:
            rows = [[grammar.name, " ".join(grammar.starts), grammar.title] for grammar in grammars]
            sink.write(table(["format", "starts", "what it is"], rows, paint))
    return console.exit


def _details(grammar: Any) -> dict[str, Any]:
    from toolgrammar.cli.grammars import markers_of

    return {
        "v": 1,
        "name": grammar.name,
        "title": grammar.title,
        "names": list(grammar.names),
        "models": list(grammar.models),
        "starts": dict(grammar.starts),
        "stops": list(grammar.stops),
        "tokens": list(grammar.tokens),
        "markers": [marker.text for marker in markers_of(grammar)],
        "facts": {word: list(lines) for word, lines in grammar.facts.items()},
    }


def _page(found: dict[str, Any], paint: Paint) -> Iterator[str]:
    from textwrap import wrap

    from toolgrammar.cli.pretty import one_line

    yield paint("head", found["name"]) + (f"  {found['title']}" if found["title"] else "") + "\n"
    lines = [
        ("names", found["names"]),
        ("models", found["models"]),
        ("starts", [f"{state} ({rule})" for state, rule in found["starts"].items()]),
        ("stops", found["stops"]),
        ("tokens", found["tokens"]),
        ("markers", found["markers"]),
    ]
    for title, words in lines:
        if words:
            yield f"  {paint('name', f'{title:<8}')}"
            yield from _wrapped([one_line(word) for word in words])
    for word, texts in found["facts"].items():
        for text in texts:
            shown = wrap(one_line(text), 90, break_long_words=False, break_on_hyphens=False) or [""]
            yield f"  {paint('name', f'{word:<8}')}  {shown[0]}\n"
            yield from (" " * 12 + line + "\n" for line in shown[1:])


def _wrapped(words: list[str]) -> Iterator[str]:
    from toolgrammar.cli.tables import width

    at = 10
    for word in words:
        if at > 10 and at + 2 + width(word) > 100:
            yield "\n" + " " * 10
            at = 10
        yield "  " + word
        at += 2 + width(word)
    yield "\n"
