"""One server from start to end: who is waited for, who is watched, what a signal or a death does."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.launch.problems import FAILED, INTERRUPTED, OK, LaunchError
from toolgrammar_serving.launch.telling import Summary


class Front(Protocol):
    """The API: one process or several, this one or others."""

    async def ready(self) -> Summary:
        """All engines are registered, and clients are served. Raises ``LaunchError``."""

    async def ended(self) -> str:
        """How it came to an end by itself, if it does."""

    def lose(self, why: str) -> None:
        """An engine is gone: every open request gets its error, new ones are refused."""

    async def drain(self) -> None:
        """Take no more work, let the open requests come to their end (not for ever), and close."""


class Source(Protocol):
    """What gives the tokens."""

    async def ended(self) -> str:
        """How it came to an end by itself, if it does."""


class Elsewhere:
    """A ``Source`` that somebody else looks after: its death is heard over the wire, or not at all."""

    async def ended(self) -> str:
        """Nobody tells us."""
        await asyncio.Event().wait()
        return ""


class Stop:
    """SIGTERM and SIGINT: the first asks for an end in good order, the second calls ``kill`` and ends at once."""

    def __init__(self, kill: Callable[[], None]) -> None:
        self.asked = asyncio.Event()
        self._kill = kill
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        if self.asked.is_set():
            self._kill()
            os._exit(INTERRUPTED)
        self.asked.set()


async def run(
    front: Front, source: Source, stop: Stop, engines_ready: Awaitable[Any], announce: Callable[[Summary], None]
) -> int:
    """Serve until a signal, or until something ends that should not.

    Returns the exit code after a signal; raises ``LaunchError`` for everything else.
    """
    waits = [asyncio.ensure_future(one) for one in (source.ended(), front.ended(), stop.asked.wait())]
    source_end, front_end, stopped = waits
    starting = [asyncio.ensure_future(front.ready()), asyncio.ensure_future(engines_ready)]
    try:
        if not await _started(starting, waits):
            if not stopped.done():
                raise _not_started(source_end, front_end)
            await front.drain()
            return OK
        announce(starting[0].result())
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        problem = None  # known before the drain, which ends more
        if source_end.done():
            problem = f"the engine ended: {source_end.result()}"
            front.lose(problem)
        elif front_end.done():
            problem = f"the server ended: {front_end.result()}"
        await front.drain()
        if problem is not None:
            raise LaunchError(problem, exit=FAILED)
        return OK
    except ServingError as error:
        raise LaunchError(error.message, exit=FAILED) from None
    finally:
        for one in (*waits, *starting):
            one.cancel()


async def _started(starting: Sequence[asyncio.Future[Any]], waits: Sequence[asyncio.Future[Any]]) -> bool:
    """Whether all of ``starting`` is done before any of ``waits``; raises what one of it raises."""
    while left := [one for one in starting if not one.done()]:
        done, _ = await asyncio.wait([*left, *waits], return_when=asyncio.FIRST_COMPLETED)
        for one in done & set(starting):
            one.result()
        if done & set(waits):
            return False
    return True


def _not_started(source_end: asyncio.Future[Any], front_end: asyncio.Future[Any]) -> LaunchError:
    if source_end.done():
        return LaunchError(f"the engine ended before it was ready: {source_end.result()}", exit=FAILED)
    return LaunchError(f"the server ended before it was ready: {front_end.result()}", exit=FAILED)
