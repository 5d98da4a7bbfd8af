"""The engine as a process: start-up, signals, death, command lines."""

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

import pytest
from serving_engine_wire import DEADLINE_S, FrontEnd, request
from toolgrammar_serving.engine.lifecycle import Progress, build
from toolgrammar_serving.engine.loading import CannotLoad
from toolgrammar_serving.engine.options import parse
from toolgrammar_serving.protocol import wire
from toolgrammar_serving.protocol.engine_side import EngineSockets

SMALL = ("--device", "cpu", "--threads", "1", "--kv-memory", "16MiB")


@contextmanager
def process(*argv: str, **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The command; killed if it still runs at the end."""
    command = [sys.executable, "-m", "toolgrammar_serving.engine", *argv]
    with subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, **more) as child:
        try:
            yield child
        finally:
            child.kill()
            child.wait(DEADLINE_S)


def test_start_up_tells_its_stages_and_sigterm_ends_requests(qwen_directory: Path) -> None:
    read, write = os.pipe()
    with FrontEnd() as front:
        options = (str(qwen_directory), "--handshake", front.handshake, *SMALL, "--progress-fd", str(write))
        with process(*options, pass_fds=(write,)) as child:
            os.close(write)
            hello = front.hello()
            assert hello == {"identity": b"\0\0", "status": "HELLO", "local": False, "headless": True}
            assert front.registered().max_model_len == 512
            ready = front.hand.recv_multipart()
            assert json.loads(json.dumps(ready[0].hex())) == "0000"
            front.add(request("running", [1, 2], temperature=0.0, max_tokens=400))
            while len(front.answers["running"].tokens) < 3:
                front.take()
            child.send_signal(signal.SIGTERM)
            assert front.finish("running")[0].last.finish_reason == wire.ABORTED
            assert child.wait(DEADLINE_S) == 0
            with os.fdopen(read) as lines:
                told = [json.loads(line) for line in lines]
    assert [one["stage"] for one in told] == ["handshake", "model", "cache", "register", "ready"]
    assert not front.dead


def test_sigterm_with_a_grace_lets_requests_finish(qwen_directory: Path) -> None:
    with FrontEnd() as front:
        options = (str(qwen_directory), "--handshake", front.handshake, *SMALL, "--shutdown-timeout", "60")
        with process(*options) as child:
            front.connect()
            front.add(request("running", [1, 2], temperature=0.0, max_tokens=60))
            while len(front.answers["running"].tokens) < 3:
                front.take()
            child.send_signal(signal.SIGTERM)
            assert front.finish("running")[0].end == (wire.LENGTH, None)
            assert child.wait(DEADLINE_S) == 0


def test_sigterm_before_the_front_end_answers(qwen_directory: Path) -> None:
    with FrontEnd() as front, process(str(qwen_directory), "--handshake", front.handshake, *SMALL) as child:
        front.hand.recv_multipart()  # HELLO, and no INIT
        child.send_signal(signal.SIGTERM)
        assert child.wait(DEADLINE_S) == 0


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        ("missing", (), "no model directory"),
        ("empty", (), "cannot load"),
        ("good", ("--device", "cuda"), "--device cuda"),
        ("good", ("--dtype", "int8"), "--dtype int8"),
        ("good", ("--kv-memory", "1k"), "KV cache"),
    ],
)
def test_what_cannot_start_says_why_and_tells_its_front_ends(
    tmp_path: Path, qwen_directory: Path, model: str, options: tuple[str, ...], says: str
) -> None:
    (tmp_path / "empty").mkdir()
    path = qwen_directory if model == "good" else tmp_path / model
    with (
        FrontEnd() as front,
        process(str(path), "--handshake", front.handshake, *SMALL, *options, stderr=subprocess.PIPE) as child,
    ):
        front.hello()
        assert front.take() is None
        assert front.dead
        assert child.stderr is not None
        assert says in child.stderr.read().decode()
        assert child.wait(DEADLINE_S) == 1


def test_a_model_without_attention_is_refused_at_start(tmp_path: Path) -> None:
    import transformers

    sizes = {"vocab_size": 64, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 1, "expand": 2}
    transformers.MambaForCausalLM(transformers.MambaConfig(**sizes)).save_pretrained(tmp_path)
    with FrontEnd() as front, pytest.raises(CannotLoad, match="cannot be run with continuous batching: Mamba"):
        read = parse([str(tmp_path), "--handshake", front.handshake, *SMALL])
        sockets = EngineSockets(front.addresses)
        try:
            build(read, sockets, Progress(None))
        finally:
            sockets.close(0)


@pytest.mark.parametrize(
    "argv", [(), ("model",), ("model", "--handshake", "x", "--kv-memory", "lots"), ("m", "--no")]
)
def test_a_senseless_command_line(argv: tuple[str, ...]) -> None:
    with process(*argv, stderr=subprocess.PIPE) as child:
        assert child.stderr is not None
        assert b"usage: toolgrammar-engine" in child.stderr.read()
        assert child.wait(DEADLINE_S) == 2


def test_as_the_interpreter_of_a_front_end(qwen_directory: Path) -> None:
    with FrontEnd() as front:
        host, port = front.handshake.removeprefix("tcp://").rsplit(":", 1)
        argv = [
            "-m", "vllm.entrypoints.cli.main", "serve", str(qwen_directory), "--headless",
            "--data-parallel-address", host, "--data-parallel-rpc-port", port, "--data-parallel-size", "1",
            "--max-model-len", "256", "--enforce-eager", "--gpu-memory-utilization", "0.5", *SMALL,
        ]  # fmt: skip
        with process(*argv):
            assert front.connect().max_model_len == 256
            assert len(front.run(request("r", [1], temperature=0.0, max_tokens=3))[0].tokens) == 3
