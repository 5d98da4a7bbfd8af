"""Files to records: raw text, JSONL, recorded SSE. Read piece by piece, so that memory does not grow with a
file.

What cannot be read is reported on the console with file, line and byte offset, and reading goes on: with the
next line in JSONL and SSE, with the next file in text.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, Final

from msgspec import Struct

from toolgrammar.cli.errors import CliError
from toolgrammar.cli.terminal import Console

KINDS: Final = ("auto", "text", "jsonl", "sse")
TEXT_FIELDS: Final = ("text", "raw", "output", "content")
_SUFFIXES: Final = {".jsonl": "jsonl", ".ndjson": "jsonl", ".sse": "sse"}
STDIN: Final = "<stdin>"
_PIECE: Final = 65536
_BOM: Final = codecs.BOM_UTF8


class Record(Struct):
    """One raw output and what is known about it. ``pieces`` can be read once; they are as recorded."""

    file: str
    pieces: Iterable[str]
    line: int | None = None
    id: str = ""
    choice: int | None = None
    format: str = ""
    #: Whether ``format`` is only the name of the model that wrote it.
    by_model: bool = False
    tools: Any = None
    start: str = ""
    finish: str | None = None
    token_ids: Sequence[int] | None = None
    prompt: str | None = None
    #: What was wrong with parts of it that were left out, each told on the console too.
    problems: list[str] = []

    @property
    def live(self) -> bool:
        """Whether it may still be arriving, so that somebody waits for each result."""
        return self.file == STDIN

    @property
    def label(self) -> str:
        """``file`` or ``file:line``, for messages."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return place + (f" choice {self.choice}" if self.choice else "")


class Source:
    """An input file, or stdin, that knows how many bytes were read."""

    def __init__(self, path: str) -> None:
        self.name = STDIN if path == "-" else path
        self.at = 0
        if path == "-":
            self._file: IO[bytes] = sys.stdin.buffer
            return
        try:
            self._file = open(path, "rb")  # noqa: SIM115
        except OSError as error:
            raise CliError("E021", f"cannot read {path}: {error.strerror}") from error

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Line number from 1, byte offset, the line without its end."""
        try:
            for number, line in enumerate(self._file, 1):
                offset = self.at
                self.at += len(line)
                if number == 1 and line.startswith(_BOM):
                    offset, line = offset + len(_BOM), line[len(_BOM) :]
                yield number, offset, line.rstrip(b"\r\n")
        except OSError as error:
            raise CliError("E021", f"cannot read {self.name}: {error.strerror}") from error

    def text(self) -> Iterator[str]:
        """The text in pieces as they arrive, exact: no line end is changed."""
        decoder = codecs.getincrementaldecoder("utf-8")("strict")
        line = 1
        final = False
        while not final:
            try:
                data: bytes = self._file.read1(_PIECE)  # type: ignore[attr-defined]
            except OSError as error:
                raise CliError("E021", f"cannot read {self.name}: {error.strerror}") from error
            final = not data
            pending = len(decoder.getstate()[0])
            try:
                piece = decoder.decode(data, final)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                raise _not_utf8(self.name, line, self.at - pending, error) from error
            self.at += len(data)
            line += piece.count("\n")
            if piece:
                yield piece

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file; stdin stays open."""
        if self._file is not sys.stdin.buffer:
            self._file.close()


def kind_of(path: str, kind: str) -> str:
    """The kind of input, by suffix if it is ``auto``."""
    return kind if kind != "auto" else _SUFFIXES.get(os.path.splitext(path)[1].lower(), "text")


def total_bytes(paths: Sequence[str]) -> int:
    """How much there is to read, as far as it is known beforehand."""
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))


class Inputs:
    """Iterate over it for the records of all ``paths``; ``at`` counts the bytes read so far."""

    def __init__(self, paths: Sequence[str], kind: str, field: str | None, console: Console) -> None:
        self.paths = tuple(paths) or ("-",)
        self.kind = kind
        self.field = field
        self._console = console
        self._before = 0
        self._source: Source | None = None

    @property
    def at(self) -> int:
        """Bytes read."""
        return self._before + (self._source.at if self._source is not None else 0)

    def __iter__(self) -> Iterator[Record]:
        for path in self.paths:
            if path == "-" and sys.stdin.isatty():
                self._console.note("reading standard input; end with Ctrl-D")
            try:
                with Source(path) as self._source:
                    yield from self._records(self._source, kind_of(path, self.kind))
            except CliError as error:
                self._console.error(error)
            self._before = self.at
            self._source = None

    def _records(self, source: Source, kind: str) -> Iterator[Record]:
        if kind == "text":
            yield Record(source.name, source.text())
        elif kind == "jsonl":
            for number, offset, line in source.lines():
                if line.strip():
                    try:
                        data = json_object(source.name, number, offset, line)
                        yield record_of(data, source.name, number, self.field, self._console)
                    except CliError as error:
                        self._console.error(error)
        else:
            from toolgrammar.cli.sse import streams

            yield from streams(source, self._console)


