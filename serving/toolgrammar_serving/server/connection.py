"""The open connection of one response, for routes that write many small pieces.

A response starts and ends by ordinary ASGI messages. Between them a stream's pieces go straight to the socket, as
HTTP/1.1 chunks, where the server is uvicorn with ``DirectProtocol`` below; everywhere else they go through
``send``, with the same bytes in the body. What happens to the connection meanwhile is told to one ``Watcher``.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from toolgrammar_serving.server.direct_connection import DirectConnection, Outbox, UnchunkedConnection
from toolgrammar_serving.server.plain_connection import Connection, PlainConnection, Watcher
from toolgrammar_serving.server.problems import Receive, Scope, Send, error_bytes, of_status

__all__ = ["Connection", "DirectProtocol", "PlainConnection", "Watcher", "connection"]

KEY = "toolgrammar.connection"
#: Bytes of a request's head, or behind its body, that are taken while no end has come, beside their first piece.
HEAD_LIMIT = 65536
#: Seconds from the first byte of a request to the end of its body.
REQUEST_S = 60.0


def connection(scope: Scope, receive: Receive, send: Send) -> Connection:
    """The connection of the request in ``scope``; its body has been read."""
    made = (scope.get("extensions") or {}).get(KEY)
    if isinstance(made, DirectConnection):
        made.attach(send)
        return made
    return PlainConnection(receive, send)


class DirectProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol, whose requests carry their connection."""

    direct: DirectConnection | None = None
    part: Literal["", "head", "body"] = ""  # of a request that is incomplete
    taken = 0  # bytes that were neither a complete head nor any of a body
    timer: asyncio.TimerHandle | None = None  # while a request is incomplete; one that comes whole needs none

    def __init__(self, *args: Any, outbox: Outbox | None = None, **kwargs: Any) -> None:
        """``outbox``: that of all connections of this loop; all else is uvicorn's."""
        super().__init__(*args, **kwargs)
        self.outbox = outbox or Outbox()

    def data_received(self, data: bytes) -> None:
        """A request, for which no key is needed yet, may not be endless: its head and what stands behind the last
        chunk are kept by the parser until they are complete."""
        self.taken += len(data)
        super().data_received(data)
        if self.part and not self.transport.is_closing():
            if self.taken > HEAD_LIMIT:
                self._refuse(431, "The head of the request is too large.", "request_head_too_large")
            elif self.timer is None:
                self.timer = self.loop.call_later(REQUEST_S, self._late)

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self.part, self.taken = "head", 0

    def on_headers_complete(self) -> None:
        """The request's task is made in here and runs in a later turn of the loop: the scope may still be added
        to."""
        self.part, self.taken = "body", 0
        super().on_headers_complete()
        scope: Any = self.scope
        kind = DirectConnection if scope["http_version"] == "1.1" else UnchunkedConnection
        scope["extensions"] = {KEY: kind(self)}

    def on_body(self, body: bytes) -> None:
        """The body goes on."""
        self.taken = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self.part, self.taken = "", 0
        self._stop_timer()
        super().on_message_complete()

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _late(self) -> None:
        self.timer = None
        if self.pipeline or (self.part == "head" and self._is_busy()):  # it waits for the answer in front of it
            self.timer = self.loop.call_later(REQUEST_S, self._late)
        elif not self.transport.is_closing():
            self._refuse(408, f"The request was not complete within {REQUEST_S:g} seconds.", "request_timeout")

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the response that is being written; a pipelined one behind it never starts."""
        super().connection_lost(exc)
        self._stop_timer()
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
        """Answer the request that is being read, unless another answer is under way, and close."""
        if self.pipeline or (self.cycle.response_started if self.part == "body" else self._is_busy()):
            self.transport.close()
            return
        error = of_status(status, message)
        error.code = code
        body = error_bytes(error)
        self.transport.write(
            b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (STATUS_LINE[status], len(body), body)
        )
        self.transport.close()
