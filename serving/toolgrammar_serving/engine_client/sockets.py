"""The two sockets of a front end: ROUTER for requests, and for outputs a plain one that ``reader`` speaks PULL on;
bound by us, or adopted already listening.

Engines connect to both. High-water marks are off, as on their side: a send never waits, and nothing is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
import stat
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import zmq

ZmqSocket: TypeAlias = "zmq.Socket[bytes]"
ZmqContext: TypeAlias = "zmq.Context[ZmqSocket]"

#: How long a closing socket may go on sending what waits, in milliseconds.
_LINGER_MS: Final = 500
#: A host that loses power says nothing. After so many seconds of silence it is asked, at intervals of so many, and
#: given up after so many questions.
_KEEP_ALIVE: Final = (30, 10, 3)
_IPC: Final = "ipc://"
_BACKLOG: Final = 128
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
        self._outputs: socket.socket | None = None
        self._path = ""
        self.output_address = ""
        try:
            self.router = open_socket(self.context, zmq.ROUTER)
            # A send to an engine that is gone raises; otherwise the request would vanish.
            self.router.setsockopt(zmq.ROUTER_MANDATORY, 1)
            if isinstance(endpoint, Adopted):
                self.input_address = _adopt(self.router, endpoint.input_fd)
                self._outputs = socket.socket(fileno=endpoint.output_fd)
            else:
                self.input_address = bind(self.router, endpoint.input_address)
                self._outputs = _listening(endpoint.output_address)
                self._path = endpoint.output_address.removeprefix(_IPC)
            self._outputs.setblocking(False)
            self.output_address = _address(self._outputs)
        except BaseException:
            self.close()
            raise

    @property
    def outputs(self) -> socket.socket:
        """Where engines connect to send outputs; does not block."""
        assert self._outputs is not None, "open"
        return self._outputs

    def close(self) -> None:
        """Let go of both sockets and their threads; waits at most half a second for what is still to be sent."""
        if self._outputs is not None:
            self._outputs.close()
            if self.output_address == f"{_IPC}{self._path}":
                _unlink_socket(self._path)
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


def keep_alive(connection: socket.socket) -> None:
    """Have it end when the other host is gone without a word; for TCP only."""
    if connection.family == socket.AF_UNIX:
        return
    with contextlib.suppress(OSError):  # it may have ended already
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in zip(("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"), _KEEP_ALIVE, strict=True):
            if (option := getattr(socket, name, None)) is not None:  # not every system has all
                connection.setsockopt(socket.IPPROTO_TCP, option, value)


def open_socket(context: ZmqContext, kind: int) -> ZmqSocket:
    """A socket that drops nothing, and whose connections end when the other host is gone."""
    idle_s, interval_s, count = _KEEP_ALIVE
    handle = context.socket(kind)
    handle.setsockopt(zmq.SNDHWM, 0)
    handle.setsockopt(zmq.RCVHWM, 0)
    handle.setsockopt(zmq.LINGER, _LINGER_MS)
    handle.setsockopt(zmq.TCP_KEEPALIVE, 1)
    handle.setsockopt(zmq.TCP_KEEPALIVE_IDLE, idle_s)
    handle.setsockopt(zmq.TCP_KEEPALIVE_INTVL, interval_s)
    handle.setsockopt(zmq.TCP_KEEPALIVE_CNT, count)
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
    address = _address(sock)
    if "[" in address:
        handle.setsockopt(zmq.IPV6, 1)
    handle.setsockopt(zmq.USE_FD, sock.detach())
    handle.bind(address)
    return address


def _listening(address: str) -> socket.socket:
    """A plain socket that listens at a ZeroMQ address."""
    if address.startswith(_IPC):
        path = address.removeprefix(_IPC)
        sock = socket.socket(socket.AF_UNIX)
        try:
            _unlink_socket(path)
            sock.bind(f"\0{path[1:]}" if path.startswith("@") else path)
            sock.listen(_BACKLOG)
        except BaseException:
            sock.close()
            raise
        return sock
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    host = "" if host == "*" else host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)


def _unlink_socket(path: str) -> None:
    """Make way: a socket's file outlives it."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)


def _address(sock: socket.socket) -> str:
    name = sock.getsockname()
    if sock.family != socket.AF_UNIX:
        return _url(name[0], name[1])
    return f"{_IPC}@{name[1:].decode()}" if isinstance(name, bytes) else f"{_IPC}{name}"


def _url(host: str, port: int) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
