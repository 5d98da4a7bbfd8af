"""An engine's half of the wire: the handshake, and the sockets to its front ends.

    with Handshake(address, rank=0) as handshake:
        init = handshake.hello()                                # HELLO, then INIT
        ...                                                     # load the model
        sockets = EngineSockets(init.addresses, rank=0)
        sockets.register(ReadyResponse(...))                    # now front ends can address this engine
        handshake.ready()
    while ...:
        for message in sockets.receive(timeout_s): ...          # Add, Abort, UtilityCall, StartWave, Damaged
        sockets.send(client_index, EngineCoreOutputs(...))

Where the addresses are known, because somebody else owns the handshake, ``EngineSockets(Addresses(...))`` is all.
Synchronous, for one thread. Only a ``Bell`` may be used from others: it ends a wait.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
import zmq

from toolgrammar_serving.protocol.messages import Abort, Add, Damaged, Message, StartWave, read_message
from toolgrammar_serving.protocol.wire import (
    ENGINE_CORE_DEAD,
    Addresses,
    EngineCoreOutputs,
    Init,
    ReadyResponse,
    UtilityCall,
    identity,
)

__all__ = [
    "HANDSHAKE_TIMEOUT_S",
    "LINGER_MS",
    "Abort",
    "Add",
    "Bell",
    "Damaged",
    "EngineSockets",
    "Handshake",
    "HandshakeFailed",
    "Message",
    "StartWave",
    "UtilityCall",
    "encode",
    "read_message",
]

HANDSHAKE_TIMEOUT_S: Final = 300.0
LINGER_MS: Final = 4000
_SUBSCRIBE: Final = b"\x01"
_Context: TypeAlias = zmq.Context[zmq.Socket[bytes]]

encode: Final = msgspec.msgpack.Encoder().encode
_init: Final = msgspec.msgpack.Decoder(Init).decode


class HandshakeFailed(Exception):
    """No usable answer of the handshake's owner, or of the coordinator."""


