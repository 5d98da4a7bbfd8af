"""What a client may leave open or send behind a good request: limits, and answers that are not spoiled by it."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from serving_http import Live, Script, content, post, read_head, read_response, serving
from toolgrammar_serving.server import direct_protocol as module

CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
WHOLE = post(CHAT, BODY)
STREAM = post(CHAT, {**BODY, "stream": True})
#: More than socket buffers and a transport's high-water mark take: six bytes each, as JSON.
LARGE = "\x01" * (1 << 20)


def text_of(data: bytes) -> Any:
    return msgspec.json.decode(data)["choices"][0]["message"]["content"]


def idle(live: Live) -> bool:
    """No request in work and no connection open."""
    return bool(live.server.service.running == 0 and not live.server.server_state.connections)


def wait_until_idle(live: Live) -> None:
    """Raises ``TimeoutError`` if it never is."""
    end = time.monotonic() + 20
    while not live.on_loop(lambda: idle(live)):
        if time.monotonic() > end:
            raise TimeoutError("requests or connections are held")


@contextlib.contextmanager
def small_reader(live: Live, raw: bytes) -> Iterator[socket.socket]:
    """A client that takes little at a time."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(20)
        connection.connect(("127.0.0.1", live.port))
        connection.sendall(raw)
        yield connection


# ---- wishes for another protocol

WISHES = {
    "h2c": ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
    "websocket": ("Upgrade: websocket", "Connection: keep-alive, Upgrade"),
    "TLS": ("Connection: upgrade", "Upgrade: TLS/1.0"),
}


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("pieces", [1, 2, 1000])
def test_a_wish_for_another_protocol_is_passed_over(wish: tuple[str, ...], pieces: int) -> None:
    raw = post(CHAT, BODY, *wish)
    step = -(-len(raw) // pieces)
    with serving(Script([content("a")])) as live, live.send(b"") as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(raw), step):
            connection.sendall(raw[at : at + step])
        status, headers, data = read_response(connection)
        assert (status, text_of(data), headers.get("upgrade")) == (200, "a", None)
        assert [request.messages for request in live.stage.requests] == [BODY["messages"]]


def test_wishes_among_pipelined_requests() -> None:
    wish = post(CHAT, BODY, *WISHES["h2c"])
    with (
        serving(Script([content("a")])) as live,
        live.send(wish + WHOLE + wish + wish) as connection,
        connection.makefile("rb") as file,
    ):
        answers = [read_response(connection, file) for _ in range(4)]
    assert [(status, text_of(data)) for status, _, data in answers] == [(200, "a")] * 4


def test_a_tunnel_is_refused() -> None:
    with (
        serving(Script([content("a")])) as live,
        live.send(b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n") as connection,
        connection.makefile("rb") as file,
    ):
        status, _, data = read_response(connection, file)
        assert (status, msgspec.json.decode(data)["error"]["code"]) == (405, "method_not_allowed")
        assert file.read() == b""


WISH = "\r\n".join(["Host: x", *WISHES["h2c"], "", ""]).encode()
TUNNEL = b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n"
#: Wishes that cannot be passed over.
BAD_WISHES = {
    "tunnel": TUNNEL,
    "encoding": b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n" + WISH,
    "url": b"GET http:// HTTP/1.1\r\n" + WISH,
}


@pytest.mark.parametrize("bad", BAD_WISHES.values(), ids=BAD_WISHES)
@pytest.mark.parametrize("before", [b"", WHOLE, STREAM], ids=["alone", "behind-whole", "behind-stream"])
def test_a_wish_that_cannot_be_read(caplog: pytest.LogCaptureFixture, bad: bytes, before: bytes) -> None:
    script = Script([content("a", "b")], hold=[1])
    with (
        caplog.at_level(logging.ERROR),
        serving(script) as live,
        live.send(before + bad) as connection,
        connection.makefile("rb") as file,
    ):
        live.go()
        status, _, data = read_response(connection, file)
        assert status == (200 if before else 405 if bad is TUNNEL else 400)
        assert not before or b"[DONE]" in data or text_of(data) == "ab"
        assert file.read() == b""
    assert caplog.text == ""


# ---- clients that do not read

#: Idle connections are not what is closed.
PATIENT: dict[str, Any] = {"keep_alive_s": 1000.0}


def test_a_reader_that_stops_at_the_end_of_a_stream_is_cut_off() -> None:
    """All was generated: nothing but the end is still to be taken."""
    with (
        serving(Script([content(LARGE, LARGE)]), PATIENT, slow_reader_s=0.3) as live,
        small_reader(live, STREAM) as connection,
    ):
        assert connection.recv(12) == b"HTTP/1.1 200"
        wait_until_idle(live)
        live.stage.script = lambda request: Script([content("b")])  # and the server goes on
        with live.send(WHOLE) as other:
            assert text_of(read_response(other)[2]) == "b"


def test_a_whole_answer_that_nobody_reads_is_dropped() -> None:
    with (
        serving(Script([content(LARGE)]), PATIENT, slow_reader_s=0.3) as live,
        small_reader(live, WHOLE) as connection,
    ):
        assert connection.recv(12) == b"HTTP/1.1 200"
        wait_until_idle(live)


def test_what_is_less_than_the_high_water_mark_is_dropped_too() -> None:
    """The transport pauses nobody: the connection idles and is to be closed, when all is taken."""
    with (
        serving(Script([content(LARGE)]), {"keep_alive_s": 0.1}, slow_reader_s=0.3) as live,
        small_reader(live, b"") as connection,
    ):
        while not live.on_loop(lambda: len(live.server.server_state.connections)):
            pass
        (protocol,) = live.server.server_state.connections
        live.on_loop(lambda: protocol.transport.set_write_buffer_limits(1 << 30))
        connection.sendall(WHOLE)
        assert connection.recv(12) == b"HTTP/1.1 200"
        wait_until_idle(live)


def test_a_drain_does_not_wait_for_who_does_not_read(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.ERROR),
        serving(Script([content(LARGE, LARGE)]), drain_s=0.2) as live,
        small_reader(live, STREAM) as connection,
    ):
        assert connection.recv(12) == b"HTTP/1.1 200"
        live.loop.call_soon_threadsafe(live.server.begin_drain)
        live.thread.join(20)
        assert not live.thread.is_alive()
    assert caplog.text == ""


