"""Who connects to the reader: engines, late and failing ones, and what is none."""

from __future__ import annotations

import asyncio
import errno
import socket
import tempfile
from typing import Any

import pytest
from serving_client import DEADLINE_S, output, rig, turn
from serving_push import PULL_HELLO
from serving_reader import Engine, reading, step
from toolgrammar_serving.engine_client import reader as reader_module
from toolgrammar_serving.engine_client.reader import OutputReader


def test_a_peer_that_is_no_engine_is_cut_off_and_disturbs_no_other(caplog: pytest.LogCaptureFixture):
    async def main():
        async with reading([step(output("a", [1]))]) as (heard, engine, _):
            other = Engine(engine.path)
            other.socket.send(b"GET / HTTP/1.1\r\n\r\n")
            await other.cut_off()
            other.socket.close()
            engine.sends([step(output("a", [2]))])
            await heard.until(lambda: sum(map(len, heard.batches)) == 2)
            assert heard.gone == []

    asyncio.run(main())
    assert [record.message for record in caplog.records] == [
        "cut off a peer that is no engine: no ZMTP 3 greeting"
    ]


def test_what_came_before_a_fault_is_delivered_before_the_peer_is_cut_off():
    async def main():
        async with reading([step(output("a", [1]))]) as (heard, engine, reader):
            engine.sends([step(output("a", [2]))])
            engine.socket.send(b"\x02" + b"\xff" * 8)
            await heard.until(lambda: heard.gone == [True])
            assert heard.tokens == [1, 2]
            await engine.cut_off()
            assert reader.connected() == 0

    asyncio.run(main())


@pytest.mark.parametrize("said", [b"", PULL_HELLO[:64]], ids=["nothing", "a greeting"])
def test_who_does_not_get_ready_in_time_is_cut_off(
    said: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def main():
        async with reading() as (heard, engine, reader):
            await heard.until(lambda: reader.connected() == 1)
            monkeypatch.setattr(reader_module, "_GREETING_S", 0.0)
            silent = Engine(engine.path)
            silent.socket.send(said)
            await silent.cut_off()
            silent.socket.close()
            (peer,) = reader._peers
            assert peer.deadline.cancelled()
            engine.sends([step(output("a", [1]))])
            await heard.until(lambda: heard.tokens == [1])
            assert heard.gone == []

    asyncio.run(main())
    assert [record.message for record in caplog.records] == [
        "cut off a peer that is no engine: no READY within 0 s"
    ]


def test_nothing_is_left_to_be_done_after_close():
    async def main():
        async with reading(start=False) as (heard, engine, reader):
            silent = Engine(engine.path)
            await heard.until(lambda: len(reader._peers) == 2)
            peers = list(reader._peers)
            reader.close()
            await silent.cut_off()
            silent.socket.close()
            assert [peer.deadline.cancelled() for peer in peers] == [True, True]
            assert reader._peers == set()

    asyncio.run(main())


def test_a_peer_that_does_not_read_its_answers_is_cut_off():
    async def main():
        async with reading() as (heard, engine, _):
            async with asyncio.timeout(DEADLINE_S):
                while not heard.gone:
                    engine.socket.send(b"\x04\x17\x04PING\x00\x00" + bytes(16))
                    await turn()
            assert heard.gone == [False]

    asyncio.run(main())


def test_what_an_engine_says_early_is_limited_and_none_of_it_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader_module, "_EARLY_LIMIT", 1000)

    async def main():
        async with reading([step(output("a", [0])), bytes(1000)], start=False) as (heard, engine, reader):
            await heard.until(lambda: bool(reader._paused))
            for i in range(1, 6):
                engine.sends([step(output("a", [i]))])
                await turn()
            assert reader._early == [[step(output("a", [0])), bytes(1000)]]
            heard.start(reader)
            await heard.until(lambda: len(heard.tokens) == 6)
            assert heard.tokens == list(range(6))
            assert reader._early == []

    asyncio.run(main())


def test_an_engine_that_went_while_it_waited_for_the_start_is_heard_to_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader_module, "_EARLY_LIMIT", 0)

    async def main():
        async with reading([step(output("a", [0]))], start=False) as (heard, engine, reader):
            await heard.until(lambda: bool(reader._paused))
            engine.sends([step(output("a", [1]))])
            engine.socket.close()
            heard.start(reader)
            await heard.until(lambda: heard.gone == [True])
            assert heard.tokens == [0, 1]

    asyncio.run(main())


def test_what_comes_in_the_turn_of_the_start_does_not_overtake_what_came_before():
    async def main():
        async with reading([step(output("a", [1]))], start=False) as (heard, engine, reader):
            await heard.until(lambda: bool(reader._early))
            engine.sends([step(output("a", [2]))])
            await turn()  # it is read right after this task's turn
            heard.start(reader)
            await heard.until(lambda: len(heard.tokens) == 2)
            assert heard.tokens == [1, 2]

    asyncio.run(main())


class Failing(socket.socket):
    """A listener whose next connections fail, as loopback's never do."""

    failures: list[int]

    def accept(self) -> tuple[socket.socket, Any]:
        if self.failures:
            raise OSError(self.failures.pop(0), "no")
        return super().accept()


async def accepted(failures: list[int]) -> bool:
    """Whether an engine is accepted in the turn in which these failures come."""
    with tempfile.TemporaryDirectory() as folder, Failing(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/outputs")
        listener.listen()
        listener.setblocking(False)
        listener.failures = failures
        reader = OutputReader(listener)
        engine = Engine(f"{folder}/outputs")
        try:
            while failures:
                await turn()
            return bool(reader._peers)
        finally:
            reader.close()
            engine.socket.close()


def test_a_connection_that_fails_does_not_keep_the_next_waiting():
    assert asyncio.run(accepted([errno.ECONNABORTED, errno.EPROTO, errno.EHOSTUNREACH]))


@pytest.mark.parametrize("failure", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_want_of_resources_is_waited_for(failure: int):
    assert not asyncio.run(accepted([failure]))


def test_engines_are_accepted_again_after_a_want(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader_module, "_PAUSE_S", 0.0)

    async def main():
        with tempfile.TemporaryDirectory() as folder, Failing(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/outputs")
            listener.listen()
            listener.setblocking(False)
            listener.failures = [errno.EMFILE] * 2
            reader = OutputReader(listener)
            engine = Engine(f"{folder}/outputs")
            async with asyncio.timeout(DEADLINE_S):
                while not reader._peers:
                    await turn()
            assert listener.failures == []
            reader.close()
            engine.socket.close()

    asyncio.run(main())


def test_a_host_that_is_gone_without_a_word_is_noticed_on_tcp():
    async def main():
        async with rig(transport="tcp") as it:
            (peer,) = it.client._reader._peers
            connection = peer.connection
            assert [
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
                connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
                connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
            ] == [1, 30, 10, 3]
            router: Any = it.client._sockets.router
            assert [
                router.tcp_keepalive,
                router.tcp_keepalive_idle,
                router.tcp_keepalive_intvl,
                router.tcp_keepalive_cnt,
            ] == [1, 30, 10, 3]

    asyncio.run(main())
