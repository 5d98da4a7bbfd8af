"""Arrays on the wire: ``[dtype, shape, data]``, read and written without numpy.

``dtype`` is numpy's name of an ndarray (``"<i8"``) or torch's of a tensor (``"bfloat16"``). ``data`` is an
extension value of type 3 with the raw bytes, or the index of a frame of the same message (the body is frame 0).
Buffers of 256 bytes and more usually travel in frames of their own; a reader takes either at any size.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import Any, Final, TypeAlias

import msgspec

from toolgrammar_serving.protocol.wire import EXT_RAW

Frame: TypeAlias = bytes | bytearray | memoryview
Number: TypeAlias = int | float | bool

#: From this size on, in bytes, the protocol's own writers use a frame of its own.
INLINE_LIMIT: Final = 256

#: The letter of the struct module for each kind of number; bfloat16 has none and is read by its bits.
_LETTERS: Final = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q",
    "f2": "e", "f4": "f", "f8": "d",
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
    "int64": "q", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip
_BFLOAT16: Final = "bfloat16"
_RAGGED: Final = "rows of different lengths"


class Logprobs(msgspec.Struct):
    """Log probabilities of successive positions. Row ``i`` starts with the sampled token, whose rank from 1 is
    ``ranks[i]``; the columns behind it are the best tokens, ranks 1 to k."""

    ids: list[list[int]]
    logprobs: list[list[float]]
    ranks: list[int]


def read_array(value: Any, frames: Sequence[Frame] = ()) -> tuple[list[Any], tuple[int, ...]]:
    """The numbers of an array in row-major order, and its shape. ``frames`` are the message's, the body first.

    Raises ValueError for anything that is not an array or does not add up.
    """
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise ValueError("an array is [dtype, shape, data]")
    dtype, dimensions, data = value
    raw = _raw(data, frames)
    try:
        shape = tuple(dimensions)
        count = prod(shape)
        if dtype == _BFLOAT16:
            halves = struct.unpack(f"<{count}H", raw)
            return list(struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *[h << 16 for h in halves]))), shape
        order, letter = _number_format(dtype)
        return list(struct.unpack(f"{order}{count}{letter}", raw)), shape
    except (struct.error, TypeError, OverflowError) as error:
        raise ValueError(f"array of {dtype!r:.40} {dimensions!r:.40} with {len(raw)} bytes") from error


def write_array(
    numbers: Sequence[Number],
    shape: Sequence[int],
    dtype: str,
    aux: list[bytes],
    *,
    inline_limit: int = INLINE_LIMIT,
    first: int = 1,
) -> list[Any]:
    """An array from numbers in row-major order. Data of ``inline_limit`` bytes and more is appended to ``aux``,
    whose element 0 is going to be frame ``first`` of the message."""
    order, letter = _number_format(dtype)
    raw = struct.pack(f"{order}{len(numbers)}{letter}", *numbers)
    if len(raw) < inline_limit:
        return [dtype, list(shape), msgspec.msgpack.Ext(EXT_RAW, raw)]
    aux.append(raw)
    return [dtype, list(shape), first + len(aux) - 1]


def read_logprobs(value: Any, frames: Sequence[Frame] = ()) -> Logprobs:
    """``[ids, logprobs, ranks, ...]`` as in an output's ``new_logprobs`` and ``new_prompt_logprobs_tensors``.

    Raises ValueError if that is not what it is.
    """
    if not isinstance(value, list | tuple) or len(value) < 3:
        raise ValueError("logprobs are [ids, logprobs, ranks]")
    ids, shape = read_array(value[0], frames)
    logprobs, other = read_array(value[1], frames)
    ranks, positions = read_array(value[2], frames)
    if len(shape) != 2 or other != shape or positions != shape[:1]:
        raise ValueError(f"logprobs of shapes {shape}, {other}, {positions}")
    rows, width = shape
    if rows == 1:
        return Logprobs([ids], [logprobs], ranks)
    cuts = range(0, rows * width, width) if width else [0] * rows
    return Logprobs([ids[i : i + width] for i in cuts], [logprobs[i : i + width] for i in cuts], ranks)


def write_logprobs(
    logprobs: Logprobs, *, inline_limit: int = INLINE_LIMIT, first: int = 1
) -> tuple[list[Any], list[bytes]]:
    """The wire's form of logprobs, and the frames it refers to: the first of them is frame ``first`` of the
    message.

    All rows must be equally long (ValueError).
    """
    rows = len(logprobs.ranks)
    width = len(logprobs.ids[0]) if logprobs.ids else 0
    if any(len(row) != width for table in (logprobs.ids, logprobs.logprobs) for row in table):
        raise ValueError(_RAGGED)
    aux: list[bytes] = []
    flat_ids = [number for row in logprobs.ids for number in row]
    flat_logprobs = [number for row in logprobs.logprobs for number in row]
    ids = write_array(flat_ids, [rows, width], "<i8", aux, inline_limit=inline_limit, first=first)
    values = write_array(flat_logprobs, [rows, width], "<f4", aux, inline_limit=inline_limit, first=first)
    ranks = write_array(logprobs.ranks, [rows], "<i8", aux, inline_limit=inline_limit, first=first)
    return [ids, values, ranks, None], aux


def _number_format(dtype: Any) -> tuple[str, str]:
    """Byte order and letter of the struct module. Names without an order are little endian, as the wire is."""
    name = dtype if isinstance(dtype, str) else ""
    order = name[:1] if name[:1] in ("<", ">") else "<"
    letter = _LETTERS.get(name.lstrip("<>=|"))
    if letter is None:
        raise ValueError(f"unknown type of numbers: {dtype!r:.40}")
    return order, letter


def _raw(data: Any, frames: Sequence[Frame]) -> Frame:
    """The bytes an array's third element stands for."""
    if isinstance(data, msgspec.msgpack.Ext):
        if data.code != EXT_RAW:
            raise ValueError(f"array data as extension type {data.code}")
        return bytes(data.data)
    if isinstance(data, bytes | bytearray | memoryview):
        return data
    if isinstance(data, int) and 0 < data < len(frames):
        return frames[data]
    raise ValueError(f"no frame {data!r:.40} in a message of {len(frames)}")
