"""What the reader takes in: in batches of what waits, whatever an engine sends."""

from __future__ import annotations

import asyncio
import errno
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import zmq
from serving_client import DEADLINE_S, Sink, output, request, rig, turn
from serving_push import PULL_HELLO
from toolgrammar_serving.engine_client import reader as reader_module
from toolgrammar_serving.engine_client.decoding import Message
from toolgrammar_serving.engine_client.reader import OutputReader
from toolgrammar_serving.protocol.arrays import write_logprobs
from toolgrammar_serving.protocol.wire import (
    ENGINE_CORE_DEAD,
    ERROR,
    STOP,
    EngineCoreOutputs,
    PrefixCacheStats,
    SchedulerStats,
)

encode = msgspec.msgpack.encode


def step(*outputs: Any, **fields: Any) -> bytes:
    return encode(EngineCoreOutputs(outputs=list(outputs), **fields))


class Heard:
    def __init__(self) -> None:
        self.batches: list[list[Message]] = []
        self.deaths = 0
        self.gone: list[bool] = []

    def start(self, reader: OutputReader) -> None:
        reader.start(deliver=self.deliver, dead=self.dead, gone=self.gone.append)

    @property
    def tokens(self) -> list[int]:
        """Of all that came; each message has one."""
        return [body.outputs[0].new_token_ids[0] for batch in self.batches for body, _ in batch]

    def deliver(self, messages: Iterator[Message], count: int) -> None:
        self.batches.append(list(messages))
        assert len(self.batches[-1]) == count

    def dead(self) -> None:
        self.deaths += 1

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                await turn()


@asynccontextmanager
async def reading(*messages: list[bytes], start: bool = True) -> AsyncIterator[tuple[Heard, Engine, OutputReader]]:
    """A reader, and one engine that has sent these messages before it was there."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/outputs")
        listener.listen()
        listener.setblocking(False)
        engine = Engine(f"{folder}/outputs")
        engine.sends(HELLO, *messages)
        heard = Heard()
        reader = OutputReader(listener)
        if start:
            heard.start(reader)
        try:
            yield heard, engine, reader
        finally:
            reader.close()
            engine.socket.close()


class Engine:
    """The bytes of a PUSH socket."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def sends(self, *messages: list[bytes]) -> None:
        """At once; what does not fit into the socket would wait for ever."""
        data = b"".join(_frames(frames) for frames in messages)
        assert self.socket.send(data) == len(data)

    async def cut_off(self) -> None:
        """Wait until the reader has closed the connection."""
        async with asyncio.timeout(DEADLINE_S):
            while not self.is_cut_off():
                await turn()

    def is_cut_off(self) -> bool:
        """The reader has closed the connection."""
        self.socket.setblocking(False)
        try:
            while data := self.socket.recv(4096):
                assert data
        except BlockingIOError:
            return False
        return True


HELLO: list[bytes] = []  # stands for the greeting in a list of messages


def _frames(frames: list[bytes]) -> bytes:
    if frames is HELLO:
        return PULL_HELLO.replace(b"PULL", b"PUSH")
    data = b""
    for left, frame in enumerate(reversed(frames)):
        flags = 2 | (left > 0)
        data = bytes([flags]) + len(frame).to_bytes(8, "big") + frame + data
    return data


def test_what_waits_is_one_batch():
    async def main():
        async with reading(*[[step(output("a", [i]))] for i in range(150)]) as (heard, engine, _):
            await heard.until(lambda: sum(map(len, heard.batches)) == 150)
            assert list(map(len, heard.batches)) == [150]
            assert heard.tokens == list(range(150))
            engine.sends([step(output("a", [150]))])
            await heard.until(lambda: len(heard.batches) == 2)
            engine.sends(*[[step(output("a", [151 + i]))] for i in range(3)])
            await heard.until(lambda: len(heard.batches) == 3)
            assert list(map(len, heard.batches[1:])) == [1, 3]

    asyncio.run(main())