def json_object(name: str, number: int, offset: int, line: bytes) -> dict[str, Any]:
    """The JSON object on a line."""
    import json

    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _not_utf8(name, number, offset, error) from error
    except json.JSONDecodeError as error:
        raise CliError(
            "E023",
            f"{name}:{number}: not JSON: {error.msg} at column {error.colno} (byte {offset} of the file)",
        ) from error
    except (ValueError, RecursionError) as error:
        raise CliError("E023", f"{name}:{number}: JSON that cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise CliError("E023", f"{name}:{number}: expected a JSON object, found {kind_name(value)}")
    return value


def record_of(data: dict[str, Any], name: str, number: int, field: str | None, console: Console) -> Record:
    """The record of a JSONL line."""
    where = f"{name}:{number}"
    text, pieces, ids = _text_of(data, field, where)
    if text is not None and pieces is not None and "".join(pieces) != text:
        console.note(f"{where}: the recorded chunks do not join to the text; it is fed whole")
        pieces = None
    for key, kind in (("tools", list), ("format", str), ("model", str), ("starts_in", str)):
        if data.get(key) is not None and not isinstance(data[key], kind):
            wanted = "a list" if kind is list else "a string"
            raise CliError("E027", f"{where}: {key!r} should be {wanted}, found {kind_name(data[key])}")
    finish, prompt = data.get("finish_reason"), data.get("prompt")
    return Record(
        file=name,
        line=number,
        id=str(data.get("id") or ""),
        pieces=pieces if pieces is not None else ([text] if text is not None else []),
        format=data.get("format") or data.get("model") or "",
        by_model=not data.get("format"),
        tools=data.get("tools"),
        start=data.get("starts_in") or "",
        finish=finish if isinstance(finish, str) else None,
        token_ids=ids,
        prompt=prompt if isinstance(prompt, str) else None,
    )


def _text_of(
    data: dict[str, Any], field: str | None, where: str
) -> tuple[str | None, list[str] | None, list[int] | None]:
    """The text, the recorded pieces and the token ids of a record, as far as it has them."""
    if field is not None:
        value = _walk(data, field)
        if isinstance(value, str):
            return value, None, None
        if (pieces := _strings(value)) is not None:
            return None, pieces, None
        if (ids := _numbers(value)) is not None:
            return None, None, ids
        if field.endswith("token_ids"):
            _must_be_ids(value, field, where)
        raise _no_text(data, field, value, where)
    text = None
    for key in TEXT_FIELDS:
        if data.get(key) is not None:
            if not isinstance(data[key], str):
                raise _no_text(data, key, data[key], where)
            text = data[key]
            break
    pieces = _strings(data.get("chunks"))
    if pieces is None:
        pieces = _strings(data.get("token_texts"))
    _must_be_ids(data.get("token_ids"), "token_ids", where)
    ids = _numbers(data.get("token_ids"))
    if text is None and pieces is None and ids is None:
        raise _no_text(data, None, None, where)
    return text, pieces, ids


def _walk(data: Any, path: str) -> Any:
    if isinstance(data, dict) and path in data:
        return data[path]
    for part in path.split("."):
        if isinstance(data, list) and part.isdigit() and int(part) < len(data):
            data = data[int(part)]
        elif isinstance(data, dict) and part in data:
            data = data[part]
        else:
            return None
    return data


def _strings(value: Any) -> list[str] | None:
    """A list of strings; of several lists (a case's ways of feeding) the first."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    return value if isinstance(value, list) and value and all(isinstance(item, str) for item in value) else None


def _numbers(value: Any) -> list[int] | None:
    if not isinstance(value, list) or not value or any(type(item) is not int for item in value):
        return None
    return value


def _must_be_ids(value: Any, key: str, where: str) -> None:
    """Raise for what is there and is no list of integers, with the first item that is wrong."""
    if value is None:
        return
    if not isinstance(value, list):
        raise CliError("E027", f"{where}: {key!r} should be a list of token ids, found {kind_name(value)}")
    for at, item in enumerate(value):
        if type(item) is not int:
            found = "a number that is no integer" if isinstance(item, float) else kind_name(item)
            raise CliError("E027", f"{where}: {key!r} should be a list of token ids, found {found} at index {at}")


def _no_text(data: dict[str, Any], field: str | None, value: Any, where: str) -> CliError:
    has = ", ".join(list(data)[:12]) or "nothing"
    if field is None:
        message = f"{where}: no text: none of {', '.join(TEXT_FIELDS)}, chunks, token_ids is there"
        return CliError("E024", message, f"the record has: {has}; choose one with --field")
    if value is None:
        return CliError("E024", f"{where}: no field {field!r}", f"the record has: {has}")
    return CliError("E024", f"{where}: field {field!r} is {kind_name(value)}, not text")


def kind_name(value: Any) -> str:
    """What ``value`` is in JSON, for messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _not_utf8(name: str, line: int, offset: int, error: UnicodeDecodeError) -> CliError:
    at = offset + error.start
    byte = error.object[error.start]
    return CliError("E022", f"{name}: not UTF-8: byte 0x{byte:02x} at offset {at}, line {line} ({error.reason})")
