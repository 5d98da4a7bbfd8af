"""Clients that take nothing of what is sent to them: held for so long, then cut off."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import sys
from typing import Any

if sys.platform == "linux":
    from fcntl import ioctl
    from termios import TIOCOUTQ


def _in_socket(sock: Any) -> int:
    """Bytes that the system holds for the client, if it tells. It takes no more of ours, and so looks stuck, until
    a third of its own is taken: some megabytes, which a slow client may need a minute for."""
    if sys.platform == "linux" and sock is not None:
        with contextlib.suppress(OSError):
            (held,) = struct.unpack("i", ioctl(sock.fileno(), TIOCOUTQ, bytes(4)))
            return int(held)
    return 0


class Stall:
    """A watch over a transport and its socket. A client that takes something, however little, goes on; one that
    takes nothing for ``limit_s`` seconds is cut off, and what the transport holds is freed."""

    __slots__ = ("_held", "_limit_s", "_timer", "_transport")

    def __init__(self, transport: asyncio.WriteTransport, limit_s: float) -> None:
        self._transport = transport
        self._limit_s = limit_s
        self._held = 0
        self._timer: asyncio.TimerHandle | None = None

    def _untaken(self) -> int:
        transport = self._transport
        return transport.get_write_buffer_size() + _in_socket(transport.get_extra_info("socket"))

    def begin(self) -> None:
        """Watch from now on, if there is anything to be taken."""
        held = self._untaken()
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
        if self._untaken() == self._held:
            self._transport.abort()
        else:
            self.begin()
