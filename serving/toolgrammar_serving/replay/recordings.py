"""Captured outputs to scripts: text, JSONL and recorded event streams, as the command line of ``toolgrammar``
reads them.

A JSONL record may also say when it is played, and how fast it came:

    {"text": "…", "chunks": ["Two ", "ferries."], "times_s": [0.41, 0.46], "match": "ferry to Mull",
     "finish_reason": "stop"}

``match``: part of the prompt's text. Without it the last user or tool message of ``request`` (``{"messages":
[…]}``) is taken, or ``prompt``. ``times_s``: when each chunk came, in seconds since the request. A record may be
a script instead (``scripts.read_script``), and a file ``*.json`` holds one script or a list of them. In an event
stream a comment line ``: t=0.41`` gives the time of the events behind it.

A step has the tokens of one recorded chunk; a special token that was cut comes with its last part. Text that was
not recorded in chunks comes token by token.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from toolgrammar.cli.errors import CliError
from toolgrammar.cli.inputs import Record, Source, json_object, kind_of, record_of
from toolgrammar.cli.sse import streams
from toolgrammar.cli.terminal import Console
from toolgrammar_serving.protocol.wire import FINISH_REASONS, STOP
from toolgrammar_serving.replay.choice import Entry
from toolgrammar_serving.replay.event_times import event_times
from toolgrammar_serving.replay.scripts import Script, ScriptError, Step, read_script
from toolgrammar_serving.replay.vocabulary import Vocabulary, split_at


class RecordingError(ValueError):
    """Nothing that can be played in what was given."""


class RecordingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``kind``: text, jsonl, sse, json, or auto by suffix. ``field``: where in a record the text is.

    ``speed``: of the recorded times, 1.0 as recorded, infinite: none are kept. ``tokens_per_step``: of text
    without recorded chunks, or of all if ``keep_chunks`` is false.
    """

    kind: str = "auto"
    field: str | None = None
    speed: float = 1.0
    keep_chunks: bool = True
    tokens_per_step: int = 1


def read_recordings(
    paths: Sequence[str],
    vocabulary: Vocabulary,
    options: RecordingOptions | None = None,
    console: Console | None = None,
) -> list[Entry]:
    """All recordings of ``paths``, in order. What cannot be read is told on the console and left out.

    Raises ``RecordingError`` if nothing is left.
    """
    options = options or RecordingOptions()
    console = console or Console("never")
    entries: list[Entry] = []
    for path in paths:
        try:
            entries.extend(_entries(path, vocabulary, options, console))
        except CliError as error:
            console.error(error)
    if not entries:
        raise RecordingError(f"nothing to replay in {', '.join(paths) or 'no files'}")
    return entries


def _entries(path: str, vocabulary: Vocabulary, options: RecordingOptions, console: Console) -> Iterator[Entry]:
    kind = kind_of(path, options.kind)
    if options.kind == "json" or (options.kind == "auto" and path.endswith(".json")):
        yield from _script_file(path, options)
        return
    with Source(path) as source:
        if kind == "text":
            yield _entry(Record(source.name, ["".join(source.text())]), None, None, vocabulary, options)
        elif kind == "jsonl":
            yield from _lines(source, vocabulary, options, console)
        else:
            times = event_times(path)
            for record in streams(source, console):
                known = times.get((record.line or 0, record.choice or 0))
                yield from _played(record, None, known, vocabulary, options, console)


def _script_file(path: str, options: RecordingOptions) -> Iterator[Entry]:
    try:
        with open(path, "rb") as file:
            document = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise CliError("E023", f"{path}: no JSON: {error}") from error
    # A list of numbers is one script, a list of anything else several.
    several = isinstance(document, list) and not all(type(item) is int for item in document)
    for number, one in enumerate(document if several else [document]):
        yield _script_entry(one, f"{path}[{number}]" if several else path, options)


def _script_entry(document: Any, where: str, options: RecordingOptions) -> Entry:
    match = None
    if isinstance(document, dict):
        document = dict(document)
        match = _match(document)
        for key in ("match", "request", "prompt", "id"):
            document.pop(key, None)
    try:
        script = read_script(document, tokens_per_step=options.tokens_per_step)
    except ScriptError as error:
        raise CliError("E027", f"{where}: no script: {error}") from error
    return Entry(match, _at_speed(script, options.speed))


