"""Notices that an engine is gone although nobody said so: one of its connections is.

A killed engine sends nothing, and only who started it can watch its process. ZeroMQ knows of the closed
connection, though not whose it was; so every rank is written to, and the one that cannot be reached is the lost
one. The connections for outputs are told of by their reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import zmq

from toolgrammar_serving.engine_client.sockets import ZmqSocket, waiting_messages, watch

#: When to look after a connection was closed, in seconds: what the engine sent last is to be taken in first, and
#: the socket may learn of the end a little later than its monitor.
_LOOK_AFTER_S: Final = (0.05, 0.2, 0.5)
#: How long an engine may take to connect for outputs again, in seconds. ZeroMQ tries ten times a second.
_RETURN_S: Final = 10.0


class Connections:
    """Watches the ROUTER's connections until ``close``. ``probe`` writes to every rank, and does what is to be
    done about one that is gone."""

    def __init__(self, router: ZmqSocket, probe: Callable[[], None]) -> None:
        self._router = router
        self._probe = probe
        self._loop = asyncio.get_running_loop()
        self._looks: list[asyncio.TimerHandle] = []
        self._again = False
        self._monitor: ZmqSocket = router.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._unwatch = watch(self._monitor, self._readable)

    def close(self) -> None:
        """Stop; call it before the router is closed."""
        for look in self._looks:
            look.cancel()
        self._unwatch()
        self._router.disable_monitor()

    def _readable(self) -> None:
        closed = list(waiting_messages(self._monitor))
        if closed and self._looks:
            self._again = True  # not later for whoever comes and goes all the time
        elif closed:
            self._schedule()

    def _schedule(self) -> None:
        self._again = False
        self._looks = [self._loop.call_later(delay_s, self._look) for delay_s in _LOOK_AFTER_S]

    def _look(self) -> None:
        del self._looks[0]
        # Reading takes note of connections that have ended. An engine has nothing to say here any more.
        for _ in waiting_messages(self._router):
            continue
        self._probe()
        if self._again and not self._looks:
            self._schedule()


class OutputConnections:
    """Decides, until ``close``, what the end of an output connection means: ``gone`` is to be called at each.

    A PUSH socket connects again by itself and goes on, but what was on its way is lost: a stream would have a
    hole, and one that waits for its last output would wait for ever. So an end while the engine has something to
    do (``busy``) is the engine's loss. Nobody knows whose connection it was, but one rank lost is all lost.

    Not at once: when a deployment ends in an orderly way, other ranks' last outputs may still be on their way.
    Not either if all ``ranks`` are ``connected`` still and the one that left never sent anything: it was a
    stranger. And while nothing is asked for, nothing is lost: the engine may come back then.
    """

    def __init__(
        self,
        ranks: int,
        *,
        connected: Callable[[], int],
        busy: Callable[[], bool],
        lose: Callable[[str], None],
    ) -> None:
        self._ranks = ranks
        self._connected = connected
        self._busy = busy
        self._lose = lose
        self._loop = asyncio.get_running_loop()
        self._heard = False
        self._was_busy = False
        self._look: asyncio.TimerHandle | None = None
        self._last_look: asyncio.TimerHandle | None = None

    def gone(self, heard: bool) -> None:
        """A connection ended, of which something had come, or not."""
        self._heard |= heard
        self._was_busy |= self._busy()  # of what begins later nothing was lost
        if self._last_look is not None and self._connected() + 1 >= self._ranks:
            self._last_look.cancel()  # it had come back meanwhile
            self._last_look = None
        if self._look is None:
            self._look = self._loop.call_later(_LOOK_AFTER_S[0], self._look_soon)

    def close(self) -> None:
        """Decide nothing any more."""
        for look in (self._look, self._last_look):
            if look is not None:
                look.cancel()

    def _look_soon(self) -> None:
        heard, self._heard, self._look = self._heard, False, None
        was_busy, self._was_busy = self._was_busy, False
        missing = self._connected() < self._ranks
        if was_busy and self._busy() and (heard or missing):
            self._lose("a connection for outputs ended with requests in flight")
        elif missing and self._last_look is None:
            self._last_look = self._loop.call_later(_RETURN_S, self._look_late)

    def _look_late(self) -> None:
        self._last_look = None
        if self._connected() < self._ranks:
            self._lose(f"a connection for outputs ended, and there was none again within {_RETURN_S:g} s")
