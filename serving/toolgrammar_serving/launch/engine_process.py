"""Our engine as a child: its progress, its words, and why it failed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import msgspec

from toolgrammar_serving.launch.engines import own_command
from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.processes import Child, Children, describe, start_child

#: What the stages that an engine tells are to a person.
STAGES: Final = {
    "handshake": "starting the engine",
    "model": "loading the model",
    "cache": "making room for the KV cache",
    "register": "engine: ready",
    "ready": "engine: ready",
}
#: Ordinary log lines of the engine and of what it is built on; shown only to those who want to see ours.
_CHATTER: Final = re.compile(rb"^engine (INFO|DEBUG)| - (INFO|DEBUG) - ")


class EngineProcess:
    """One rank. ``on_stage`` hears what it does next, ``on_line`` what it writes."""

    def __init__(self, child: Child, on_stage: Callable[[str], None], on_line: Callable[[str], None]) -> None:
        self.child = child
        self.problem: str | None = None
        self._on_stage = on_stage
        self._on_line = on_line
        self._reading: list[asyncio.Future[None]] = []

    def listen(self, progress: int, words: int, chatter: bool) -> None:
        """Follow both pipes to their ends."""
        self._reading = [
            asyncio.ensure_future(self._read_progress(progress)),
            asyncio.ensure_future(self._read_words(words, chatter)),
        ]

    async def ended(self) -> str:
        """How it ended, and why if it said so."""
        code = await asyncio.shield(self.child.ended)
        await asyncio.wait(self._reading)  # what it said last
        return f"{describe(code)}{f': {self.problem}' if self.problem else ''}"

    async def _read_progress(self, fd: int) -> None:
        async for line in _lines(fd):
            with contextlib.suppress(msgspec.DecodeError):
                told: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
                if told.get("stage") == "failed":
                    self.problem = str(told.get("problem"))
                else:
                    self._on_stage(STAGES.get(str(told.get("stage")), str(told.get("stage"))))

    async def _read_words(self, fd: int, chatter: bool) -> None:
        async for line in _lines(fd):
            if chatter or not _CHATTER.search(line):
                self._on_line(line.decode("utf-8", "replace"))


def start_engines(
    options: Options,
    address: str,
    rest: Sequence[str],
    children: Children,
    on_stage: Callable[[str], None],
    on_line: Callable[[str], None],
) -> list[EngineProcess]:
    """Start all ranks. Their output is read until they end."""
    engines = []
    for rank in range(options.data_parallel_size):
        progress, progress_end = os.pipe()
        words, words_end = os.pipe()
        try:
            command = own_command(options, address, rank, progress_end, rest)
            child = start_child(f"engine {rank}", command, pass_fds=[progress_end], stdout=words_end)
        finally:
            os.close(progress_end)
            os.close(words_end)
        engine = EngineProcess(children.add(child), on_stage, on_line)
        engine.listen(progress, words, options.log_level in ("debug", "info"))
        engines.append(engine)
    return engines


async def _lines(fd: int) -> AsyncIterator[bytes]:
    """Lines of a pipe, which is closed at its end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb"))
    try:
        while line := await reader.readline():
            yield line.rstrip(b"\r\n")
    finally:
        transport.close()
