"""How an engine starts: handshake, registration, coordinator, several ranks."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest
import zmq
from serving_front_end import FrontEnd, at, pack
from toolgrammar_serving.protocol.engine_side import Bell, EngineSockets, Handshake, HandshakeFailed
from toolgrammar_serving.protocol.wire import ReadyResponse
from toolgrammar_serving.replay import EmbeddedReplay, EngineOptions, InOrder, Script

SCRIPT = InOrder([Script.of([1], [2])])


def hello(owner: Any) -> tuple[bytes, dict[str, Any]]:
    engine, body = owner.recv_multipart()
    return engine, msgspec.msgpack.decode(body)


def test_handshake() -> None:
    with FrontEnd(clients=2) as front:
        owner = front.bound(zmq.ROUTER)
        options = EngineOptions(rank=259, max_model_len=77, vllm_version="0.32.0")
        with EmbeddedReplay(SCRIPT, options, handshake=at(owner)):
            assert hello(owner) == (b"\x03\x01", {"status": "HELLO", "local": False, "headless": True})
            owner.send_multipart([b"\x03\x01", pack({"addresses": front.addresses, "parallel_config": {}})])
            (said,) = front.registered()
            assert said["max_model_len"] == 77
            assert said["vllm_version"] == "0.32.0"
            assert said["data_parallel_rank"] == 259
            assert {"dtype", "world_size", "coord_store_port", "kv_events_config"} < set(said)
            assert hello(owner) == (b"\x03\x01", {"status": "READY", "local": False, "headless": True})
            front.add("a", client=1)
            assert front.step(client=1) == [("a", [1], None)]


def test_a_handshake_nobody_answers() -> None:
    with (
        FrontEnd() as front,
        Handshake(at(front.bound(zmq.ROUTER))) as handshake,
        pytest.raises(HandshakeFailed, match="no answer"),
    ):
        handshake.hello(timeout_s=0)


def test_a_handshake_answered_with_something_else() -> None:
    with FrontEnd() as front:
        owner = front.bound(zmq.ROUTER)
        failures: list[HandshakeFailed] = []

        def start() -> None:
            with Handshake(at(owner)) as handshake:
                try:
                    handshake.hello()
                except HandshakeFailed as error:
                    failures.append(error)

        thread = threading.Thread(target=start)
        thread.start()
        engine, _ = hello(owner)
        owner.send_multipart([engine, pack({"addresses": 3})])
        thread.join()
    assert "unreadable" in str(failures[0])


def test_a_replay_that_waits_for_its_handshake_can_be_stopped() -> None:
    with FrontEnd() as front:
        owner = front.bound(zmq.ROUTER)
        with EmbeddedReplay(SCRIPT, handshake=at(owner)) as replay:
            hello(owner)
        assert (replay.ending, type(replay.error)) == (None, HandshakeFailed)


def test_ready_with_a_hash_of_the_parallel_configuration() -> None:
    with FrontEnd() as front:
        owner = front.bound(zmq.ROUTER)
        with Handshake(at(owner), rank=1, local=True, headless=False) as handshake:
            handshake.ready("abc")
            assert hello(owner) == (
                b"\x01\x00",
                {"status": "READY", "local": True, "headless": False, "parallel_config_hash": "abc"},
            )


def test_an_engine_may_register_without_a_word() -> None:
    with FrontEnd() as front:
        sockets = EngineSockets(front.addresses)
        sockets.register(None)
        assert front.inputs[0].recv_multipart() == [b"\x00\x00", b""]
        sockets.close()


def test_the_coordinator_says_ready_and_hears_of_load() -> None:
    with FrontEnd(coordinator=True) as front:
        options = EngineOptions(interval_s=None, data_parallel_size=2, rank=1)
        with EmbeddedReplay(SCRIPT, options, addresses=front.addresses) as replay:
            assert front.to_engines is not None and front.from_engines is not None
            assert front.to_engines.recv() == b"\x01"
            front.to_engines.send(b"READY")
            front.registered()
            front.add("a")
            heard = [msgspec.msgpack.decode(front.from_engines.recv())]
            front.to_engines.send(b"READY")  # again, to late joiners: means nothing
            front.to_engines.send_multipart([b"\x02", pack([1, None])])
            replay.release(2)
            heard.append(msgspec.msgpack.decode(front.from_engines.recv()))
    loads = [(one[0], one[1], one[2]["num_waiting_reqs"], one[2]["num_running_reqs"]) for one in heard]
    assert loads == [(1, [], 0, 1), (1, [], 0, 0)]


def test_several_ranks_say_which_requests_have_ended() -> None:
    options = [EngineOptions(interval_s=None, data_parallel_size=2, rank=rank) for rank in range(2)]
    with (
        FrontEnd() as front,
        EmbeddedReplay(SCRIPT, options[0], addresses=front.addresses),
        EmbeddedReplay(SCRIPT, options[1], addresses=front.addresses) as second,
    ):
        assert [said["data_parallel_rank"] for said in front.registered(ranks=2)] == [0, 1]
        front.add("ends", rank=1)
        front.add("is aborted", rank=1)
        second.wait_until(lambda counters: counters.running == 2)
        second.release(1)
        front.message()
        front.send(b"\x01", pack(["is aborted"]), rank=1)
        ended = front.message()
        assert (ended[0], ended[1], ended[5]) == (1, [], ["is aborted"])
        second.release(1)
        last = front.message()
        assert (last[0], last[1][0][0], last[5]) == (1, "ends", ["ends"])


def test_a_bell_ends_a_wait_once() -> None:
    with FrontEnd() as front:
        bell = Bell()
        sockets = EngineSockets(front.addresses, bell=bell)
        for _ in range(100_000):  # more than a socket takes
            bell.ring()
        assert sockets.receive() == []
        ringer = threading.Thread(target=bell.ring)
        ringer.start()
        assert sockets.receive() == []
        ringer.join()
        sockets.register(ReadyResponse())
        front.registered()
        front.abort("a")
        (message,) = sockets.receive()
        assert message.request_ids == ["a"]  # type: ignore[union-attr]
        assert sockets.receive(0.0012) == []
        sockets.close()
