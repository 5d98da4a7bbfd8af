"""Arrays and logprobs against numpy's own bytes."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolgrammar_serving.protocol.arrays import Logprobs, read_array, read_logprobs, write_array, write_logprobs

Ext = msgspec.msgpack.Ext
DTYPES = ["<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "<f8", "<f4", "<f2", "|b1", ">i8", ">f4"]
TORCH = {
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint8": "|u1",
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "bool": "|b1",
}


def sample(dtype: str) -> Any:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        numbers = [0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, 65504.0, 6e-5]
    elif kind.kind == "b":
        numbers = [True, False] * 4
    else:
        info = np.iinfo(kind)
        numbers = [info.min, info.max, 0, 1, 2, 3, 100, 127]
    return np.array(numbers, dtype=kind).reshape(2, 4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_numpy_wrote_is_read_and_what_we_write_numpy_reads(dtype: str):
    array = sample(dtype)
    assert read_array([dtype, [2, 4], Ext(3, array.tobytes())]) == (array.ravel().tolist(), (2, 4))
    assert read_array([dtype, [2, 4], 2], [b"body", b"other", array.tobytes()])[0] == array.ravel().tolist()
    aux: list[bytes] = []
    name, shape, data = write_array(array.ravel().tolist(), [2, 4], dtype, aux)
    assert aux == []
    assert (np.frombuffer(data.data, dtype=name).reshape(shape) == array).all()
    assert write_array(array.ravel().tolist(), [2, 4], dtype, aux, inline_limit=8, first=5) == [dtype, [2, 4], 5]
    assert aux == [array.tobytes()]


@pytest.mark.parametrize(("torch", "numpy"), TORCH.items(), ids=TORCH)
def test_torch_names(torch: str, numpy: str):
    array = sample(numpy)
    assert read_array([torch, (2, 4), Ext(3, array.tobytes())]) == (array.ravel().tolist(), (2, 4))


def test_bfloat16_by_its_bits():
    raw = bytes.fromhex("803f 20c0 0000 807f 4940".replace(" ", ""))
    assert read_array(["bfloat16", [5], Ext(3, raw)]) == ([1.0, -2.5, 0.0, math.inf, 3.140625], (5,))


def test_empty_and_scalar_shapes():
    assert read_array(["<i8", [0, 3], Ext(3, b"")]) == ([], (0, 3))
    assert read_array(["<i8", [], Ext(3, (7).to_bytes(8, "little"))]) == ([7], ())


BROKEN = {
    "not a list": 5,
    "too short": ["<i8", [1]],
    "unknown type": ["<x9", [1], Ext(3, bytes(8))],
    "objects": ["|O", [1], Ext(3, bytes(8))],
    "no type": [None, [1], Ext(3, bytes(8))],
    "shape of text": ["<i8", "ab", Ext(3, bytes(8))],
    "shape of nothing": ["<i8", None, Ext(3, bytes(8))],
    "negative": ["<i8", [-1], Ext(3, bytes(8))],
    "vast": ["<i8", [2**62, 2**62], Ext(3, bytes(8))],
    "too few bytes": ["<i8", [2], Ext(3, bytes(8))],
    "too many bytes": ["<i8", [1], Ext(3, bytes(9))],
    "a pickle": ["<i8", [1], Ext(1, bytes(8))],
    "no such frame": ["<i8", [1], 1],
    "the body": ["<i8", [1], 0],
    "from behind": ["<i8", [1], -1],
    "shared memory": ["<i8", [1], {"sender_id": "x", "message_id": 1, "tensor_id": 0}],
}


@pytest.mark.parametrize("value", BROKEN.values(), ids=BROKEN)
def test_what_is_no_array_is_refused(value: Any):
    with pytest.raises(ValueError):
        read_array(value, [bytes(8)])
    fine = ["<i8", [1], Ext(3, bytes(8))]
    with pytest.raises(ValueError):
        read_logprobs([[*fine[:1], [1, 1], fine[2]], value, fine], [bytes(8)])


def test_shapes_of_logprobs_must_fit():
    ids = ["<i8", [2, 1], Ext(3, bytes(16))]
    values = ["<f4", [2, 1], Ext(3, bytes(8))]
    ranks = ["<i8", [2], Ext(3, bytes(16))]
    assert read_logprobs([ids, values, ranks, None]) == Logprobs([[0], [0]], [[0.0], [0.0]], [0, 0])
    for broken in (
        [ids, values],
        [ids, values, ["<i8", [1], Ext(3, bytes(8))]],
        [ids, ["<f4", [1, 2], Ext(3, bytes(8))], ranks],
        [["<i8", [2], Ext(3, bytes(16))], ["<f4", [2], Ext(3, bytes(8))], ranks],
    ):
        with pytest.raises(ValueError):
            read_logprobs(broken)


@given(st.integers(0, 5), st.integers(0, 25), st.integers(0, 300), st.integers(1, 4), st.randoms())
def test_logprobs_are_read_as_they_were_written(rows: int, k: int, limit: int, first: int, random: Any):
    ids = [[random.randrange(200_000) for _ in range(k + 1)] for _ in range(rows)]
    values = np.array([[-random.random() for _ in range(k + 1)] for _ in range(rows)], dtype="<f4").tolist()
    logprobs = Logprobs(ids, values, [random.randrange(1, 1000) for _ in range(rows)])
    value, aux = write_logprobs(logprobs, inline_limit=limit, first=first)
    body = msgspec.msgpack.decode(msgspec.msgpack.encode(value))
    assert read_logprobs(body, [b"", *[b"another"] * (first - 1), *aux]) == logprobs
    assert all(len(frame) >= limit for frame in aux)


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="different lengths"):
        write_logprobs(Logprobs([[1, 2], [3]], [[0.0, 0.0], [0.0]], [1, 1]))