def _lines(source: Source, vocabulary: Vocabulary, options: RecordingOptions, console: Console) -> Iterator[Entry]:
    for number, offset, line in source.lines():
        if not line.strip():
            continue
        try:
            data = json_object(source.name, number, offset, line)
            if options.field is None and ("steps" in data or "tokens" in data):
                yield _script_entry(data, f"{source.name}:{number}", options)
                continue
            record = record_of(data, source.name, number, options.field, console)
            times = data.get("times_s")
            yield from _played(record, _match(data), times, vocabulary, options, console)
        except CliError as error:
            console.error(error)


def _match(data: dict[str, Any]) -> str | None:
    """The part of a prompt that a record belongs to."""
    if isinstance(data.get("match"), str):
        return data["match"] or None
    request = data.get("request")
    if isinstance(request, str):
        return request.strip() or None
    if isinstance(request, dict) and isinstance(request.get("messages"), list):
        for message in reversed(request["messages"]):
            if isinstance(message, dict) and message.get("role") in ("user", "tool"):
                return _message_text(message.get("content")).strip() or None
    prompt = data.get("prompt")
    return (prompt.strip() or None) if isinstance(prompt, str) else None


def _message_text(content: Any) -> str:
    """The text of a message; of several parts the last one."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = next((text for text in reversed(texts) if isinstance(text, str)), "")
    return content if isinstance(content, str) else ""


def _played(
    record: Record,
    match: str | None,
    times_s: Any,
    vocabulary: Vocabulary,
    options: RecordingOptions,
    console: Console,
) -> Iterator[Entry]:
    try:
        yield _entry(record, match, times_s, vocabulary, options)
    except RecordingError as error:
        console.error(CliError("E024", f"{record.label}: {error}"))


def _entry(
    record: Record, match: str | None, times_s: Any, vocabulary: Vocabulary, options: RecordingOptions
) -> Entry:
    pieces = [piece for piece in record.pieces if piece]
    text = "".join(pieces)
    ids = list(record.token_ids) if record.token_ids is not None else None
    if ids is not None and not (all(map(vocabulary.has, ids)) and (not text or vocabulary.decode(ids) == text)):
        if not text:
            raise RecordingError("its token ids are not of this vocabulary, and it has no text")
        ids = None
    chunked = options.keep_chunks and len(pieces) > 1
    groups = _chunks(pieces, text, vocabulary) if chunked and ids is None else None
    if groups is None:
        tokens = vocabulary.encode(text) if ids is None else ids
        size = max(1, options.tokens_per_step)
        groups = {at: tokens[at : at + size] for at in range(0, len(tokens), size)}
        times_s = None
    finish = record.finish if record.finish in FINISH_REASONS else "stop"
    code = FINISH_REASONS.index(finish)
    script = Script(steps=_steps(groups, times_s), finish=code, eos=code == STOP)
    return Entry(match, _at_speed(script, options.speed))


def _chunks(pieces: Sequence[str], text: str, vocabulary: Vocabulary) -> dict[int, list[int]] | None:
    """The ids of each chunk that has any, by its index; None if pieces by themselves would not give this text."""
    ends = list(accumulate(map(len, pieces)))
    special = set(vocabulary.special)
    groups: dict[int, list[int]] = {}
    at = 0
    for part in split_at(text, vocabulary.special):
        end = at + len(part)
        while at < end:
            chunk = bisect_left(ends, end if part in special else at + 1)
            stop = min(end, ends[chunk])
            groups.setdefault(chunk, []).extend(vocabulary.encode(part if part in special else text[at:stop]))
            at = stop
    whole = [token for ids in groups.values() for token in ids]
    return groups if vocabulary.decode(whole) == text else None


def _steps(groups: dict[int, list[int]], times_s: Any) -> tuple[Step, ...]:
    """A step for each group, with the time since the one before."""
    steps = []
    before_s = 0.0
    for chunk, ids in groups.items():
        at_s = before_s
        if isinstance(times_s, list) and chunk < len(times_s) and isinstance(times_s[chunk], int | float):
            at_s = max(before_s, float(times_s[chunk]))
        steps.append(Step(tuple(ids), delay_s=at_s - before_s))
        before_s = at_s
    return tuple(steps)


def _at_speed(script: Script, speed: float) -> Script:
    """The script with its delays as short as ``speed`` makes them."""
    if speed == 1.0 or not script.timed:
        return script
    factor = 0.0 if math.isinf(speed) else 1.0 / speed
    steps = tuple(msgspec.structs.replace(step, delay_s=step.delay_s * factor) for step in script.steps)
    return msgspec.structs.replace(script, steps=steps)
