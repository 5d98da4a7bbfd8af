"""Recorded event streams of OpenAI-style servers: ``data: {...}`` lines to one record per choice.

The raw text is in ``choices[].delta.content`` (chat) or ``choices[].text`` (completions); each delta is one
piece. A file may hold several streams; ``[DONE]``, another id or the end of the file ends one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolgrammar.cli.errors import CliError
from toolgrammar.cli.inputs import Record, Source, json_object
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
            console.error(error)
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

    def add(self, event: dict[str, Any], number: int) -> None:
        """Take in one chunk."""
        if "error" in event:
            error = event["error"]
            text = error.get("message") if isinstance(error, dict) else error
            raise CliError("E025", f"{self._name}:{number}: the server reported an error: {text}")
        choices = event.get("choices")
        if not isinstance(choices, list):
            raise CliError("E024", f"{self._name}:{number}: no 'choices' in the event")
        self._id = event.get("id", self._id)
        for choice in choices:
            if not isinstance(choice, dict):
                raise CliError("E024", f"{self._name}:{number}: a choice that is no object")
            self._choice(choice, event, number)

    def _choice(self, choice: dict[str, Any], event: dict[str, Any], number: int) -> None:
        index = choice.get("index") if isinstance(choice.get("index"), int) else 0
        assert isinstance(index, int)
        delta = choice.get("delta")
        text = delta.get("content") if isinstance(delta, dict) else choice.get("text")
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
            )
        if isinstance(text, str) and text:
            self._pieces[index].append(text)
        if isinstance(choice.get("finish_reason"), str):
            self._records[index].finish = choice["finish_reason"]
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
