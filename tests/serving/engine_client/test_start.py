"""Coming up: the handshake, registrations, sockets made here or inherited."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import asynccontextmanager

import msgspec
import pytest
import zmq
from serving_client import DEADLINE_S, Sink, request, short_directory
from toolgrammar_serving.engine_client import (
    Adopted,
    Bound,
    EngineNotReady,
    EngineTooLate,
    Handshake,
    Sockets,
    connect,
    ipc_addresses,
    listen,
)
from toolgrammar_serving.protocol import engine_side
from toolgrammar_serving.protocol.engine_side import EngineSockets
from toolgrammar_serving.protocol.wire import STOP, Addresses, EngineCoreOutput, EngineCoreOutputs, ReadyResponse


class Engines:
    """Engines that start, register, answer one request each with their rank, and end."""

    def __init__(self, address: str, count: int, *, ready_first: bool = False) -> None:
        self.told: list[Addresses] = []
        self._address = address
        self._ready_first = ready_first
        self._threads = [threading.Thread(target=self._run, args=(rank,), daemon=True) for rank in range(count)]

    def __enter__(self) -> Engines:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def _run(self, rank: int) -> None:
        with engine_side.Handshake(self._address, rank=rank) as handshake:
            addresses = handshake.hello(DEADLINE_S).addresses
            self.told.append(addresses)
            sockets = EngineSockets(addresses, rank=rank)
            if self._ready_first:
                handshake.ready()
            sockets.register(ReadyResponse(max_model_len=1000 + rank, num_gpu_blocks=10, block_size=16))
            if not self._ready_first:
                handshake.ready()
            (message,) = sockets.receive(DEADLINE_S)
            last = EngineCoreOutput(message.request.request_id, [rank], finish_reason=STOP)
            sockets.send(message.request.client_index, EngineCoreOutputs(rank, [last]))
            sockets.close()


@asynccontextmanager
async def handshaking(addresses: Addresses, count: int):
    made = Handshake(addresses, count=count)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("ready_first", [False, True])
def test_own_sockets_and_own_handshake(ready_first: bool):
    async def main():
        with short_directory() as directory:
            sockets = Sockets(Bound("tcp://127.0.0.1:0", f"ipc://{directory}/out", count=2))
            assert sockets.input_address.startswith("tcp://127.0.0.1:")
            addresses = Addresses([sockets.input_address], [sockets.output_address])
            async with handshaking(addresses, 2) as handshake:
                with Engines(handshake.address, 2, ready_first=ready_first) as engines:
                    client = await connect(sockets, handshake=handshake, ready_timeout_s=DEADLINE_S)
                    assert engines.told == [addresses] * 2
                    info = client.info
                    assert (info.ranks, info.max_model_len, info.num_gpu_blocks) == ([0, 1], 1000, 20)
                    assert info.responses[1].max_model_len == 1001
                    assert {rank: hello.headless for rank, hello in handshake.hellos.items()} == {0: True, 1: True}
                    sinks = [Sink(), Sink()]
                    for i, sink in enumerate(sinks):
                        client.add(request(str(i)), sink)
                    for sink in sinks:
                        await sink.over()
                    assert [sink.tokens for sink in sinks] == [[0], [1]]
                    await client.close()

    asyncio.run(main())


def test_several_front_ends_get_their_own_outputs():
    async def main():
        listeners = [(listen("127.0.0.1"), listen("127.0.0.1")) for _ in range(2)]
        addresses = Addresses([a[1] for a, _ in listeners], [b[1] for _, b in listeners])
        async with handshaking(addresses, 2) as handshake:
            with Engines(handshake.address, 2):
                clients = await asyncio.gather(
                    *(
                        connect(Adopted(a[0], b[0], 0, 2, None, index, 2), ready_timeout_s=DEADLINE_S)
                        for index, (a, b) in enumerate(listeners)
                    )
                )
                await handshake.wait(DEADLINE_S)
                for index, client in enumerate(clients):
                    client.add(request(f"from {index}", rank=1 - index), sink := Sink())
                    await sink.over()
                    assert sink.tokens == [1 - index]
                for client in clients:
                    await client.close()

    asyncio.run(main())


def test_inherited_unix_sockets_with_engines_already_in_the_queue():
    async def main():
        with short_directory() as directory:
            made = []
            for name in ("in", "out"):
                one = socket.socket(socket.AF_UNIX)
                one.bind(f"{directory}/{name}")
                one.listen()
                made.append(one)
            engine = EngineSockets(Addresses([f"ipc://{directory}/in"], [f"ipc://{directory}/out"]), rank=3)
            engine.register(None)
            endpoint = Adopted(made[0].detach(), made[1].detach(), 3, 1, None)
            client = await connect(endpoint, ready_timeout_s=DEADLINE_S)
            assert (client.info.ranks, client.info.max_model_len) == ([3], 0)
            client.add(request("a"), sink := Sink())
            assert engine.receive(DEADLINE_S)
            engine.send(0, EngineCoreOutputs(3, [EngineCoreOutput("a", [1], finish_reason=STOP)]))
            await sink.over()
            engine.close()
            await client.close()

    asyncio.run(main())


def test_unreadable_and_unexpected_registrations_do_not_count():
    async def main():
        with short_directory() as directory:
            ((inputs, outputs),) = ipc_addresses(directory, 1)
            sockets = Sockets(Bound(inputs, outputs, count=2))
            waiting = asyncio.ensure_future(connect(sockets, ready_timeout_s=DEADLINE_S))
            engines = [EngineSockets(Addresses([inputs], [outputs]), rank=rank) for rank in (7, 1, 0)]
            engines[0].register(ReadyResponse())
            engines[1]._inputs[0].send(b"\xc1")
            engines[1].register(ReadyResponse(max_model_len=5))
            engines[2].register(ReadyResponse(max_model_len=9, vllm_version="0.33.0"))
            client = await waiting
            assert client.info.ranks == [0, 1]
            assert client.info.max_model_len == 9
            assert client.info.vllm_version == "0.33.0"
            for engine in engines:
                engine.close()
            await client.close()

    asyncio.run(main())


def test_too_late_is_told_with_the_missing_ranks():
    async def main():
        with short_directory() as directory:
            ((inputs, outputs),) = ipc_addresses(directory, 1)
            with pytest.raises(EngineTooLate, match=r"engine ranks \[0, 1\] did not register within 0.001 s"):
                await connect(Bound(inputs, outputs, count=2), ready_timeout_s=0.001)
            async with handshaking(Addresses([inputs], [outputs]), 2) as handshake:
                with pytest.raises(TimeoutError, match=r"no READY from engine ranks \[0, 1\] within 0.001 s"):
                    await handshake.wait(0.001)

    asyncio.run(main())


def test_directories_with_long_names_are_refused():
    with pytest.raises(ValueError, match="too long"):
        ipc_addresses("/tmp/" + "x" * 100, 1)


HELLO = {"status": "HELLO", "local": True, "headless": False}
READY = {"status": "READY", "local": True, "headless": False, "something_new": 1}
BREACHES = {
    "HELLO twice": ([(0, HELLO), (0, HELLO)], "rank 0 said HELLO twice"),
    "READY at once": ([(1, READY)], "rank 1 is READY without HELLO"),
    "unknown status": ([(0, {"status": "BYE"})], "status 'BYE'"),
    "no map": ([(0, 5)], "rank 0 sent an unreadable greeting"),
    "hashes differ": (
        [(0, HELLO), (1, HELLO), (0, {**READY, "parallel_config_hash": "x"}), (1, READY)],
        "rank 1 has another parallel configuration",
    ),
}


@pytest.mark.parametrize(("said", "complaint"), BREACHES.values(), ids=BREACHES)
def test_breaches_of_the_handshake(said: list[tuple[int, object]], complaint: str):
    async def main():
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        handshake = Handshake(Addresses(["i"], ["o"]), count=2, parallel_config={"data_parallel_size": 2})
        dealers: dict[int, zmq.Socket[bytes]] = {}
        try:
            for rank, message in said:
                if rank not in dealers:
                    dealers[rank] = context.socket(zmq.DEALER)
                    dealers[rank].setsockopt(zmq.IDENTITY, rank.to_bytes(2, "little"))
                    dealers[rank].connect(handshake.address)
                dealers[rank].send(msgspec.msgpack.encode(message))
                if message is HELLO and rank < 2:
                    while not handshake.hellos.get(rank):
                        await asyncio.sleep(0)
                elif message is not said[-1][1]:
                    while rank not in handshake._ready:
                        await asyncio.sleep(0)
            with pytest.raises(EngineNotReady, match=complaint):
                await handshake.wait(DEADLINE_S)
        finally:
            handshake.close()
            context.destroy(linger=0)

    asyncio.run(main())


def test_a_stranger_at_the_handshake_is_ignored(caplog: pytest.LogCaptureFixture):
    async def main():
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        async with handshaking(Addresses(["i"], ["o"]), 1) as handshake:
            dealers = []
            for name in (b"\x07\0", b"\0\0"):
                dealer = context.socket(zmq.DEALER)
                dealer.setsockopt(zmq.IDENTITY, name)
                dealer.connect(handshake.address)
                dealers.append(dealer)
            dealers[0].send(b"\xc1")
            while not caplog.records:
                await asyncio.sleep(0)
            for said in (HELLO, READY):
                dealers[1].send(msgspec.msgpack.encode(said))
            await handshake.wait(DEADLINE_S)
            assert (list(handshake.hellos), dealers[0].poll(0)) == ([0], 0)
        context.destroy(linger=0)

    asyncio.run(main())
    assert [record.message for record in caplog.records] == ["ignored a stranger at the handshake, identity 0700"]


def test_what_an_engine_is_told():
    async def main():
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        addresses = Addresses(["tcp://a:1", "tcp://a:2"], ["tcp://b:1", "tcp://b:2"], "tcp://c:1", "tcp://c:2")
        async with handshaking(addresses, 1) as handshake:
            dealer = context.socket(zmq.DEALER)
            dealer.setsockopt(zmq.IDENTITY, b"\0\0")
            dealer.connect(handshake.address)
            dealer.send(msgspec.msgpack.encode(HELLO))
            while not handshake.hellos:
                await asyncio.sleep(0)
            assert dealer.poll(int(DEADLINE_S * 1000))
            assert msgspec.msgpack.decode(dealer.recv()) == {
                "addresses": {
                    "inputs": ["tcp://a:1", "tcp://a:2"],
                    "outputs": ["tcp://b:1", "tcp://b:2"],
                    "coordinator_input": "tcp://c:1",
                    "coordinator_output": "tcp://c:2",
                    "frontend_stats_publish_address": None,
                },
                "parallel_config": {},
            }
            dealer.send(msgspec.msgpack.encode(READY))
            await handshake.wait(DEADLINE_S)
        context.destroy(linger=0)

    asyncio.run(main())
