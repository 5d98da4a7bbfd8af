"""The load client, a process of its own: raw sockets, events counted and not parsed, one connection a slot.

Prints one JSON line: what came, and what the front end's processes used meanwhile (``/proc``; Linux).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from toolgrammar_serving.bench.scenarios import SCENARIOS, Scenario
from toolgrammar_serving.bench.scripts import TOOL

_WORD_LIST: Final = """
anchor basin canal delta ebb ferry gauge harbour island jetty keel lantern mast north oar pier quay rudder sail
tide under vessel water yard above below early later open closed small large green white quick slow left right
"""
_WORDS: Final = tuple(_WORD_LIST.split())
_TICK: Final = os.sysconf("SC_CLK_TCK")


class Result(msgspec.Struct):
    """One run of one front end. CPU is user and system time of all its processes and threads."""

    scenario: str
    system: str
    requests: int
    errors: int
    wall_s: float
    tokens_per_s: float
    cpu_us_per_token: float
    cpu_ms_per_request: float
    events_per_request: float
    bytes_per_request: int
    ttft_ms_p50: float
    ttft_ms_p99: float
    rss_mb: float
    peak_mb: float


def cpu_s(pids: list[int]) -> float:
    """CPU seconds of the processes ``pids`` so far."""
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICK


def memory_mb(pids: list[int], key: str) -> float:
    """``VmRSS`` or ``VmHWM`` of the processes ``pids``, in MB."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/status") as file:
            total += next(int(line.split()[1]) for line in file if line.startswith(key))
    return total / 1024


def prompts(scenario: Scenario, seed: int) -> Iterator[list[dict[str, str]]]:
    """The conversations of the scenario's requests."""
    rng = random.Random(seed)
    rare = ["".join(rng.choices("bcdfghklmnprstvwaeiou", k=rng.randint(3, 9))) for _ in range(20_000)]
    history = " ".join(rng.choices(_WORDS, k=scenario.words))
    for number in range(scenario.requests):
        if scenario.prompts == "repeated":
            asked = " ".join(rng.choices(_WORDS, k=20))
            turns = [("user", history), ("assistant", "Noted."), ("user", f"{number} {asked}")]
            yield [{"role": role, "content": text} for role, text in turns]
            continue
        words = rng.choices(_WORDS, k=scenario.words)
        if scenario.prompts == "rare":
            words = [rng.choice(rare) if rng.random() < 0.4 else word for word in words]
        yield [{"role": "user", "content": " ".join(words)}]


def posts(scenario: Scenario, host: str, seed: int) -> Iterator[bytes]:
    """The requests, ready to be written."""
    for messages in prompts(scenario, seed):
        body: dict[str, Any] = {
            "model": "bench", "messages": messages, "stream": True, "max_tokens": scenario.tokens,
            "temperature": 0.0,
        }  # fmt: skip
        if scenario.tool_parser:
            body["tools"] = [TOOL]
        raw = json.dumps(body).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        yield f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw


class Run:
    """All connections of one run, and what they saw."""

    def __init__(self, todo: Iterator[bytes], slots: int) -> None:
        self.todo = todo
        self.open = slots
        self.times: list[tuple[float, float]] = []
        self.events = self.bytes = self.errors = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def closed(self) -> None:
        """A connection has nothing more to do."""
        self.open -= 1
        if self.open <= 0 and not self.over.done():
            self.over.set_result(None)


class Slot(asyncio.Protocol):
    """One keep-alive connection: the end of an answer sends the next request."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.done = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.next()

    def next(self) -> None:
        request = next(self.run.todo, None)
        if request is None:
            self.done = True
            self.transport.close()
            self.run.closed()
            return
        self.tail = b""
        self.seen, self.first = 0, 0.0
        self.started = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        run = self.run
        run.bytes += len(data)
        if not self.seen and not self.tail and not data.startswith(b"HTTP/1.1 200"):
            run.errors += 1
            if run.errors == 1:
                print(data[:600], file=sys.stderr)
            self.done = True
            self.transport.close()
            run.closed()
            return
        text = self.tail + data
        self.seen += text.count(b"data: {")
        if not self.first and self.seen >= 2:  # the first event has the role only
            self.first = time.perf_counter()
        if text.endswith(b"0\r\n\r\n") and b"[DONE]" in text[-64:]:
            run.events += self.seen
            run.times.append((self.started, self.first or time.perf_counter()))
            self.next()
            return
        # What may be the front of a mark is kept; a whole one was counted.
        self.tail = data[-6:] if not data.endswith(b"\n\n\r\n") else data[-40:].replace(b"data: {", b"")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done:
            self.run.errors += 1
            self.run.closed()


async def measure(scenario: Scenario, system: str, port: int, pids: list[int], seed: int) -> Result:
    """Run ``scenario`` against the front end at ``port``."""
    host = "127.0.0.1"
    slots = min(scenario.concurrency, scenario.requests)
    run = Run(iter(list(posts(scenario, host, seed))), slots)
    loop = asyncio.get_running_loop()
    used, began = cpu_s(pids), time.perf_counter()
    await asyncio.gather(*(loop.create_connection(lambda: Slot(run), host, port) for _ in range(slots)))
    await run.over
    wall, used = time.perf_counter() - began, cpu_s(pids) - used
    waits = sorted((first - start) * 1000 for start, first in run.times) or [0.0]
    answered = len(run.times)
    tokens = max(1, answered * scenario.tokens)
    return Result(
        scenario=scenario.name,
        system=system,
        requests=answered,
        errors=run.errors,
        wall_s=round(wall, 2),
        tokens_per_s=round(tokens / wall),
        cpu_us_per_token=round(used / tokens * 1e6, 2),
        cpu_ms_per_request=round(used / max(1, answered) * 1e3, 3),
        events_per_request=round(run.events / max(1, answered), 1),
        bytes_per_request=run.bytes // max(1, answered),
        ttft_ms_p50=round(waits[len(waits) // 2], 1),
        ttft_ms_p99=round(waits[int(len(waits) * 0.99)], 1),
        rss_mb=round(memory_mb(pids, "VmRSS")),
        peak_mb=round(memory_mb(pids, "VmHWM")),
    )


def main() -> None:
    """``SCENARIO SYSTEM PORT PIDS SEED [REQUESTS TOKENS]``: as ``runs`` calls it."""
    import uvloop

    name, system, port, pids, seed, *fewer = sys.argv[1:]
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
    if fewer:
        requests, tokens = map(int, fewer)
        scenario = msgspec.structs.replace(
            scenario, requests=requests, tokens=tokens, concurrency=min(requests, 16)
        )
    result = uvloop.run(measure(scenario, system, int(port), [int(pid) for pid in pids.split(",")], int(seed)))
    print(msgspec.json.encode(result).decode(), flush=True)


if __name__ == "__main__":
    main()
