"""``toolgrammar parse``: raw outputs to messages or events."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import click

from toolgrammar.cli import options
from toolgrammar.cli.app import Command
from toolgrammar.cli.errors import FINDINGS, UNKNOWN, CliError, RecordError
from toolgrammar.cli.feeding import Parsers, pieces_of
from toolgrammar.cli.inputs import Inputs, Record, total_bytes
from toolgrammar.cli.output import Sink, dumps
from toolgrammar.cli.schemas import end_json, event_json, message_json
from toolgrammar.cli.terminal import Console, Paint, Progress, visible, wants_colour
from toolgrammar.events import Event
from toolgrammar.message import Message

FORMATS = ("pretty", "jsonl", "json", "openai", "anthropic", "events")

_EXAMPLES = """
toolgrammar parse --model deepseek-v3.2 captured.txt
toolgrammar parse --model hermes --tools tools.json outputs.jsonl --format openai
some-model | toolgrammar parse --model qwen3-coder --format events
toolgrammar parse --model glm-4.5 recorded.sse --fail-on malformed
toolgrammar parse --grammar mine.tg --chunk random:7 captured.txt
"""


@click.command("parse", cls=Command, examples=_EXAMPLES)
@options.files
@options.parser_options
@options.input_options
@options.tokenizer_option
@options.progress_option
@options.option(
    "--format",
    "-f",
    "shape",
    type=click.Choice(FORMATS),
    metavar="SHAPE",
    group=options.OUTPUT_GROUP,
    help="pretty, jsonl, json, openai, anthropic or events.  [default: pretty on a terminal, else jsonl]",
)
@options.output_option
@options.option(
    "--fail-on",
    type=options.FindingsType(),
    default="malformed,incomplete,unknown",
    group=options.OUTPUT_GROUP,
    help="What gives exit code 1: malformed, incomplete, unknown; or none.  [default: the three]",
)
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
    tokenizer: str | None,
    chunk: options.Cut,
    no_progress: bool,
    shape: str | None,
    output: str | None,
    fail_on: frozenset[str],
    quiet: bool,
    colour: str,
) -> int:
    """Read raw model output and give its reasoning, content and tool calls, with the span of each.

    A FILE is one raw output (text), a JSONL file with a record a line, or a recorded event stream of an
    OpenAI-style server (.sse); '-' or nothing is standard input. Exit code 1: a call is malformed,
    incomplete, or names a tool that was not offered.
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
        tokenizer=tokenizer,
    )
    inputs = Inputs(files, kind, field, console)
    with Sink(output) as sink, Progress(console, total_bytes(files), not no_progress) as progress:
        printer = _printer(shape or ("pretty" if sink.is_terminal else "jsonl"), sink, console)
        printer.tools = parsers.tools
        printer.begin()
        for number, record in enumerate(inputs, 1):
            try:
                parser = parsers.make(record)
                pieces = pieces_of(record, chunk, parsers.tokenizer)
                message = printer.record(record, parser, pieces)
            except CliError as error:
                if error.exit < UNKNOWN and not isinstance(error, RecordError):
                    raise
                console.error(error)
                continue
            if findings(message) & fail_on:
                console.finding(FINDINGS)
            progress.move(inputs.at, number)
        printer.end()
    return console.exit


def findings(message: Message) -> frozenset[str]:
    """What there is to find fault with."""
    found = {call.status for call in message.calls} - {"complete"}
    if message.unfinished:
        found.add("incomplete")
    if not all(call.known for call in message.calls):
        return frozenset(found | {"unknown"})
    return frozenset(found)


class _Lines:
    """``jsonl``: a message a line."""

    def __init__(self, sink: Sink, console: Console) -> None:
        self.sink = sink
        self.console = console
        self.tools: list[Any] | None = None

    def begin(self) -> None:
        """Before the first record."""

    def end(self) -> None:
        """Behind the last record."""

    def record(self, record: Record, parser: Any, pieces: Iterable[Any]) -> Message:
        """Parse one record and write what it says."""
        for piece in pieces:
            parser.feed(piece)
        parser.finish(record.finish)
        message: Message = parser.message()
        self.write(record, message)
        self.remark(record, message)
        return message

    def write(self, record: Record, message: Message) -> None:
        """Write a finished message."""
        self.sink.line(dumps(message_json(message, record)), flush=record.live)

    def remark(self, record: Record, message: Message) -> None:
        """Findings also go to stderr: a shape may have no place for them."""


