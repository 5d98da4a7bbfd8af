"""What a response's connection is to a route, and the one that any ASGI server can give."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from toolgrammar_serving.server.problems import Receive, Send

#: Bytes that wait in a plain ASGI connection before its writer is told to pause; uvloop's own limit is the same.
HIGH_WATER = 65536


class Watcher(Protocol):
    """Who is told of the connection. All calls come on the event loop, never from within ``write``'s caller's own
    call to ``end``."""

    def lost(self) -> None:
        """The client is gone: nothing that is written arrives any more."""

    def paused(self) -> None:
        """The client reads slower than we write: write no more for now (what is written is kept)."""

    def resumed(self) -> None:
        """Write on."""


class Connection(Protocol):
    """A response's way out. ``cuts_off``: it parts with a client that takes nothing by itself."""

    is_lost: bool
    cuts_off: bool

    def watch(self, watcher: Watcher) -> None:
        """From now on tell ``watcher``."""

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers."""

    def write(self, head: bytes, text: bytes, tail: bytes) -> None:
        """One piece of the body: the three parts joined (they are given apart to be copied once). Between
        ``start`` and ``end``; none may be all empty."""

    async def end(self, data: bytes) -> None:
        """The last piece of the body, and its end."""

    def abort(self) -> None:
        """Give up: close the connection without an end."""

    def close(self) -> None:
        """The response is over, or was never begun: tell the watcher nothing more."""


class PlainConnection:
    """Pieces through ASGI ``send``: one task writes what waits, joined."""

    cuts_off = False

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._watcher: Watcher | None = None
        self._listener: asyncio.Task[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._waiting: list[bytes] = []
        self._size = 0
        self._paused = False
        self.is_lost = False

    def watch(self, watcher: Watcher) -> None:
        """From now on tell ``watcher``; a task waits for the client to leave."""
        self._watcher = watcher
        if self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(self._listen())

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, head: bytes, text: bytes, tail: bytes) -> None:
        """Queue one piece."""
        piece = b"%b%b%b" % (head, text, tail)
        self._waiting.append(piece)
        self._size += len(piece)
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())
        elif self._size > HIGH_WATER and not self._paused and self._watcher is not None:
            self._paused = True
            self._watcher.paused()

    async def end(self, data: bytes) -> None:
        """What waits, then the last piece."""
        if self._writer is not None:
            await self._writer
        self._watcher = None
        await self._body(data, more=False)

    def abort(self) -> None:
        """Stop writing. The server closes the connection, for the response has no end."""
        self._lose()

    def close(self) -> None:
        """End the task that waits for the client to leave."""
        self._watcher = None
        if self._listener is not None:
            self._listener.cancel()

    async def _write(self) -> None:
        while self._waiting and not self.is_lost:
            data = b"".join(self._waiting)
            self._waiting.clear()
            self._size = 0
            await self._body(data, more=True)
            if self._paused:
                self._paused = False
                if self._watcher is not None:
                    self._watcher.resumed()
        self._writer = None

    async def _body(self, data: bytes, *, more: bool) -> None:
        if self.is_lost:
            return
        try:
            await self._send({"type": "http.response.body", "body": data, "more_body": more})
        except OSError:  # what an ASGI server raises when the client is gone
            self._lose()

    async def _listen(self) -> None:
        while True:
            message: Any = await self._receive()
            if message["type"] == "http.disconnect":
                break
        self._lose()

    def _lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            if self._watcher is not None:
                self._watcher.lost()
