"""The sockets that clients connect to, bound before anything slow starts: a taken port is told at once."""

from __future__ import annotations

import errno
import os
import socket
import stat
from typing import Final

from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.problems import LaunchError

#: Connections that may wait to be accepted.
BACKLOG: Final = 2048


def bind(options: Options) -> list[socket.socket]:
    """One bound socket per API process, not yet listening: until a server listens, clients are refused.

    Several TCP sockets share their port by SO_REUSEPORT, and the kernel spreads connections over them; a Unix
    socket is one, shared by all. Raises ``LaunchError``.
    """
    count = options.api_server_count
    if options.uds is not None:
        return [_bind_unix(options.uds)] * count
    first = _bind_tcp(options.host, options.port)
    if count == 1:
        return [first]
    # SO_REUSEPORT would share the port with any other server of this user: without it we saw that it is free.
    port = first.getsockname()[1]
    first.close()
    return [_bind_tcp(options.host, port, shared=True) for _ in range(count)]


def _bind_tcp(host: str, port: int, *, shared: bool = False) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise LaunchError(f"--host {host}: {error.strerror}") from None
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(address)
    except OSError as error:
        made.close()
        raise _refusal(f"{host}:{port}", port, error) from None
    return made


def _refusal(place: str, port: int, error: OSError) -> LaunchError:
    if error.errno == errno.EADDRINUSE:
        return LaunchError(
            f"{place} is taken by another program", f"--port {port + 1}, or --port 0 for a free one"
        )
    if error.errno == errno.EACCES:
        return LaunchError(f"{place}: only root may listen there", "--port 8000")
    return LaunchError(f"{place}: {error.strerror}", "--host 127.0.0.1")


def _bind_unix(path: str) -> socket.socket:
    _remove_dead(path)
    made = socket.socket(socket.AF_UNIX)
    try:
        made.bind(path)
    except OSError as error:
        made.close()
        raise LaunchError(f"--uds {path}: {error.strerror or error}") from None
    return made


def _remove_dead(path: str) -> None:
    """A socket that nobody listens at any more is left over from a server that was killed."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise LaunchError(f"--uds {path}: there is a file of that name that is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(path)
        except OSError:
            os.unlink(path)
            return
    raise LaunchError(f"--uds {path} is taken by another program")


def url(options: Options, bound: socket.socket) -> str:
    """Where clients find the server; for a Unix socket a name that only tells."""
    scheme = "https" if options.ssl_certfile else "http"
    if bound.family == socket.AF_UNIX:
        return f"{scheme}+unix://{bound.getsockname()}"
    host, port = bound.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
