"""A foreign front end drives the replay engine: what arrives is what the scripts say.

    python scripts/check_replay.py --front-end VLLM_RS --model MODEL_DIR [--load 64]

The front end is any program with ``serve MODEL --python ENGINE --port N`` that starts ENGINE with the command line
of a headless engine, such as vLLM's Rust front end. MODEL_DIR needs a tokenizer and a chat template, no weights.
Prints one line for each check and what the engine counted; exits with 1 if a check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from toolgrammar_serving.replay.__main__ import ARGUMENTS_VARIABLE
from toolgrammar_serving.replay.vocabulary import FileVocabulary

SAID = 'Two ferries run today: the 9:40 and the "slow" one at 13:05. Größer als gedacht 🌿.'
PATIENCE_S = 60.0


class Peer:
    """The running front end and its engine."""

    def __init__(self, url: str, report: Path, vocabulary: FileVocabulary) -> None:
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_S)
        self.report = report
        self.ids = vocabulary.encode(SAID)

    def chat(self, prompt: str, **more: Any) -> httpx.Response:
        """One chat request."""
        return self.http.post("/v1/chat/completions", json=self.body(prompt, **more))

    def body(self, prompt: str, **more: Any) -> dict[str, Any]:
        """The body of a chat request."""
        return {"model": "replayed", "messages": [{"role": "user", "content": prompt}], "max_tokens": 500, **more}

    def streamed(self, prompt: str, **more: Any) -> Iterator[dict[str, Any]]:
        """The events of a streamed one."""
        body = self.body(prompt, stream=True, stream_options={"include_usage": True}, **more)
        with self.http.stream("POST", "/v1/chat/completions", json=body) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    yield json.loads(line[6:])

    def counters(self) -> dict[str, Any]:
        """What the engine counted since the last time."""
        before = self.report.read_text().count("\n") if self.report.exists() else 0
        os.kill(engine_of(os.getpid()), signal.SIGUSR1)
        until(lambda: self.report.exists() and self.report.read_text().count("\n") > before)
        return dict(json.loads(self.report.read_text().splitlines()[-1]))


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            sys.exit("the front end or its engine did not answer in time")
        time.sleep(0.05)


def engine_of(ancestor: int) -> int:
    """The process id of the replay engine below ``ancestor``."""
    parents = {}
    for entry in Path("/proc").iterdir():
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (ValueError, OSError):
            continue
    for process in parents:
        above = process
        while above in parents and above != ancestor:
            above = parents[above]
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        if above == ancestor and b"toolgrammar_serving.replay" in command:
            return process
    sys.exit("the front end has started no engine")


@contextmanager
def running(front_end: str, model: str, folder: Path) -> Iterator[Peer]:
    """The front end with the replay engine as its engine."""
    vocabulary = FileVocabulary(model)
    recording = folder / "recording.jsonl"
    lines = [{"match": "by content", "text": "chosen by content"}, {"text": SAID}]
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
    engine = folder / "engine"
    engine.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m toolgrammar_serving.replay "$@"\n')
    engine.chmod(0o755)
    ours = ["--recording", str(recording), "--interval-ms", "2", "--report", str(folder / "report")]
    environment = {**os.environ, ARGUMENTS_VARIABLE: shlex.join(ours)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [front_end, "serve", model, "--python", str(engine), "--port", str(port)]
    command += ["--served-model-name", "replayed"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    peer = Peer(f"http://127.0.0.1:{port}", folder / "report", vocabulary)
    try:
        until(lambda: process.poll() is not None or answers(peer))
        if process.poll() is not None:
            sys.exit((folder / "log").read_text())
        yield peer
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def answers(peer: Peer) -> bool:
    """Whether the server is up."""
    try:
        return peer.http.get("/health").is_success
    except httpx.TransportError:
        return False


def one_shot(peer: Peer) -> bool:
    choice = peer.chat("ferries?").json()["choices"][0]
    return (choice["message"]["content"], choice["finish_reason"]) == (SAID, "stop")


def streamed(peer: Peer) -> bool:
    events = list(peer.streamed("ferries?"))
    texts = [choice["delta"].get("content") or "" for event in events for choice in event["choices"]]
    usage = events[-1]["usage"]
    # The end-of-sequence token is counted, and gives no text.
    return "".join(texts) == SAID and usage["completion_tokens"] == len(peer.ids) + 1


def by_content(peer: Peer) -> bool:
    return bool(
        peer.chat("an answer by content, please").json()["choices"][0]["message"]["content"][:6] == "chosen"
    )


def length(peer: Peer) -> bool:
    answer = peer.chat("ferries?", max_tokens=5).json()
    return answer["choices"][0]["finish_reason"] == "length" and answer["usage"]["completion_tokens"] == 5


def logprobs(peer: Peer) -> bool:
    answer = peer.chat("ferries?", max_tokens=3, logprobs=True, top_logprobs=4).json()
    positions = answer["choices"][0]["logprobs"]["content"]
    return [round(one["logprob"], 4) for one in positions] == [-0.6931] * 3 and len(
        positions[0]["top_logprobs"]
    ) == 4


def own_script(peer: Peer) -> bool:
    script = json.dumps({"steps": [peer.ids[:2], [], peer.ids[2:4]], "finish": "length"})
    answer = peer.chat("x", vllm_xargs={"replay": script}).json()
    return answer["usage"]["completion_tokens"] == 4 and answer["choices"][0]["finish_reason"] == "length"


def refused(peer: Peer) -> bool:
    error = {"code": "validation_error", "message": "no such grammar"}
    script = json.dumps({"steps": [], "finish": "error", "error": error})
    answer = peer.chat("x", vllm_xargs={"replay": script})
    return answer.status_code == 400 and "no such grammar" in answer.text


def abort(peer: Peer) -> bool:
    peer.counters()
    script = json.dumps({"tokens": peer.ids, "finish": "length"})
    events = peer.streamed("x", vllm_xargs={"replay": script}, max_tokens=20_000)
    next(events)
    events.close()  # type: ignore[attr-defined]
    seen = 0

    def aborted() -> bool:
        nonlocal seen
        seen += peer.counters()["aborted"]
        return seen == 1

    until(aborted)
    return True


def load(peer: Peer, requests: int) -> bool:
    peer.counters()
    with ThreadPoolExecutor(requests) as pool:
        answers = list(pool.map(lambda _: peer.chat("ferries?").json(), range(requests)))
    counted = peer.counters()
    print(f"  {counted}")
    right = all(answer["choices"][0]["message"]["content"] == SAID for answer in answers)
    return right and counted["tokens"] == requests * (len(peer.ids) + 1) and counted["running"] == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--front-end", required=True, metavar="PROGRAM")
    parser.add_argument("--model", required=True, metavar="DIR")
    parser.add_argument("--load", type=int, default=64, metavar="N", help="concurrent requests of the last check")
    given = parser.parse_args()
    checks = [one_shot, streamed, by_content, length, logprobs, own_script, refused, abort]
    failed = 0
    with tempfile.TemporaryDirectory() as folder, running(given.front_end, given.model, Path(folder)) as peer:
        for check in [*checks, lambda peer: load(peer, given.load)]:
            right = check(peer)
            failed += not right
            name = "load" if check not in checks else check.__name__.replace("_", " ")
            print(f"{'ok  ' if right else 'FAIL'} {name}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
