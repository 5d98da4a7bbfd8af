"""What goes wrong while an answer is given: clients that leave or do not read, engines that die, a stop."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
import pytest
from serving_http import (
    DEADLINE_S,
    Live,
    Script,
    Step,
    content,
    events_of,
    iter_chunks,
    post,
    read_head,
    read_response,
    serving,
)
from toolgrammar_serving.errors import EngineBusy, EngineFailed, EngineLost
from toolgrammar_serving.server.direct_connection import DirectConnection
from toolgrammar_serving.server.problems import ShuttingDown

from toolgrammar import Content

CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
STREAM = {**BODY, "stream": True}
ENDLESS = Script([content(*"abc" * 5)], hold=list(range(2, 15)))


def wait_for(live: Live, what: Any) -> None:
    """Until ``what()`` holds on the server's loop; it must come about by itself."""

    async def watch() -> None:
        import asyncio

        async with asyncio.timeout(DEADLINE_S):
            while not what():
                await asyncio.sleep(0)

    live.on_loop(watch)


@contextmanager
def begun(live: Live, body: dict[str, Any]) -> Iterator[tuple[socket.socket, Any]]:
    """A stream of which the first token was read, and the file to read on."""
    with live.send(post(CHAT, body)) as connection, connection.makefile("rb") as file:
        assert read_head(file)[0] == 200
        chunks = iter_chunks(file)
        while b'"content":"a"' not in next(chunks):
            pass
        yield connection, chunks


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_a_client_that_leaves_a_stream_aborts_it(path: str, n: int) -> None:
    with serving(ENDLESS) as live:
        with live.send(post(path, {**STREAM, "prompt": "x", "n": n})) as connection:
            connection.recv(1000)
        wait_for(live, lambda: live.server.service.running == 0)
        (generation,) = live.stage.running
        assert generation.aborted.is_set()


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_a_client_that_leaves_before_the_answer_aborts_it(path: str) -> None:
    with serving(ENDLESS) as live:
        with live.send(post(path, {**BODY, "prompt": "x"})):
            wait_for(live, lambda: live.stage.running)
        wait_for(live, lambda: live.server.service.running == 0)
        assert live.stage.running[0].aborted.is_set()


def test_a_client_that_leaves_while_its_prompt_is_prepared_starts_nothing() -> None:
    with serving(ENDLESS) as live:
        for _ in range(50):
            live.stage.ready.clear()
            with live.send(post(CHAT, STREAM)):
                wait_for(live, lambda: live.server.service.running == 1)
            wait_for(live, lambda: not live.server.server_state.connections)
            live.on_loop(live.stage.ready.set)
            wait_for(live, lambda: live.server.service.running == 0)
        assert live.stage.running == []
        assert live.on_loop(lambda: len(live.server.server_state.tasks)) == 0


def test_an_engine_that_dies_ends_every_stream_with_an_error() -> None:
    lost = EngineLost("The engine died.")
    with serving(Script([content("a", "b")], lost, hold=[2])) as live:
        with (
            begun(live, STREAM) as (_, one),
            begun(live, {**STREAM, "n": 2}) as (_, two),
            live.send(post(CHAT, BODY)) as whole,
        ):
            wait_for(live, lambda: len(live.stage.running) == 3)
            live.stage.alive = False
            live.go(3)
            for stream in (one, two):
                *_, error, done = b"".join(stream).split(b"\n\n")[:-1]
                assert done == b"data: [DONE]"
                told = msgspec.json.decode(error.removeprefix(b"data: "))["error"]
                assert (told["message"], told["code"], told["status"]) == (lost.message, lost.code, 503)
            status, headers, data = read_response(whole)
            assert (status, headers["retry-after"]) == (503, "1")
            assert msgspec.json.decode(data)["error"]["code"] == "engine_unavailable"
        with httpx.Client(base_url=live.base) as api:
            assert api.get("/health").status_code == 503
            assert api.post(CHAT, json=STREAM).status_code == 503


