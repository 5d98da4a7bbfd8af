"""The replay engine as a process: its options, a front end's command line, signals, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from click.testing import CliRunner
from serving_front_end import FINISH, FrontEnd, at, pack, tokens
from toolgrammar_serving.protocol.headless import HeadlessArguments, is_headless, read_headless
from toolgrammar_serving.replay.__main__ import ARGUMENTS_VARIABLE, replay

SERVE = ["-m", "vllm.entrypoints.cli.main", "serve", "MODEL"]
HEADLESS = [*SERVE, "--headless", "--data-parallel-address", "127.0.0.1"]
NOWHERE = ["--handshake", "tcp://127.0.0.1:1"]


@contextmanager
def process(*arguments: str, ours: str = "") -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "toolgrammar_serving.replay", *arguments]
    environment = {**os.environ, ARGUMENTS_VARIABLE: ours}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, start_new_session=True) as running:
        try:
            yield running
        finally:
            running.kill()


def script_file(folder: Path, **document: Any) -> str:
    path = folder / "script.json"
    path.write_text(json.dumps(document))
    return str(path)


def counted(line: bytes) -> dict[str, Any]:
    assert line.startswith(b"replay: ")
    return dict(json.loads(line[len(b"replay: ") :]))


def test_known_addresses_and_signals(tmp_path: Path) -> None:
    script = script_file(tmp_path, steps=[[1], [2]], finish=None)
    with FrontEnd() as front:
        sockets = ["--input", front.addresses.inputs[0], "--output", front.addresses.outputs[0]]
        with process(*sockets, "--recording", script, "--max-model-len", "99", "--interval-ms", "1") as running:
            assert front.registered()[0]["max_model_len"] == 99
            front.add("a")
            assert [front.step(), front.step()] == [[("a", [1], None)], [("a", [2], None)]]
            assert running.stderr is not None
            running.send_signal(signal.SIGUSR1)
            first = counted(running.stderr.readline())
            running.send_signal(signal.SIGTERM)
            assert front.finished("a")["a"][-1][FINISH] == 2
            last = counted(running.stderr.readline())
            assert running.wait() == 0
    assert (first["requests"], first["tokens"], first["running"], first["steps"]) == (1, 2, 1, 2)
    assert (last["requests"], last["tokens"], last["running"]) == (0, 0, 0)


def test_a_front_end_starts_it_as_its_engine(tmp_path: Path) -> None:
    with FrontEnd() as front:
        owner = front.bound(zmq.ROUTER)
        owner.bind("tcp://127.0.0.1:0")
        port = at(owner).rpartition(":")[2]
        report = tmp_path / "report"
        ours = f"--recording {script_file(tmp_path, tokens=[5, 6], finish='length')} --report {report}"
        options = ["--data-parallel-rpc-port", port, "--data-parallel-size", "2", "--max-model-len", "1k"]
        with process(*HEADLESS, *options, "--dtype", "auto", "--unheard-of", ours=ours) as running:
            hellos = dict(owner.recv_multipart() for _ in range(2))
            assert {key: msgspec.msgpack.decode(body)["headless"] for key, body in hellos.items()} == {
                b"\0\0": True, b"\1\0": True
            }  # fmt: skip
            for engine in hellos:
                owner.send_multipart([engine, pack({"addresses": front.addresses, "parallel_config": {}})])
            assert [said["max_model_len"] for said in front.registered(ranks=2)] == [1000, 1000]
            ready = {owner.recv_multipart()[0] for _ in range(2)}
            front.add("a", rank=1, max_tokens=3)
            assert tokens(front.finished("a")["a"]) == [5, 6, 5]
            running.send_signal(signal.SIGUSR2)  # the first rank only
            assert running.wait() == 1
            while (frames := front.frames()) != [b"ENGINE_CORE_DEAD"]:
                assert frames
            dead = json.loads(report.read_text())
            front.add("b", rank=1, max_tokens=1)
            assert tokens(front.finished("b")["b"]) == [5]
            os.killpg(running.pid, signal.SIGTERM)
    assert ready == {b"\0\0", b"\1\0"}
    assert (dead["requests"], dead["running"]) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give --handshake"),
        (["--input", "ipc://a"], "every --input needs an --output"),
        ([*NOWHERE, "--speed", "0"], "none of recorded, max"),
        ([*NOWHERE, "--recording", "/not/there"], "nothing to replay"),
        (
            ["--handshake", "tcp://127.0.0.1:1", "--recording", "x", "--tokenizer", "/not/there"],
            "no tokenizer.json",
        ),
    ],
)
def test_wrong_options(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(replay, arguments)
    assert result.exit_code != 0
    assert said in result.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            [*HEADLESS, "--data-parallel-rpc-port", "29000", "--data-parallel-size", "1"],
            HeadlessArguments(handshake="tcp://127.0.0.1:29000", model="MODEL"),
        ),
        (
            ["-m", "vllm.entrypoints.cli.headless_engine", "--model", "M", "--data-parallel-rpc-port=5",
             "--data-parallel-size", "8", "--data-parallel-size-local", "2", "--data-parallel-start-rank", "4",
             "--max-model-len", "8K", "--max-num-seqs", "7", "--served-model-name", "s", "--other", "x"],
            HeadlessArguments(
                handshake="tcp://127.0.0.1:5", model="M", ranks=(4, 5), data_parallel_size=8,
                max_model_len=8192, max_num_seqs=7, served_model_name="s",
            ),
        ),
        (
            [*SERVE, "--data-parallel-rpc-port", "1", "--data-parallel-size", "3", "--max-model-len", "auto"],
            HeadlessArguments(
                handshake="tcp://127.0.0.1:1", model="MODEL", ranks=(0, 1, 2), data_parallel_size=3
            ),
        ),
    ],
)  # fmt: skip
def test_the_command_line_of_a_headless_engine(arguments: list[str], expected: HeadlessArguments) -> None:
    assert is_headless(arguments)
    read = read_headless(arguments)
    assert read.arguments == tuple(arguments)
    assert msgspec.structs.replace(read, arguments=()) == expected


def test_what_is_no_headless_command_line() -> None:
    assert not is_headless(["--handshake", "x"])
    assert not is_headless(["-m", "pip", "list"])
    with pytest.raises(ValueError, match="max-model-len"):
        read_headless([*HEADLESS, "--max-model-len", "many"])
    with pytest.raises(ValueError, match="rpc-port"):
        read_headless([*HEADLESS, "--data-parallel-rpc-port", "many"])
