"""A foreign front end drives our engine over a real model: what arrives is what transformers itself computes.

    python scripts/check_engine.py --model MODEL_DIR --front-end PROGRAM
    python scripts/check_engine.py --model MODEL_DIR --api-server 'PYTHON -m vllm.entrypoints.cli.main'

--front-end: a program with ``serve MODEL --python ENGINE --port N`` that starts ENGINE with the command line of a
headless engine, such as vLLM's Rust front end. --api-server: vLLM's Python server, which waits for an engine that
is started here. MODEL_DIR needs weights, a tokenizer and a chat template. Prints one line for each check; exits
with 1 if one fails. The engine runs on the CPU in float32.
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
import jsonschema

PATIENCE_S = 180.0
NAME = "checked"
CONTEXT = 2048
ENGINE = (sys.executable, "-m", "toolgrammar_serving.engine")
OPTIONS = ("--device", "cpu", "--threads", "1", "--kv-memory", "512MiB")
SHARED = ("--dtype", "float32", "--max-model-len", str(CONTEXT), "--served-model-name", NAME)
PROMPT = [9707, 11, 847, 829, 374, 3757, 13, 1446, 525, 264, 10950, 17847]
SCHEMA = {
    "type": "object",
    "properties": {"room": {"enum": ["hall", "kitchen"]}, "level": {"type": "integer", "maximum": 9}},
    "required": ["room", "level"],
    "additionalProperties": False,
}


class Peer:
    """The running front end, its engine's process id, and what transformers says."""

    def __init__(self, url: str, truth: Truth) -> None:
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_S)
        self.truth = truth

    def complete(self, **more: Any) -> httpx.Response:
        body = {"model": NAME, "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "ignore_eos": True, **more}
        return self.http.post("/v1/completions", json=body)

    def chat(self, text: str, **more: Any) -> httpx.Response:
        return self.http.post("/v1/chat/completions", json=self.chat_body(text, **more))

    def chat_body(self, text: str, **more: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {"model": NAME, "messages": messages, "max_tokens": 12, "temperature": 0, **more}

    def metric(self, name: str) -> float:
        """A number of the front end's metrics."""
        lines = self.http.get("/metrics").text.splitlines()
        return sum(float(one.rsplit(" ", 1)[1]) for one in lines if one.startswith(name))

    def running(self) -> float:
        """Requests in the engine."""
        return self.metric("vllm:num_requests_running")


class Truth:
    """transformers alone, in float32."""

    def __init__(self, model: str) -> None:
        import torch
        import transformers

        torch.set_num_threads(1)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()

    def greedy(self, prompt: list[int], count: int) -> tuple[list[int], list[float]]:
        """Tokens and their log-probabilities, by one forward pass per token over everything."""
        import torch

        tokens, chances = [*prompt], []
        with torch.inference_mode():
            for _ in range(count):
                row = torch.log_softmax(self.model(torch.tensor([tokens])).logits[0, -1], -1)
                tokens.append(int(row.argmax()))
                chances.append(float(row.max()))
        return tokens[len(prompt) :], chances


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("the front end or its engine did not answer in time")
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def commands(given: argparse.Namespace, folder: Path, port: int) -> list[list[str]]:
    """What is to be started: the front end, and the engine if the front end does not start it."""
    if given.front_end:
        engine = folder / "engine"
        engine.write_text(f'#!/bin/sh\nexec {shlex.join(ENGINE)} "$@"\n')
        engine.chmod(0o755)
        return [
            [
                given.front_end,
                "serve",
                given.model,
                "--python",
                str(engine),
                "--port",
                str(port),
                *SHARED,
                *OPTIONS,
            ]
        ]
    meeting = str(free_port())
    server = [*shlex.split(given.api_server), "serve", given.model, "--port", str(port), *SHARED]
    server += [
        "--data-parallel-size",
        "1",
        "--data-parallel-size-local",
        "0",
        "--data-parallel-address",
        "127.0.0.1",
    ]
    server += ["--data-parallel-rpc-port", meeting]
    engine_of_its_own = [*ENGINE, given.model, "--handshake", f"tcp://127.0.0.1:{meeting}", *OPTIONS]
    return [server, [*engine_of_its_own, "--dtype", "float32", "--max-model-len", str(CONTEXT)]]


@contextmanager
def running(given: argparse.Namespace, folder: Path, truth: Truth) -> Iterator[Peer]:
    """The front end with our engine as its engine."""
    port = free_port()
    with (folder / "log").open("wb") as log:
        started = [subprocess.Popen(one, stdout=log, stderr=log) for one in commands(given, folder, port)]
    peer = Peer(f"http://127.0.0.1:{port}", truth)
    try:
        until(lambda: any(one.poll() is not None for one in started) or answers(peer))
        if any(one.poll() is not None for one in started):
            sys.exit((folder / "log").read_text())
        yield peer
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait(PATIENCE_S)


def answers(peer: Peer) -> bool:
    """Whether the server is up."""
    try:
        return peer.http.get("/health").is_success
    except httpx.TransportError:
        return False


def engine_of(ancestor: int) -> int:
    """The process id of the engine below ``ancestor``."""
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
        if above == ancestor and b"toolgrammar_serving.engine" in Path(f"/proc/{process}/cmdline").read_bytes():
            return process
    sys.exit("the front end has started no engine")


# ---- checks -----------------------------------------------------------------------------------------------


def greedy_is_transformers(peer: Peer) -> bool:
    tokens, _ = peer.truth.greedy(PROMPT, 12)
    return bool(peer.complete().json()["choices"][0]["text"] == peer.truth.tokenizer.decode(tokens))


def logprobs_are_transformers(peer: Peer) -> bool:
    _, chances = peer.truth.greedy(PROMPT, 12)
    told = peer.complete(logprobs=3).json()["choices"][0]["logprobs"]["token_logprobs"]
    return len(told) == 12 and all(abs(one - other) < 1e-3 for one, other in zip(told, chances, strict=True))


def stream_is_the_whole(peer: Peer) -> bool:
    whole = peer.chat("Count the lamps.").json()["choices"][0]["message"]
    text = ""
    body = peer.chat_body("Count the lamps.", stream=True)
    with peer.http.stream("POST", "/v1/chat/completions", json=body) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    text += choice["delta"].get("content") or ""
    return text == (whole["content"] or "")


def seeds(peer: Peer) -> bool:
    def text(seed: int) -> Any:
        return peer.complete(temperature=1.0, top_p=0.9, seed=seed).json()["choices"][0]["text"]

    return text(5) == text(5) != text(6)


def several_choices(peer: Peer) -> bool:
    choices = peer.complete(temperature=1.0, n=3, seed=1).json()["choices"]
    return len({one["text"] for one in choices}) == 3


def json_schema(peer: Peer) -> bool:
    wanted = {"type": "json_schema", "json_schema": {"name": "lamp", "schema": SCHEMA, "strict": True}}
    for seed in range(8):
        more = {"temperature": 1.0, "seed": seed, "max_tokens": 300, "response_format": wanted}
        choice = peer.chat("A lamp, please.", **more).json()["choices"][0]
        if choice["finish_reason"] == "stop":
            jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)
        elif choice["finish_reason"] != "length":
            return False
    return True


def bad_constraint(peer: Peer) -> bool:
    answer = peer.chat("x", structured_outputs={"regex": "(("})
    return answer.status_code in (400, 500) and peer.complete().is_success


def too_long(peer: Peer) -> bool:
    answer = peer.complete(prompt=[1] * (CONTEXT + 10))
    return answer.status_code == 400 and str(CONTEXT) in answer.text


def cached_tokens(peer: Peer) -> bool:
    long = [(7 * i) % 9000 for i in range(200)]
    peer.complete(prompt=long)
    before = peer.metric("vllm:prefix_cache_hits_total")
    peer.complete(prompt=long)
    until(lambda: peer.metric("vllm:prefix_cache_hits_total") > before)
    return peer.metric("vllm:prefix_cache_hits_total") - before == 192  # whole blocks of 32


def abort(peer: Peer) -> bool:
    body = peer.chat_body("x", stream=True, max_tokens=1500, ignore_eos=True)
    with peer.http.stream("POST", "/v1/chat/completions", json=body) as response:
        lines = response.iter_lines()  # kept: without it the connection is closed at once
        next(lines)
        until(lambda: peer.running() > 0)
    until(lambda: peer.running() == 0)
    return True


def load(peer: Peer) -> bool:
    tokens, _ = peer.truth.greedy(PROMPT, 12)
    right = peer.truth.tokenizer.decode(tokens)
    with ThreadPoolExecutor(32) as pool:
        texts = list(pool.map(lambda _: peer.complete().json()["choices"][0]["text"], range(64)))
    return set(texts) == {right}


def death(peer: Peer) -> bool:
    """Last: kill -9 under load. Every request ends, none hangs.

    vLLM's Python server does not watch engines that it has not started itself: there, leave this one out.
    """

    def one(_: int) -> bool:
        try:
            return peer.complete(max_tokens=1500).is_success
        except httpx.TimeoutException:
            return True  # it hangs
        except httpx.TransportError:
            return False

    with ThreadPoolExecutor(16) as pool:
        ends = [pool.submit(one, i) for i in range(16)]
        until(lambda: peer.running() > 0)
        os.kill(engine_of(os.getpid()), signal.SIGKILL)
        return not any(end.result(PATIENCE_S) for end in ends)


CHECKS = (
    greedy_is_transformers, logprobs_are_transformers, stream_is_the_whole, seeds, several_choices, json_schema,
    bad_constraint, too_long, cached_tokens, abort, load, death,
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="DIR")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--front-end", metavar="PROGRAM")
    which.add_argument("--api-server", metavar="COMMAND")
    parser.add_argument("--without", action="append", default=[], metavar="CHECK", help="leave a check out")
    given = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        truth = Truth(given.model)
        with running(given, Path(folder), truth) as peer:
            for check in CHECKS:
                name = check.__name__.replace("_", " ")
                if name in given.without:
                    continue
                try:
                    right = check(peer)
                except Exception as problem:
                    right = False
                    name += f": {type(problem).__name__}: {problem}"
                failed += not right
                print(f"{'ok  ' if right else 'FAIL'} {name}", flush=True)
        if failed:
            print((Path(folder) / "log").read_text()[-6000:])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
