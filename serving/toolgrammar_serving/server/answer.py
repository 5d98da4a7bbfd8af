"""One request being answered: its generations, the connection, and what may end it early.

Sinks tell the answer of each choice that is over; the route waits for two futures and nothing else: ``begun``,
when there is something to send or nothing to be sent at all, and ``over``. So a failure before the first token
gets its HTTP status, and no task runs per token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.server.connection import Connection
from toolgrammar_serving.server.sse import DONE, HEADERS, KEEP_ALIVE, error_event
from toolgrammar_serving.text import Usage


class Gone(ServingError):
    """The client left; nobody reads what is answered. Never told to anybody."""

    status, code = 499, "client_closed_request"


class TooSlow(Gone):
    """The client was cut off for it did not read."""


class Generation(Protocol):
    """What the layers below give for a request that runs."""

    @property
    def usage(self) -> Usage: ...
    def abort(self, index: int | None = None) -> None: ...
    def pause(self, index: int) -> None: ...
    def resume(self, index: int) -> None: ...


class Parsed(Protocol):
    """What the chat layer knows of an answer that it parses."""

    @property
    def held(self) -> int: ...


class Answer:
    """What all answers share. ``choices``: how many sequences there will be, ``n`` of them to each generation."""

    def __init__(self, connection: Connection, choices: int, n: int, slow_reader_s: float) -> None:
        self.connection = connection
        self.generations: list[Generation] = []
        self.sinks: list[Any] = []
        self.parsed: Parsed | None = None
        self.error: ServingError | None = None
        self.left = choices
        self.n = n
        self._slow_reader_s = slow_reader_s
        self._is_paused = False
        self._deadline: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = self._loop.create_future()
        self.over: asyncio.Future[None] = self._loop.create_future()
        connection.watch(self)

    def run(self, generation: Generation) -> None:
        """``generation`` was started for this answer."""
        self.generations.append(generation)
        if self.over.done():  # what failed or left meanwhile takes it along
            generation.abort()

    @property
    def held(self) -> int:
        """Characters that came and wait to be decided."""
        return self.parsed.held if self.parsed is not None else 0

    def usages(self) -> list[Usage]:
        """Counts so far."""
        return [generation.usage for generation in self.generations]

    def choice_over(self) -> bool:
        """One choice has ended; True if it was the last."""
        self.left -= 1
        return self.left <= 0

    def complete(self) -> None:
        """All choices are over."""
        if not self.over.done():
            self._settle()

    def fail(self, error: ServingError) -> None:
        """The answer ends with ``error``; what still runs is aborted. The first error counts."""
        if self.over.done():
            return
        self.error = error
        self._settle()
        self.stop()

    def break_off(self, error: ServingError) -> None:
        """End it at once: with ``error``, but to a client that does not read nothing can be told."""
        if self.over.done() or self._is_paused:
            self.connection.abort()
        self.fail(error)

    def stop(self) -> None:
        """Nothing more is wanted of the engine."""
        for generation in self.generations:
            generation.abort()

    def close(self) -> None:
        """The route is done with it, however that came about."""
        if not self.over.done():
            self.fail(Gone("the request was cancelled"))
        if self._deadline is not None:
            self._deadline.cancel()
        self.connection.close()
        # Sinks and generations refer to each other and to this: let go, so that what was said is freed at once.
        self.sinks = []
        self.generations = []
        self.parsed = None

    def _settle(self) -> None:
        self.over.set_result(None)
        if not self.begun.done():
            self.begun.set_result(None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # Watcher

    def lost(self) -> None:
        """The client left."""
        self.fail(Gone("the client closed the connection"))

    def paused(self) -> None:
        """The client reads too slowly: tokens wait below, as token ids; not for ever."""
        if self.over.done() or self._is_paused:
            return
        self._is_paused = True
        if not self.connection.cuts_off:
            self._deadline = self._loop.call_later(self._slow_reader_s, self._cut_off)
        for generation in self.generations:
            for index in range(self.n):
                generation.pause(index)

    def resumed(self) -> None:
        """The client has caught up."""
        if not self._is_paused:
            return
        self._is_paused = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        for generation in self.generations:
            for index in range(self.n):
                generation.resume(index)

    def _cut_off(self) -> None:
        self.connection.abort()
        self.fail(TooSlow("the client did not read for too long"))


Write = Callable[[bytes, bytes, bytes], None]


class StreamSink(Protocol):
    """What a stream needs of its sinks: a way out that can be changed, and when they last had something to say."""

    write: Write
    last: float


class StreamAnswer(Answer):
    """An answer sent piece by piece. Until the response has begun the pieces are held, then they go straight
    out."""

    def __init__(self, connection: Connection, choices: int, n: int, slow_reader_s: float) -> None:
        super().__init__(connection, choices, n, slow_reader_s)
        self._held: list[bytes] = []
        self._live = False
        self._commented = 0.0
        self.tail = b""

    def hold(self, head: bytes, text: bytes, tail: bytes) -> None:
        """A piece that comes before the response has begun; it makes it begin."""
        self._held.append(b"%b%b%b" % (head, text, tail))
        self.begin()

    def begin(self) -> None:
        """The engine works on it: send the head of the response."""
        if not self.begun.done():
            self.begun.set_result(None)

    def open_with(self, data: bytes) -> None:
        """What comes first, whenever the response begins."""
        self._held.append(data)

    def keep_alive(self, now: float, interval_s: float) -> None:
        """Send a comment if nothing was sent for ``interval_s``; begin the response if need be."""
        if self.over.done() or self._is_paused:
            return
        if not self._live:
            self.hold(KEEP_ALIVE, b"", b"")
            self._commented = now
        elif now - max(self._commented, *[sink.last for sink in self.sinks]) >= interval_s:
            self.connection.write(KEEP_ALIVE, b"", b"")
            self._commented = now

    async def send(self) -> None:
        """The whole response. Raises the error if it came before the response had begun."""
        await self.begun
        if self.error is not None:
            raise self.error
        await self.connection.start(200, HEADERS)
        if not self.over.done():
            self._go_live()
            await self.over
        await self._end()

    async def _end(self) -> None:
        if isinstance(self.error, Gone):
            return
        if self.error is not None:
            self.tail = error_event(self.error) + DONE
        await self.connection.end(b"".join([*self._held, self.tail]))

    def _go_live(self) -> None:
        if self._held:
            self.connection.write(b"".join(self._held), b"", b"")
            self._held.clear()
        self._live = True
        for sink in self.sinks:
            sink.write = self.connection.write
