"""The two sockets of a front end: ROUTER for requests, PULL for outputs; bound by us, or adopted already
listening.

Engines connect to both. High-water marks are off, as on their side: a send never waits, and nothing is dropped.
"""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import zmq

ZmqSocket: TypeAlias = "zmq.Socket[bytes]"
ZmqContext: TypeAlias = "zmq.Context[ZmqSocket]"

#: How long a closing socket may go on sending what waits, in milliseconds.
#: Messages of an engine that wait in our process, about two turns of the reader.
OUTPUTS_HELD: Final = 128
_LINGER_MS: Final = 500
#: Longest path of a Unix socket in bytes, on the stricter systems.
_PATH_LIMIT: Final = 103


@dataclasses.dataclass(frozen=True)
class Adopted:
    """Inherited descriptors of listening sockets, as an external front end gets them. The handshake is their
    giver's.

    ``first_rank`` and ``count``: the data-parallel ranks that are going to register. ``coordinator``: where load
    counts are published, if anywhere.
    """

    input_fd: int
    output_fd: int
    first_rank: int = 0
    count: int = 1
    coordinator: str | None = None
    client_index: int = 0
    client_count: int = 1


@dataclasses.dataclass(frozen=True)
class Bound:
    """Addresses to bind, ``ipc://`` or ``tcp://host:port``, port 0 for a free one. Somebody tells the engines.

    ``client_index``: this process's place in the lists of addresses that the engines got, of ``client_count``.
    """

    input_address: str
    output_address: str
    first_rank: int = 0
    count: int = 1
    client_index: int = 0
    client_count: int = 1
    coordinator: str | None = None


Endpoint: TypeAlias = Adopted | Bound


class Sockets:
    """Open sockets, listening: engines may connect from now on. The addresses have the real ports."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.context: ZmqContext = zmq.Context()
        try:
            self.router = open_socket(self.context, zmq.ROUTER)
            # A send to an engine that is gone raises; otherwise the request would vanish.
            self.router.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self.pull = open_socket(self.context, zmq.PULL)
            if isinstance(endpoint, Adopted):
                self.input_address = _adopt(self.router, endpoint.input_fd)
                self.output_address = _adopt(self.pull, endpoint.output_fd)
            else:
                self.input_address = bind(self.router, endpoint.input_address)
                self.output_address = bind(self.pull, endpoint.output_address)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of both sockets and their threads; waits at most half a second for what is still to be sent."""
        self.context.destroy(linger=_LINGER_MS)


def listen(host: str) -> tuple[int, str]:
    """A listening TCP socket to be ``Adopted``, maybe by a child process: descriptor, inheritable, and address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.create_server((host, 0), family=family, backlog=1024)
    sock.set_inheritable(True)
    address = _url(host, sock.getsockname()[1])
    return sock.detach(), address


def ipc_addresses(directory: str, count: int) -> list[tuple[str, str]]:
    """Input and output address of ``count`` front-end processes, as sockets in a directory of their own.

    ValueError if the directory's path is too long for Unix sockets.
    """
    pairs = [(f"ipc://{directory}/input-{i}", f"ipc://{directory}/output-{i}") for i in range(count)]
    longest = max((len(address.removeprefix("ipc://").encode()) for pair in pairs for address in pair), default=0)
    if longest > _PATH_LIMIT:
        raise ValueError(f"directory name too long for Unix sockets: {directory}")
    return pairs


def watch(handle: ZmqSocket, callback: Callable[[], None]) -> Callable[[], None]:
    """Call ``callback`` on the running loop when ``handle`` may have messages, and once soon. Returns the undo.

    The descriptor is edge triggered: the callback must receive until zmq.Again, or have itself called again.
    Sends on the same socket may swallow an edge; look again after them.
    """
    loop = asyncio.get_running_loop()
    descriptor = int(handle.getsockopt(zmq.FD))
    loop.add_reader(descriptor, callback)
    first = loop.call_soon(callback)

    def undo() -> None:
        first.cancel()
        loop.remove_reader(descriptor)

    return undo


def waiting_messages(handle: ZmqSocket) -> Iterator[list[bytes]]:
    """What can be received now, message by message."""
    while True:
        try:
            yield handle.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return


def open_socket(context: ZmqContext, kind: int) -> ZmqSocket:
    """A socket that drops nothing. Outputs that we are too slow for wait with the engine once we hold some: a PUSH
    keeps what a PULL does not take."""
    handle = context.socket(kind)
    handle.setsockopt(zmq.SNDHWM, 0)
    handle.setsockopt(zmq.RCVHWM, OUTPUTS_HELD if kind == zmq.PULL else 0)
    handle.setsockopt(zmq.LINGER, _LINGER_MS)
    return handle


def bind(handle: ZmqSocket, address: str) -> str:
    """Bind, and tell the address with its real port."""
    if "[" in address:
        handle.setsockopt(zmq.IPV6, 1)
    handle.bind(address)
    bound: Any = handle.getsockopt(zmq.LAST_ENDPOINT)
    return str(bound.rstrip(b"\0").decode())


def _adopt(handle: ZmqSocket, descriptor: int) -> str:
    """Make a listening descriptor the socket's own."""
    sock = socket.socket(fileno=descriptor)
    name = sock.getsockname()
    address = f"ipc://{name}" if sock.family == socket.AF_UNIX else _url(name[0], name[1])
    if "[" in address:
        handle.setsockopt(zmq.IPV6, 1)
    handle.setsockopt(zmq.USE_FD, sock.detach())
    handle.bind(address)
    return address


def _url(host: str, port: int) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
