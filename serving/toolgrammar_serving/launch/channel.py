"""Between launcher and API process: JSON objects, one a line, over a pair of sockets.

The end of the channel means that the other is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
#: Longest line: a plan, with whatever its options hold.
_LIMIT = 16 * 1024 * 1024


class Channel:
    """One end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Channel:
        """The channel over a connected socket, which it takes."""
        return cls(*await asyncio.open_connection(sock=end, limit=_LIMIT))

    def send(self, message: dict[str, Any]) -> None:
        """Send; a message to somebody who is gone is lost."""
        self._writer.write(_encode(message) + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end."""
        with contextlib.suppress(ConnectionError):
            line = await self._reader.readline()
            if line.endswith(b"\n"):
                return _decode(line)
        return None

    async def close(self) -> None:
        """Send what waits, and close."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