class Bell:
    """Ends a wait of the thread that owns the sockets. ``ring`` may be called from any thread; it never blocks."""

    def __init__(self) -> None:
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)

    def ring(self) -> None:
        """Make the present wait, or else the next, return at once."""
        try:
            self._far.send(b"\0")
        except (BlockingIOError, OSError):  # rung often enough already, or closed
            return

    def fileno(self) -> int:
        """Readable after a ring."""
        return self._near.fileno()

    def clear(self) -> None:
        """Forget the rings so far."""
        try:
            while self._near.recv(4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        self._near.close()
        self._far.close()


def _connected(context: _Context, kind: int, address: str, rank: int, window: int = 0) -> Any:
    """A socket as the protocol wants it: unlimited unless ``window`` messages may wait for sending."""
    made = context.socket(kind)
    made.linger = LINGER_MS
    made.rcvhwm = 0
    made.sndhwm = window
    if "[" in address:
        made.ipv6 = True
    if kind in (zmq.DEALER, zmq.XSUB):
        made.setsockopt(zmq.IDENTITY, identity(rank))
    made.connect(address)
    return made


class Handshake:
    """HELLO, INIT, READY with the owner of the start-up. A ring of ``bell`` ends the wait for INIT."""

    def __init__(
        self, address: str, *, rank: int = 0, local: bool = False, headless: bool = True, bell: Bell | None = None
    ) -> None:
        self._address = address
        self._who = (local, headless)
        self._bell = bell
        self._context: _Context = zmq.Context()
        self._socket = _connected(self._context, zmq.DEALER, address, rank)

    def hello(self, timeout_s: float = HANDSHAKE_TIMEOUT_S) -> Init:
        """Say HELLO and wait for INIT. Raises ``HandshakeFailed``."""
        local, headless = self._who
        self._socket.send(encode({"status": "HELLO", "local": local, "headless": headless}))
        if not _readable(self._socket, timeout_s, self._bell):
            raise HandshakeFailed(f"no answer to HELLO from {self._address} within {timeout_s:g} s")
        try:
            return _init(self._socket.recv())
        except msgspec.DecodeError as error:
            raise HandshakeFailed(f"unreadable answer to HELLO from {self._address}: {error}") from error

    def ready(self, parallel_config_hash: str | None = None) -> None:
        """Say READY: the model is loaded, and every input socket is registered at."""
        local, headless = self._who
        said = {"status": "READY", "local": local, "headless": headless}
        if parallel_config_hash is not None:
            said["parallel_config_hash"] = parallel_config_hash
        self._socket.send(encode(said))

    def close(self) -> None:
        self._socket.close()
        self._context.term()

    def __enter__(self) -> Handshake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _readable(waited: Any, timeout_s: float, bell: Bell | None) -> bool:
    """Whether a message came before the time was over or the bell rang."""
    poller = zmq.Poller()
    poller.register(waited, zmq.POLLIN)
    if bell is not None:
        poller.register(bell.fileno(), zmq.POLLIN)
    return any(ready is waited for ready, _ in poller.poll(int(timeout_s * 1000)))


class EngineSockets:
    """The sockets to all front ends, in their order, and to the coordinator if there is one.

    ``window`` 0: ``send`` never waits nor refuses, as the protocol has it. Else about that many messages at most
    wait at ZeroMQ for each front end; more are kept here until there is room, and ``full`` tells of them.
    """

    def __init__(self, addresses: Addresses, *, rank: int = 0, window: int = 0, bell: Bell | None = None) -> None:
        self.rank = rank
        self.addresses = addresses
        self.bell = bell or Bell()
        self._context: _Context = zmq.Context()
        self._inputs = [_connected(self._context, zmq.DEALER, at, rank) for at in addresses.inputs]
        self._outputs = [_connected(self._context, zmq.PUSH, at, rank, window) for at in addresses.outputs]
        self._waiting: list[deque[Sequence[bytes]]] = [deque() for _ in self._outputs]
        self._poller = zmq.Poller()
        self._from_coordinator: Any = None
        self._to_coordinator: Any = None
        if addresses.coordinator_input and addresses.coordinator_output:
            self._from_coordinator = _connected(self._context, zmq.XSUB, addresses.coordinator_input, rank)
            self._from_coordinator.send(_SUBSCRIBE)
            self._to_coordinator = _connected(self._context, zmq.PUSH, addresses.coordinator_output, rank)
        self._readers = [*self._inputs, *([self._from_coordinator] if self.coordinated else [])]
        for reader in self._readers:
            self._poller.register(reader, zmq.POLLIN)
        self._poller.register(self.bell.fileno(), zmq.POLLIN)

    @property
    def clients(self) -> int:
        """How many front ends there are."""
        return len(self._outputs)

    @property
    def coordinated(self) -> bool:
        """Whether there is a coordinator, which wants to hear of load and waves."""
        return self._to_coordinator is not None

    def register(self, ready: ReadyResponse | None, timeout_s: float = HANDSHAKE_TIMEOUT_S) -> None:
        """Tell every front end what this engine is (None: nothing); wait for the coordinator's READY."""
        payload = b"" if ready is None else encode(ready)
        for sender in self._inputs:
            sender.send(payload)
        if self.coordinated and not _readable(self._from_coordinator, timeout_s, self.bell):
            raise HandshakeFailed(f"no READY from the coordinator within {timeout_s:g} s")

    def receive(self, timeout_s: float | None = None) -> list[Message]:
        """All messages that wait; without any, after the bell, room in a full socket, or the timeout."""
        ready = self._poll(timeout_s)
        messages: list[Message] = []
        for one, _ in ready:
            if one in self._readers:
                _drain(one, messages)
            elif one == self.bell.fileno():
                self.bell.clear()
            else:
                self._push_waiting(self._outputs.index(one))
        return messages

    def _poll(self, timeout_s: float | None) -> list[tuple[Any, int]]:
        """Poll for ``timeout_s`` exactly, although a poller counts whole milliseconds."""
        if timeout_s is None:
            return self._poller.poll()
        whole_ms = int(timeout_s * 1000)
        ready = self._poller.poll(whole_ms)
        rest_s = timeout_s - whole_ms / 1000
        if ready or rest_s < 5e-5:
            return ready
        time.sleep(rest_s)
        return self._poller.poll(0)

    def send(self, client: int, outputs: EngineCoreOutputs, frames: Sequence[bytes] = ()) -> None:
        """Send one step's outputs to front end ``client``; ``frames`` are the aux frames, from index 1 on."""
        self.send_frames(client, [encode(outputs), *frames])

    def send_frames(self, client: int, frames: Sequence[bytes]) -> None:
        """The same, already encoded."""
        waiting = self._waiting[client]
        if not waiting and _try_send(self._outputs[client], frames):
            return
        if not waiting:
            self._poller.register(self._outputs[client], zmq.POLLOUT)
        waiting.append(frames)

    def send_coordinator(self, outputs: EngineCoreOutputs) -> None:
        """Tell the coordinator of load or waves; nothing without one."""
        if self.coordinated:
            self._to_coordinator.send(encode(outputs))

    def full(self, client: int) -> bool:
        """Whether messages to ``client`` are kept here because its socket takes no more."""
        return bool(self._waiting[client])

    def _push_waiting(self, client: int) -> None:
        waiting = self._waiting[client]
        while waiting and _try_send(self._outputs[client], waiting[0]):
            waiting.popleft()
        if not waiting:
            self._poller.unregister(self._outputs[client])

    def die(self) -> None:
        """Tell every front end that this engine is lost. Nothing may be sent afterwards but ``close``."""
        for client in range(self.clients):
            self._waiting[client].clear()
            # Room is made where the window was full: this message must not be lost.
            self._outputs[client].setsockopt(zmq.SNDTIMEO, LINGER_MS)
            try:
                self._outputs[client].send(ENGINE_CORE_DEAD)
            except zmq.Again:
                continue

    def close(self, linger_ms: int = LINGER_MS) -> None:
        """Close all; outputs may take up to ``linger_ms`` to leave. What inputs have not said is forgotten."""
        for reader in self._readers:
            reader.close(0)
        for sender in (*self._outputs, *([self._to_coordinator] if self.coordinated else [])):
            sender.close(linger_ms)
        self._context.term()
        self.bell.close()


def _try_send(sender: Any, frames: Sequence[bytes]) -> bool:
    try:
        if len(frames) == 1:
            sender.send(frames[0], zmq.NOBLOCK)
        else:
            sender.send_multipart(frames, zmq.NOBLOCK)
    except zmq.Again:
        return False
    return True


def _drain(reader: Any, into: list[Message]) -> None:
    """Read what waits at a socket."""
    while True:
        try:
            frames = reader.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return
        if (message := read_message(frames)) is not None:
            into.append(message)
