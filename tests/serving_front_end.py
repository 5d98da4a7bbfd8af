"""The front end's half of the wire, as little as tests of an engine need: bound sockets, plain msgpack, no types.

A utility call is a barrier: what an engine sent before its answer has arrived when the answer has.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import zmq
from toolgrammar_serving.protocol.wire import Addresses
from toolgrammar_serving.replay import Choose, EmbeddedReplay, EngineOptions, InOrder, Script

HANG_MS = 20_000  # only so that a broken engine cannot hang a run
ID, TOKENS, LOGPROBS, PROMPT_LOGPROBS, FINISH, REASON, EVENTS, PREFILL, ERROR = 0, 1, 2, 3, 5, 6, 7, 11, 18
_numbers = itertools.count()


def pack(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


class FrontEnd:
    """Sockets for ``clients`` front-end processes; talks to rank 0 unless told."""

    def __init__(self, clients: int = 1, coordinator: bool = False, receive_limit: int = 0) -> None:
        self.context: Any = zmq.Context()
        # Short: a path of a Unix socket has 107 characters at most.
        self.folder = tempfile.TemporaryDirectory(prefix="tg-")
        self._bound: list[Any] = []
        self.inputs = [self.bound(zmq.ROUTER) for _ in range(clients)]
        self.outputs = [self.bound(zmq.PULL, receive_limit) for _ in range(clients)]
        self.to_engines = self.bound(zmq.XPUB) if coordinator else None
        self.from_engines = self.bound(zmq.PULL) if coordinator else None
        self.addresses = Addresses(
            [at(one) for one in self.inputs],
            [at(one) for one in self.outputs],
            at(self.to_engines) if self.to_engines else None,
            at(self.from_engines) if self.from_engines else None,
        )
        self.engines: list[bytes] = []

    def bound(self, kind: int, receive_limit: int = 0) -> Any:
        made = self.context.socket(kind)
        made.linger = 0
        made.rcvhwm = receive_limit
        made.rcvtimeo = HANG_MS
        made.bind(f"ipc://{os.path.join(self.folder.name, str(next(_numbers)))}")
        self._bound.append(made)
        return made

    def __enter__(self) -> FrontEnd:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.destroy(linger=0)
        self.folder.cleanup()

    def registered(self, ranks: int = 1) -> list[dict[str, Any]]:
        """Wait until ``ranks`` engines have registered at every front end: what they say of themselves."""
        said = []
        for one in self.inputs:
            said = []
            for _ in range(ranks):
                engine, payload = one.recv_multipart()
                said.append((engine, msgspec.msgpack.decode(payload)))
        self.engines = [engine for engine, _ in sorted(said, key=lambda pair: pair[0])]
        return [response for _, response in sorted(said, key=lambda pair: pair[0])]

    def send(self, kind: bytes, body: bytes, *, client: int = 0, rank: int = 0) -> None:
        self.inputs[client].send_multipart([self.engines[rank], kind, body])

    def add(
        self, request_id: str, *, prompt: Any = (1, 2, 3), client: int = 0, rank: int = 0, **params: Any
    ) -> None:
        """An ADD of 22 elements."""
        params = {"max_tokens": 1000, **params}
        start = [request_id, list(prompt), None, params, None, 0.0, None, None, None, None, None, client]
        self.send(b"\x00", pack([*start, *[0, 0, None, False, None, None, None, False, None, None]]), rank=rank)

    def abort(self, *request_ids: str) -> None:
        self.send(b"\x01", pack(list(request_ids)))

    def frames(self, client: int = 0) -> list[bytes]:
        return list(self.outputs[client].recv_multipart())

    def message(self, client: int = 0) -> list[Any]:
        """The next message, decoded: an array of 9. Bytes of arrays stay extension values."""
        return list(msgspec.msgpack.decode(self.frames(client)[0]))

    def step(self, client: int = 0) -> list[tuple[str, list[int], int | None]]:
        """The next message that has outputs: id, tokens, finish reason of each."""
        while not (outputs := self.message(client)[1]):
            continue
        return [(one[ID], one[TOKENS], one[FINISH]) for one in outputs]

    def call(self, method: str, *arguments: Any, client: int = 0) -> Any:
        """The answer to a utility call: ``[failure, value]``. Everything before it is in ``passed``."""
        number = next(_numbers)
        self.send(b"\x03", pack([client, number, method, list(arguments)]))
        self.passed: list[Any] = []
        while True:
            message = self.message(client)
            if message[4] is not None:
                assert message[4][0] == number
                return message[4][1:]
            self.passed += message[1]

    def finished(self, *request_ids: str, client: int = 0) -> dict[str, list[Any]]:
        """Read until these have a finish reason: the outputs of everybody, by id."""
        outputs: dict[str, list[Any]] = {}
        left = set(request_ids)
        while left:
            for one in self.message(client)[1]:
                outputs.setdefault(one[ID], []).append(one)
                if one[FINISH] is not None:
                    left.discard(one[ID])
        return outputs


def at(socket: Any) -> str:
    """The address a socket is bound to."""
    return str(socket.getsockopt(zmq.LAST_ENDPOINT).decode().rstrip("\0"))


def tokens(outputs: list[Any]) -> list[int]:
    """All tokens of one request's outputs."""
    return [token for one in outputs for token in one[TOKENS]]


@contextmanager
def scripted(
    choose: Choose | Script | list[Script], options: EngineOptions | None = None, **front_end: Any
) -> Iterator[tuple[FrontEnd, EmbeddedReplay]]:
    """A front end and a replay engine that is registered with it."""
    if isinstance(choose, Script):
        choose = [choose]
    if isinstance(choose, list):
        choose = InOrder(choose)
    with (
        FrontEnd(**front_end) as front,
        EmbeddedReplay(choose, options or EngineOptions(), addresses=front.addresses) as replay,
    ):
        front.registered()
        yield front, replay
