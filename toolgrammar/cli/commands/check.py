"""``toolgrammar check``: case files, every case fed in every way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from toolgrammar.cli import options
from toolgrammar.cli.app import Command
from toolgrammar.cli.errors import FINDINGS, CliError
from toolgrammar.cli.grammars import given_grammar, named_file
from toolgrammar.cli.inputs import Source, json_object, total_bytes
from toolgrammar.cli.output import Sink, dumps
from toolgrammar.cli.tally import Tally, document, report
from toolgrammar.cli.terminal import Console, Paint, Progress, wants_colour
from toolgrammar.combinators import Grammar
from toolgrammar.testing import CaseResult, Difference, Way, run_case

_EXAMPLES = """
toolgrammar check fixtures/cases/*.jsonl
toolgrammar check -v --format hermes fixtures/cases/*.jsonl
toolgrammar check --grammar mine.tg my-cases.jsonl
"""


@click.command("check", cls=Command, examples=_EXAMPLES)
@options.files
@options.option("--grammar", metavar="FILE", group=options.FORMAT_GROUP, help="Use this grammar for every case.")
@options.option(
    "--template", metavar="FILE", group=options.FORMAT_GROUP, help="Use this response template for every case."
)
@options.option(
    "--format",
    "formats",
    multiple=True,
    metavar="NAME",
    group="Which cases",
    help="Only cases of this format; may be repeated.",
)
@options.option(
    "--case",
    "ids",
    multiple=True,
    metavar="TEXT",
    group="Which cases",
    help="Only cases whose id contains TEXT; may be repeated.",
)
@options.option(
    "--cuts",
    metavar="N",
    type=click.IntRange(0),
    default=8,
    group="How to feed them",
    help="Random cuts per case, beside the other ways.  [default: 8]",
)
@options.option(
    "--seed",
    metavar="N",
    type=int,
    default=0,
    group="How to feed them",
    help="Seed of the random cuts.  [default: 0]",
)
@options.option(
    "-v",
    "--verbose",
    is_flag=True,
    group=options.OUTPUT_GROUP,
    help="Show what was expected and what came, for every failing case.",
)
@options.progress_option
@options.json_option
@options.quiet_option
@options.colour_option
def command(
    files: tuple[str, ...],
    grammar: str | None,
    template: str | None,
    formats: tuple[str, ...],
    ids: tuple[str, ...],
    cuts: int,
    seed: int,
    verbose: bool,
    no_progress: bool,
    as_json: bool,
    quiet: bool,
    colour: str,
) -> int:
    """Run case files (JSONL): each case is fed whole, one code point at a time, in its own chunks and over
    random cuts, and must give what it expects every time. A difference of white space alone is a failure
    too, in its own column. Soft cases are reported only. Exit code 1: a case that is not soft fails."""
    console = Console.new(colour, quiet)
    if grammar is not None and template is not None:
        raise CliError("E001", "--grammar and --template exclude each other")
    own = given_grammar(grammar, template)  # compiled: a broken one is refused here, with its place
    tallies: dict[str, Tally] = {}
    wanted = {_canonical(name) for name in formats}
    there: set[str] = set()
    with Progress(console, total_bytes(files), not no_progress) as progress:
        for number, (at, where, case) in enumerate(_cases(files, console), 1):
            name = _canonical(case["format"])
            there.add(name)
            if (wanted and name not in wanted) or (
                ids and not any(part in str(case.get("id", "")) for part in ids)
            ):
                continue
            result = _run(case, own, cuts, seed, where, console)
            if result is not None:
                tallies.setdefault(name, Tally()).add(result)
            progress.move(at, number)
    if any(tally.failed or tally.white for tally in tallies.values()):
        console.finding(FINDINGS)
    if not tallies:
        if not console.exit:
            raise _nothing_run(there, [name for name, given in (("--format", formats), ("--case", ids)) if given])
        console.note("no case was run")  # why is told already
    with Sink() as sink:
        if as_json:
            sink.line(dumps(document(tallies), indent=2))
        else:
            paint = Paint(wants_colour(colour, sys.stdout))
            for text in report(tallies, verbose, paint):
                sink.write(text)
    return console.exit


def _nothing_run(there: set[str], options: list[str]) -> CliError:
    """That no case was run; ``there``: the formats of the cases read, ``options``: those that chose among them."""
    if not there:
        return CliError("E001", "no case was run: the input has none", "toolgrammar check FILE, a case a line")
    names = ", ".join(sorted(there))
    hint = f"there are cases of: {names}; --format takes one of these, --case a part of an id"
    return CliError("E001", f"no case was run: none fits {' and '.join(options)}", hint)


def _cases(files: tuple[str, ...], console: Console) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Bytes read so far, place and case of every line that is a case."""
    before = 0
    for path in files or ("-",):
        try:
            with Source(path) as source:
                for number, offset, line in source.lines():
                    case = _case(source.name, number, offset, line, console)
                    if case is not None:
                        yield before + source.at, f"{source.name}:{number}", case
                before += source.at
        except CliError as error:
            console.error(error)


def _case(name: str, number: int, offset: int, line: bytes, console: Console) -> dict[str, Any] | None:
    if not line.strip():
        return None
    try:
        case = json_object(name, number, offset, line)
        _must_be_case(case, f"{name}:{number}")
    except CliError as error:
        console.error(error)
        return None
    return case


def _must_be_case(case: Mapping[str, Any], where: str) -> None:
    for key, kind in (("format", str), ("text", str), ("expect", dict)):
        if not isinstance(case.get(key), kind):
            what = "has no" if key not in case else "has the wrong type of"
            raise CliError("E026", f"{where}: the case {what} {key!r}", "toolgrammar help E026")
    calls = case["expect"].get("tool_calls") or []
    if not isinstance(calls, list) or not all(
        isinstance(call, dict) and "name" in call and ("arguments" in call or "arguments_text" in call)
        for call in calls
    ):
        raise CliError(
            "E026",
            f"{where}: an expected call needs 'name' and 'arguments' or 'arguments_text'",
            "toolgrammar help E026",
        )


def _run(
    case: dict[str, Any], own: Grammar | None, cuts: int, seed: int, where: str, console: Console
) -> CaseResult | None:
    """The result; a parser that raises is a failure of the case, one that cannot be made an error of the
    file."""
    from toolgrammar import Parser
    from toolgrammar.errors import GrammarError, ToolgrammarError, UnknownModelError

    made: list[Parser] = []

    def make(_: Mapping[str, Any]) -> Parser:
        if not made:
            name = None if own is not None else case["format"]
            start = case.get("starts_in", "auto")
            grammar = own if own is not None else named_file(case["format"])
            made.append(Parser(name, tools=case.get("tools"), start=start, grammar=grammar))
        return made[0].copy()

    try:
        make(case)
    except UnknownModelError as error:
        console.error(CliError("E012", f"{where}: {error}", error.hint))
        return None
    except CliError as error:
        console.error(CliError(error.code, f"{where}: {error.message}", error.hint))
        return None
    except GrammarError:
        raise
    except (ToolgrammarError, ValueError, TypeError) as error:
        console.error(CliError("E027", f"{where}: {error}"))
        return None
    return _guarded(case, make, cuts, seed)


def _guarded(case: dict[str, Any], make: Callable[[Mapping[str, Any]], Any], cuts: int, seed: int) -> CaseResult:
    try:
        return run_case(case, make, cuts=cuts, seed=seed)
    except Exception as error:  # model output must never make a parser raise: that is the finding
        raised = Difference("parser", "no exception", f"{type(error).__name__}: {error}")
        return CaseResult(str(case.get("id", "")), case["format"], bool(case.get("soft")), [Way("all", [raised])])


def _canonical(name: str) -> str:
    from toolgrammar import registry
    from toolgrammar.errors import UnknownModelError

    try:
        return registry.resolve(name)
    except UnknownModelError:
        return name
