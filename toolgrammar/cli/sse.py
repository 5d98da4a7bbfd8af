"""Recorded event streams of OpenAI-style servers: ``data: {...}`` lines to one record per choice.

The raw text is in ``choices[].delta.content`` (chat) or ``choices[].text`` (completions); each delta is one
piece. A file may hold several streams; ``[DONE]``, another id or the end of the file ends one.

What is wrong with a chunk is an error on the console and one of the ``problems`` of the records it belongs to: of
its choice, or of every choice of the stream where it names none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolgrammar.cli.errors import CliError
from toolgrammar.cli.inputs import Record, Source, json_object, kind_name
from toolgrammar.cli.terminal import Console


def streams(source: Source, console: Console) -> Iterator[Record]:
    """The records of a recorded stream, each when its stream is over."""
    stream = _Stream(source.name, console)
    number = 0
    for number, offset, data in _events(source):
        if data.strip() == b"[DONE]":
            yield from stream.take()
            continue
        try:
            event = json_object(source.name, number, offset, data)
            if stream.is_new(event):
                yield from stream.take()
            stream.add(event, number)
        except CliError as error:
            stream.problem(error)
    yield from stream.take()
    if not number and source.at:
        console.error(CliError("E023", f"{source.name}: no 'data:' line; this is no recorded event stream"))


def _events(source: Source) -> Iterator[tuple[int, int, bytes]]:
    """Line number, byte offset and data of each event; its ``data:`` lines are joined with line feeds."""
    data: list[bytes] = []
    first = (0, 0)
    for number, offset, line in source.lines():
        if not line:
            if data:
                yield *first, b"\n".join(data)
            data = []
        elif line.startswith(b"data:"):
            value = line[5:].removeprefix(b" ")
            if not data:
                first = (number, offset + len(line) - len(value))
            data.append(value)
    if data:
        yield *first, b"\n".join(data)


class _Stream:
    """The choices of one response, collected."""

    def __init__(self, name: str, console: Console) -> None:
        self._name = name
        self._console = console
        self._id: Any = None
        self._records: dict[int, Record] = {}
        self._pieces: dict[int, list[str]] = {}
        self._warned = False

    def is_new(self, event: dict[str, Any]) -> bool:
        """Whether ``event`` belongs to another response."""
        return bool(self._records) and event.get("id") is not None and event["id"] != self._id

    def problem(self, error: CliError, index: int | None = None) -> None:
        """Tell ``error`` on the console and in the record of choice ``index``, of None in all that are open."""
        self._console.error(error)
        for record in self._records.values() if index is None else (self._records[index],):
            record.problems.append(error.message)

    def add(self, event: dict[str, Any], number: int) -> None:
        """Take in one chunk. Raises ``CliError`` for one of which nothing can be used."""
        if (error := event.get("error")) is not None:
            text = error.get("message") if isinstance(error, dict) else error
            raise CliError("E025", f"{self._name}:{number}: the server reported an error: {text}")
        choices = event.get("choices")
        if not isinstance(choices, list):
            raise CliError("E024", f"{self._name}:{number}: no 'choices' in the event")
        self._id = event.get("id", self._id)
        for choice in choices:
            if not isinstance(choice, dict):
                self.problem(self._wrong("a choice", "an object", choice, number))
                continue
            index = choice.get("index")
            if index is None or type(index) is int:
                self._choice(index or 0, choice, event, number)
            else:
                self.problem(self._wrong("index", "an integer", index, number))

    def _wrong(self, what: str, wanted: str, value: Any, number: int) -> CliError:
        return CliError("E024", f"{self._name}:{number}: {what} should be {wanted}, found {kind_name(value)}")

    def _part(self, inside: dict[str, Any], key: str, kind: type, index: int, number: int) -> Any:
        """``inside[key]`` if it is a ``kind``; None if it is not there, and if it is wrong, which is told."""
        value = inside.get(key)
        if value is None or isinstance(value, kind):
            return value
        wanted = "a string" if kind is str else "an object"
        self.problem(self._wrong(key, wanted, value, number), index)
        return None

    def _choice(self, index: int, choice: dict[str, Any], event: dict[str, Any], number: int) -> None:
        if index not in self._records:
            self._pieces[index] = []
            model = event.get("model")
            self._records[index] = Record(
                self._name,
                self._pieces[index],
                line=number,
                id=str(event.get("id") or ""),
                choice=index,
                format=model if isinstance(model, str) else "",
                by_model=True,
            )
        delta = self._part(choice, "delta", dict, index, number)
        inside, key = (choice, "text") if delta is None else (delta, "content")
        if text := self._part(inside, key, str, index, number):
            self._pieces[index].append(text)
        if finish := self._part(choice, "finish_reason", str, index, number):
            self._records[index].finish = finish
        parsed = isinstance(delta, dict) and any(
            delta.get(key) for key in ("tool_calls", "reasoning", "reasoning_content", "function_call")
        )
        if parsed and not self._warned:
            self._warned = True
            self._console.note(
                f"{self._name}:{number}: the server has parsed this stream itself; only its content is read"
            )

    def take(self) -> Iterator[Record]:
        """The records so far, by choice; the next chunk begins another stream."""
        records = [self._records[index] for index in sorted(self._records)]
        self._records, self._pieces, self._id = {}, {}, None
        yield from records
