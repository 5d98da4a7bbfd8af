"""An engine on a thread of the test process, with the raw front end of ``serving_engine_wire`` before it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from serving_engine_wire import DEADLINE_S, FrontEnd
from toolgrammar_serving.protocol.wire import ReadyResponse


class Running:
    """``front`` speaks to it; ``model`` is the very model it runs, for right answers by transformers itself."""

    def __init__(self, front: FrontEnd, engine: Any, ready: ReadyResponse, directory: Path) -> None:
        self.front = front
        self.engine = engine
        self.ready = ready
        self.directory = directory

    @property
    def model(self) -> Any:
        return self.engine.executor.model


@contextmanager
def running(directory: Path, *argv: str, clients: int = 1, coordinated: bool = False) -> Iterator[Running]:
    """An engine over ``directory`` with the options ``argv``; one CPU thread, 64 MiB for the KV cache."""
    import torch
    from toolgrammar_serving.engine import lifecycle, options
    from toolgrammar_serving.protocol.engine_side import EngineSockets

    torch.set_num_threads(1)
    with FrontEnd(clients) as front:
        defaults = ["--device", "cpu", "--threads", "1", "--kv-memory", "64MiB", "--seed", "1"]
        read = options.parse([str(directory), "--handshake", front.handshake, *defaults, *argv])
        if coordinated:
            front.coordinate()
        sockets = EngineSockets(front.addresses)
        engine, ready = lifecycle.build(read, sockets, lifecycle.Progress(None))
        if coordinated:
            front.coordinator_ready()
        sockets.register(ready)
        front.registered()

        def serve() -> None:
            try:
                engine.run()
            except Exception:
                sockets.die()
            sockets.close(0)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Running(front, engine, ready, directory)
        finally:
            engine.stop()
            thread.join(DEADLINE_S)
            engine.close()