@pytest.mark.parametrize(("error", "status"), [(EngineBusy("paused"), 503), (EngineFailed("no"), 500)])
def test_an_error_before_the_first_token_has_its_status(error: Any, status: int) -> None:
    with serving(Script([[]], error)) as live:
        for body in (STREAM, BODY, {**STREAM, "n": 3}):
            with live.send(post(CHAT, body)) as connection:
                found, _, data = read_response(connection)
            assert (found, msgspec.json.decode(data)["error"]["code"]) == (status, error.code)


def test_a_choice_that_fails_takes_the_others_along() -> None:
    with serving(Script([content("a", "b"), content("c", "d", "e")], EngineFailed("no"))) as live:
        with live.send(post(CHAT, {**STREAM, "n": 2})) as connection:
            body = read_response(connection)[2]
        assert live.stage.running[0].aborted.is_set() or not live.stage.running[0].live
    assert body.count(b'{"error"') == 1 and body.endswith(b"data: [DONE]\n\n")


def test_a_slow_reader_is_waited_for_and_gets_all() -> None:
    big = "x" * 50_000
    steps = [Step([Content(big, 0, 0)]) for _ in range(800)]
    with serving(lambda request: Script([steps if request.n == 1 else content("a", "b")])) as live:
        with live.send(b"") as slow:
            slow.sendall(post(CHAT, STREAM))
            wait_for(live, lambda: live.stage.running and live.stage.running[0].paused)
            with live.send(post(CHAT, {**STREAM, "n": 2})) as other:  # nobody else is held up
                assert len(events_of(read_response(other)[2])) == 8
            generation = live.stage.running[0]
            connections: set[Any] = live.server.server_state.connections
            (connection,) = [found for found in connections if found.direct is not None]
            # What waits in the server is what was under way when it began to wait.
            assert live.on_loop(connection.transport.get_write_buffer_size) < 65536 + 2 * len(big)
            found = events_of(read_response(slow)[2])
        assert generation.pauses >= 1 and not generation.aborted.is_set()
    assert "".join([event["choices"][0]["delta"].get("content", "") for event in found]) == big * 800


def test_a_reader_that_stays_slow_is_cut_off() -> None:
    steps = [Step([Content("x" * 50_000, 0, 0)]) for _ in range(800)]
    with serving(Script([steps]), slow_reader_s=0.05) as live, live.send(b"") as slow:
        slow.sendall(post(CHAT, STREAM))
        wait_for(live, lambda: live.stage.running and live.stage.running[0].aborted.is_set())
        wait_for(live, lambda: not live.server.server_state.connections)
        with pytest.raises((ConnectionResetError, AssertionError, ValueError)):
            read_response(slow)


def test_a_silent_stream_is_kept_alive_by_comments() -> None:
    with (
        serving(Script([content("a", "b")], hold=[1, 2]), keep_alive_s=0.02) as live,
        begun(live, STREAM) as (_, chunks),
    ):
        assert next(chunks) == next(chunks) == b": keep-alive\n\n"
        live.go(2)
        rest = b"".join(chunks)
    assert [event["choices"][0]["delta"] for event in events_of(rest)] == [{"content": "b"}, {}]


def test_comments_come_before_the_first_token_too() -> None:
    with (
        serving(Script([content("a")], hold=[0]), keep_alive_s=0.02) as live,
        live.send(post(CHAT, STREAM)) as connection,
        connection.makefile("rb") as file,
    ):
        assert read_head(file)[0] == 200
        chunks = iter_chunks(file)
        first = next(chunks)
        assert first.startswith(b"data: ") and first.endswith(b": keep-alive\n\n")
        assert next(chunks) == b": keep-alive\n\n"
        live.go()
        assert b"".join(chunks).endswith(b"data: [DONE]\n\n")


def test_a_stream_begins_with_its_first_token_though_it_shows_nothing() -> None:
    with (
        serving(Script([[Step(), *content("a")]], hold=[1]), keep_alive_s=0) as live,
        live.send(post(CHAT, STREAM)) as connection,
        connection.makefile("rb") as file,
    ):
        assert read_head(file)[0] == 200
        chunks = iter_chunks(file)
        assert b'"role":"assistant"' in next(chunks)
        live.go()
        assert b'"content":"a"' in b"".join(chunks)


