"""uvicorn's HTTP/1.1 protocol with limits on what a client may leave open, and the straight way out for streams.

What a client may not do: send a request without an end, take nothing of an answer for ever, or spoil the answer to
a good request by what it sends behind it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from toolgrammar_serving.server.direct_connection import DirectConnection, Outbox, UnchunkedConnection
from toolgrammar_serving.server.problems import error_bytes, of_status
from toolgrammar_serving.server.stall import Stall

KEY: Final = "toolgrammar.connection"
#: Bytes of a request's head, or behind its body, that are taken while no end has come, beside their first piece.
HEAD_LIMIT: Final = 65536
#: Seconds from the first byte of a request, or from a connection without one, to the end of a body.
REQUEST_S = 60.0
#: Headers that wish for another protocol, and the words of ``Connection`` that name them.
_UPGRADE: Final = (b"upgrade", b"http2-settings")


class DirectProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol, whose requests carry their connection."""

    direct: DirectConnection | None = None
    running: Any = None  # the cycle of the request whose answer is under way, or was the last
    part: Literal["", "head", "body"] = ""  # of a request that is incomplete
    taken = 0  # bytes that were neither a complete head nor any of a body
    timer: asyncio.TimerHandle | None = None  # until a request is complete; one that comes whole needs none
    is_deaf = False  # what still comes is not read

    def __init__(
        self, *args: Any, outbox: Outbox | None = None, slow_reader_s: float = 60.0, **kwargs: Any
    ) -> None:
        """``outbox``: that of all connections of this loop; ``slow_reader_s``: how long a client may take nothing
        of what is to be sent; all else is uvicorn's."""
        super().__init__(*args, **kwargs)
        self.outbox = outbox or Outbox()
        self.slow_reader_s = slow_reader_s

    def connection_made(self, transport: Any) -> None:
        """A client that says nothing at all is waited for no longer than for the rest of a request."""
        super().connection_made(transport)
        self.stall = Stall(transport, self.slow_reader_s)
        self.timer = self.loop.call_later(REQUEST_S, self._late)

    # ---- requests

    def data_received(self, data: bytes) -> None:
        """A request, for which no key is needed yet, may not be endless: its head and what stands behind the last
        chunk are kept by the parser until they are complete."""
        if self.is_deaf:
            return
        self.taken += len(data)
        self._feed(data)
        if self.part and not self.transport.is_closing():
            if self.taken > HEAD_LIMIT:
                self._refuse(431, "The head of the request is too large.", "request_head_too_large")
            elif self.timer is None:
                self.timer = self.loop.call_later(REQUEST_S, self._late)

    def _feed(self, data: bytes) -> None:
        """To the parser, which stops behind a head that wishes for another protocol: a wish that nobody has to
        grant (RFC 9110, 7.8). It is read again without the wish."""
        waiting: list[bytes | memoryview] = [data]
        while waiting and not self.is_deaf:
            piece = waiting.pop()
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as upgrade:
                waiting += [memoryview(piece)[upgrade.args[0] :], self._plain_head()]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
            except httptools.HttpParserError:
                self._refuse(400, "Invalid HTTP request received.", "invalid_http")

    def _plain_head(self) -> bytes:
        """The head of the request that is being read, without its wish for another protocol."""
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                words = [word.strip() for word in value.split(b",")]
                value = b", ".join([word for word in words if word.lower() not in _UPGRADE])
            if name not in _UPGRADE:
                lines.append(b"%b: %b" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        """A head begins. Empty lines in front of it do not keep a connection open."""
        self._unset_keepalive_if_required()
        if self.running is None:  # it has all the time, however long it was waited for
            self._stop_timer()
        super().on_message_begin()
        self.part, self.taken = "head", 0

    def on_headers_complete(self) -> None:
        """The request's task is made in here and runs in a later turn of the loop: the scope may still be added
        to."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                self._refuse(405, "This server is no proxy.", "method_not_allowed")
            return
        super().on_headers_complete()  # raises if the URL is none
        self.part, self.taken = "body", 0
        scope: Any = self.scope
        kind = DirectConnection if scope["http_version"] == "1.1" else UnchunkedConnection
        scope["extensions"] = {KEY: kind(self)}

    def on_body(self, body: bytes) -> None:
        """The body goes on."""
        self.taken = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self.parser.should_upgrade():
            return
        self.part, self.taken = "", 0
        self._stop_timer()
        super().on_message_complete()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    # ---- time

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _late(self) -> None:
        self.timer = None
        if self.transport.is_closing():
            return
        if self.running is None and not self.part:
            self.transport.close()  # it never said anything
        elif self.pipeline or (self.part == "head" and self._is_busy()):  # it waits for the answer in front of it
            self.timer = self.loop.call_later(REQUEST_S, self._late)
        else:
            self._refuse(408, f"The request was not complete within {REQUEST_S:g} seconds.", "request_timeout")

    def _is_busy(self) -> bool:
        return self.running is not None and not self.running.response_complete

    # ---- answers

    def on_response_complete(self) -> None:
        """The next request may be answered, or the connection closes as soon as all is taken."""
        super().on_response_complete()
        if self.transport.is_closing():
            self.stall.begin()

    def timeout_keep_alive_handler(self) -> None:
        """No further request: close as soon as all is taken."""
        super().timeout_keep_alive_handler()
        self.stall.begin()

    def pause_writing(self) -> None:
        """The transport holds more than its high-water mark."""
        super().pause_writing()
        if self.direct is not None and self.direct.watcher is not None:
            self.direct.watcher.paused()
        self.stall.begin()

    def resume_writing(self) -> None:
        """The transport holds less than its low-water mark."""
        super().resume_writing()
        self.stall.end()
        if self.direct is not None and self.direct.watcher is not None:
            self.direct.watcher.resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the response that is being written; a pipelined one behind it never starts."""
        super().connection_lost(exc)
        self._stop_timer()
        self.stall.end()
        self.pipeline.clear()
        if self._is_busy():  # uvicorn tells the request that came last, which need not be the one in work
            self.running.disconnected = True
            self.running.message_event.set()
        if self.direct is not None:
            self.direct.lose()

    # ---- refusals

    def _refuse(self, status: int, message: str, code: str) -> None:
        """Read no further. Answers that are under way are finished before the connection closes, and are all there
        is; if none is, the request that is being read gets its refusal."""
        self.is_deaf = True
        self._stop_timer()
        if self.part == "body" and self.pipeline and self.pipeline[0][0] is self.cycle:
            self.pipeline.popleft()  # it would wait for its body for ever
        last = self.pipeline[0][0] if self.pipeline else self.running if self._is_busy() else None
        if last is not None and (self.part != "body" or last is not self.cycle or last.response_started):
            last.keep_alive = False
            return
        error = of_status(status, message)
        error.code = code
        body = error_bytes(error)
        self.transport.write(
            b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (STATUS_LINE[status], len(body), body)
        )
        self.transport.close()
        self.stall.begin()
