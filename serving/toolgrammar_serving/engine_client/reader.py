"""The PULL side: engines connect, and what they send is read in one go and handed on as one batch.

Bytes that come faster than they are read wait in the socket, then with the engine: nothing piles up here.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from toolgrammar_serving.engine_client.decoding import Message, decode_body, salvage
from toolgrammar_serving.engine_client.zmtp import HELLO, PullStream, ZmtpError
from toolgrammar_serving.protocol.wire import ENGINE_CORE_DEAD

_log: Final = logging.getLogger(__name__)

#: What one turn of the loop takes of an engine at most, so that the loop's other work is not kept waiting.
_BYTES_A_TURN: Final = 4 << 20
#: After so many bytes at once there is likely to be more.
_MUCH: Final = 1 << 16
#: Seconds until connections are accepted again after that failed, for want of descriptors.
_PAUSE_S: Final = 1.0


class OutputReader:
    """Accepts engines at ``listener`` (not blocking; its owner closes it) from the start, and reads what they send
    until ``close``. Nothing an engine sends stops the reading; one that breaks the rules of ZMTP is cut off.

    ``start`` says who gets it: ``deliver`` what came, in order, and how many messages that are; each is decoded
    when it is asked for, so that few outputs live at a time. ``dead`` is called when an engine says that it dies.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._decode = decode_body
        self._deliver: Callable[[Iterator[Message], int], None] | None = None
        self._dead: Callable[[], None] | None = None
        self._early: list[list[bytes]] = []
        self._loop = asyncio.get_running_loop()
        self._streams: dict[socket.socket, PullStream] = {}
        self._again: asyncio.TimerHandle | None = None
        self._loop.add_reader(listener.fileno(), self._accept)

    def start(self, *, deliver: Callable[[Iterator[Message], int], None], dead: Callable[[], None]) -> None:
        """From now on tell these; first of what came before."""
        self._deliver, self._dead = deliver, dead
        early, self._early = self._early, []
        if early:
            self._loop.call_soon(self._take, early)

    def close(self) -> None:
        """Stop, and close the connections; call it before the listener is closed."""
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._listener.fileno())
        for connection in list(self._streams):
            self._drop(connection)

    def _accept(self) -> None:
        self._again = None
        while True:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                _log.warning("engines cannot connect at the moment: %s", error)
                self._loop.remove_reader(self._listener.fileno())
                self._again = self._loop.call_later(_PAUSE_S, self._accept_again)
                return
            connection.setblocking(False)
            self._streams[connection] = stream = PullStream()
            self._loop.add_reader(connection.fileno(), self._readable, connection, stream)
            self._reply(connection, HELLO)

    def _accept_again(self) -> None:
        self._loop.add_reader(self._listener.fileno(), self._accept)
        self._accept()

    def _readable(self, connection: socket.socket, stream: PullStream) -> None:
        messages: list[list[bytes]] = []
        size = 0
        while size < _BYTES_A_TURN:
            try:
                count = connection.recv_into(stream.space())
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                count = 0
            if not count:
                self._drop(connection)
                break
            try:
                messages += stream.received(count)
            except ZmtpError as error:
                _log.warning("cut off a peer that is no engine: %s", error)
                self._drop(connection)
                break
            size += count
            if count < _MUCH:
                break  # the usual case: a step, and nothing behind it
        if stream.replies:
            self._reply(connection, stream.replies)
            stream.replies = b""
        if messages:
            self._take(messages)

    def _take(self, messages: list[list[bytes]]) -> None:
        if self._deliver is None or self._dead is None:
            self._early += messages
            return
        dead = [ENGINE_CORE_DEAD] in messages
        if dead:
            messages = messages[: messages.index([ENGINE_CORE_DEAD])]
        if messages:
            try:
                self._deliver(self._read(messages), len(messages))
            except Exception:
                _log.exception("outputs could not be delivered")
        if dead:
            self._dead()

    def _reply(self, connection: socket.socket, data: bytes) -> None:
        """A few bytes, which a socket that nothing else is written to always takes."""
        if connection not in self._streams:
            return
        try:
            connection.send(data)
        except OSError:
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        if self._streams.pop(connection, None) is not None:
            self._loop.remove_reader(connection.fileno())
            connection.close()

    def _read(self, messages: list[list[bytes]]) -> Iterator[Message]:
        for frames in messages:
            body = frames[0]
            try:
                yield self._decode(body), frames
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                _log.warning("unreadable message of an engine, %d bytes: %s", len(body), error)
                if (saved := salvage(body)) is not None:
                    yield saved, frames