def test_too_many_requests_are_told_when_to_come_back() -> None:
    with serving(ENDLESS, max_requests=2, retry_after_s=7) as live:
        with begun(live, STREAM), begun(live, STREAM), httpx.Client(base_url=live.base) as api:
            refused = api.post(CHAT, json=BODY)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
            assert refused.json()["error"]["code"] == "overloaded"
            assert api.get("/load").json() == {"server_load": 2}
        wait_for(live, lambda: live.server.service.running == 0)
        with begun(live, STREAM):
            pass


def test_a_long_queue_in_the_engine_is_not_made_longer() -> None:
    with serving(Script([content("a")]), max_waiting=3) as live, httpx.Client(base_url=live.base) as api:
        live.stage.waiting = 2
        assert api.post(CHAT, json=BODY).status_code == 200
        live.stage.waiting = 3
        assert api.post(CHAT, json=BODY).status_code == 429


def test_a_drain_loses_no_stream() -> None:
    with (
        serving(Script([content("a", "b")], hold=[1]), drain_s=DEADLINE_S) as live,
        begun(live, STREAM) as (_, chunks),
        live.send(b"") as other,
    ):
        live.server.begin_drain()
        other.sendall(post(CHAT, BODY))
        status, headers, data = read_response(other)
        assert (status, headers["connection"], headers["retry-after"]) == (503, "close", "1")
        assert msgspec.json.decode(data)["error"]["code"] == "server_shutting_down"
        with httpx.Client(base_url=live.base) as api:  # new connections are met, too
            codes = [api.get(path).status_code for path in ("/ready", "/health", "/live")]
        assert codes == [503, 200, 200]
        live.go()
        events = events_of(b"".join(chunks))
        live.thread.join(DEADLINE_S)
        assert not live.thread.is_alive()
    assert [event["choices"][0]["finish_reason"] for event in events] == [None, "stop"]


def test_what_outlasts_a_drain_ends_with_an_error() -> None:
    with serving(ENDLESS, drain_s=0.05) as live:
        with begun(live, STREAM) as (_, chunks), live.send(post(CHAT, BODY)) as whole:
            wait_for(live, lambda: len(live.stage.running) == 2)
            live.server.begin_drain()
            rest = b"".join(chunks)
            status, _, data = read_response(whole)
            live.thread.join(DEADLINE_S)
            assert not live.thread.is_alive()
        assert all(generation.aborted.is_set() for generation in live.stage.running)
    *_, error, done = rest.split(b"\n\n")[:-1]
    assert done == b"data: [DONE]"
    assert msgspec.json.decode(error.removeprefix(b"data: "))["error"]["code"] == ShuttingDown.code
    assert (status, msgspec.json.decode(data)["error"]["code"]) == (503, ShuttingDown.code)


@pytest.mark.parametrize("body", [BODY, STREAM], ids=["whole", "stream"])
def test_an_answer_is_freed_without_the_collector(body: dict[str, Any]) -> None:
    """Under load the collector comes too late: what refers to itself would stay for minutes."""
    with serving(Script([content("a", "b")])) as live, live.send(b"") as connection:
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                connection.sendall(post(CHAT, body))
                assert read_response(connection)[0] == 200
            wait_for(live, lambda: live.server.service.running == 0)
            left = [one for one in gc.get_objects() if type(one) is DirectConnection]
        finally:
            gc.enable()
        assert len(left) <= 1  # the connection's latest


def test_many_streams_at_once_get_each_its_own() -> None:
    def script(request: Any) -> Script:
        word = request.messages[0]["content"]
        return Script([content(*[f"{word}{i} " for i in range(20)])])

    found: dict[int, str] = {}

    def ask(live: Live, number: int) -> None:
        body = {"stream": True, "messages": [{"role": "user", "content": f"w{number}-"}]}
        with live.send(post(CHAT, body)) as connection:
            events = events_of(read_response(connection)[2])
        found[number] = "".join([event["choices"][0]["delta"].get("content", "") for event in events])

    with serving(script) as live:
        threads = [threading.Thread(target=ask, args=(live, number)) for number in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert live.on_loop(lambda: (live.server.service.running, len(live.server.service._answers))) == (0, 0)
    assert found == {number: "".join([f"w{number}-{i} " for i in range(20)]) for number in range(64)}