class _Document(_Lines):
    """``json``: one array of messages."""

    def begin(self) -> None:
        self._separator = "[\n"

    def write(self, record: Record, message: Message) -> None:
        self.sink.write(self._separator + dumps(message_json(message, record), indent=2))
        self._separator = ",\n"

    def end(self) -> None:
        self.sink.write("[]\n" if self._separator == "[\n" else "\n]\n")


class _Adapted(_Lines):
    """``openai`` and ``anthropic``: what that API would have answered."""

    def __init__(self, sink: Sink, console: Console, shape: str) -> None:
        super().__init__(sink, console)
        self._shape = shape

    def write(self, record: Record, message: Message) -> None:
        from toolgrammar.adapters import anthropic, openai

        adapter = openai if self._shape == "openai" else anthropic
        if message.finish is None and message.unfinished:
            message.finish = "length"  # these APIs must name a reason: nothing was told, but it was cut
        self.sink.line(dumps(adapter.message(message)), flush=record.live)

    def remark(self, record: Record, message: Message) -> None:
        for call in message.calls:
            if call.status != "complete":
                self.console.note(f"{record.label}: call {call.index} ({call.name}) is {call.status}")
            if not call.known:
                self.console.note(f"{record.label}: call {call.index} ({call.name}) was not offered")


class _Events(_Lines):
    """``events``: an event a line, as soon as it is certain."""

    def record(self, record: Record, parser: Any, pieces: Iterable[Any]) -> Message:
        seq = itertools.count()
        for piece in pieces:
            self._write(parser.feed(piece), seq, record.live)
        self._write(parser.finish(record.finish), seq, record.live)
        message: Message = parser.message()
        self.sink.line(dumps(end_json(record, message, next(seq))), flush=record.live)
        return message

    def _write(self, events: list[Event], seq: Iterator[int], flush: bool) -> None:
        if events:
            lines = "".join(dumps(event_json(event, next(seq))) + "\n" for event in events)
            self.sink.write(lines, flush)


class _Pretty(_Lines):
    """``pretty``: for a person."""

    def __init__(self, sink: Sink, console: Console) -> None:
        super().__init__(sink, console)
        import sys

        self._paint = Paint(
            wants_colour(console.colour, sys.stdout) and (sink.path is None or console.colour == "always")
        )
        self._records = 0
        self._calls = 0
        self._raw: list[str] = []

    def record(self, record: Record, parser: Any, pieces: Iterable[Any]) -> Message:
        self._raw = []
        return super().record(record, parser, self._kept(pieces))

    def _kept(self, pieces: Iterable[Any]) -> Iterator[Any]:
        for piece in pieces:
            if isinstance(piece, str):
                self._raw.append(piece)
            yield piece

    def write(self, record: Record, message: Message) -> None:
        from toolgrammar.cli.pretty import render

        title = record.label + (f"  {record.id}" if record.id else "")
        raw = "".join(self._raw) if self._raw else None
        text = render(message, title, self._paint, raw, self._offered(record))
        text += "".join(f"{self._paint('error', 'problem')}: {visible(each)}\n" for each in record.problems)
        self.sink.write(text if self._records == 0 else "\n" + text, flush=True)
        self._records += 1
        self._calls += len(message.calls)

    def _offered(self, record: Record) -> list[str]:
        """The names of the tools, whatever API's shape they have."""
        tools = self.tools if self.tools is not None else record.tools
        found = []
        for tool in tools if isinstance(tools, list) else []:
            inner = tool.get("function", tool) if isinstance(tool, dict) else None
            if isinstance(inner, dict) and isinstance(inner.get("name"), str):
                found.append(inner["name"])
        return found

    def end(self) -> None:
        if self._records > 1:
            calls = "1 call" if self._calls == 1 else f"{self._calls} calls"
            self.console.note(f"{self._records} records, {calls}")


def _printer(shape: str, sink: Sink, console: Console) -> _Lines:
    kinds = {"jsonl": _Lines, "json": _Document, "events": _Events, "pretty": _Pretty}
    if shape in kinds:
        return kinds[shape](sink, console)
    return _Adapted(sink, console, shape)
