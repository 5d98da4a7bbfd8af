"""The straight way out: pieces of a response written to its socket, without a task or a message per piece.

Pieces wait in an ``Outbox`` to the end of the loop's turn and are then written one after the other: a step of the
engine is first worked out for all its streams, then sent. A piece that the socket does not take goes to uvicorn's
transport, and so do all behind it until the transport holds nothing: there slow readers are noticed.
"""

from __future__ import annotations

import logging
import os
import sys
import weakref
from asyncio import get_running_loop
from typing import TYPE_CHECKING, Any, Final

from toolgrammar_serving.server.plain_connection import Watcher
from toolgrammar_serving.server.problems import Send

if TYPE_CHECKING:
    from toolgrammar_serving.server.direct_protocol import DirectProtocol


log: Final = logging.getLogger(__name__)


async def _nowhere(message: Any) -> None:
    """Where a response that is over sends."""


class Outbox:
    """What the connections of one event loop have to write in this turn."""

    def __init__(self) -> None:
        self._waiting: list[tuple[DirectConnection, bytes]] = []

    def add(self, connection: DirectConnection, data: bytes) -> None:
        """Write ``data`` at the end of this turn."""
        waiting = self._waiting
        if not waiting:
            get_running_loop().call_soon(self.flush)
        waiting.append((connection, data))

    def flush(self) -> None:
        """Write all that waits, now."""
        waiting, self._waiting = self._waiting, []
        for connection, data in waiting:
            if connection.is_lost:
                continue  # its descriptor may be another's by now
            sent = 0
            if connection.is_clear or connection.look():
                try:
                    sent = os.write(connection.descriptor, data)
                except OSError:  # it takes nothing more, or is broken: the transport tells which
                    sent = 0
            if sent < len(data):
                connection.write_slowly(data[sent:])


class DirectConnection:
    """Chunks for a socket of uvicorn's. Made for every request; costs nothing until a route attaches it."""

    __slots__ = (
        "_cycle",
        "_outbox",
        "_protocol",
        "_send",
        "descriptor",
        "is_clear",
        "is_lost",
        "transport",
        "watcher",
    )

    cuts_off = True

    def __init__(self, protocol: DirectProtocol) -> None:
        self._protocol = protocol
        # The cycle has the scope, and that has this: held weakly, all of it is freed as soon as it is over.
        self._cycle = weakref.ref(protocol.cycle)
        self._outbox: Outbox = protocol.outbox
        self._send: Send = _nowhere
        self.transport: Any = protocol.transport
        #: Of the socket, which is open until ``lose``; -1 if only the transport can write, as under TLS.
        self.descriptor = -1
        #: The transport holds nothing of what was written.
        self.is_clear = False
        self.watcher: Watcher | None = None
        self.is_lost = False

    def attach(self, send: Send) -> None:
        """This is the response being written from now on."""
        self._send = send
        self._protocol.direct = self
        self.is_lost = self.transport.is_closing()
        self.descriptor = _descriptor(self.transport)

    def watch(self, watcher: Watcher) -> None:
        """From now on tell ``watcher``."""
        self.watcher = watcher

    def lose(self) -> None:
        """The client is gone."""
        if not self.is_lost:
            self.is_lost = True
            if self.watcher is not None:
                self.watcher.lost()

    def look(self) -> bool:
        """Whether the socket may be written to from now on: the transport holds nothing any more."""
        self.is_clear = self.descriptor >= 0 and not self.transport.get_write_buffer_size()
        return self.is_clear

    def write_slowly(self, data: bytes) -> None:
        """By the transport, which keeps what the socket does not take. What goes wrong is this connection's
        own."""
        self.is_clear = False
        try:
            self.transport.write(data)
        except Exception:
            log.exception("a connection broke")
            self.lose()

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers."""
        headers = [*headers, (b"transfer-encoding", b"chunked")]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, head: bytes, text: bytes, tail: bytes) -> None:
        """One HTTP/1.1 chunk."""
        self._outbox.add(self, b"%x\r\n%b%b%b\r\n" % (len(head) + len(text) + len(tail), head, text, tail))

    async def end(self, data: bytes) -> None:
        """The last chunk and the mark of the end, in one write."""
        self.watcher = None
        self._outbox.flush()
        await self._send({"type": "http.response.body", "body": data})

    def abort(self) -> None:
        """Close at once; what waits in the transport is dropped."""
        if (cycle := self._cycle()) is not None:
            cycle.disconnected = True
        self.transport.abort()

    def close(self) -> None:
        """No longer the response being written."""
        self._outbox.flush()
        self.is_lost = True  # nobody tells us any more when it is
        self.watcher = None
        self._send = _nowhere
        if self._protocol.direct is self:
            self._protocol.direct = None


class UnchunkedConnection(DirectConnection):
    """For HTTP/1.0, which knows no chunks: the body ends with the connection."""

    __slots__ = ()

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers; uvicorn adds ``connection: close``."""
        if (cycle := self._cycle()) is not None:
            cycle.chunked_encoding = False
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, head: bytes, text: bytes, tail: bytes) -> None:
        """As it is."""
        self._outbox.add(self, b"%b%b%b" % (head, text, tail))

    async def end(self, data: bytes) -> None:
        """The last piece; uvicorn closes."""
        self.write(data, b"", b"")
        await super().end(b"")


def _descriptor(transport: Any) -> int:
    """Of the socket below, if what is written to it is what the client reads."""
    if sys.platform == "win32" or transport.get_extra_info("ssl_object") is not None:
        return -1
    sock = transport.get_extra_info("socket")
    return -1 if sock is None else int(sock.fileno())
