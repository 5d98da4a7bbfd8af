"""Frames that an engine reads: right, aged, and broken."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from serving_front_end import pack
from toolgrammar_serving.protocol.engine_side import Abort, Add, Damaged, StartWave, UtilityCall, read_message


def test_requests_of_any_length() -> None:
    nine = ["r", [1, 2], None, {"max_tokens": 5}, None, 1.5, None, None, None]
    for more in (
        [],
        [None],
        [None, None, 0, 0, 0, None, False, None, None, None, False, None, None, "unheard of"],
    ):
        message = read_message([b"\x00", pack(nine + more), b"aux"])
        assert isinstance(message, Add)
        assert (message.request.request_id, message.request.prompt_token_ids) == ("r", [1, 2])
        assert list(message.frames)[1:] == [b"aux"]
    params = message.request.sampling_params
    assert params is not None
    assert (params.max_tokens, params.temperature, params.stop_token_ids) == (5, 1.0, [])


def test_floats_of_32_bits_and_unknown_keys() -> None:
    params = (
        b"\x84\xa5top_p\xca\x3f\x00\x00\x00\xabtemperature\xca\x3e\x80\x00\x00\xacwatermarking\xc3\xa4seed\x07"
    )
    body = pack(["r", [1], None, msgspec.Raw(params), None, 0, None, None, None])
    message = read_message([b"\x00", body])
    assert isinstance(message, Add)
    read = message.request.sampling_params
    assert read is not None
    assert (read.top_p, read.temperature, read.seed) == (0.5, 0.25, 7)


def test_the_other_messages() -> None:
    assert read_message([b"\x01", pack(["a", "b"])]) == Abort(["a", "b"])
    assert read_message([b"\x03", pack([1, 2**64 - 1, "m", [3]])]) == UtilityCall(1, 2**64 - 1, "m", [3])
    assert read_message([b"\x02", pack([4, None])]) == StartWave(4, None)
    assert read_message([b"READY"]) is None


def test_what_is_broken_says_whose_it_is() -> None:
    fields = ["r", "no ids", *[None] * 9, 3]
    damaged = read_message([b"\x00", pack(fields)])
    assert isinstance(damaged, Damaged)
    assert (damaged.kind, damaged.request_id, damaged.client_index) == (b"\x00", "r", 3)
    assert "$[1]" in damaged.problem
    assert isinstance(read_message([b"\x00"]), Damaged)
    assert isinstance(read_message([b"\x05", b"\x90"]), Damaged)


@given(
    st.sampled_from([b"\x00", b"\x01", b"\x02", b"\x03", b"", b"x"]), st.lists(st.binary(max_size=40), max_size=3)
)
def test_no_bytes_raise(kind: bytes, rest: list[bytes]) -> None:
    assert read_message([kind, *rest]) is not None
