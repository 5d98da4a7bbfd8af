"""Engines as processes: started by us, reporting to us, killed under us."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import launch_running
import openai
import pytest
import serving_models
from launch_running import captures, serving

TEXT = 'Yes.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
ASK: list[Any] = [{"role": "user", "content": "go"}]
REPLAY = f"{sys.executable} -m toolgrammar_serving.replay"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(serving_models.byte_level(tmp_path_factory.mktemp("engines") / "tiny"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def as_vllm(tmp_path: Path, model: str, *records: dict[str, Any]) -> dict[str, Any]:
    """Arguments and environment with which a replay engine is what `vllm serve --headless` would be."""
    file = captures(tmp_path / "captures.jsonl", *records)
    return {
        "arguments": (
            model, "--engine", "vllm", "--engine-command", f"{REPLAY} -m vllm.entrypoints.cli.main",
            "--port", "0", "--served-model-name", "m", "--max-model-len", "512",
        ),
        "env": {"TOOLGRAMMAR_REPLAY_ARGS": f"--recording {file}"},
    }  # fmt: skip


def test_a_headless_engine_is_started_and_ended(tmp_path: Path, model: str) -> None:
    given = as_vllm(tmp_path, model, {"text": TEXT})
    with serving(*given["arguments"], env=given["env"]) as served:
        with launch_running.client(served.url) as client:
            assert served.wait_for("^context +(.*)$")[1] == "512 tokens"
            answer = client.chat.completions.create(model="m", messages=ASK).choices[0]
            assert (answer.message.content, answer.finish_reason) == ("Yes.", "tool_calls")
        assert served.stop() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the child in /proc")
@pytest.mark.parametrize("count", ["1", "2"])
def test_a_killed_engine_ends_streams_with_an_error_and_the_server_with_a_code(
    tmp_path: Path, model: str, count: str
) -> None:
    given = as_vllm(tmp_path, model, {"steps": [[72, 105]], "finish": None})
    with serving(*given["arguments"], "--api-server-count", count, env=given["env"]) as served:
        with launch_running.client(served.url) as client:
            stream = client.chat.completions.create(model="m", messages=ASK, stream=True)
            with pytest.raises(openai.APIError, match="engine"):
                for chunk in stream:
                    if chunk.choices and chunk.choices[0].delta.content:
                        for child in children_of(served.process.pid, "toolgrammar_serving.replay"):
                            os.kill(child, signal.SIGKILL)
        assert served.ends() == 1
        assert "error: the engine ended: signal SIGKILL" in served.said
        assert "Traceback" not in served.said


def children_of(pid: int, what: str) -> list[int]:
    """Children of a process in whose command line ``what`` stands."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if what in Path(f"/proc/{child}/cmdline").read_text()]


def test_an_engine_that_ends_at_once_is_told(tmp_path: Path, model: str) -> None:
    given = as_vllm(tmp_path, model, {"text": TEXT})
    with serving(*given["arguments"], env={"TOOLGRAMMAR_REPLAY_ARGS": "--no-such-option"}) as served:
        assert served.ends() == 1
        assert "error: the engine ended before it was ready: exit code 2" in served.said


@contextmanager
def reporting(port: int, *arguments: str, ranks: int) -> Iterator[None]:
    """Replay engines that report at a port."""
    with ExitStack() as stack:
        for rank in range(ranks):
            command = [*REPLAY.split(), "--handshake", f"tcp://127.0.0.1:{port}", "--rank", str(rank)]
            command += ["--data-parallel-size", str(ranks), *arguments]
            process = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            stack.callback(process.kill)
        yield


@pytest.mark.parametrize("count", ["1", "2"])
def test_engines_report_at_an_address(tmp_path: Path, model: str, count: str) -> None:
    file = captures(tmp_path / "captures.jsonl", {"text": TEXT})
    port = free_port()
    arguments = ["--engine-address", f"tcp://127.0.0.1:{port}", "--data-parallel-size", "2"]
    with (
        serving(
            model, *arguments, "--api-server-count", count, "--port", "0", "--served-model-name", "m"
        ) as served,
        reporting(port, "--recording", file, "--tokenizer", model, ranks=2),
        launch_running.client(served.url) as client,
    ):
        assert served.wait_for("^engine +(.*)$")[1].endswith(", 2 ranks")
        for rank in ("0", "1", "1"):
            answer = client.chat.completions.create(
                model="m", messages=ASK, extra_headers={"x-data-parallel-rank": rank}
            )
            assert answer.choices[0].message.content == "Yes."
        assert served.stop() == 0


def test_a_taken_address_for_engines_is_told(model: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        address = f"tcp://127.0.0.1:{held.getsockname()[1]}"
        with serving(model, "--engine-address", address, "--port", "0") as served:
            assert served.ends() == 2
            assert f"error: engines cannot report at {address}: " in served.said


def test_our_own_engine_answers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    models = pytest.importorskip("serving_engine_models")
    model = str(models.model_directory(tmp_path))
    arguments = ["--served-model-name", "m", "--port", "0", "--dtype", "float32", "--kv-memory", "64MiB"]
    with serving(model, *arguments, "--device", "cpu") as served:
        with launch_running.client(served.url) as client:
            assert "loading the model …" in served.lines
            answers = {
                client.completions.create(model="m", prompt="The lamp", max_tokens=4, temperature=0)
                .choices[0]
                .text
                for _ in range(2)
            }
            assert len(answers) == 1
        assert served.stop() == 0
        assert not re.search("Traceback|engine INFO", served.said)


def test_our_own_engine_says_why_it_cannot_start(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    model = str(serving_models.byte_level(tmp_path / "no-weights"))
    with serving(model, "--port", "0", "--device", "cpu") as served:
        assert served.ends() == 1
        assert "error: the engine ended before it was ready: exit code 1: " in served.said


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the children in /proc")
def test_an_api_process_that_dies_ends_the_server(tmp_path: Path) -> None:
    file = captures(tmp_path / "captures.jsonl", {"text": TEXT, "format": "hermes"})
    with serving("--replay", file, "--port", "0", "--api-server-count", "2") as served:
        assert served.url
        os.kill(children_of(served.process.pid, "launch.worker")[0], signal.SIGKILL)
        assert served.ends() == 1
        assert re.search(r"error: the server ended: API process \d, signal SIGKILL", served.said)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's doing, on Linux")
def test_nothing_outlives_a_launcher_that_is_killed(tmp_path: Path, model: str) -> None:
    given = as_vllm(tmp_path, model, {"text": TEXT})
    with serving(*given["arguments"], "--api-server-count", "2", env=given["env"]) as served:
        assert served.url
        assert served.stop(signal.SIGKILL) == -signal.SIGKILL
