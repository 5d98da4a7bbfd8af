"""An engine that dies, or is found dead: every open request hears it at once, and nothing is taken afterwards."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
import zmq
from serving_client import DEADLINE_S, Rig, Sink, output, request, rig, turn
from serving_push import PULL_HELLO
from toolgrammar_serving.engine_client import connections
from toolgrammar_serving.errors import EngineLost
from toolgrammar_serving.protocol.wire import ABORTED, STOP


@pytest.mark.parametrize("way", ["said", "told"])
def test_all_hear_of_a_death(way: str):
    async def main():
        async with rig(ranks=2) as it:
            heard: list[EngineLost] = []
            it.client.on_lost(lambda error: 1 / 0)
            it.client.on_lost(heard.append)
            sinks = {name: Sink() for name in ("a", "b", "c")}
            for name, sink in sinks.items():
                it.client.add(request(name, rank=0 if name != "c" else 1), sink)
            call = asyncio.ensure_future(it.client.call_utility("sleep", 1, "wait"))
            await turn()
            engine = it.engines[0]
            engine.sends([output("a", [1]), output("b", [1])])
            engine.says("a", [2], STOP)
            if way == "said":
                engine.sockets.die()
            else:
                await sinks["a"].over()
                it.client.lose("its process ended")
            await asyncio.gather(*(sink.over() for sink in sinks.values()))
            assert {name: (sink.tokens, len(sink.errors)) for name, sink in sinks.items()} == {
                "a": ([1, 2], 0),
                "b": ([1], 1),
                "c": ([], 1),
            }
            with pytest.raises(EngineLost):
                await asyncio.wait_for(call, DEADLINE_S)
            assert (it.client.alive, it.client.in_flight(), len(heard)) == (False, 0, 1)
            it.client.lose("again")
            assert len(heard) == 1
            with pytest.raises(EngineLost):
                it.client.add(request("d"), late := Sink())
            assert not late.heard
            it.client.on_lost(heard.append)
            assert len(heard) == 2

    asyncio.run(main())


def test_a_sink_that_fails_when_told_does_not_keep_others_from_hearing():
    class Broken(Sink):
        def lost(self, error: EngineLost) -> None:
            super().lost(error)
            raise RuntimeError("broken")

    async def main():
        async with rig() as it:
            sinks = [Broken(), Broken(), Sink()]
            for i, sink in enumerate(sinks):
                it.client.add(request(str(i)), sink)
            it.client.lose("its process ended")
            assert [len(sink.errors) for sink in sinks] == [1, 1, 1]

    asyncio.run(main())


def test_what_an_engine_sent_before_it_died_arrives():
    async def main():
        async with rig() as it:
            it.client.add(request("a"), done := Sink())
            it.client.add(request("b"), cut := Sink())
            for i in range(200):  # more than one turn takes
                it.engines[0].sends([output("a", [i], STOP if i == 199 else None), output("b", [i])])
            it.engines[0].sockets.die()
            await cut.over()
            assert done.tokens == cut.tokens == list(range(200))
            assert (done.errors, len(cut.errors)) == ([], 1)

    asyncio.run(main())


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_an_engine_gone_without_a_word_is_noticed_by_its_connection(transport: str):
    async def main():
        async with rig(ranks=2, transport=transport) as it:
            sinks = [Sink(), Sink()]
            for rank, sink in enumerate(sinks):
                it.client.add(request(str(rank), rank=rank), sink)
            it.engines[1].says("1", [5])
            it.engines[1].sockets.close()
            for sink in sinks:
                await sink.over()
            assert [(sink.tokens, len(sink.errors)) for sink in sinks] == [([], 1), ([5], 1)]
            assert not it.client.alive
            assert len(it.engines[0].adds()) == 1

    asyncio.run(main())


def test_what_an_engine_says_before_it_goes_is_heard():
    async def main():
        async with rig() as it:
            it.client.add(request("a"), sink := Sink())
            it.engines[0].says("a", [1], ABORTED)
            it.engines[0].sockets.close()
            await sink.over()
            assert (sink.outputs, sink.errors) == ([output("a", [1], ABORTED)], [])
            lost = asyncio.Event()
            it.client.on_lost(lambda error: lost.set())
            await asyncio.wait_for(lost.wait(), DEADLINE_S)

    asyncio.run(main())


def test_strangers_that_come_and_go_are_not_engines():
    async def main():
        async with rig(transport="tcp") as it:
            looks = it.client._connections
            address = it.client._sockets.input_address
            host, port = address.removeprefix("tcp://").split(":")
            for greeting in (b"", b"GET / HTTP/1.1\r\n\r\n"):
                with socket.create_connection((host, int(port))) as stranger:
                    stranger.sendall(greeting)
            dealer = it.engines[0].sockets._context.socket(zmq.DEALER)
            dealer.connect(address)
            dealer.send(b"hello")
            dealer.close(1000)
            async with asyncio.timeout(DEADLINE_S):
                while not looks._looks:  # a connection's end was seen
                    await turn()
                while looks._looks:  # and the engine looked for
                    await turn()
            await it.settled()
            assert it.client.alive

    asyncio.run(main())


def disconnect_outputs(it: Rig, rank: int = 0) -> None:
    """Only this connection ends; what was sent has left."""
    it.engines[rank].sockets._outputs[0].close(1000)


def reconnect_outputs(it: Rig) -> None:
    """As ZeroMQ does by itself after a fault of the network."""
    sockets = it.engines[0].sockets
    push: Any = sockets._context.socket(zmq.PUSH)
    push.connect(it.client._sockets.output_address)
    sockets._outputs[0] = push


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await turn()


def looks(it: Rig) -> asyncio.Event:
    """Set when the end of an output connection, which is still to come, was looked into."""
    done = asyncio.Event()
    outputs = it.client._outputs
    look = outputs._look_soon

    def seen() -> None:
        look()
        done.set()

    outputs._look_soon = seen  # type: ignore[method-assign]
    return done


#: Noticed at once, and not only by its staying away.
IN_FLIGHT = "engine lost: a connection for outputs ended with requests in flight"


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
@pytest.mark.parametrize("tokens", [[], [5]], ids=["nothing sent", "in a stream"])
def test_the_end_of_the_outputs_alone_is_a_loss_to_requests_in_flight(
    transport: str, tokens: list[int], caplog: pytest.LogCaptureFixture
):
    async def main():
        async with rig(ranks=2, transport=transport) as it:
            sinks = [Sink(), Sink()]
            for rank, sink in enumerate(sinks):
                it.client.add(request(str(rank), rank=rank), sink)
            for token in tokens:
                it.engines[1].says("1", [token])
            disconnect_outputs(it, 1)
            for sink in sinks:
                await sink.over()
            assert [(sink.tokens, len(sink.errors)) for sink in sinks] == [([], 1), (tokens, 1)]
            assert not it.client.alive

    asyncio.run(main())
    assert [record.message for record in caplog.records] == [IN_FLIGHT]


def test_the_end_of_the_outputs_alone_is_a_loss_to_a_call(caplog: pytest.LogCaptureFixture):
    async def main():
        async with rig() as it:
            call = asyncio.ensure_future(it.client.call_utility("sleep"))
            await turn()
            disconnect_outputs(it)
            with pytest.raises(EngineLost):
                await asyncio.wait_for(call, DEADLINE_S)

    asyncio.run(main())
    assert [record.message for record in caplog.records] == [IN_FLIGHT]


def test_outputs_that_come_back_although_something_was_lost_are_a_loss():
    async def main():
        async with rig() as it:
            it.client.add(request("a"), sink := Sink())
            it.engines[0].says("a", [1])
            disconnect_outputs(it)
            reconnect_outputs(it)
            await sink.over()
            assert (sink.tokens, len(sink.errors)) == ([1], 1)

    asyncio.run(main())


def test_the_end_of_the_outputs_between_requests_is_no_loss_if_the_engine_comes_back():
    async def main():
        async with rig() as it:
            it.client.add(request("a"), sink := Sink())
            it.engines[0].says("a", [1], STOP)
            await sink.over()
            looked = looks(it)
            disconnect_outputs(it)
            await asyncio.wait_for(looked.wait(), DEADLINE_S)
            reconnect_outputs(it)
            await until(lambda: it.client._reader.connected() == 1)
            it.client._outputs._look_late()
            it.client.add(request("b"), sink := Sink())
            it.engines[0].says("b", [2], STOP)
            await sink.over()
            assert (sink.tokens, sink.errors, it.client.alive) == ([2], [], True)

    asyncio.run(main())


def test_an_engine_whose_outputs_do_not_come_back_is_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "_RETURN_S", 0.0)

    async def main():
        async with rig() as it:
            lost = asyncio.Event()
            it.client.on_lost(lambda error: lost.set())
            disconnect_outputs(it)
            await asyncio.wait_for(lost.wait(), DEADLINE_S)

    asyncio.run(main())


def test_a_stranger_at_the_outputs_that_sent_nothing_may_go():
    async def main():
        async with rig() as it:
            it.client.add(request("a"), sink := Sink())
            looked = looks(it)
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(it.client._sockets.output_address.removeprefix("ipc://"))
                stranger.send(PULL_HELLO.replace(b"PULL", b"PUSH"))
                await until(lambda: it.client._reader.connected() == 2)
            await asyncio.wait_for(looked.wait(), DEADLINE_S)
            it.engines[0].says("a", [1], STOP)
            await sink.over()
            assert (sink.tokens, sink.errors, it.client.alive) == ([1], [], True)

    asyncio.run(main())


def test_outputs_that_end_behind_the_last_word_of_all_are_not_looked_into_after_close(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(connections, "_LOOK_AFTER_S", (1000.0,))  # not before the close

    async def main():
        async with rig() as it:
            disconnect_outputs(it)
            await until(lambda: it.client._outputs._look is not None)
            await it.client.close()
            look = it.client._outputs._look
            assert look is not None and look.cancelled()

    asyncio.run(main())
