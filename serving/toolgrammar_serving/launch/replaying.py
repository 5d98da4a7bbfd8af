"""Captured outputs as the source of tokens: which format they are in, and an engine that plays them."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from toolgrammar import registry
from toolgrammar.cli.errors import CliError
from toolgrammar.cli.inputs import Inputs, Record
from toolgrammar.cli.terminal import Console
from toolgrammar.errors import ToolgrammarError, UnknownModelError
from toolgrammar_serving.launch.beginning import Beginning, choose_beginning
from toolgrammar_serving.launch.plan import Plan
from toolgrammar_serving.launch.problems import LaunchError
from toolgrammar_serving.replay.choice import chooser
from toolgrammar_serving.replay.embedded import EmbeddedReplay
from toolgrammar_serving.replay.options import EngineOptions
from toolgrammar_serving.replay.recordings import RecordingError, RecordingOptions, read_recordings
from toolgrammar_serving.replay.vocabulary import ByteVocabulary, FileVocabulary, Vocabulary, VocabularyError

#: Without a model: one end of sequence behind the bytes, which no text can spell.
BYTE_MARKERS: Final = ("",)
BYTE_EOS: Final = 256
#: Tokens of prompt and output that a replay without a model takes: these are bytes.
BYTE_CONTEXT: Final = 1 << 20
_LOOKED_AT: Final = 1000


class _Silent(Console):
    """What cannot be read is told later, when it is read to be played."""

    def error(self, error: CliError) -> None:
        """Not now."""


class Chosen(NamedTuple):
    """A format, and why it."""

    format: str
    why: str


def choose_format(plan: Plan) -> Chosen:
    """The format of the captures where no option names it: as their records say, else what their text speaks for.

    Raises ``LaunchError`` if the records are of several formats.
    """
    path = str(plan.options.replay)
    named: dict[str, None] = {}
    texts: list[str] = []
    for record in itertools.islice(_records(path), _LOOKED_AT):
        if record.format and (name := _resolved(record)):
            named[name] = None
        elif not named and len(texts) < 8:
            texts.append("".join(record.pieces))
    if len(named) > 1:
        raise LaunchError(
            f"{path} has records of several formats: {', '.join(named)}",
            f"one server reads one format: --format {next(iter(named))}, or a file for each",
        )
    if named:
        return Chosen(next(iter(named)), "its records name it")
    from toolgrammar.cli.detecting import rank_text

    found = rank_text("\n".join(texts))
    if found and found[0].score > 0:
        return Chosen(found[0].format, "; ".join(found[0].reasons[:2]))
    return Chosen("identity", "nothing in its text is of a known format: all of it is content; --format NAME")


def choose_start(plan: Plan) -> Beginning:
    """Where the captures begin, read in the plan's format; the usual place if that is unknown, which is told
    later."""
    try:
        return choose_beginning(plan.format, _records(str(plan.options.replay)))
    except ToolgrammarError:
        return Beginning()


def _records(path: str) -> Iterator[Record]:
    if path.endswith(".json"):  # scripts of token ids
        return
    try:
        yield from Inputs([path], "auto", None, _Silent(quiet=True))
    except CliError as error:
        raise LaunchError(error.message, error.hint) from None


def _resolved(record: Record) -> str:
    """The format that a record names; none if it only says which model wrote it, and that is of no known one."""
    try:
        return registry.resolve(record.format)
    except UnknownModelError as error:
        if record.by_model:
            return ""
        raise LaunchError(f"{record.label}: {error}", f"--format NAME says which it is; {error.hint}") from None


def _speed(text: str) -> float:
    """Of the recorded times."""
    if text == "recorded":
        return 1.0
    if text == "max":
        return math.inf
    try:
        factor = float(text.removesuffix("x"))
    except ValueError:
        factor = 0.0
    if not factor > 0:
        raise LaunchError(f"--speed {text}: it is recorded, max, or a factor such as 2")
    return factor


class ReplaySource:
    """A ``Source``: one thread for each rank, in the launcher. ``hello``: a message that has an answer."""

    hello = "Hello"

    def __init__(self, plan: Plan, address: str) -> None:
        self._plan = plan
        self._address = address
        self._engines: list[EmbeddedReplay] = []

    def start(self) -> int:
        """Read the file and say HELLO. Returns how many captures there are. Raises ``LaunchError``."""
        plan = self._plan
        options = plan.options
        vocabulary: Vocabulary = ByteVocabulary(BYTE_MARKERS)
        console = Console(options.color)
        try:
            if plan.model_dir is not None:
                vocabulary = FileVocabulary(plan.model_dir)
            how = RecordingOptions(speed=_speed(options.speed))
            entries = read_recordings([str(options.replay)], vocabulary, how, console)
        except (RecordingError, VocabularyError) as error:
            raise LaunchError(str(error), "toolgrammar help parse") from None
        if all(entry.match for entry in entries):
            self.hello = entries[0].match or self.hello
        for rank in range(options.data_parallel_size):
            engine_options = EngineOptions(
                rank=rank,
                data_parallel_size=options.data_parallel_size,
                max_model_len=options.max_model_len or BYTE_CONTEXT,
                eos_token_id=BYTE_EOS if plan.model_dir is None else None,
            )
            choose = chooser(entries, vocabulary.decode, "auto")
            engine = EmbeddedReplay(choose, engine_options, handshake=self._address, keep_requests=False)
            self._engines.append(engine)
            engine.__enter__()  # its end is `stop`, below
        return len(entries)

    async def ended(self) -> str:
        """Never by itself: a script that ends the engine is heard of over the wire."""
        await asyncio.Event().wait()
        return ""

    async def stop(self) -> None:
        """End the threads."""
        for engine in self._engines:
            await asyncio.to_thread(engine.stop, told=False)
