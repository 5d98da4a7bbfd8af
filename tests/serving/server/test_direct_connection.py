"""Pieces written to real sockets, past the transport: nothing is lost, doubled or told to another."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from toolgrammar_serving.server.direct_connection import DirectConnection, Outbox, UnchunkedConnection

Opened = tuple["Line", DirectConnection, socket.socket]
Work = Callable[["Wires"], Coroutine[Any, Any, None]]
Run = Callable[[Work], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine on either event loop, ten seconds at most."""

    def on_loop(work: Work) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            wires = Wires()
            try:
                runner.run(asyncio.wait_for(work(wires), 10))
            finally:
                runner.run(wires.close())

    return on_loop


class Cycle:
    """Of a request."""

    disconnected = False
    chunked_encoding = True


class Line(asyncio.Protocol):
    """One accepted connection, as uvicorn's protocol has it."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.cycle = Cycle()
        self.direct: DirectConnection | None = None
        self.paused = 0
        self.is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        if self.direct is not None:
            self.direct.lose()

    def pause_writing(self) -> None:
        self.paused += 1

    async def send(self, message: Any) -> None:
        """As uvicorn writes the end."""
        self.transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(message["body"]), message["body"]))


class Wires:
    """Connections with a common outbox, and their clients' ends, which block."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.opened: list[Opened] = []

    async def open(
        self, kind: type[DirectConnection] = DirectConnection, send_buffer: int | None = None
    ) -> Opened:
        """One, attached."""
        ours, theirs = socket.socketpair()
        if send_buffer is not None:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        ours.setblocking(False)
        _, line = await asyncio.get_running_loop().create_connection(lambda: Line(self.outbox), sock=ours)
        connection = kind(line)  # type: ignore[arg-type]
        connection.attach(line.send)
        self.opened.append((line, connection, theirs))
        return line, connection, theirs

    async def close(self) -> None:
        """All ends."""
        for line, _, client in self.opened:
            client.close()
            line.transport.abort()
            while not line.is_over:
                await asyncio.sleep(0)
            await asyncio.sleep(0)


async def read(client: socket.socket, size: int) -> bytes:
    """So many bytes, read beside the loop."""

    def receive() -> bytes:
        data = b""
        while len(data) < size:
            data += client.recv(size - len(data))
        return data

    return await asyncio.to_thread(receive)


def test_the_pieces_of_a_turn_are_written_at_its_end_as_chunks(run: Run) -> None:
    async def work(wires: Wires) -> None:
        lines = [await wires.open() for _ in range(3)]
        for number, (_, connection, _) in enumerate(lines):
            connection.write(b"<%d" % number, b"..", b">")
            connection.write(b"second", b"", b"")
        for _, _, client in lines:
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(1)
            client.setblocking(True)
        for number, (_, _, client) in enumerate(lines):
            wanted = b"5\r\n<%d..>\r\n6\r\nsecond\r\n" % number
            assert await read(client, len(wanted)) == wanted

    run(work)


def test_what_the_socket_does_not_take_follows_in_order(run: Run) -> None:
    async def work(wires: Wires) -> None:
        line, connection, client = await wires.open(UnchunkedConnection, send_buffer=4096)
        pieces = [b"%06d" % number * 20_000 for number in range(60)]  # of the first a part is taken
        for piece in pieces[:30]:
            connection.write(piece, b"", b"")
        await asyncio.sleep(0)
        assert not connection.is_clear and line.paused == 1
        for piece in pieces[30:]:
            connection.write(piece, b"", b"")
        assert await read(client, 60 * 120_000) == b"".join(pieces)
        while line.transport.get_write_buffer_size():
            await asyncio.sleep(0)
        connection.write(b"and straight again", b"", b"")
        assert await read(client, 18) == b"and straight again"
        assert connection.is_clear

    run(work)


def test_the_end_comes_behind_what_waits(run: Run) -> None:
    async def work(wires: Wires) -> None:
        line, connection, client = await wires.open()
        line.transport.write(b"head,")  # not yet written by uvloop when the first piece is
        connection.write(b"a", b"", b"")
        await connection.end(b"b")
        wanted = b"head,1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
        assert await read(client, len(wanted)) == wanted

    run(work)


def test_nothing_is_written_to_a_descriptor_that_is_another_s_by_now(run: Run) -> None:
    async def work(wires: Wires) -> None:
        line, connection, client = await wires.open()
        connection.write(b"first", b"", b"")
        assert await read(client, 10) == b"5\r\nfirst\r\n"
        descriptor = connection.descriptor
        line.transport.abort()
        while not connection.is_lost:
            await asyncio.sleep(0)
        while _is_open(descriptor):
            await asyncio.sleep(0)
        other, others_client = socket.socketpair()
        if other.fileno() != descriptor:
            os.dup2(other.fileno(), descriptor)
        connection.write(b"secret", b"", b"")
        wires.outbox.flush()
        others_client.setblocking(False)
        with pytest.raises(BlockingIOError):
            others_client.recv(1)
        if other.fileno() != descriptor:
            os.close(descriptor)
        other.close()
        others_client.close()

    run(work)


def test_a_response_that_is_over_writes_nothing_more(run: Run) -> None:
    async def work(wires: Wires) -> None:
        _, connection, client = await wires.open()
        connection.write(b"last", b"", b"")
        connection.close()
        connection.write(b"late", b"", b"")
        wires.outbox.flush()
        assert await read(client, 9) == b"4\r\nlast\r\n"
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)

    run(work)


def test_a_client_that_left_breaks_nothing_of_others(run: Run) -> None:
    async def work(wires: Wires) -> None:
        _, gone, client = await wires.open()
        gone.write(b"one", b"", b"")
        await read(client, 8)
        client.close()
        _, there, other = await wires.open()
        for _ in range(3):
            gone.write(b"two", b"", b"")
            there.write(b"two", b"", b"")
            wires.outbox.flush()
        assert await read(other, 24) == b"3\r\ntwo\r\n" * 3
        while not gone.is_lost:
            await asyncio.sleep(0)

    run(work)


class Broken:
    """A transport that is beside itself."""

    def get_write_buffer_size(self) -> int:
        return 1

    def write(self, data: bytes) -> None:
        raise RuntimeError("the handler is closed")


def test_a_transport_that_raises_costs_its_own_connection_only(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def work(wires: Wires) -> None:
        _, broken, _ = await wires.open()
        _, there, client = await wires.open()
        broken.transport = Broken()
        broken.write(b"one", b"", b"")
        there.write(b"two", b"", b"")
        wires.outbox.flush()
        assert await read(client, 8) == b"3\r\ntwo\r\n"
        assert (broken.is_lost, there.is_lost) == (True, False)

    run(work)
    assert [record.message for record in caplog.records] == ["a connection broke"]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
