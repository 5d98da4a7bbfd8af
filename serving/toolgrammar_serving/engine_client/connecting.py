"""From open sockets to a client: waiting until every rank has registered."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import msgspec

from toolgrammar_serving.engine_client.client import EngineClient
from toolgrammar_serving.engine_client.handshake import EngineTooLate, Handshake
from toolgrammar_serving.engine_client.info import engine_info
from toolgrammar_serving.engine_client.reader import OutputReader
from toolgrammar_serving.engine_client.sockets import Endpoint, Sockets, waiting_messages, watch
from toolgrammar_serving.protocol.wire import ReadyResponse, identity

_log: Final = logging.getLogger(__name__)


async def connect(
    endpoint: Endpoint | Sockets,
    *,
    handshake: Handshake | None = None,
    ready_timeout_s: float = 600.0,
    stats: bool = False,
    watch_connections: bool = True,
) -> EngineClient:
    """A client, as soon as all ranks of the endpoint have registered, and said READY if the handshake is ours.

    ``stats``: read the scheduler's statistics, a cost for each step. ``watch_connections``: an engine whose
    connection ends is lost. EngineTooLate if the engines are not in time, EngineNotReady if they do not behave;
    the sockets are closed then, the handshake is its owner's.
    """
    sockets = endpoint if isinstance(endpoint, Sockets) else Sockets(endpoint)
    reader = OutputReader(sockets.outputs)
    try:
        async with asyncio.timeout(ready_timeout_s):
            registrations = _Registrations(sockets)
            try:
                await registrations.wait(handshake)
            finally:
                registrations.close()
        info = engine_info(registrations.responses, sockets.endpoint.coordinator)
        return EngineClient(sockets, reader, info, stats=stats, watch_connections=watch_connections)
    except TimeoutError:
        reader.close()
        sockets.close()
        missing = sorted(set(registrations.expected.values()) - set(registrations.responses))
        raise EngineTooLate(
            f"engine ranks {missing} did not register within {ready_timeout_s:g} s"
            if missing
            else f"not all engines were READY within {ready_timeout_s:g} s"
        ) from None
    except BaseException:
        reader.close()
        sockets.close()
        raise


class _Registrations:
    """Every engine's first message on the ROUTER: what it is. Until then it cannot be written to."""

    def __init__(self, sockets: Sockets) -> None:
        endpoint = sockets.endpoint
        self.expected = {
            identity(rank): rank for rank in range(endpoint.first_rank, endpoint.first_rank + endpoint.count)
        }
        self.responses: dict[int, ReadyResponse] = {}
        self._router = sockets.router
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unwatch = watch(self._router, self._readable)

    async def wait(self, handshake: Handshake | None) -> None:
        """All ranks, and the handshake if there is one; whichever fails first is raised."""
        if handshake is None:
            await self._done
        else:
            await asyncio.gather(self._done, handshake.finished())

    def close(self) -> None:
        self._unwatch()
        self._done.cancel()

    def _readable(self) -> None:
        for sender, *frames in waiting_messages(self._router):
            rank = self.expected.get(sender)
            if rank is None or rank in self.responses:
                _log.warning("registration of an unexpected engine, identity %s", sender.hex())
                continue
            self.responses[rank] = _ready_response(rank, frames[-1] if frames else b"")
        if len(self.responses) == len(self.expected) and not self._done.done():
            self._done.set_result(None)


def _ready_response(rank: int, body: bytes) -> ReadyResponse:
    """What an engine says of itself; older ones say nothing, and what cannot be read is as good as that."""
    if not body:
        return ReadyResponse()
    try:
        return msgspec.msgpack.decode(body, type=ReadyResponse)
    except msgspec.DecodeError as error:
        _log.warning("engine rank %d registered unreadably: %s", rank, error)
        return ReadyResponse()
