"""Clients that take nothing of what is sent to them: held for so long, then cut off."""

from __future__ import annotations

import asyncio


class Stall:
    """A watch over a transport that holds data. A client that takes something, however little, goes on; one that
    takes nothing for ``limit_s`` seconds is cut off, and what the transport holds is freed."""

    __slots__ = ("_held", "_limit_s", "_timer", "_transport")

    def __init__(self, transport: asyncio.WriteTransport, limit_s: float) -> None:
        self._transport = transport
        self._limit_s = limit_s
        self._held = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Watch from now on, if there is anything to be taken."""
        held = self._transport.get_write_buffer_size()
        if self._timer is None and held:
            self._held = held
            self._timer = asyncio.get_running_loop().call_later(self._limit_s, self._look)

    def end(self) -> None:
        """Enough was taken, or the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._transport.get_write_buffer_size() == self._held:
            self._transport.abort()
        else:
            self.begin()
