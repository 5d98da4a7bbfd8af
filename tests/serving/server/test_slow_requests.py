"""Requests that do not come to an end, and clients that know no chunks."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from serving_http import Script, content, events_of, post, read_response, serving
from toolgrammar_serving.server import direct_protocol as module

CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
WHOLE = post(CHAT, BODY)
CHUNKED = b"POST %b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % CHAT.encode()


BEGUN = {"head": WHOLE[:20], "body": WHOLE[:-3], "chunks": CHUNKED + b"2\r\n{}\r\n"}


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
@pytest.mark.parametrize("before", [b"", WHOLE], ids=["first", "later"])
def test_an_unfinished_request_is_given_up(monkeypatch: pytest.MonkeyPatch, begun: bytes, before: bytes) -> None:
    monkeypatch.setattr(module, "REQUEST_S", 0.2)
    with (
        serving(Script([content("a")])) as live,
        live.send(before) as connection,
        connection.makefile("rb") as file,
    ):
        if before:
            assert read_response(connection, file)[0] == 200
        connection.sendall(begun)
        status, _, data = read_response(connection, file)
        assert (status, msgspec.json.decode(data)["error"]["code"]) == (408, "request_timeout")
        assert file.read() == b""


def test_a_complete_request_has_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that came in pieces, and one behind which the next has begun."""
    monkeypatch.setattr(module, "REQUEST_S", 0.2)
    script = Script([content(*"abc")], hold=[1])
    with serving(script) as live, live.send(WHOLE[:-3]) as connection:
        connection.sendall(WHOLE[-3:] + WHOLE[:20])
        with pytest.raises(TimeoutError):
            connection.settimeout(0.6)
            connection.recv(1)
        live.go()
        connection.settimeout(30)
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_endless_trailers_are_cut_off() -> None:
    with (
        serving(Script([content("a")])) as live,
        live.send(CHUNKED + b"2\r\n{}\r\n0\r\n") as connection,
        contextlib.suppress(OSError),
    ):
        for number in range(256):
            connection.sendall(b"X-%d: %b\r\n" % (number, b"a" * 65536))
        pytest.fail("all of it was read")


def test_a_client_of_http_1_0_gets_no_chunks() -> None:
    raw = post(CHAT, {**BODY, "stream": True}, version="1.0")
    with (
        serving(Script([content("a", "b")])) as live,
        live.send(raw) as connection,
        connection.makefile("rb") as file,
    ):
        head, _, body = file.read().partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head and b"\r\nconnection: close" in head
    assert len(events_of(body)) == 4 and body.endswith(b"data: [DONE]\n\n")