# ---- what comes behind a good request


@pytest.mark.parametrize("request_", [STREAM, WHOLE], ids=["stream", "whole"])
@pytest.mark.parametrize("behind", [b"\x16\x03\x01garbage\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_rubbish_behind_a_request_does_not_cost_its_answer(request_: bytes, behind: bytes) -> None:
    script = Script([content("a", "b")], hold=[1])
    with serving(script) as live, live.send(request_ + behind) as connection, connection.makefile("rb") as file:
        live.go()
        status, _, data = read_response(connection, file)
        assert status == 200 and (b"[DONE]" in data or text_of(data) == "ab")
        assert file.read() == b""


def test_every_request_in_front_of_rubbish_is_answered() -> None:
    with (
        serving(Script([content("a")])) as live,
        live.send(WHOLE * 3 + b"\0\0\0\0") as connection,
        connection.makefile("rb") as file,
    ):
        assert [read_response(connection, file)[0] for _ in range(3)] == [200] * 3
        assert file.read() == b""


def test_a_body_that_breaks_behind_another_request() -> None:
    broken = WHOLE.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nX")
    with (
        serving(Script([content("a")])) as live,
        live.send(WHOLE + broken) as connection,
        connection.makefile("rb") as file,
    ):
        assert read_response(connection, file)[0] == 200
        assert file.read() == b""
        assert len(live.stage.requests) == 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_client_that_leaves_its_pipeline_is_no_error(caplog: pytest.LogCaptureFixture, count: int) -> None:
    script = Script([content("a", "b")], hold=[1])
    with caplog.at_level(logging.WARNING), serving(script) as live:
        with live.send(STREAM * count) as connection, connection.makefile("rb") as file:
            assert read_head(file)[0] == 200
        wait_until_idle(live)
        assert live.on_loop(lambda: [running.aborted.is_set() for running in live.stage.running]) == [True]
    assert caplog.text == ""


def test_a_client_that_leaves_its_pipeline_unanswered_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), serving(Script([content("a")])) as live:
        live.on_loop(live.stage.ready.clear)
        with live.send(STREAM * 2):
            while not live.stage.requests:
                pass
        while live.on_loop(lambda: bool(live.server.server_state.connections)):
            pass
        live.on_loop(live.stage.ready.set)
        wait_until_idle(live)
    assert caplog.text == ""


# ---- silence


def test_a_client_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_S", 0.2)
    with serving(Script([content("a")])) as live, live.send(b"") as connection:
        assert connection.recv(1) == b""


def test_empty_lines_do_not_keep_a_connection_open() -> None:
    with (
        serving(Script([content("a")]), {"keep_alive_s": 0.2}) as live,
        live.send(WHOLE) as connection,
        connection.makefile("rb") as file,
    ):
        assert read_response(connection, file)[0] == 200
        connection.sendall(b"\r\n")
        assert file.read() == b""


def test_a_late_request_has_all_the_time() -> None:
    """Its time begins with its first byte, not with the connection: another timer runs."""
    with serving(Script([content("a")])) as live, live.send(b"") as connection:
        while not live.on_loop(lambda: len(live.server.server_state.connections)):
            pass
        (protocol,) = live.server.server_state.connections
        first = live.on_loop(lambda: protocol.timer)
        connection.sendall(WHOLE[:20])
        while not live.on_loop(lambda: protocol.part):
            pass
        assert live.on_loop(lambda: (first.cancelled(), protocol.timer.cancelled())) == (True, False)
