"""A front end as small as can be, on raw sockets: what an engine hears and says is checked with it.

with FrontEnd() as front:
    ...                                  # start an engine that dials front.handshake
    ready = front.connect()              # or: an engine that knows front.addresses, front.registered()
    front.add(request("a", [1, 2, 3], max_tokens=4))
    answers = front.finish("a")          # {"a": Answer(...)}
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
import zmq
from toolgrammar_serving.protocol import wire

#: Nothing waits longer than this; only hangs do.
DEADLINE_S = 120.0

_encode = msgspec.msgpack.Encoder().encode
_outputs = msgspec.msgpack.Decoder(wire.EngineCoreOutputs).decode
_ready = msgspec.msgpack.Decoder(wire.ReadyResponse).decode


def request(
    request_id: str, prompt: list[int], *, client: int = 0, salt: str | None = None, **params: Any
) -> wire.EngineCoreRequest:
    """An ADD body; ``params`` are sampling parameters."""
    return wire.EngineCoreRequest(
        request_id=request_id,
        prompt_token_ids=prompt,
        mm_features=None,
        sampling_params=wire.SamplingParams(**params),
        pooling_params=None,
        arrival_time=time.time(),
        lora_request=None,
        cache_salt=salt,
        data_parallel_rank=None,
        client_index=client,
    )


@dataclass
class Answer:
    """All that came of one request."""

    tokens: list[int] = field(default_factory=list)
    outputs: list[wire.EngineCoreOutput] = field(default_factory=list)

    @property
    def last(self) -> wire.EngineCoreOutput:
        return self.outputs[-1]

    @property
    def end(self) -> tuple[int | None, int | str | None]:
        """Finish reason and stop reason."""
        return self.last.finish_reason, self.last.stop_reason

    @property
    def cached(self) -> int:
        """Prompt tokens that were found in the cache."""
        stats = self.outputs[0].prefill_stats
        assert stats is not None
        return stats.num_cached_tokens


class FrontEnd:
    """Owns the handshake, and ``clients`` front-end sockets."""

    def __init__(self, clients: int = 1) -> None:
        self.context = zmq.Context()
        self.hand = self._bound(zmq.ROUTER)
        self.inputs = [self._bound(zmq.ROUTER) for _ in range(clients)]
        self.outputs = [self._bound(zmq.PULL) for _ in range(clients)]
        self.publisher: Any = None  # the coordinator's, if there is one
        self.loads: Any = None
        self.answers: dict[str, Answer] = {}
        self.stats: wire.SchedulerStats | None = None
        self.utility: dict[int, wire.UtilityOutput] = {}
        self.dead = False
        self._calls = 0

    def _bound(self, kind: int) -> Any:
        made = self.context.socket(kind)
        made.linger = 0
        made.rcvtimeo = int(DEADLINE_S * 1000)
        made.bind("tcp://127.0.0.1:0")
        return made

    @property
    def handshake(self) -> str:
        return _address(self.hand)

    def coordinate(self) -> None:
        """Be the coordinator, too."""
        self.publisher, self.loads = self._bound(zmq.XPUB), self._bound(zmq.PULL)

    def coordinator_ready(self) -> None:
        """Hear the engine's subscription; say READY."""
        assert self.publisher.recv() == b"\x01"
        self.publisher.send(b"READY")

    def coordinator_hears(self) -> tuple[int, int]:
        """Waiting and running requests, of the next report."""
        stats = _outputs(self.loads.recv()).scheduler_stats
        assert stats is not None
        return stats.num_waiting_reqs, stats.num_running_reqs

    @property
    def addresses(self) -> wire.Addresses:
        coordinator = [_address(one) for one in (self.publisher, self.loads) if one is not None]
        inputs, outputs = ([_address(one) for one in many] for many in (self.inputs, self.outputs))
        return wire.Addresses(inputs, outputs, *coordinator)

    def hello(self) -> dict[str, Any]:
        """Hear HELLO, send INIT."""
        who, body = self.hand.recv_multipart()
        self.hand.send_multipart([who, _encode(wire.Init(self.addresses))])
        return {"identity": who, **msgspec.msgpack.decode(body)}

    def registered(self) -> wire.ReadyResponse:
        """Hear the engine on every input socket."""
        said = [one.recv_multipart() for one in self.inputs]
        assert all(who == wire.identity(0) for who, _ in said)
        return _ready(said[0][1])

    def connect(self) -> wire.ReadyResponse:
        """The whole start-up."""
        self.hello()
        ready = self.registered()
        assert msgspec.msgpack.decode(self.hand.recv_multipart()[1])["status"] == "READY"
        return ready

    def send(self, kind: bytes, body: Any, client: int = 0) -> None:
        self.inputs[client].send_multipart([wire.identity(0), kind, _encode(body)])

    def add(self, *asked: wire.EngineCoreRequest) -> None:
        for one in asked:
            self.answers[one.request_id] = Answer()
            self.send(wire.ADD, one, one.client_index)

    def abort(self, *request_ids: str) -> None:
        self.send(wire.ABORT, list(request_ids))

    def call(self, method: str, *args: Any) -> wire.UtilityOutput:
        """A utility call and its answer."""
        self._calls += 1
        self.send(wire.UTILITY, wire.UtilityCall(0, self._calls, method, list(args)))
        while self._calls not in self.utility:
            self.take()
        return self.utility[self._calls]

    def take(self, client: int = 0) -> wire.EngineCoreOutputs | None:
        """The next message of the engine; None if it was its death."""
        frames = self.outputs[client].recv_multipart()
        if frames == [wire.ENGINE_CORE_DEAD]:
            self.dead = True
            return None
        message = _outputs(frames[0])
        if message.scheduler_stats is not None:
            self.stats = message.scheduler_stats
        if message.utility_output is not None:
            self.utility[message.utility_output.call_id] = message.utility_output
        for output in message.outputs:
            answer = self.answers.setdefault(output.request_id, Answer())
            answer.outputs.append(output)
            answer.tokens += output.new_token_ids
        return message

    def finish(self, *request_ids: str, client: int = 0) -> list[Answer]:
        """Wait for the ends of these requests."""
        while not all(self.finished(one) for one in request_ids):
            assert self.take(client) is not None, "the engine died"
        return [self.answers[one] for one in request_ids]

    def finished(self, request_id: str) -> bool:
        answer = self.answers.get(request_id)
        return bool(answer and answer.outputs and answer.last.finish_reason is not None)

    def run(self, *asked: wire.EngineCoreRequest) -> list[Answer]:
        """Add, and wait for the ends."""
        self.add(*asked)
        return self.finish(*(one.request_id for one in asked))

    def close(self) -> None:
        for one in (self.hand, *self.inputs, *self.outputs, self.publisher, self.loads):
            if one is not None:
                one.close(0)
        self.context.term()

    def __enter__(self) -> FrontEnd:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _address(socket: Any) -> str:
    return str(socket.getsockopt_string(zmq.LAST_ENDPOINT))
