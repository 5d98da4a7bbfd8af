"""ZMTP as libzmq writes it, read in any pieces; and what is not ZMTP."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_push import PULL_HELLO, written
from toolgrammar_serving.engine_client.zmtp import BUFFER, COMMAND_LIMIT, HELLO, LIMIT, PullStream, ZmtpError

SIZES = (0, 1, 2, 254, 255, 256, 257, 4096, 65535, 65536, BUFFER - 9, BUFFER, BUFFER + 1, 3 * BUFFER)
MESSAGES = [
    *[[random.Random(size).randbytes(size)] for size in SIZES],
    [b"head", b"", b"x" * 300, b""],
    [b"", b""],
    [b"a", bytes(2 * BUFFER), b"z"],
    [b"last"],
]


@pytest.fixture(scope="module")
def stream() -> bytes:
    """The messages as libzmq writes them."""
    return written(*MESSAGES)


def read(data: bytes, sizes: list[int]) -> list[list[bytes]]:
    """All messages, in pieces of at most these sizes, over and over."""
    pull = PullStream()
    messages: list[list[bytes]] = []
    at = turn = 0
    while at < len(data):
        space = pull.space()
        count = min(sizes[turn % len(sizes)], len(space), len(data) - at)
        assert len(space) > 0
        space[:count] = data[at : at + count]
        del space
        messages += pull.received(count)
        at += count
        turn += 1
    return messages


@given(st.lists(st.integers(3_000, 300_000), min_size=1, max_size=8))
def test_any_cut_gives_the_messages_that_were_sent(stream: bytes, sizes: list[int]) -> None:
    assert read(stream, sizes) == MESSAGES


FEW = [[b"one"], [b"two", b"parts"], [bytes(300)]]


@pytest.fixture(scope="module")
def short() -> bytes:
    """A few small messages."""
    return written(*FEW)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_any_small_cut_too(short: bytes, sizes: list[int]) -> None:
    assert read(short, sizes) == FEW


def test_our_side_of_the_greeting_is_the_rfc_s() -> None:
    assert HELLO == PULL_HELLO


PUSH_HELLO = PULL_HELLO.replace(b"PULL", b"PUSH")


def test_a_ping_is_answered_with_its_context() -> None:
    pull = PullStream()
    data = PUSH_HELLO + b"\x04\x0a\x04PING\x00\x64abc" + b"\x00\x01m"
    pull.space()[: len(data)] = data
    assert pull.received(len(data)) == [[b"m"]]
    assert pull.replies == b"\x04\x08\x04PONGabc"


WRONG = {
    "HTTP": (b"GET / HTTP/1.1\r\nHost: localhost\r\n".ljust(64, b"x"), "no ZMTP 3 greeting"),
    "ZMTP 2": (b"\xff" + bytes(8) + b"\x7f\x01".ljust(56, b"\0"), "no ZMTP 3 greeting"),
    "another mechanism": (PUSH_HELLO.replace(b"NULL", b"CURV"), "mechanism 'CURV'"),
    "a message before READY": (PUSH_HELLO[:64] + b"\x00\x01m", "before READY"),
    "a long message before READY": (PUSH_HELLO[:64] + b"\x02" + struct.pack(">Q", 9), "before READY"),
    "a long command": (PUSH_HELLO[:64] + b"\x06" + struct.pack(">Q", COMMAND_LIMIT + 1), "a command of more than"),
    "a refusal": (PUSH_HELLO[:64] + b"\x04\x0a\x05ERROR\x03bad", "the peer says 'bad'"),
    "a DEALER": (PUSH_HELLO[:64] + b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER", "a 'DEALER' socket"),
    "READY of nothing": (PUSH_HELLO[:64] + b"\x04\x06\x05READY", "not a PUSH socket"),
    "READY cut short": (PUSH_HELLO[:64] + b"\x04\x0a\x05READY\x0bSoc", "not a PUSH socket"),
    "a frame without an end": (PUSH_HELLO + b"\x02" + b"\xff" * 8, "a message of more than"),
    "just too long": (PUSH_HELLO + b"\x02" + struct.pack(">Q", LIMIT + 1), "a message of more than"),
}


@pytest.mark.parametrize(("data", "message"), WRONG.values(), ids=WRONG)
def test_what_is_no_engine_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ZmtpError, match=message):
        read(data, [len(data)])


@given(st.binary(max_size=300))
def test_rubbish_behind_the_greeting_is_refused_or_read(data: bytes) -> None:
    try:
        messages = read(PUSH_HELLO + data, [7])
    except ZmtpError:
        return
    assert sum(len(frame) for frames in messages for frame in frames) <= len(data)
