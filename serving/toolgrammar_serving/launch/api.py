"""One API process, in the launcher or beside it: from its engine sockets to its HTTP socket."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolgrammar_serving.engine_client import Adopted, Bound, EngineClient, connect
from toolgrammar_serving.errors import EngineLost
from toolgrammar_serving.launch import assemble
from toolgrammar_serving.launch.plan import Plan, found_later
from toolgrammar_serving.launch.problems import FAILED, LaunchError
from toolgrammar_serving.launch.telling import Summary
from toolgrammar_serving.launch.tuning import settle
from toolgrammar_serving.server import Listen, Server, Tls

_Result = TypeVar("_Result")
#: How long connections may take to close when nothing more is to be said.
_CLOSING_S = 10.0
BACKLOG = 4096


class Api:
    """A ``Front`` in this process. Make it on the loop it runs on."""

    def __init__(
        self,
        plan: Plan,
        endpoint: Adopted | Bound,
        listener: socket.socket,
        *,
        index: int = 0,
        metrics_dir: str | None = None,
    ) -> None:
        self._plan = plan
        self._endpoint = endpoint
        self._listener = listener
        self._config = assemble.server_config(plan, index, metrics_dir)
        self._client: EngineClient | None = None
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def ready(self) -> Summary:
        """Connect to the engines, put the layers on top, serve. Raises ``LaunchError``."""
        options = self._plan.options
        # Of a model that is not on this machine yet, the engine's coming up is awaited first: it fetches it.
        at_once = self._plan.way != "adopted" or self._plan.model_dir is not None
        loading = asyncio.ensure_future(self._load()) if at_once else None
        connecting = asyncio.ensure_future(
            connect(self._endpoint, ready_timeout_s=options.engine_ready_timeout, stats=True)
        )
        try:
            parts = await loading if loading else None  # its mistakes are told at once, however long engines take
            self._client = await connecting
        except EngineLost as error:
            raise LaunchError(
                error.message, "--engine-ready-timeout SECONDS, if it needs more", exit=FAILED
            ) from None
        finally:
            connecting.cancel()
        self._client.on_lost(self._engine_lost)
        if parts is None:
            self._plan = found_later(self._plan)
            parts = await self._load()
        made = assemble.assemble(self._client, self._plan, parts, self._config)
        await self._serve(made.app)
        settle()
        return made.summary

    async def _load(self) -> assemble.Parts:
        return await asyncio.to_thread(assemble.load_parts, self._plan)

    async def _serve(self, app: Any) -> None:
        options = self._plan.options
        tls = None
        if options.ssl_certfile:
            required = ssl.CERT_REQUIRED if options.ssl_ca_certs else ssl.CERT_NONE
            tls = Tls(
                certfile=options.ssl_certfile,
                keyfile=options.ssl_keyfile,
                ca_certs=options.ssl_ca_certs,
                cert_reqs=int(required),
            )
        up = asyncio.Event()
        listen = Listen(
            tls=tls,
            keep_alive_s=options.keep_alive,
            backlog=BACKLOG,
            access_log=options.access_log,
            log_level=options.log_level,
        )
        try:
            self._server = Server(app, listen, up.set)
            self._serving = asyncio.ensure_future(self._server.serve(sockets=[self._listener]))
            started = asyncio.ensure_future(up.wait())
            await asyncio.wait([self._serving, started], return_when=asyncio.FIRST_COMPLETED)
            if not started.done():
                started.cancel()
                await self._serving
                raise LaunchError("the HTTP server did not start", exit=FAILED)
        except ssl.SSLError as error:
            raise LaunchError(f"certificate and key cannot be used: {error.strerror or error}") from None

    async def ended(self) -> str:
        """How it came to an end by itself: an engine said that it died."""
        return await asyncio.shield(self._lost)

    def lose(self, why: str) -> None:
        """An engine is gone: every open request hears it, new ones are refused."""
        if self._client is not None:
            self._client.lose(why)

    async def drain(self) -> None:
        """No more work; what is open may end; close."""
        if self._server is not None and self._serving is not None:
            self._server.begin_drain()
            await asyncio.wait([self._serving], timeout=self._config.drain_s + _CLOSING_S)
        if self._client is not None:
            await self._client.close()

    def _engine_lost(self, *what: Any) -> None:
        if not self._lost.done():
            self._lost.set_result(" ".join(map(str, what)) or "it said that it died")


def run_loop(main: Coroutine[Any, Any, _Result]) -> _Result:
    """``asyncio.run`` on uvloop, where it is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def log_to_stderr(level: str) -> None:
    """Log lines of all parts."""
    logging.basicConfig(level=level.upper(), format="%(levelname)s %(name)s: %(message)s")
