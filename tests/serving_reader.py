"""The output reader on a socket of its own, an engine that says what a test wants, and who hears it."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from serving_client import DEADLINE_S, turn
from serving_push import PULL_HELLO
from toolgrammar_serving.engine_client.decoding import Message
from toolgrammar_serving.engine_client.reader import OutputReader
from toolgrammar_serving.protocol.wire import (
    EngineCoreOutputs,
)

encode = msgspec.msgpack.encode


def step(*outputs: Any, **fields: Any) -> bytes:
    return encode(EngineCoreOutputs(outputs=list(outputs), **fields))


class Heard:
    def __init__(self) -> None:
        self.batches: list[list[Message]] = []
        self.deaths = 0
        self.gone: list[bool] = []

    def start(self, reader: OutputReader) -> None:
        reader.start(deliver=self.deliver, dead=self.dead, gone=self.gone.append)

    @property
    def tokens(self) -> list[int]:
        """Of all that came; each message has one."""
        return [body.outputs[0].new_token_ids[0] for batch in self.batches for body, _ in batch]

    def deliver(self, messages: Iterator[Message], count: int) -> None:
        self.batches.append(list(messages))
        assert len(self.batches[-1]) == count

    def dead(self) -> None:
        self.deaths += 1

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                await turn()


@asynccontextmanager
async def reading(*messages: list[bytes], start: bool = True) -> AsyncIterator[tuple[Heard, Engine, OutputReader]]:
    """A reader, and one engine that has sent these messages before it was there."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/outputs")
        listener.listen()
        listener.setblocking(False)
        engine = Engine(f"{folder}/outputs")
        engine.sends(HELLO, *messages)
        heard = Heard()
        reader = OutputReader(listener)
        if start:
            heard.start(reader)
        try:
            yield heard, engine, reader
        finally:
            reader.close()
            engine.socket.close()


class Engine:
    """The bytes of a PUSH socket."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def sends(self, *messages: list[bytes]) -> None:
        """At once; what does not fit into the socket would wait for ever."""
        data = b"".join(_frames(frames) for frames in messages)
        assert self.socket.send(data) == len(data)

    async def cut_off(self) -> None:
        """Wait until the reader has closed the connection."""
        async with asyncio.timeout(DEADLINE_S):
            while not self.is_cut_off():
                await turn()

    def is_cut_off(self) -> bool:
        """The reader has closed the connection."""
        self.socket.setblocking(False)
        try:
            while data := self.socket.recv(4096):
                assert data
        except BlockingIOError:
            return False
        return True


HELLO: list[bytes] = []  # stands for the greeting in a list of messages


def _frames(frames: list[bytes]) -> bytes:
    if frames is HELLO:
        return PULL_HELLO.replace(b"PULL", b"PUSH")
    data = b""
    for left, frame in enumerate(reversed(frames)):
        flags = 2 | (left > 0)
        data = bytes([flags]) + len(frame).to_bytes(8, "big") + frame + data
    return data
