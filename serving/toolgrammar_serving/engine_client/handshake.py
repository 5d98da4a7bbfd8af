"""The start-up handshake of whoever owns the engines: HELLO in, INIT out, READY in, for every rank.

INIT tells an engine the sockets of all front-end processes. Between INIT and READY it loads the model, which may
take minutes, and registers at those sockets; the real one registers first and says READY then, but any order will
do. Nothing is sent here after READY, so the socket can be closed then.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import msgspec
import zmq

from toolgrammar_serving.engine_client.sockets import bind, open_socket, waiting_messages, watch
from toolgrammar_serving.errors import EngineLost
from toolgrammar_serving.protocol.wire import Addresses, Hello, Init, identity

_log: Final = logging.getLogger(__name__)

_HELLO: Final = "HELLO"
_READY: Final = "READY"


class EngineNotReady(EngineLost):
    """The engines did not come up as they should."""

    code = "engine_not_ready"


class EngineTooLate(EngineNotReady, TimeoutError):
    """The engines did not come up in time."""


class Handshake:
    """Answers the engines at ``tcp://host:port``, port 0 for a free one; ``address`` is what to start them with.

    ``addresses``: what they are told, one input and one output address per front-end process. ``parallel_config``:
    what they are told to set, of use with MoE data parallel only. Must be made with a running loop, which answers
    from then on.
    """

    def __init__(
        self,
        addresses: Addresses,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        first_rank: int = 0,
        count: int = 1,
        parallel_config: dict[str, Any] | None = None,
    ) -> None:
        self.hellos: dict[int, Hello] = {}
        self._ranks = {identity(rank): rank for rank in range(first_rank, first_rank + count)}
        self._init = msgspec.msgpack.encode(Init(addresses, parallel_config or {}))
        self._compare_hashes = bool(parallel_config)
        self._ready: dict[int, Hello] = {}
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._context: zmq.Context[Any] = zmq.Context()
        try:
            self._router = open_socket(self._context, zmq.ROUTER)
            self.address = bind(self._router, f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}")
            self.port = int(self.address.rpartition(":")[2])
            self._unwatch = watch(self._router, self._readable)
        except BaseException:
            self._context.destroy(linger=0)
            raise

    async def wait(self, timeout_s: float) -> None:
        """Return when all ranks are READY. EngineTooLate if they are not in time, EngineNotReady if they break the
        rules."""
        try:
            await asyncio.wait_for(self.finished(), timeout_s)
        except TimeoutError:
            missing = sorted(set(self._ranks.values()) - set(self._ready))
            raise EngineTooLate(f"no READY from engine ranks {missing} within {timeout_s:g} s") from None

    async def finished(self) -> None:
        """Return when all ranks are READY, however long it takes. EngineNotReady if they break the rules."""
        await asyncio.shield(self._done)

    def close(self) -> None:
        """Stop answering. May be called again."""
        if self._context.closed:
            return
        self._unwatch()
        self._context.destroy(linger=500)
        if self._done.done():
            self._done.exception()  # seen, wherever it goes
        else:
            self._done.cancel()

    def _readable(self) -> None:
        for frames in waiting_messages(self._router):
            try:
                self._take(frames)
            except EngineNotReady as error:
                if not self._done.done():
                    self._done.set_exception(error)
        if len(self._ready) == len(self._ranks) and not self._done.done():
            self._done.set_result(None)

    def _take(self, frames: list[bytes]) -> None:
        sender = frames[0]
        rank = self._ranks.get(sender)
        if rank is None:
            # Whoever finds the port may say something; an engine of ours that is missing is told of by `wait`.
            _log.warning("ignored a stranger at the handshake, identity %.40s", sender.hex())
            return
        try:
            hello = msgspec.msgpack.decode(frames[-1], type=Hello)
        except msgspec.DecodeError as error:
            raise EngineNotReady(f"engine rank {rank} sent an unreadable greeting: {error}") from error
        if hello.status == _HELLO:
            if rank in self.hellos:
                raise EngineNotReady(f"engine rank {rank} said HELLO twice")
            self.hellos[rank] = hello
            self._router.send_multipart([sender, self._init])
            _log.debug("engine rank %d said hello", rank)
        elif hello.status == _READY:
            self._take_ready(rank, hello)
        else:
            raise EngineNotReady(f"engine rank {rank} sent status {hello.status!r:.40}")

    def _take_ready(self, rank: int, ready: Hello) -> None:
        if rank not in self.hellos:
            raise EngineNotReady(f"engine rank {rank} is READY without HELLO")
        if self._compare_hashes:
            others = {other.parallel_config_hash for other in self._ready.values()}
            if others - {ready.parallel_config_hash}:
                raise EngineNotReady(f"engine rank {rank} has another parallel configuration than the others")
        self._ready[rank] = ready
        _log.debug("engine rank %d is ready", rank)