def test_a_real_engine_s_large_messages_arrive_whole():
    async def main():
        large = [[step(output("a", [i])), bytes([i]) * (3 << 20)] for i in range(5)]
        async with reading() as (heard, engine, _):
            context: Any = zmq.Context()
            push = context.socket(zmq.PUSH)
            push.sndhwm = 0
            try:
                push.connect(f"ipc://{engine.path}")
                for frames in large:
                    push.send_multipart(frames)
                await heard.until(lambda: sum(map(len, heard.batches)) == 5)
            finally:
                context.destroy(linger=0)
            assert [frames for batch in heard.batches for _, frames in batch] == large

    asyncio.run(main())


def test_what_comes_before_the_start_is_delivered_then():
    async def main():
        async with reading([step(output("a", [1]))], [ENGINE_CORE_DEAD], start=False) as (heard, _, reader):
            await heard.until(lambda: bool(reader._early))
            assert reader._early == [[step(output("a", [1]))], [ENGINE_CORE_DEAD]]
            heard.start(reader)
            await heard.until(lambda: heard.deaths == 1)
            assert list(map(len, heard.batches)) == [1]

    asyncio.run(main())


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


def test_death_is_told_after_what_came_before_it():
    async def main():
        messages = [[step(output("a", [1]))], [step(output("a", [2]))], [ENGINE_CORE_DEAD]]
        async with reading(*messages) as (heard, _, _):
            await heard.until(lambda: heard.deaths == 1)
            assert list(map(len, heard.batches)) == [2]

    asyncio.run(main())


RUBBISH = {
    "empty": b"",
    "not msgpack": b"\xc1\xff",
    "cut off": step(output("a", [1, 2, 3]))[:-20],
    "trailing bytes": step() + b"\x00",
    "a number": encode(7),
    "a map": encode({"outputs": []}),
    "outputs of a number": encode([0, 5]),
    "bad UTF-8": b"\x92\x00\x91\x92\xa2\xff\xfe\x90",
    "nested deeply": b"\x91" * 100_000,
    "nested deeply within": b"\x92\x00\x91\x93\xa1a\x90" + b"\x91" * 100_000,
    "longer than it is": b"\x92\x00\xdd\xff\xff\xff\xff",
    "a pickle": encode([0, [["z", [1], msgspec.msgpack.Ext(1, b"cos\nsystem\n")]]]),
    "dead, with more": b"ENGINE_CORE_DEAD!",
}


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_is_passed_over(rubbish: bytes, caplog: pytest.LogCaptureFixture):
    async def main():
        async with rig() as it:
            it.client.add(request("a"), sink := Sink())
            it.engines[0].says("a", [1])
            it.engines[0].sends_bytes(rubbish)
            it.engines[0].sends_bytes(rubbish, b"\x00" * 10)
            it.engines[0].says("a", [2], STOP)
            await sink.over()
            assert sink.tokens == [1, 2]

    asyncio.run(main())
    assert all(record.levelname == "WARNING" for record in caplog.records)


def test_one_broken_output_costs_its_own_request_only():
    async def main():
        async with rig(stats=True) as it:
            (engine,) = it.engines
            sinks = {name: Sink() for name in ("a", "b", "c", "d")}
            for name, sink in sinks.items():
                it.client.add(request(name), sink)
            engine.adds(4)
            value = [0, [["a", [1]], ["b", "tokens?"], [7, [1]], ["c", [3], None, None, None, 0]]]
            engine.sends_bytes(encode(value))
            bad = [["<i8", [1, 1], 9], ["<f4", [1, 1], 9], ["<i8", [1], 9], None]  # no such frames
            engine.sends([output("d", [1], new_logprobs=bad), output("a", [2])])
            for name in "bcd":
                await sinks[name].over()
            await it.settled()
            assert (sinks["a"].tokens, sinks["a"].finish) == ([1, 2], None)
            assert (sinks["c"].tokens, sinks["c"].finish) == ([3], STOP)
            for name in "bd":
                (last,) = sinks[name].outputs
                assert (last.new_token_ids, last.finish_reason) == ([], ERROR)
                assert last.error.code == "unreadable_output"
            assert it.client.in_flight() == 1

    asyncio.run(main())


