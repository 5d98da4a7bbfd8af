"""Under any other ASGI server: pieces are joined while it is busy, and it is told when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from toolgrammar_serving.server.plain_connection import HIGH_WATER, PlainConnection


class Recorder:
    """A watcher that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def lost(self) -> None:
        self.heard.append("lost")

    def paused(self) -> None:
        self.heard.append("paused")

    def resumed(self) -> None:
        self.heard.append("resumed")


class AsgiServer:
    """Takes messages when ``free`` is set."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.free = asyncio.Event()
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.broken = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            await self.free.wait()
            if self.broken:
                raise OSError("gone")
            self.bodies.append(message["body"])

    async def receive(self) -> Any:
        await self.left
        return {"type": "http.disconnect"}


def scene(play: Callable[[AsgiServer, PlainConnection, Recorder], Any]) -> None:
    async def main() -> None:
        server = AsgiServer()
        connection = PlainConnection(server.receive, server.send)
        watcher = Recorder()
        connection.watch(watcher)
        await connection.start(200, [])
        async with asyncio.timeout(20):
            await play(server, connection, watcher)
        connection.close()

    asyncio.run(main())


def test_pieces_wait_joined_while_the_server_is_busy() -> None:
    async def play(server: AsgiServer, connection: PlainConnection, watcher: Recorder) -> None:
        connection.write(b"a", b"b", b"c")
        await asyncio.sleep(0)  # the writer takes what there is, and is held up in the server
        for text in (b"1", b"2", b"3"):
            connection.write(text, b"", b"")
        server.free.set()
        await connection.end(b"!")
        assert (server.bodies, watcher.heard) == ([b"abc", b"123", b"!"], [])

    scene(play)


def test_a_writer_is_paused_and_resumed() -> None:
    async def play(server: AsgiServer, connection: PlainConnection, watcher: Recorder) -> None:
        connection.write(b"a", b"", b"")
        await asyncio.sleep(0)
        big = b"x" * (HIGH_WATER // 4)
        for _ in range(8):
            connection.write(big, b"", b"")
        assert watcher.heard == ["paused"]
        server.free.set()
        await connection.end(b"")
        assert watcher.heard == ["paused", "resumed"]
        assert b"".join(server.bodies) == b"a" + big * 8

    scene(play)


@pytest.mark.parametrize("how", ["message", "error"])
def test_a_client_that_leaves_is_told_of_once(how: str) -> None:
    async def play(server: AsgiServer, connection: PlainConnection, watcher: Recorder) -> None:
        server.free.set()
        if how == "message":
            server.left.set_result(None)
        else:
            server.broken = True
            connection.write(b"a", b"", b"")
        while not connection.is_lost:
            await asyncio.sleep(0)
        connection.write(b"b", b"", b"")
        connection.abort()
        await connection.end(b"c")
        assert (server.bodies, watcher.heard) == ([], ["lost"])

    scene(play)


def test_nothing_waits_for_the_client_when_all_is_said() -> None:
    async def play(server: AsgiServer, connection: PlainConnection, watcher: Recorder) -> None:
        server.free.set()
        await connection.end(b"all")
        connection.close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert watcher.heard == []

    scene(play)
