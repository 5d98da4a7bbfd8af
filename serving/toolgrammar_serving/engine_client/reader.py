"""The PULL socket: everything that waits is received in one go, decoded, and handed on as one batch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec
import zmq

from toolgrammar_serving.engine_client.decoding import Message, body_decoder, salvage
from toolgrammar_serving.engine_client.sockets import ZmqSocket, watch
from toolgrammar_serving.protocol.wire import ENGINE_CORE_DEAD

_log: Final = logging.getLogger(__name__)

#: What one turn of the loop takes at most, so that the loop's other work is not kept waiting.
_MESSAGES_A_TURN: Final = 64
_BYTES_A_TURN: Final = 4 << 20


class OutputReader:
    """Reads from now on until ``close``. ``deliver`` gets what came, in order; ``dead`` is called when an engine
    says that it dies. Nothing an engine sends stops the reading."""

    def __init__(
        self, pull: ZmqSocket, *, stats: bool, deliver: Callable[[list[Message]], None], dead: Callable[[], None]
    ) -> None:
        self._pull = pull
        self._decode = body_decoder(stats)
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
        messages: list[Message] = []
        dead = self._receive(messages)
        if messages:
            try:
                self._deliver(messages)
            except Exception:
                _log.exception("outputs could not be delivered")
        if dead:
            self._dead()

    def _receive(self, messages: list[Message]) -> bool:
        """Add all that waits, up to a turn's limit; True if an engine said that it is dying."""
        receive, pull = self._pull.recv, self._pull
        size = 0
        for _ in range(_MESSAGES_A_TURN):
            try:
                head = receive(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return False
            body = head.bytes
            if body == ENGINE_CORE_DEAD:
                return True
            frames = [body, *pull.recv_multipart()] if head.more else (body,)
            message = self._read(body, frames)
            if message is not None:
                messages.append(message)
            size += sum(map(len, frames)) if head.more else len(body)
            if size > _BYTES_A_TURN:
                break
            if len(messages) == 1 and not int(pull.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                return False  # the usual case: cheaper than to be refused
        self._again = self._loop.call_soon(self._readable)
        return False

    def _read(self, body: bytes, frames: list[bytes] | tuple[bytes, ...]) -> Message | None:
        try:
            return self._decode(body), frames
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _log.warning("unreadable message of an engine, %d bytes: %s", len(body), error)
        saved = salvage(body)
        return None if saved is None else (saved, frames)