def test_the_engine_is_told_to_stop_what_cannot_be_read():
    async def main():
        async with rig() as it:
            (engine,) = it.engines
            it.client.add(request("a"), sink := Sink())
            engine.adds()
            engine.sends_bytes(encode([0, [["a", None]]]))
            await sink.over()
            await turn()
            assert engine.aborts() == ["a"]

    asyncio.run(main())


def test_older_and_newer_messages_are_read():
    async def main():
        async with rig(stats=True) as it:
            (engine,) = it.engines
            it.client.add(request("a"), sink := Sink())
            engine.sends_bytes(encode([0, [["a", [1]]]]))
            newer = ["a", [2], *[None] * 11, 0, *[None] * 9]
            engine.sends_bytes(encode([0, [newer], {"new": 1}, 1.0, *[None] * 9]))
            engine.says("a", [3], STOP)
            await sink.over()
            assert sink.tokens == [1, 2, 3]

    asyncio.run(main())


def test_statistics_are_kept_by_rank_and_counters_added_up():
    async def main():
        async with rig(ranks=2, first_rank=2, stats=True) as it:
            for queries, running in ((10, 3), (5, 4)):
                cache = PrefixCacheStats(requests=1, queries=queries, hits=2, hits_by_source={"device": 2})
                drafts = {"num_spec_tokens": 2, "num_drafts": queries, "num_accepted_tokens_per_pos": [queries, 1]}
                stats = SchedulerStats(
                    num_running_reqs=running, prefix_cache_stats=cache, spec_decoding_stats=drafts
                )
                it.engines[1].sends(scheduler_stats=stats)
            it.engines[1].sends(scheduler_stats=SchedulerStats(num_running_reqs=1, kv_cache_usage=0.5))
            it.engines[0].sends()
            await it.settled()
            first, second = it.client.stats()
            assert first == SchedulerStats()
            assert second == SchedulerStats(
                num_running_reqs=1,
                kv_cache_usage=0.5,
                prefix_cache_stats=PrefixCacheStats(requests=2, queries=15, hits=4, hits_by_source={"device": 4}),
                spec_decoding_stats={
                    "num_spec_tokens": 2,
                    "num_drafts": 15,
                    "num_accepted_tokens_per_pos": [15, 2],
                },
            )

    asyncio.run(main())


def test_statistics_are_not_read_unless_asked_for():
    async def main():
        async with rig() as it:
            it.engines[0].sends_bytes(encode([0, [], {"num_running_reqs": "many"}, 0.0]))
            await it.settled()
            assert it.client.stats() == []

    asyncio.run(main())


def test_logprobs_arrive_as_numbers_whether_inline_or_in_frames():
    rows = range(60)

    async def main():
        async with rig() as it:
            it.client.add(request("a"), sink := Sink())
            it.client.add(request("b"), other := Sink())
            given = [logprobs(rows, 2), logprobs(rows, 40), logprobs([5], 0)]
            for one in given:
                outputs, aux = [], []
                for name in "ab":
                    value, more = write_logprobs(one, first=1 + len(aux))
                    aux += more
                    outputs.append(output(name, list(one.ranks), new_logprobs=value))
                it.engines[0].sends(outputs, aux=aux)
                await it.settled()
            assert [one.new_logprobs for one in sink.outputs] == given
            assert [one.new_logprobs for one in other.outputs] == given

    from toolgrammar_serving.protocol.arrays import Logprobs

    def logprobs(tokens: Any, k: int) -> Logprobs:
        return Logprobs(
            [[t + i for i in range(k + 1)] for t in tokens],
            [[-i / 4 for i in range(k + 1)] for _ in tokens],
            [t + 1 for t in tokens],
        )

    asyncio.run(main())
