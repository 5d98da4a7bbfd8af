"""What the data-parallel coordinator publishes: load of every rank, and the wave that the ranks step in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import zmq

from toolgrammar_serving.engine_client.sockets import ZmqContext, open_socket, waiting_messages, watch

_log: Final = logging.getLogger(__name__)

_SUBSCRIBE: Final = b"\x01"


class _Publication(msgspec.Struct, array_like=True):
    """``counts``: waiting, running and cache usage of every rank; None if only the wave changed."""

    counts: list[tuple[float, float, float]] | None
    wave: int
    engines_running: bool


class Coordinator:
    """Subscribed from now on until ``close``. ``wave`` and ``engines_running`` are as last published.

    ``counts`` is called with each publication's counts.
    """

    def __init__(
        self, context: ZmqContext, address: str, counts: Callable[[Sequence[Sequence[float]]], None]
    ) -> None:
        self.wave = 0
        self.engines_running = False
        self._counts = counts
        self._socket = open_socket(context, zmq.XSUB)
        self._socket.connect(address)
        self._socket.send(_SUBSCRIBE)
        self._decode = msgspec.msgpack.Decoder(_Publication).decode
        self._unwatch = watch(self._socket, self._readable)

    def announce(self, rank: int) -> None:
        """Tell of a request that went to paused engines, so that the other ranks wake up. Once for each pause."""
        if not self.engines_running:
            self.engines_running = True
            self._socket.send(msgspec.msgpack.encode([rank, self.wave]))
            self._readable()  # the send may have swallowed the sign of a publication

    def close(self) -> None:
        """Unsubscribe."""
        self._unwatch()
        self._socket.close()

    def _readable(self) -> None:
        for frames in waiting_messages(self._socket):
            try:
                publication = self._decode(frames[0])
            except msgspec.DecodeError as error:
                _log.warning("unreadable publication of the coordinator: %s", error)
                continue
            self.wave = publication.wave
            self.engines_running = publication.engines_running
            if publication.counts is not None:
                self._counts(publication.counts)
