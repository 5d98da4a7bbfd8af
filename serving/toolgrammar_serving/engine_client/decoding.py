"""From an engine's frames to outputs; statistics are stepped over, ``stats`` reads them later."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

from toolgrammar_serving.protocol.arrays import Frame
from toolgrammar_serving.protocol.wire import (
    ERROR,
    EngineCoreOutput,
    RequestError,
    UtilityOutput,
)

_log: Final = logging.getLogger(__name__)

#: Error code of an output that stands for one we could not read.
UNREADABLE: Final = "unreadable_output"


class Outputs(msgspec.Struct, array_like=True, gc=False):
    """EngineCoreOutputs whose statistics, most of a small message, stay unread."""

    engine_index: int = 0
    outputs: list[EngineCoreOutput] = []
    scheduler_stats: msgspec.Raw = msgspec.Raw()
    timestamp: float = 0.0
    utility_output: UtilityOutput | None = None
    finished_requests: set[str] | None = None


#: A message of an engine: its body read, and its frames, the body first.
Message: TypeAlias = tuple[Outputs, Sequence[Frame]]


#: Reads bodies; msgspec.DecodeError if that cannot be done.
decode_body: Final = msgspec.msgpack.Decoder(Outputs).decode


def salvage(body: Frame) -> Outputs | None:
    """What can be read of a body that is not as it should be: whole outputs, and an error for each broken one
    whose request is known. None if there is nothing of use.

    Without it one strange field would silently take a step's tokens from every request.
    """
    try:
        value = msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(value, list) or len(value) < 2 or not isinstance(value[1], list):
        return None
    found = Outputs(engine_index=value[0] if isinstance(value[0], int) else 0, outputs=[])
    for item in value[1]:
        output = _output(item)
        if output is not None:
            found.outputs.append(output)
    if len(value) > 4:
        try:
            found.utility_output = msgspec.convert(value[4], UtilityOutput | None)
        except msgspec.ValidationError as error:
            _log.warning("unreadable answer to a utility call: %s", error)
    return found


def unreadable(request_id: str) -> EngineCoreOutput:
    """The last output of a request of which the engine sent something that cannot be read."""
    error = RequestError(UNREADABLE, "the engine's answer could not be read")
    return EngineCoreOutput(request_id, [], finish_reason=ERROR, error=error)


def _output(item: Any) -> EngineCoreOutput | None:
    try:
        return msgspec.convert(item, EngineCoreOutput)
    except msgspec.ValidationError as error:
        if not isinstance(item, list) or not item or not isinstance(item[0], str):
            _log.warning("unreadable output of an unknown request: %s", error)
            return None
        _log.warning("unreadable output of request %s: %s", item[0], error)
        return unreadable(item[0])
