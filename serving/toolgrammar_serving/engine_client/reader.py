"""The PULL side: engines connect, and what they send is read in one go and handed on as one batch.

Bytes that come faster than they are read wait in the socket, then with the engine: nothing piles up here.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from toolgrammar_serving.engine_client.decoding import Message, decode_body, salvage
from toolgrammar_serving.engine_client.sockets import keep_alive
from toolgrammar_serving.engine_client.zmtp import FRAME_COST, HELLO, PullStream, ZmtpError
from toolgrammar_serving.protocol.wire import ENGINE_CORE_DEAD

_log: Final = logging.getLogger(__name__)

#: What one turn of the loop takes of an engine at most, so that the loop's other work is not kept waiting.
_BYTES_A_TURN: Final = 4 << 20
#: After so many bytes at once there is likely to be more.
_MUCH: Final = 1 << 16
#: What may wait for the start, in bytes. An engine has little to say before it gets requests.
_EARLY_LIMIT: Final = 64 << 20
#: Seconds until connections are accepted again after that failed, for want of descriptors.
_PAUSE_S: Final = 1.0
#: Seconds a peer has to say READY.
_GREETING_S: Final = 10.0
#: Failures of one connection that accept tells of instead of giving it; the next one may be well.
_FAILED: Final = frozenset(
    (
        errno.ECONNABORTED,
        errno.EPROTO,
        errno.EPERM,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENOPROTOOPT,
        errno.EOPNOTSUPP,
        errno.ETIMEDOUT,
    )
)

_Deliver: TypeAlias = Callable[[Iterator[Message], int], None]


class _Peer:
    """Who has connected. ``deadline``: of its READY; ``heard``: it has sent something."""

    __slots__ = ("connection", "deadline", "heard", "stream")
    deadline: asyncio.TimerHandle

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.stream = PullStream()
        self.heard = False


class OutputReader:
    """Accepts engines at ``listener`` (not blocking; its owner closes it) from the start, and reads what they send
    until ``close``. Nothing an engine sends stops the reading; one that breaks the rules of ZMTP is cut off, as is
    whoever does not say READY in time.

    ``start`` says who gets it: ``deliver`` what came, in order, and how many messages that are; each is decoded
    when it is asked for, so that few outputs live at a time. ``dead`` is called when an engine says that it dies,
    ``gone`` when the connection of one that was READY has ended, with whether anything had come of it.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._decode = decode_body
        self._deliver: _Deliver | None = None
        self._dead: Callable[[], None] | None = None
        self._gone: Callable[[bool], None] | None = None
        self._early: list[list[bytes]] = []
        self._early_size = 0
        #: Not read from until the start.
        self._paused: list[_Peer] = []
        self._loop = asyncio.get_running_loop()
        self._peers: set[_Peer] = set()
        self._again: asyncio.TimerHandle | None = None
        self._starting: asyncio.Handle | None = None
        self._loop.add_reader(listener.fileno(), self._accept)

    def start(self, *, deliver: _Deliver, dead: Callable[[], None], gone: Callable[[bool], None]) -> None:
        """From the next turn of the loop on tell these; first of what came before."""
        self._starting = self._loop.call_soon(self._start, deliver, dead, gone)

    def connected(self) -> int:
        """How many engines there are."""
        return sum(peer.stream.ready for peer in self._peers)

    def close(self) -> None:
        """Stop, and close the connections; call it before the listener is closed."""
        for handle in (self._again, self._starting):
            if handle is not None:
                handle.cancel()
        self._loop.remove_reader(self._listener.fileno())
        for peer in list(self._peers):
            self._drop(peer)

    # ---- who connects

    def _accept(self) -> None:
        self._again = None
        while True:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                _log.warning("an engine cannot connect: %s", error)
                if error.errno in _FAILED:
                    continue
                self._loop.remove_reader(self._listener.fileno())
                self._again = self._loop.call_later(_PAUSE_S, self._accept_again)
                return
            self._greet(connection)

    def _accept_again(self) -> None:
        self._loop.add_reader(self._listener.fileno(), self._accept)
        self._accept()

    def _greet(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        keep_alive(connection)
        peer = _Peer(connection)
        peer.deadline = self._loop.call_later(_GREETING_S, self._late, peer)
        self._peers.add(peer)
        self._loop.add_reader(connection.fileno(), self._readable, peer)
        self._reply(peer, HELLO)

    def _late(self, peer: _Peer) -> None:
        _log.warning("cut off a peer that is no engine: no READY within %g s", _GREETING_S)
        self._drop(peer)

    def _reply(self, peer: _Peer, data: bytes) -> None:
        """A few bytes, which a socket that nothing else is written to takes, unless the peer does not read."""
        try:
            whole = peer.connection.send(data) == len(data)
        except OSError:
            whole = False
        if not whole:
            self._lose(peer)

    def _lose(self, peer: _Peer) -> None:
        """Drop it, and tell if it was an engine."""
        if self._drop(peer) and peer.stream.ready and self._gone is not None:
            self._gone(peer.heard)

    def _drop(self, peer: _Peer) -> bool:
        """False if it was dropped before."""
        if peer not in self._peers:
            return False
        self._peers.remove(peer)
        self._loop.remove_reader(peer.connection.fileno())
        peer.deadline.cancel()
        peer.connection.close()
        return True

    # ---- what they send

    def _readable(self, peer: _Peer) -> None:
        stream = peer.stream
        known = stream.ready
        messages: list[list[bytes]] = []
        size = 0
        over = False
        while size < _BYTES_A_TURN:
            try:
                count = peer.connection.recv_into(stream.space())
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                count = 0
            if not count:
                over = True
                break
            try:
                messages += stream.received(count)
            except ZmtpError as error:
                _log.warning("cut off a peer that is no engine: %s", error)
                messages += error.messages
                over = True
                break
            size += count
            if known and count < _MUCH:
                break  # the usual case: a step, and nothing behind it
        if messages:
            peer.heard = True
            if self._deliver is None:
                self._put_by(peer, messages)
            else:
                self._hand_on(messages)
        if over:
            self._lose(peer)
        elif not known or stream.replies:
            self._answer(peer)

    def _answer(self, peer: _Peer) -> None:
        """What is to be done at READY, and after PING."""
        if peer.stream.ready:
            peer.deadline.cancel()
        replies, peer.stream.replies = peer.stream.replies, b""
        if replies and peer in self._peers:
            self._reply(peer, replies)

    def _put_by(self, peer: _Peer, messages: list[list[bytes]]) -> None:
        """For the start; who says too much before it has to wait."""
        self._early += messages
        self._early_size += sum(len(frame) + FRAME_COST for frames in messages for frame in frames)
        if self._early_size > _EARLY_LIMIT:
            self._loop.remove_reader(peer.connection.fileno())
            self._paused.append(peer)

    def _start(self, deliver: _Deliver, dead: Callable[[], None], gone: Callable[[bool], None]) -> None:
        self._deliver, self._dead, self._gone = deliver, dead, gone
        for peer in self._paused:
            if peer in self._peers:
                self._loop.add_reader(peer.connection.fileno(), self._readable, peer)
        early, self._early, self._paused = self._early, [], []
        if early:
            self._hand_on(early)

    def _hand_on(self, messages: list[list[bytes]]) -> None:
        assert self._deliver is not None and self._dead is not None, "started"
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

    def _read(self, messages: list[list[bytes]]) -> Iterator[Message]:
        for frames in messages:
            body = frames[0]
            try:
                yield self._decode(body), frames
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                _log.warning("unreadable message of an engine, %d bytes: %s", len(body), error)
                if (saved := salvage(body)) is not None:
                    yield saved, frames
