"""Sockets are bound before anything slow: what cannot be bound is told, with what to do."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from toolgrammar_serving.launch.listening import bind, url
from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.problems import LaunchError


def test_a_free_port_is_taken_but_not_listened_at() -> None:
    (bound,) = bind(Options(port=0))
    with bound:
        port = bound.getsockname()[1]
        assert url(Options(), bound) == f"http://127.0.0.1:{port}"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        bound.listen()
        socket.create_connection(("127.0.0.1", port)).close()


def test_several_processes_share_a_port() -> None:
    bound = bind(Options(port=0, api_server_count=3))
    assert len({one.getsockname() for one in bound}) == 1
    assert len({one.fileno() for one in bound}) == 3
    for one in bound:
        one.close()


@pytest.mark.parametrize("count", [1, 2])
def test_a_taken_port_is_told(count: int) -> None:
    for held in bind(Options(port=0, api_server_count=count)):
        held.listen()
        port = held.getsockname()[1]
        with pytest.raises(LaunchError) as caught:
            bind(Options(port=port, api_server_count=count))
        assert caught.value.message == f"127.0.0.1:{port} is taken by another program"
        assert caught.value.hint == f"--port {port + 1}, or --port 0 for a free one"
        held.close()


def test_an_address_of_another_machine_is_told() -> None:
    with pytest.raises(LaunchError, match=r"192\.0\.2\.1:0: Cannot assign requested address"):
        bind(Options(host="192.0.2.1", port=0))


def test_an_unknown_host_is_told() -> None:
    with pytest.raises(LaunchError, match=r"--host no\.such\.host\.invalid"):
        bind(Options(host="no.such.host.invalid", port=0))


def test_a_unix_socket_replaces_a_dead_one_but_no_live_one_and_no_file(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    first, again = bind(Options(uds=path, api_server_count=2))
    assert first is again
    assert url(Options(), first) == f"http+unix://{path}"
    first.listen()
    with pytest.raises(LaunchError, match="is taken by another program"):
        bind(Options(uds=path))
    first.close()
    (second,) = bind(Options(uds=path))
    second.close()
    os.unlink(path)
    Path(path).write_text("mine")
    with pytest.raises(LaunchError, match="that is no socket"):
        bind(Options(uds=path))
    assert Path(path).read_text() == "mine"


@pytest.mark.parametrize(
    "options,expected",
    [
        (Options(host="0.0.0.0", port=0), "http://localhost:"),
        (Options(host="::1", port=0), "http://[::1]:"),
        (Options(host="localhost", port=0, ssl_certfile="c"), "https://127.0.0.1:"),
    ],
)
def test_the_address_is_one_to_copy(options: Options, expected: str) -> None:
    try:
        (bound,) = bind(options)
    except LaunchError:
        pytest.skip("no IPv6 here")
    with bound:
        assert url(options, bound) == f"{expected}{bound.getsockname()[1]}"
