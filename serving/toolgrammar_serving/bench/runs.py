"""One measurement: a front end with inherited sockets on one core, the replay engine and the client on another."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from toolgrammar_serving.bench.load import Result
from toolgrammar_serving.bench.scenarios import Scenario

#: A front end has this long to load its tokenizer and say it is healthy.
START_S = 120


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What all runs have in common. ``binary``: the front end's executable."""

    system: str
    binary: str
    model: str
    scripts: Path
    log: Path
    front_cpu: int = 0
    load_cpu: int = 1


def run(setting: Setting, scenario: Scenario, seed: int = 1) -> Result:
    """Start everything, warm up, measure, stop everything. Raises ``RuntimeError`` with the log's place."""
    with setting.log.open("ab") as log, _system(setting, scenario, log) as (port, front):
        pids = ",".join(map(str, [front.pid, *_children(front.pid)]))
        _load(setting, scenario, port, pids, seed + 1000, log, fewer=("32", str(min(64, scenario.tokens))))
        return _load(setting, scenario, port, pids, seed, log)


def _load(
    setting: Setting,
    scenario: Scenario,
    port: int,
    pids: str,
    seed: int,
    log: IO[bytes],
    fewer: tuple[str, ...] = (),
) -> Result:
    command = [sys.executable, "-m", "toolgrammar_serving.bench.load"]
    command += [scenario.name, setting.system, str(port), pids, str(seed), *fewer]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=log, preexec_fn=_pin(setting.load_cpu), timeout=600
    )
    if done.returncode:
        raise RuntimeError(f"the load client failed; see {setting.log}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Result)


@contextmanager
def _system(setting: Setting, scenario: Scenario, log: IO[bytes]) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A front end and an engine behind it."""
    http = socket.socket()
    http.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    http.bind(("127.0.0.1", 0))
    port = http.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        sockets = [http]
        for name in ("in", "out"):
            one = socket.socket(socket.AF_UNIX)
            one.bind(f"{folder}/{name}")
            one.listen(128)
            sockets.append(one)
        front = _front_end(setting, scenario, sockets, port, log)
        engine = _engine(setting, scenario, folder, log)
        for one in sockets:
            one.close()
        try:
            _wait_for(port, front, setting)
            yield port, front
        finally:
            for process in (front, engine):
                _stop(process)


def _front_end(
    setting: Setting, scenario: Scenario, sockets: list[socket.socket], port: int, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    parser = scenario.tool_parser
    given: dict[str, Any] = {
        "model_tag": setting.model,
        "model": setting.model,
        "port": port,
        "served_model_name": ["bench"],
        "engine_ready_timeout_secs": START_S,
        "http_timeout_keep_alive": 60,
        "tool_call_parser": parser or "none",
        "reasoning_parser": "qwen3" if parser else "none",
    }
    if parser:
        given["enable_auto_tool_choice"] = True
    descriptors = [one.fileno() for one in sockets]
    http, inputs, outputs = map(str, descriptors)
    command = [setting.binary, "frontend", "--listen-fd", http, "--input-listener-fd", inputs]
    command += ["--output-listener-fd", outputs, "--engine-start-index", "0", "--engine-count", "1"]
    command += ["--data-parallel-size", "1", "--args-json", json.dumps(given)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return subprocess.Popen(
        command, pass_fds=descriptors, env=environment, stdout=log, stderr=log, preexec_fn=_pin(setting.front_cpu)
    )


def _engine(setting: Setting, scenario: Scenario, folder: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "toolgrammar_serving.replay", "--interval-ms", str(scenario.step_ms)]
    command += ["--input", f"ipc://{folder}/in", "--output", f"ipc://{folder}/out", "--tokenizer", setting.model]
    command += ["--recording", str(setting.scripts / f"{scenario.script}.json")]
    return subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=_pin(setting.load_cpu))


def _wait_for(port: int, front: subprocess.Popen[bytes], setting: Setting) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if front.poll() is not None:
            raise RuntimeError(f"{setting.system} ended with {front.returncode}; see {setting.log}")
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).read()
            return
        except urllib.error.HTTPError:
            pass
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"{setting.system} was not healthy within {START_S} s; see {setting.log}")


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = [int(child) for child in file.read().split()]
    return children + [inner for child in children for inner in _children(child)]


def _pin(cpu: int) -> Any:
    return lambda: os.sched_setaffinity(0, {cpu})


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
