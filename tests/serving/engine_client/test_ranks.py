"""Data parallel: which rank takes a request, and what the coordinator has to do with it."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import msgspec
import zmq
from serving_client import DEADLINE_S, Sink, request, rig, short_directory, turn
from toolgrammar_serving.engine_client.ranks import Ranks
from toolgrammar_serving.protocol.wire import STOP, ReadyResponse


def choices(ranks: Ranks, count: int) -> list[int]:
    return [ranks.choose(None) for _ in range(count)]


def test_without_counts_requests_go_round_and_to_where_fewest_are():
    ranks = Ranks(0, 3)
    assert choices(ranks, 6) == [0, 1, 2, 0, 1, 2]
    ranks.done(1)
    ranks.done(1)
    assert ranks.in_flight == [2, 0, 2]
    # Waiting there, as far as we know, are the two that we sent: until the coordinator says otherwise.
    assert choices(ranks, 2) == [0, 1]
    ranks.published([[0, 0, 0.0]] * 3)
    assert ranks.in_flight == [3, 1, 2]
    assert choices(ranks, 3) == [1, 1, 2]  # loads 3 1 2, then 3 2 2 looked at from 0 on, then 3 3 2


def test_front_ends_start_at_different_ranks():
    firsts = [Ranks(0, 4, index, 4).choose(None) for index in range(4)]
    assert firsts == [0, 1, 2, 3]
    assert [Ranks(0, 4, index, 2).choose(None) for index in range(2)] == [0, 2]


def test_published_load_weighs_against_our_own_times_the_front_ends():
    ranks = Ranks(0, 2, 0, 3)
    ranks.published([[0, 5, 0.1], [0, 2, 0.1]])
    # Loads, each of ours for three: 5 2, then 5 5 looked at from 1 on, 5 8 from 0, 8 8 from 1.
    assert choices(ranks, 4) == [1, 1, 0, 1]


def test_waiting_weighs_more_when_the_cache_is_full():
    # 10 + 6·4·0.4 = 19.6 against 15
    ranks = Ranks(0, 2)
    ranks.published([[4, 6, 0.9], [0, 15, 0.9]])
    assert ranks.choose(None) == 1
    # At half full or less it weighs nothing: 10 against 15
    ranks = Ranks(0, 2)
    ranks.published([[4, 6, 0.5], [0, 15, 0.9]])
    assert ranks.choose(None) == 0


def test_counts_are_of_all_ranks_and_ours_are_cut_out():
    ranks = Ranks(2, 2)
    ranks.published([[0, 0, 0], [0, 0, 0], [0, 9, 0], [0, 0, 0]])
    assert choices(ranks, 2) == [1, 1]
    ranks.published([[0, 0, 0]])  # a deployment that has shrunk: what is not told stays
    assert choices(ranks, 1) == [1]


def test_a_named_rank_is_taken_whatever_its_load():
    ranks = Ranks(4, 2)
    assert [ranks.choose(5) for _ in range(3)] == [1, 1, 1]
    assert ranks.in_flight == [0, 3]
    assert choices(ranks, 2) == [0, 0]


class Publisher:
    """A coordinator's side towards front ends."""

    def __init__(self, directory: str) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.address = f"ipc://{directory}/coordinator"
        self.socket.bind(self.address)
        self.socket.rcvtimeo = int(DEADLINE_S * 1000)

    def publish(self, counts: object, wave: int, running: bool) -> None:
        self.socket.send(msgspec.msgpack.encode([counts, wave, running]))

    def hears(self) -> object:
        return msgspec.msgpack.decode(self.socket.recv())


@contextmanager
def publisher():
    with short_directory() as directory:
        made = Publisher(directory)
        try:
            yield made
        finally:
            made.context.destroy(linger=0)


async def taken(it, name: str) -> int:
    """Add a request; the position of the rank that hears of it."""
    it.client.add(request(name), Sink())
    while True:
        for position, engine in enumerate(it.engines):
            if engine.sockets.receive(0.01):
                return position


def test_the_coordinators_counts_decide_and_requests_carry_its_wave():
    async def main():
        with publisher() as coordinator:
            async with rig(ranks=2, coordinator=coordinator.address) as it:
                assert coordinator.socket.recv() == b"\x01"
                coordinator.publish([[0, 50, 0.2], [0, 0, 0.2]], 7, True)
                wave = it.client._coordinator
                while wave.wave != 7:
                    await turn()
                assert [await taken(it, str(i)) for i in range(3)] == [1, 1, 1]
                coordinator.publish(None, 8, True)
                while wave.wave != 8:
                    await turn()
                it.client.add(request("last", rank=0), Sink())
                assert it.engines[0].adds()[0].current_wave == 8

    asyncio.run(main())


def test_paused_engines_of_0_32_are_woken_through_the_coordinator_and_later_ones_wake_themselves():
    async def main(version: str) -> list[object]:
        ready = [ReadyResponse(vllm_version=version, dp_stats_address=coordinator.address)] * 2
        async with rig(ranks=2, first_rank=2, ready=ready) as it:
            assert coordinator.socket.recv() == b"\x01"
            coordinator.publish([[0, 0, 0.0]] * 4, 3, False)
            while it.client._coordinator.wave != 3:
                await turn()
            it.client.add(request("a", rank=3), Sink())
            it.client.add(request("b", rank=2), Sink())
            await it.client.close()
            heard: list[object] = []
            while (message := coordinator.socket.recv()) != b"\x00":  # the subscription's end
                heard.append(msgspec.msgpack.decode(message))
            return heard

    with publisher() as coordinator:
        assert asyncio.run(main("0.32.0+cpu")) == [[3, 3]]
        assert asyncio.run(main("0.33.0")) == []


def test_rubbish_from_the_coordinator_changes_nothing():
    async def main():
        with publisher() as coordinator:
            async with rig(ranks=2, coordinator=coordinator.address) as it:
                assert coordinator.socket.recv() == b"\x01"
                for rubbish in (b"", b"\xc1", b"\x93", msgspec.msgpack.encode([[["x", 0, 0]], 9, True])):
                    coordinator.socket.send(rubbish)
                coordinator.publish([[0, 0, 0.0], [0, 1, 0.0]], 2, True)
                while it.client._coordinator.wave != 2:
                    await turn()
                assert await taken(it, "a") == 0

    asyncio.run(main())


def test_aborts_go_to_the_rank_that_has_the_request():
    async def main():
        async with rig(ranks=3) as it:
            for rank in range(3):
                for name in "ab":
                    it.client.add(request(f"{name}{rank}", rank=rank), Sink())
            it.client.abort(["a0", "b2", "a2"])
            await turn()
            it.engines[0].adds(2)
            it.engines[2].adds(2)
            assert it.engines[0].aborts() == ["a0"]
            assert sorted(it.engines[2].aborts()) == ["a2", "b2"]
            assert it.client.in_flight() == 3

    asyncio.run(main())


def test_a_request_that_ended_makes_room_at_its_rank():
    async def main():
        async with rig(ranks=2) as it:
            sinks = [Sink() for _ in range(4)]
            for i, sink in enumerate(sinks):
                it.client.add(request(str(i)), sink)
            assert [len(engine.adds(2)) for engine in it.engines] == [2, 2]
            it.engines[1].says("1", [1], STOP)
            it.client.abort(["3"])
            await sinks[1].over()
            assert it.client._ranks.in_flight == [2, 0]

    asyncio.run(main())
