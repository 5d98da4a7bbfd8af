"""Runs the application under uvicorn, and stops it without losing a stream."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import msgspec
import uvicorn
from fastapi import FastAPI

from toolgrammar_serving.server.direct_connection import Outbox
from toolgrammar_serving.server.direct_protocol import DirectProtocol
from toolgrammar_serving.server.service import Service

log: Final = logging.getLogger(__name__)


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a server that speaks TLS. ``ca_certs`` and ``cert_reqs`` (ssl.CERT_*) ask clients for
    certificates."""

    certfile: str
    keyfile: str | None = None
    keyfile_password: str | None = None
    ca_certs: str | None = None
    cert_reqs: int = int(ssl.CERT_NONE)
    ciphers: str = "TLSv1"


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen, unless sockets are adopted, and for how long a connection may idle (seconds)."""

    host: str = "127.0.0.1"
    port: int = 8000
    uds: str | None = None
    tls: Tls | None = None
    keep_alive_s: float = 5.0
    backlog: int = 4096
    access_log: bool = False
    log_level: str = "warning"


class Server(uvicorn.Server):
    """uvicorn with the direct connection and a drain. ``await server.serve(sockets)`` until ``begin_drain``.

    After ``begin_drain``: ``/ready`` is 503 and new work is refused at once, requests in work end by themselves
    within ``drain_s``, what is left ends with an error; then the sockets close. Connections are accepted all the
    while, so that nobody is met by silence. Signals are the caller's.

    ``on_started`` is called on the loop once connections are accepted.
    """

    def __init__(
        self, app: FastAPI, listen: Listen | None = None, on_started: Callable[[], None] | None = None
    ) -> None:
        listen = listen or Listen()
        self.service: Service = app.state.service
        self._on_started = on_started
        slow_s = self.service.config.slow_reader_s
        protocol: Any = partial(DirectProtocol, outbox=Outbox(), slow_reader_s=slow_s)
        tls: dict[str, Any] = {}
        if listen.tls is not None:
            tls = {f"ssl_{name}": value for name, value in msgspec.structs.asdict(listen.tls).items()}
        super().__init__(
            uvicorn.Config(
                app,
                host=listen.host,
                port=listen.port,
                uds=listen.uds,
                http=protocol,  # uvicorn calls it, no more
                ws="none",
                lifespan="off",
                proxy_headers=False,
                server_header=False,
                root_path="",
                timeout_keep_alive=listen.keep_alive_s,  # type: ignore[arg-type]  # seconds of any kind
                backlog=listen.backlog,
                access_log=listen.access_log,
                log_level=listen.log_level,
                timeout_graceful_shutdown=5,
                **tls,
            )
        )

    def begin_drain(self) -> None:
        """Start to stop. Of any thread, or a signal's handler."""
        self.service.draining = True
        self.should_exit = True

    def stop_now(self) -> None:
        """Stop, and wait for no request. On the event loop."""
        self.begin_drain()
        self.service.hurry()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Catch none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. ``sockets``: bound ones, listening or not yet."""
        await super().startup(sockets)
        if not self.started:
            return
        self.service.share_numbers()
        if self._on_started is not None:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, then close."""
        self.service.draining = True
        await self.service.drained(self.service.config.drain_s)
        await super().shutdown(sockets)

    @property
    def port(self) -> int:
        """The TCP port listened on; of a server that has started."""
        address = self.servers[0].sockets[0].getsockname()
        return int(address[1]) if isinstance(address, tuple) else 0
