"""What a PUSH socket sends, read without ZeroMQ: the receiving half of ZMTP 3.1 (RFC 37), without I/O.

libzmq receives in a thread of its own and wakes ours for every message; that costs more than reading the message.
Here the bytes of a step are read where they are used. A peer sends a greeting of 64 bytes, a READY command, then
messages of one or more frames:

    flags (1: more frames follow, 2: long, 4: command)   length (1 byte; 8 if long)   body

Security mechanism NULL only, as engines use it.
"""

from __future__ import annotations

import struct
from typing import Final

#: Bytes read at a time. A step of a thousand requests has some 100 KB.
BUFFER: Final = 1 << 18
#: Longest message that is taken, in bytes: an engine's largest are logprobs of a long prompt.
LIMIT: Final = 1 << 30
#: Longest command (READY with its metadata, PING, ERROR): anybody who connects may send one.
COMMAND_LIMIT: Final = 1 << 16

_MORE: Final = 1
_LONG: Final = 2
_COMMAND: Final = 4
_GREETING: Final = 64


class ZmtpError(Exception):
    """The peer does not speak ZMTP 3, or is no PUSH socket, or sends more than is taken."""


def command(name: bytes, data: bytes) -> bytes:
    """A command frame; short ones only."""
    body = bytes([len(name)]) + name + data
    return bytes([_COMMAND, len(body)]) + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + struct.pack(">I", len(value)) + value


#: What we say first: greeting and READY of a PULL socket.
HELLO: Final = b"".join(
    (
        b"\xff" + bytes(8) + b"\x7f",  # signature
        b"\x03\x01",  # version
        b"NULL".ljust(20, b"\0"),  # mechanism
        bytes(32),  # as-server, filler
        command(b"READY", _property(b"Socket-Type", b"PULL")),
    )
)


class PullStream:
    """The messages of one peer: read into ``space()``, then say how much to ``received``."""

    def __init__(self) -> None:
        self._buffer = bytearray(BUFFER)
        self._filled = 0
        self._greeted = False
        self._ready = False
        #: Of a message whose last frame is not here yet, and their size.
        self._frames: list[bytes] = []
        self._size = 0
        #: To be sent to the peer; the reader empties it.
        self.replies = b""

    def space(self) -> memoryview:
        """Where to read to; never empty. Let go of it before ``received``."""
        return memoryview(self._buffer)[self._filled :]

    def received(self, count: int) -> list[list[bytes]]:
        """The messages that are complete with ``count`` more bytes, each as its frames. Raises ZmtpError."""
        buffer = self._buffer
        end = self._filled = self._filled + count
        messages: list[list[bytes]] = []
        at = 0
        if not self._greeted:
            if end < _GREETING:
                return messages
            _check_greeting(buffer)
            self._greeted = True
            at = _GREETING
        needed = 0
        while end - at >= 2:
            flags = buffer[at]
            if flags & _LONG:
                start = at + 9
                if start > end:
                    break
                size = int.from_bytes(buffer[at + 1 : start], "big")
            else:
                size = buffer[at + 1]
                start = at + 2
            if flags & _COMMAND:
                if size > COMMAND_LIMIT:
                    raise ZmtpError(f"a command of more than {COMMAND_LIMIT} bytes")
            elif not self._ready:
                raise ZmtpError("a message before READY")
            elif size > LIMIT - self._size:
                raise ZmtpError(f"a message of more than {LIMIT} bytes")
            if start + size > end:
                needed = start - at + size
                break
            at = start + size
            body = bytes(buffer[start:at])
            if flags & _COMMAND:
                self._command(body)
            elif flags & _MORE or self._frames:
                self._add(body, messages, last=not flags & _MORE)
            else:
                messages.append([body])
        self._keep(at, needed)
        return messages

    def _add(self, body: bytes, messages: list[list[bytes]], *, last: bool) -> None:
        self._frames.append(body)
        self._size += len(body) + 1  # endless empty frames are endless, too
        if last:
            messages.append(self._frames)
            self._frames, self._size = [], 0

    def _keep(self, at: int, needed: int) -> None:
        """Move what is incomplete to the front, of a buffer that has room for ``needed`` bytes."""
        rest = self._filled - at
        size = max(BUFFER, needed)
        if size != len(self._buffer):
            larger = bytearray(size)
            larger[:rest] = self._buffer[at : self._filled]
            self._buffer = larger
        elif at and rest:
            self._buffer[:rest] = self._buffer[at : self._filled]
        self._filled = rest

    def _command(self, body: bytes) -> None:
        name, data = body[1 : 1 + body[0]] if body else b"", body[1 + body[0] :] if body else b""
        if name == b"READY":
            kind = _properties(data).get(b"socket-type", b"")
            if kind != b"PUSH":
                raise ZmtpError(f"a {kind.decode('latin-1')!r:.20} socket, not a PUSH socket")
            self._ready = True
        elif name == b"PING":  # two bytes of time to live, then what the answer has to repeat
            self.replies += command(b"PONG", data[2:18])
        elif name == b"ERROR":
            raise ZmtpError(f"the peer says {data[1:].decode('latin-1')!r:.100}")


def _check_greeting(greeting: bytearray) -> None:
    if greeting[0] != 0xFF or greeting[9] != 0x7F or greeting[10] < 3:
        raise ZmtpError("no ZMTP 3 greeting")
    mechanism = bytes(greeting[12:32]).rstrip(b"\0")
    if mechanism != b"NULL":
        raise ZmtpError(f"security mechanism {mechanism.decode('latin-1')!r}, NULL is spoken here")


def _properties(data: bytes) -> dict[bytes, bytes]:
    """The metadata of READY: names, in small letters, and values."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        name = data[at + 1 : at + 1 + data[at]]
        at += 1 + data[at]
        if at + 4 > len(data):
            break
        (size,) = struct.unpack_from(">I", data, at)
        found[name.lower()] = data[at + 4 : at + 4 + size]
        at += 4 + size
    return found
