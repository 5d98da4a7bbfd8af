"""What a PUSH socket sends, read without ZeroMQ: the receiving half of ZMTP 3.1 (RFC 37), without I/O.

libzmq receives in a thread of its own and wakes ours for every message; that costs more than reading the message.
Here the bytes of a step are read where they are used. A peer sends a greeting of 64 bytes, a READY command, then
messages of one or more frames:

    flags (1: more frames follow, 2: long, 4: command)   length (1 byte; 8 if long)   body

Security mechanism NULL only, as engines use it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

#: Bytes read at a time. A step of a thousand requests has some 100 KB.
BUFFER: Final = 1 << 18
#: The same until READY, which with the greeting is shorter: whoever connects and is silent costs no more.
FIRST: Final = 1 << 10
#: Longest message that is taken, in bytes: an engine's largest are logprobs of a long prompt.
LIMIT: Final = 1 << 30
#: Longest command (READY with its metadata, PING, ERROR): anybody who connects may send one.
COMMAND_LIMIT: Final = 1 << 16
#: Most commands that wait to be read at once: a peer that lives sends a PING now and then.
COMMANDS: Final = 1 << 10
#: What a frame counts beside its bytes: endless empty frames are endless, too.
FRAME_COST: Final = 64

_MORE: Final = 1
_LONG: Final = 2
_COMMAND: Final = 4
_GREETING: Final = 64


class ZmtpError(Exception):
    """The peer does not speak ZMTP 3, or is no PUSH socket, or sends more than is taken.

    ``messages``: what was complete before that, of the same bytes.
    """

    messages: Sequence[list[bytes]] = ()


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
    """The messages of one peer: read into ``space()``, then say how much to ``received``.

    ``ready``: the peer has said READY, and is a PUSH socket. ``replies``: to be sent to it; the reader empties it.
    """

    def __init__(self) -> None:
        self.ready = False
        self.replies = b""
        self._buffer = bytearray(FIRST)
        self._filled = 0
        self._greeted = False
        #: Of a message whose last frame is not here yet, and their size.
        self._frames: list[bytes] = []
        self._size = 0

    def space(self) -> memoryview:
        """Where to read to; never empty. Let go of it before ``received``."""
        return memoryview(self._buffer)[self._filled :]

    def received(self, count: int) -> list[list[bytes]]:
        """The messages that are complete with ``count`` more bytes, each as its frames. Raises ZmtpError."""
        self._filled += count
        messages: list[list[bytes]] = []
        try:
            self._take(messages)
        except ZmtpError as error:
            error.messages = messages
            raise
        return messages

    def _take(self, messages: list[list[bytes]]) -> None:
        buffer = self._buffer
        end = self._filled
        at = 0
        if not self._greeted:
            _check_greeting(bytes(buffer[: min(end, _GREETING)]))
            if end < _GREETING:
                return
            self._greeted = True
            at = _GREETING
        needed = commands = 0
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
            elif not self.ready:
                raise ZmtpError("a message before READY")
            elif size > LIMIT - self._size:
                raise ZmtpError(f"a message of more than {LIMIT} bytes")
            if start + size > end:
                needed = start - at + size
                break
            at = start + size
            body = bytes(buffer[start:at])
            if flags & _COMMAND:
                commands += 1
                if commands > COMMANDS:
                    raise ZmtpError(f"more than {COMMANDS} commands at once")
                self._command(body)
            elif flags & _MORE or self._frames:
                self._add(body, messages, last=not flags & _MORE)
            else:
                messages.append([body])
        self._keep(at, needed)

    def _add(self, body: bytes, messages: list[list[bytes]], *, last: bool) -> None:
        self._frames.append(body)
        self._size += len(body) + FRAME_COST
        if last:
            messages.append(self._frames)
            self._frames, self._size = [], 0

    def _keep(self, at: int, needed: int) -> None:
        """Move what is incomplete to the front, of a buffer with room for more of the ``needed`` bytes.

        What a peer only says it will send costs nothing: the buffer is doubled when it is full.
        """
        rest = self._filled - at
        usual = BUFFER if self.ready else FIRST
        size = max(usual, len(self._buffer)) if needed > usual else usual
        if rest == size:
            size = min(needed, 2 * size)
        if size != len(self._buffer):
            other = bytearray(size)
            other[:rest] = memoryview(self._buffer)[at : self._filled]
            self._buffer = other
        elif at and rest:
            self._buffer[:rest] = self._buffer[at : self._filled]
        self._filled = rest

    def _command(self, body: bytes) -> None:
        name, data = body[1 : 1 + body[0]] if body else b"", body[1 + body[0] :] if body else b""
        if name == b"READY":
            kind = _properties(data).get(b"socket-type", b"")
            if kind != b"PUSH":
                raise ZmtpError(f"a {kind.decode('latin-1')!r:.20} socket, not a PUSH socket")
            self.ready = True
        elif name == b"PING":  # two bytes of time to live, then what the answer has to repeat
            # An answer to the last of several is an answer to all.
            self.replies = command(b"PONG", data[2:18])
        elif name == b"ERROR":
            raise ZmtpError(f"the peer says {data[1:].decode('latin-1')!r:.100}")


def _check_greeting(start: bytes) -> None:
    """As far as it is here: whoever speaks another language may wait for an answer before he says more."""
    if start[:1] not in b"\xff" or start[9:10] not in b"\x7f" or b"" < start[10:11] < b"\3":
        raise ZmtpError("no ZMTP 3 greeting")
    mechanism = start[12:32].rstrip(b"\0")
    if len(start) >= 32 and mechanism != b"NULL":
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
