"""What an engine hears: the frames ``[type, body, aux...]`` as typed messages.

Whatever arrives is read to a message; what is broken to ``Damaged``. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

from toolgrammar_serving.protocol.wire import ABORT, ADD, START_DP_WAVE, UTILITY, EngineCoreRequest, UtilityCall

_COORDINATOR_READY: Final = b"READY"


class Add(msgspec.Struct):
    """A new request. ``frames`` are those of the whole message as ``arrays`` wants them: index 0 is the body."""

    request: EngineCoreRequest
    frames: Sequence[bytes] = ()


class Abort(msgspec.Struct):
    """Requests to forget: no output of them is wanted any more."""

    request_ids: list[str]


class StartWave(msgspec.Struct, array_like=True):
    """Of the coordinator (MoE data parallel): begin stepping, unless this rank is ``exclude``."""

    wave: int
    exclude: int | None = None


class Damaged(msgspec.Struct):
    """A message that cannot be read. With a ``request_id``, its client waits for an output that says so."""

    kind: bytes
    problem: str
    request_id: str | None = None
    client_index: int = 0


Message: TypeAlias = Add | Abort | UtilityCall | StartWave | Damaged

_request = msgspec.msgpack.Decoder(EngineCoreRequest).decode
_request_ids = msgspec.msgpack.Decoder(list[str]).decode
_utility = msgspec.msgpack.Decoder(UtilityCall).decode
_wave = msgspec.msgpack.Decoder(StartWave).decode


def read_message(frames: Sequence[bytes]) -> Message | None:
    """The message in ``[type, body, aux...]``; None for one that says nothing (the coordinator's READY)."""
    kind = frames[0]
    if kind == _COORDINATOR_READY:
        return None
    if len(frames) < 2:
        return Damaged(kind, "no body")
    body = frames[1]
    try:
        if kind == ADD:
            return Add(_request(body), frames[1:])
        if kind == ABORT:
            return Abort(_request_ids(body))
        if kind == UTILITY:
            return _utility(body)
        if kind == START_DP_WAVE:
            return _wave(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return _damaged(kind, body, str(error))
    return Damaged(kind, f"unknown message type {kind!r}")


def _damaged(kind: bytes, body: bytes, problem: str) -> Damaged:
    """What is wrong, and for an ADD whose it is, as far as the body is msgpack at all."""
    damaged = Damaged(kind, problem)
    if kind == ADD:
        try:
            fields: Any = msgspec.msgpack.decode(body)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return damaged
        if isinstance(fields, list):
            if fields and isinstance(fields[0], str):
                damaged.request_id = fields[0]
            if len(fields) > 11 and type(fields[11]) is int:
                damaged.client_index = fields[11]
    return damaged
