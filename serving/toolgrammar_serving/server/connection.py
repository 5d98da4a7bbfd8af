"""The open connection of one response, for routes that write many small pieces.

A response starts and ends by ordinary ASGI messages. Between them a stream's pieces go straight to the transport
where the server is uvicorn with ``DirectProtocol`` below, as HTTP/1.1 chunks; everywhere else they go through
``send``, with the same bytes in the body. What happens to the connection meanwhile is told to one ``Watcher``.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from toolgrammar_serving.server.problems import Receive, Scope, Send, error_bytes, of_status

KEY = "toolgrammar.connection"
#: Bytes that wait in a plain ASGI connection before its writer is told to pause; uvloop's own limit is the same.
HIGH_WATER = 65536
#: Bytes of a request's head that are kept while its end has not come, beside the piece that it began in.
HEAD_LIMIT = 65536


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
    """A response's way out."""

    is_lost: bool

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


async def _nowhere(message: Any) -> None:
    """Where a response that is over sends."""


def connection(scope: Scope, receive: Receive, send: Send) -> Connection:
    """The connection of the request in ``scope``; its body has been read."""
    made = (scope.get("extensions") or {}).get(KEY)
    if isinstance(made, DirectConnection) and scope.get("http_version") == "1.1":
        made.attach(send)
        return made
    return PlainConnection(receive, send)


class DirectProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol, whose requests carry their connection."""

    direct: DirectConnection | None = None
    beginning: Any = None  # the scope of a request whose head is incomplete
    head_size = 0

    def data_received(self, data: bytes) -> None:
        """The parser keeps a head until it is complete: an endless one, for which no key is needed, is cut off."""
        before = self.beginning
        super().data_received(data)
        if before is not None and self.beginning is before and not self.transport.is_closing():
            self.head_size += len(data)
            if self.head_size > HEAD_LIMIT:
                self._refuse(431, "The head of the request is too large.", "request_head_too_large")

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self.beginning, self.head_size = self.scope, 0

    def on_headers_complete(self) -> None:
        """The request's task is made in here and runs in a later turn of the loop: the scope may still be added
        to."""
        self.beginning = None
        super().on_headers_complete()
        scope: Any = self.scope
        scope["extensions"] = {KEY: DirectConnection(self)}

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the response that is being written; a pipelined one behind it never starts."""
        super().connection_lost(exc)
        self.pipeline.clear()
        if self.direct is not None:
            self.direct.lose()

    def pause_writing(self) -> None:
        """The transport holds more than its high-water mark."""
        super().pause_writing()
        if self.direct is not None and self.direct.watcher is not None:
            self.direct.watcher.paused()

    def resume_writing(self) -> None:
        """The transport holds less than its low-water mark."""
        super().resume_writing()
        if self.direct is not None and self.direct.watcher is not None:
            self.direct.watcher.resumed()

    def send_400_response(self, msg: str) -> None:
        """Not HTTP: say so in the shape of all other errors."""
        self._refuse(400, msg, "invalid_http")

    def _refuse(self, status: int, message: str, code: str) -> None:
        error = of_status(status, message)
        error.code = code
        body = error_bytes(error)
        self.transport.write(
            b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (STATUS_LINE[status], len(body), body)
        )
        self.transport.close()


class DirectConnection:
    """Chunks written to uvicorn's transport. Made for every request; costs nothing until a route attaches it."""

    __slots__ = ("_cycle", "_protocol", "_send", "_transport_write", "is_lost", "watcher")

    def __init__(self, protocol: DirectProtocol) -> None:
        self._protocol = protocol
        # The cycle has the scope, and that has this: held weakly, all of it is freed as soon as it is over.
        self._cycle = weakref.ref(protocol.cycle)
        self._transport_write = protocol.transport.write
        self.watcher: Watcher | None = None
        self.is_lost = False

    def attach(self, send: Send) -> None:
        """This is the response being written from now on."""
        self._send = send
        self._protocol.direct = self
        self.is_lost = self._protocol.transport.is_closing()

    def watch(self, watcher: Watcher) -> None:
        """From now on tell ``watcher``."""
        self.watcher = watcher

    def lose(self) -> None:
        """The client is gone."""
        if not self.is_lost:
            self.is_lost = True
            if self.watcher is not None:
                self.watcher.lost()

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers."""
        headers = [*headers, (b"transfer-encoding", b"chunked")]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, head: bytes, text: bytes, tail: bytes) -> None:
        """One HTTP/1.1 chunk."""
        self._transport_write(b"%x\r\n%b%b%b\r\n" % (len(head) + len(text) + len(tail), head, text, tail))

    async def end(self, data: bytes) -> None:
        """The last chunk and the mark of the end, in one write."""
        self.watcher = None
        await self._send({"type": "http.response.body", "body": data})

    def abort(self) -> None:
        """Close at once; what waits in the transport is dropped."""
        if (cycle := self._cycle()) is not None:
            cycle.disconnected = True
        self._protocol.transport.abort()

    def close(self) -> None:
        """No longer the response being written."""
        self.watcher = None
        self._send = _nowhere
        if self._protocol.direct is self:
            self._protocol.direct = None


class PlainConnection:
    """Pieces through ASGI ``send``: one task writes what waits, joined."""

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
