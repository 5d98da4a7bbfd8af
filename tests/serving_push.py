"""What a real PUSH socket writes, byte for byte: libzmq as the oracle of our reading of ZMTP."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Sequence
from typing import Any

import zmq

#: What libzmq waits for before it sends: a PULL socket's greeting and READY, by the letter of RFC 37.
PULL_HELLO = (
    b"\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x03\x01NULL"
    + bytes(16 + 32)
    + b"\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PULL"
)


def written(*messages: Sequence[bytes], kind: int = zmq.PUSH, identity: bytes = b"") -> bytes:
    """All that a socket writes to a PULL that it connects to, to the end of the connection."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/pull")
        listener.listen(1)
        context: Any = zmq.Context()
        handle = context.socket(kind)
        handle.sndhwm = 0
        if identity:
            handle.identity = identity
        try:
            handle.connect(f"ipc://{folder}/pull")
            for frames in messages:
                handle.send_multipart(frames)
            connection, _ = listener.accept()
            with connection:
                connection.sendall(PULL_HELLO)
                handle.close(linger=10_000)
                data = b""
                while piece := connection.recv(1 << 20):
                    data += piece
        finally:
            context.destroy(linger=0)
    return data
