"""The PULL socket: everything that waits is received in one go, and handed on as one batch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import zmq

from toolgrammar_serving.engine_client.decoding import Message, decode_body, salvage
from toolgrammar_serving.engine_client.sockets import ZmqSocket, watch
from toolgrammar_serving.protocol.wire import ENGINE_CORE_DEAD

_log: Final = logging.getLogger(__name__)

#: What one turn of the loop takes at most, so that the loop's other work is not kept waiting.
_MESSAGES_A_TURN: Final = 64
_BYTES_A_TURN: Final = 4 << 20

#: As plain numbers: operators of enumerations cost as much as the receiving.
_NOW: Final = int(zmq.NOBLOCK)
_EVENTS: Final = int(zmq.EVENTS)
_MORE_TO_READ: Final = int(zmq.POLLIN)


class OutputReader:
    """Reads from now on until ``close``. ``deliver`` gets what came, in order, and how many messages that are;
    each is decoded when it is asked for, so that few outputs live at a time. ``dead`` is called when an engine
    says that it dies. Nothing an engine sends stops the reading."""

    def __init__(
        self,
        pull: ZmqSocket,
        *,
        deliver: Callable[[Iterator[Message], int], None],
        dead: Callable[[], None],
    ) -> None:
        self._pull = pull
        self._decode = decode_body
        self._deliver = deliver
        self._dead = dead
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.Handle | None = None
        self._unwatch = watch(pull, self._readable)

    def close(self) -> None:
        """Stop; call it before the socket is closed."""
        self._unwatch()
        if self._again is not None:
            self._again.cancel()

    def _readable(self) -> None:
        messages: list[list[bytes]] = []
        dead = self._receive(messages)
        if messages:
            try:
                self._deliver(self._read(messages), len(messages))
            except Exception:
                _log.exception("outputs could not be delivered")
        if dead:
            self._dead()

    def _receive(self, messages: list[list[bytes]]) -> bool:
        """Add all that waits, up to a turn's limit; True if an engine said that it is dying."""
        receive, pull = self._pull.recv, self._pull
        size = 0
        while len(messages) < _MESSAGES_A_TURN and size < _BYTES_A_TURN:
            try:
                head = receive(_NOW, copy=False)
            except zmq.Again:
                return False
            body = head.bytes
            if body == ENGINE_CORE_DEAD:
                return True
            frames = [body]
            size += len(body)
            if head.more:
                frames += pull.recv_multipart()
                size += sum(map(len, frames))
            messages.append(frames)
            if len(messages) == 1 and not int(pull.getsockopt(_EVENTS)) & _MORE_TO_READ:
                return False  # the usual case: cheaper than to be refused
        self._again = self._loop.call_soon(self._readable)
        return False

    def _read(self, messages: list[list[bytes]]) -> Iterator[Message]:
        for frames in messages:
            body = frames[0]
            try:
                yield self._decode(body), frames
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                _log.warning("unreadable message of an engine, %d bytes: %s", len(body), error)
                if (saved := salvage(body)) is not None:
                    yield saved, frames
