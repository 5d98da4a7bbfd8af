"""A replay engine on a thread of this process, for tests and for running without a model.

with EmbeddedReplay(InOrder([Script.of([1], [2])]), EngineOptions(), addresses=Addresses(...)) as replay:
    ...                                         # a front end on these addresses
    replay.wait_until(lambda counters: counters.aborted == 1)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Literal

from toolgrammar_serving.protocol.engine_side import Bell, EngineSockets, Handshake, HandshakeFailed
from toolgrammar_serving.protocol.wire import Addresses, EngineCoreRequest
from toolgrammar_serving.replay.choice import Choose
from toolgrammar_serving.replay.counters import Counters
from toolgrammar_serving.replay.engine import Ending, ReplayEngine
from toolgrammar_serving.replay.options import EngineOptions

_PATIENCE_S: Final = 60.0


class _Watch:
    """Somebody waits until something holds of the counters."""

    def __init__(self, holds: Callable[[Counters], bool], reset: bool = False) -> None:
        self.done = threading.Event()
        self.counters: Counters | None = None
        self.last: Counters | None = None
        self.error: Exception | None = None
        self._holds = holds
        self._reset = reset

    def look(self, engine: ReplayEngine) -> None:
        """On the engine's thread, or when it has ended."""
        try:
            self.last = engine.report(self._reset)
            if self._holds(self.last):
                self.counters = self.last
                self.done.set()
        except Exception as error:  # what is asked is the caller's; the engine goes on
            self.error = error
            self.done.set()


class EmbeddedReplay:
    """Starts on ``__enter__``; stops, as an engine that is shut down, on ``__exit__``.

    Give ``handshake``, the address to say HELLO at, or ``addresses`` that are known. ``keep_requests``: keep what
    arrives in ``requests`` and ``aborts``. Methods may be called from any thread but the engine's own. ``ending``
    tells how the engine ended, None while it runs.
    """

    def __init__(
        self,
        choose: Choose,
        options: EngineOptions | None = None,
        *,
        addresses: Addresses | None = None,
        handshake: str | None = None,
        keep_requests: bool = True,
    ) -> None:
        if (addresses is None) == (handshake is None):
            raise ValueError("exactly one of addresses and handshake is needed")
        self.ending: Ending | None = None
        self.error: BaseException | None = None
        self._choose = choose
        self._options = options or EngineOptions()
        self._addresses = addresses
        self._handshake = handshake
        self._keep_requests = keep_requests
        self._bell = Bell()
        self._stopped = False
        self._engine: ReplayEngine | None = None
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._ended = False
        self._watches: list[_Watch] = []
        self._thread = threading.Thread(target=self._run, name="replay-engine", daemon=True)

    def __enter__(self) -> EmbeddedReplay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- from other threads ------------------------------------------------------------------------------

    def stop(self, *, told: bool = True) -> None:
        """End all requests as aborted and stop. Returns when the engine is gone. ``told``: wait a while for front
        ends to take what is still to be said."""
        self._stopped = True
        self._bell.ring()
        engine = self._engine
        if engine is not None:
            engine.post(engine.stop if told else lambda: engine.end("gone"))
        self._thread.join()

    def end(self, how: Literal["dead", "gone"]) -> None:
        """Die, and return when dead: with ENGINE_CORE_DEAD, or without a word."""
        engine = self._running()
        engine.post(lambda: engine.end(how))
        self._thread.join()

    def release(self, steps: int = 1) -> None:
        """Allow further steps, with ``interval_s`` None."""
        engine = self._running()
        engine.post(lambda: engine.release(steps))

    def counters(self, reset: bool = False) -> Counters:
        """What was counted so far; begin anew if ``reset``. Also after the end."""
        return self._watch(_Watch(lambda counters: True, reset), _PATIENCE_S)

    def wait_until(self, holds: Callable[[Counters], bool], timeout_s: float = _PATIENCE_S) -> Counters:
        """The counters as soon as ``holds`` is true of them; asked on the engine's thread after each of its
        turns."""
        return self._watch(_Watch(holds), timeout_s)

    def _watch(self, watch: _Watch, timeout_s: float) -> Counters:
        engine = self._running()
        with self._lock:
            ended = self._ended
            if not ended:
                self._watches.append(watch)
        if ended:
            watch.look(engine)
        else:
            engine.post(lambda: None)
            watch.done.wait(timeout_s)
        if watch.error is not None:
            raise watch.error
        if watch.counters is None:
            raise TimeoutError(f"not within {timeout_s:g} s, or before the end; the last count was {watch.last}")
        return watch.counters

    @property
    def requests(self) -> list[EngineCoreRequest]:
        """What arrived so far."""
        return list(self._running().seen or ())

    @property
    def aborts(self) -> list[str]:
        """The ids of all ABORTs so far."""
        return list(self._running().seen_aborts or ())

    def _running(self) -> ReplayEngine:
        self._started.wait(_PATIENCE_S)
        if self._engine is None:
            raise TimeoutError(f"the replay engine did not start: {self.error!r}")
        return self._engine

    # ---- the engine's thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._serve()
        except HandshakeFailed as error:
            self.error = error
        finally:
            with self._lock:
                self._ended = True
            self._started.set()
            self._look(last=True)
            self._bell.close()

    def _serve(self) -> None:
        options = self._options
        if self._handshake is None:
            assert self._addresses is not None
            sockets = self._sockets(self._addresses)
        else:
            with Handshake(self._handshake, rank=options.rank, bell=self._bell) as handshake:
                sockets = self._sockets(handshake.hello().addresses)
                handshake.ready()
        engine = ReplayEngine(sockets, self._choose, options)
        if self._keep_requests:
            engine.seen, engine.seen_aborts = [], []
        engine.after_turn = self._look
        self._engine = engine
        self._started.set()
        if self._stopped:
            engine.post(engine.stop)
        self.ending = engine.run()

    def _sockets(self, addresses: Addresses) -> EngineSockets:
        options = self._options
        sockets = EngineSockets(addresses, rank=options.rank, window=options.window, bell=self._bell)
        try:
            sockets.register(options.ready_response())
        except HandshakeFailed:
            sockets.close(0)
            raise
        return sockets

    def _look(self, last: bool = False) -> None:
        """Look at the counters for those who wait; ``last``: there will be no other time."""
        if not self._watches or self._engine is None:
            return
        with self._lock:
            watches, self._watches = self._watches, []
        for watch in watches:
            watch.look(self._engine)
        pending = [watch for watch in watches if not watch.done.is_set()]
        if last:
            for watch in pending:
                watch.done.set()
        elif pending:
            with self._lock:
                self._watches.extend(pending)
