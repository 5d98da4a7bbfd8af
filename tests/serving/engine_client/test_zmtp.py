"""ZMTP as libzmq writes it, read in any pieces; and what is not ZMTP."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_push import PULL_HELLO, written
from toolgrammar_serving.engine_client import zmtp
from toolgrammar_serving.engine_client.zmtp import (
    BUFFER,
    COMMAND_LIMIT,
    COMMANDS,
    FIRST,
    FRAME_COST,
    HELLO,
    LIMIT,
    PullStream,
    ZmtpError,
)

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
    messages: list[list[bytes]] = []
    feed(PullStream(), data, sizes, messages)
    return messages


def feed(pull: PullStream, data: bytes, sizes: list[int], messages: list[list[bytes]]) -> list[int]:
    """Have the data read in pieces of at most these sizes; how much room there was for each."""
    rooms = []
    at = turn = 0
    while at < len(data):
        space = pull.space()
        rooms.append(len(space))
        count = min(sizes[turn % len(sizes)], len(space), len(data) - at)
        assert len(space) > 0
        space[:count] = data[at : at + count]
        del space
        messages += pull.received(count)
        at += count
        turn += 1
    return rooms


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


def ping(context: bytes) -> bytes:
    return b"\x04" + bytes([7 + len(context)]) + b"\x04PING\x00\x64" + context


def test_a_ping_is_answered_with_its_context() -> None:
    pull = PullStream()
    messages: list[list[bytes]] = []
    feed(pull, PUSH_HELLO + ping(b"abc") + b"\x00\x01m", [LIMIT], messages)
    assert messages == [[b"m"]]
    assert pull.replies == b"\x04\x08\x04PONGabc"


def test_many_pings_are_answered_once() -> None:
    pull = PullStream()
    feed(pull, PUSH_HELLO, [LIMIT], [])
    feed(pull, b"".join(ping(str(i).encode()) for i in range(COMMANDS)), [LIMIT], [])
    assert pull.replies == b"\x04\x09\x04PONG1023"


def test_a_flood_of_pings_is_refused() -> None:
    pull = PullStream()
    feed(pull, PUSH_HELLO, [LIMIT], [])
    with pytest.raises(ZmtpError, match="more than 1024 commands at once"):
        feed(pull, ping(b"") * (COMMANDS + 1), [LIMIT], [])


def test_room_is_made_for_what_came_and_not_for_what_is_announced() -> None:
    pull = PullStream()
    size = 9 * BUFFER
    feed(pull, PUSH_HELLO, [LIMIT], [])
    assert feed(pull, b"\x02" + struct.pack(">Q", size), [LIMIT], []) == [BUFFER]
    messages: list[list[bytes]] = []
    assert feed(pull, bytes(size), [LIMIT], messages) == [
        BUFFER - 9,
        BUFFER,
        2 * BUFFER,
        4 * BUFFER,
        BUFFER + 9,
    ]
    assert messages == [[bytes(size)]]
    assert len(pull.space()) == BUFFER


def test_until_ready_there_is_little_room() -> None:
    pull = PullStream()
    assert feed(pull, PUSH_HELLO[:64], [10, 40], []) == [FIRST, FIRST - 10, FIRST - 50, FIRST - 60]
    long = PUSH_HELLO[66:] + b"\x05Large" + struct.pack(">I", 3 * FIRST) + bytes(3 * FIRST)
    ready = b"\x06" + struct.pack(">Q", len(long)) + long
    assert feed(pull, ready, [LIMIT], []) == [FIRST, FIRST, len(ready) - 2 * FIRST]
    assert (pull.ready, len(pull.space())) == (True, BUFFER)


def test_a_real_engine_s_greeting_needs_no_more_room() -> None:
    data = written([b"m"], identity=b"i" * 255)
    pull = PullStream()
    messages: list[list[bytes]] = []
    assert feed(pull, data, [LIMIT], messages) == [FIRST]
    assert messages == [[b"m"]]


BROKEN = {
    "a long command": b"\x06" + struct.pack(">Q", COMMAND_LIMIT + 1),
    "a refusal": b"\x04\x0a\x05ERROR\x03bad",
    "a message without an end": b"\x01\x01m\x02" + b"\xff" * 8,
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("size", [1, 7, LIMIT])
def test_what_came_whole_before_a_fault_is_not_lost(short: bytes, broken: bytes, size: int) -> None:
    messages: list[list[bytes]] = []
    with pytest.raises(ZmtpError) as caught:
        feed(PullStream(), short + broken, [size], messages)
    assert messages + list(caught.value.messages) == FEW


def test_empty_frames_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zmtp, "LIMIT", 100 * FRAME_COST)
    most = b"\x01\x00" * 100
    assert read(PUSH_HELLO + most + b"\x00\x00", [LIMIT]) == [[b""] * 101]
    with pytest.raises(ZmtpError, match="a message of more than"):
        read(PUSH_HELLO + most + b"\x01\x00" * 2, [LIMIT])


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


AT_ONCE = {
    "HTTP": (b"GET / HTTP/1.1\r\n\r\n", 1),
    "not a signature": (b"\xff" + b"x" * 63, 10),
    "ZMTP 2": (b"\xff" + bytes(8) + b"\x7f\x01\x00", 11),
    "another mechanism": (PUSH_HELLO.replace(b"NULL", b"CURV"), 32),
}


@pytest.mark.parametrize(("data", "needed"), AT_ONCE.values(), ids=AT_ONCE)
def test_another_language_is_refused_as_soon_as_it_can_be_told(data: bytes, needed: int) -> None:
    assert read(data[: needed - 1], [1]) == []
    with pytest.raises(ZmtpError, match=r"no ZMTP 3 greeting|mechanism 'CURV'"):
        read(data[:needed], [1])


@given(st.binary(max_size=300))
def test_rubbish_behind_the_greeting_is_refused_or_read(data: bytes) -> None:
    try:
        messages = read(PUSH_HELLO + data, [7])
    except ZmtpError:
        return
    assert sum(len(frame) for frames in messages for frame in frames) <= len(data)
