"""Notices that an engine is gone although nobody said so: its connection is.

A killed engine sends nothing, and only who started it can watch its process. ZeroMQ knows of the closed
connection, though not whose it was; so every rank is written to, and the one that cannot be reached is the lost
one.
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
