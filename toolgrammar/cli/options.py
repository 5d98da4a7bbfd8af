"""Options that several commands share, as decorators, and the values they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
from msgspec import Struct

from toolgrammar.cli.app import Option
from toolgrammar.cli.inputs import KINDS

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

FORMAT_GROUP: Final = "What the text is"
INPUT_GROUP: Final = "Input"
OUTPUT_GROUP: Final = "Output"
STARTS: Final = ("auto", "reasoning", "content", "section")
FINDINGS: Final = ("incomplete", "malformed", "unknown")


class Cut(Struct, frozen=True):
    """How to cut the text: ``how`` is recorded, whole, char, every or random."""

    how: str
    number: int = 0


class CutType(click.ParamType[Cut]):
    """``N``, ``char``, ``recorded``, ``random:SEED`` or ``whole``."""

    name = "HOW"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Cut:
        if isinstance(value, Cut):
            return value
        head, _, tail = str(value).partition(":")
        if head in ("char", "recorded", "whole") and not tail:
            return Cut(head)
        if head == "random" and (tail.isdecimal() or value == "random"):
            return Cut("random", int(tail or 0))
        if str(value).isdecimal() and int(value) > 0:
            return Cut("every", int(value))
        self.fail(f"{value!r} is none of N, char, recorded, random:SEED, whole.", param, ctx)


class FindingsType(click.ParamType[frozenset[str]]):
    """A comma-separated list of findings, or ``none``."""

    name = "LIST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        if isinstance(value, frozenset):
            return value
        parts = frozenset(part.strip() for part in str(value).split(",") if part.strip()) - {"none"}
        for part in sorted(parts - set(FINDINGS)):
            self.fail(f"{part!r} is none of {', '.join(FINDINGS)}, none.", param, ctx)
        return parts


def _all(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    def decorate(function: Decorated) -> Decorated:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def option(*names: str, group: str = "Options", **settings: Any) -> Callable[[Decorated], Decorated]:
    """A click option in a group of the help."""
    return click.option(*names, cls=Option, group=group, **settings)


files = click.argument("files", nargs=-1, metavar="[FILE]...")

parser_options = _all(
    option(
        "--model",
        "-m",
        metavar="NAME",
        group=FORMAT_GROUP,
        help="Format, model id, peer's parser name, or model directory.",
    ),
    option(
        "--grammar",
        metavar="FILE",
        group=FORMAT_GROUP,
        help="A grammar file of your own, instead of --model.",
    ),
    option(
        "--template",
        metavar="FILE",
        group=FORMAT_GROUP,
        help="A response template (JSON, or a directory with one in tokenizer_config.json), instead.",
    ),
    option("--tools", metavar="FILE", group=FORMAT_GROUP, help="The tools that were offered: a JSON list."),
    option(
        "--start",
        type=click.Choice(STARTS),
        metavar="STATE",
        default=None,
        group=FORMAT_GROUP,
        help="Where the output starts: auto, reasoning, content or section.  [default: auto]",
    ),
    option(
        "--prompt",
        metavar="FILE",
        group=FORMAT_GROUP,
        help="The prompt; its tail decides where the output starts.",
    ),
    option(
        "--no-repair",
        is_flag=True,
        group=FORMAT_GROUP,
        help="Leave almost-JSON as it is: such calls are malformed.",
    ),
    option("--strict", is_flag=True, group=FORMAT_GROUP, help="A call of a tool that was not offered is text."),
)

input_options = _all(
    option(
        "--input",
        "kind",
        type=click.Choice(KINDS),
        metavar="KIND",
        default="auto",
        group=INPUT_GROUP,
        help="text, jsonl, sse or auto.  [default: auto, by suffix: .jsonl, .sse, else text]",
    ),
    option(
        "--field",
        metavar="NAME",
        group=INPUT_GROUP,
        help="JSONL: where the text is, e.g. choices.0.text.  [default: text, raw, output or content]",
    ),
    option(
        "--chunk",
        type=CutType(),
        default="recorded",
        group=INPUT_GROUP,
        help="Feed N characters at a time, or: char, recorded, random:SEED, whole.  [default: recorded]",
    ),
)

tokenizer_option = option(
    "--tokenizer",
    metavar="DIR",
    group=INPUT_GROUP,
    help="JSONL: the directory with tokenizer.json for token_ids.",
)
progress_option = option("--no-progress", is_flag=True, group=INPUT_GROUP, help="No progress bar on long input.")

colour_option = option(
    "--color",
    "colour",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    metavar="WHEN",
    group=OUTPUT_GROUP,
    help="auto, always or never; auto honours NO_COLOR and FORCE_COLOR.",
)
output_option = option(
    "-o", "--output", metavar="FILE", group=OUTPUT_GROUP, help="Write to FILE instead of stdout."
)
quiet_option = option("-q", "--quiet", is_flag=True, group=OUTPUT_GROUP, help="Only errors on stderr.")
json_option = option("--json", "as_json", is_flag=True, group=OUTPUT_GROUP, help="One JSON document.")
