"""Many streams for a long time: every answer is right, memory is flat, and nothing is left behind.

    python scripts/soak.py --streams 1024 --seconds 60              # about three minutes
    python scripts/soak.py --model models/Qwen3-0.6B                # its tokenizer; the engine is its own process

Each format gets a server of its own. Every stream asks for one of the cases below, reads the answer to its end,
compares it with what was put in, and asks again on the same connection. Memory is that of each process of the
server: medians of the first and the last third of the time after the warm-up. Exits with 1 if an answer is wrong,
a request fails, memory grows, or something is still in work at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: What an allocator may keep: growth of the median beyond both is a leak.
SLACK_MIB, SLACK_SHARE = 2.0, 0.02
SAMPLE_S, PATIENCE_S, CASES = 2.0, 60.0, 32
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: soak\r\ncontent-type: application/json\r\n"
TOOL = {"type": "object", "properties": {"port": {"type": "string"}, "seats": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": "book_ferry", "parameters": TOOL}}]
HERMES = '{{"name": "book_ferry", "arguments": {{"port": "{port}", "seats": {seats}}}}}'
CODER = "<function=book_ferry>\n<parameter=port>\n{port}\n</parameter>\n<parameter=seats>\n{seats}\n</parameter>"
TEXTS = {  # what stands in front of the content, and what is in a call
    "hermes": ("<think>\n{reasoning}\n</think>\n\n", HERMES),
    "qwen3-coder": ("", f"{CODER}\n</function>"),
}
Known = tuple[str, str, list[tuple[str, Any]]]


def write_recording(path: Path, form: str, pace_s: float) -> list[Known]:
    """All cases, in chunks of some characters at a pace; returns the reasoning, content and calls in them."""
    known, lines = [], []
    front, call = TEXTS[form]
    for number in range(CASES):
        reasoning = f"Case {number} is about ferries." + " The tide matters, größer als gedacht 🌿." * (number % 5)
        content = f"Two ferries run on day {number}; a < b, and `<tool>` is no call. The slow one is calm."
        arguments = [{"port": port, "seats": number} for port in ("Port Ellen", "Tórshavn 世界")[: 1 + number % 2]]
        calls = [f"\n<tool_call>\n{call.format(**one)}\n</tool_call>" for one in arguments]
        text = front.format(reasoning=reasoning) + content + "".join(calls)
        known.append((reasoning if front else "", content, [("book_ferry", one) for one in arguments]))
        chunks = re.findall(f"(?s).{{1,{3 + number % 4}}}", text)
        times = [round(pace_s * (at + 1), 4) for at in range(len(chunks))]
        lines.append(json.dumps({"match": f"case <{number}>", "text": text, "chunks": chunks, "times_s": times}))
    path.write_text("\n".join(lines))
    return known


def joined(answer: bytes) -> Known:
    """Reasoning, content and calls of a streamed answer. Raises ``ValueError`` if it is none."""
    body = re.sub(rb"\r\n(?:[0-9a-f]+\r\n)?", b"", answer[answer.index(b"\r\n\r\n") + 2 :]).decode()
    lines = [line[6:] for line in body.split("\n") if line.startswith("data: ")]
    if not answer.startswith(b"HTTP/1.1 200") or lines[-1:] != ["[DONE]"]:
        raise ValueError(answer[:200] + answer[-100:])
    texts = {"reasoning": "", "content": ""}
    calls: dict[int, list[str]] = {}
    for choice in (choice for line in lines[:-1] for choice in json.loads(line)["choices"]):
        for key in texts:
            texts[key] += choice["delta"].get(key) or ""
        for call in choice["delta"].get("tool_calls") or ():
            known = calls.setdefault(call["index"], ["", ""])
            known[0] += call["function"].get("name") or ""
            known[1] += call["function"].get("arguments") or ""
    if choice["finish_reason"] != "tool_calls":
        raise ValueError(lines[-3:])
    return texts["reasoning"], texts["content"], [(name, json.loads(text)) for name, text in calls.values()]


async def client(number: int, port: int, known: list[Known], begin: float, end: float, seen: Counter[str]) -> None:
    """One answer after another until ``end``."""
    await asyncio.sleep(begin - time.monotonic())
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    while time.monotonic() < end:
        number = (number * 5 + 3) % CASES
        messages = [{"role": "user", "content": f"Please answer case <{number}>"}]
        body = json.dumps({"model": "soaked", "messages": messages, "stream": True, "tools": TOOLS}).encode()
        writer.write(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
        try:
            answer = joined(await reader.readuntil(b"\r\n0\r\n\r\n"))
        except (ValueError, LookupError, EOFError, OSError) as error:
            seen["failed"] += 1
            return print(f"  failed: {getattr(error, 'partial', error)!r:.300}")
        seen["right" if answer == known[number] else "wrong"] += 1
        if answer != known[number]:
            print(f"  wrong: {answer}\n  right: {known[number]}")
    writer.close()


def tree(pid: int) -> list[int]:
    """A process and everything below it."""
    below = " ".join(file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children"))
    return [pid, *(inner for child in below.split() for inner in tree(int(child)))]


def in_work(port: int, path: str, pattern: str) -> int:
    """What the server counts: the sum of all that match."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as response:
        return sum(int(float(found)) for found in re.findall(pattern, response.read().decode(), re.M))


@contextmanager
def serving(form: str, recording: Path, model: str | None) -> Iterator[tuple[int, int]]:
    """A server and its engine: its process and its port."""
    command = [sys.executable, "-m", "toolgrammar_serving.launch.serve", "--port=0", f"--format={form}"]
    command += ["--served-model-name=soaked"]
    environment = os.environ | {"NO_COLOR": "1"}
    if model is None:
        command += ["--replay", str(recording)]
    else:
        engine = f"{shlex.quote(sys.executable)} -m toolgrammar_serving.replay -m vllm.entrypoints.cli.main"
        command += [model, "--engine", "vllm", "--engine-command", engine]
        environment["TOOLGRAMMAR_REPLAY_ARGS"] = shlex.join(["--recording", str(recording)])
    process: Any = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        while not (found := re.search(r"^ready +http://\S+:(\d+)/v1", said, re.M)):
            if not (line := process.stderr.readline()):
                sys.exit(said)
            said += line
        yield process.pid, int(found[1])
        process.terminate()
        if process.wait(PATIENCE_S):
            sys.exit(f"the server ended with {process.returncode}")
    finally:
        process.kill()


async def soak(given: argparse.Namespace, pid: int, port: int, known: list[Known]) -> bool:
    """All streams at once. True if everything was as it should be."""
    seen: Counter[str] = Counter()
    warm = time.monotonic() + given.warm_up
    begins = [warm - given.warm_up * (1 - number / given.streams / 2) for number in range(given.streams)]
    end = warm + given.seconds
    work = asyncio.gather(*(client(at, port, known, begin, end, seen) for at, begin in enumerate(begins)))
    memory: dict[int, list[float]] = {one: [] for one in tree(pid)}
    opened: list[int] = await asyncio.sleep(given.warm_up, [])
    while time.monotonic() < end:
        for one, sizes in memory.items():
            sizes.append(int(Path(f"/proc/{one}/statm").read_text().split()[1]) * resource.getpagesize() / 2**20)
        opened.append(await asyncio.to_thread(in_work, port, "/load", r"\d+"))
        await asyncio.sleep(SAMPLE_S)
    await work
    print(f"  answers  {seen['right']} right, {seen['wrong']} wrong, {seen['failed']} failed")
    print(f"  open     {min(opened)} to {max(opened)} streams at {len(opened)} looks")
    good = seen["right"] >= given.streams and not seen["wrong"] and not seen["failed"]
    for one, sizes in memory.items():
        third = len(sizes) // 3
        first, last = statistics.median(sizes[:third]), statistics.median(sizes[-third:])
        flat = last - first <= max(SLACK_MIB, first * SLACK_SHARE)
        what = Path(f"/proc/{one}/cmdline").read_text().split("\0")[2]
        good &= flat
        print(f"  memory   {what}: first {first:.1f}, last {last:.1f} MiB{'' if flat else '  GROWS'}")
    engine = ("/metrics", r"^vllm:num_requests_(?:running|waiting)\{.*\} (\S+)$")
    until = time.monotonic() + 5
    while (left := in_work(port, "/load", r"\d+") + in_work(port, *engine)) and time.monotonic() < until:
        await asyncio.sleep(0.1)
    print(f"  in work at the end: {left}")
    return good and not left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=60, help="after the warm-up")
    parser.add_argument("--warm-up", type=float, default=20, metavar="SECONDS")
    parser.add_argument("--pace", type=float, default=0.1, metavar="SECONDS", help="between an answer's chunks")
    parser.add_argument("--formats", nargs="+", choices=TEXTS, default=list(TEXTS))
    parser.add_argument("--model", metavar="DIR", help="tokenizer and template; without: bytes")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    good = True
    for form in given.formats:
        print(f"{form}: {given.streams} streams, {given.seconds:g} s", flush=True)
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            known = write_recording(Path(file.name), form, given.pace)
            with serving(form, Path(file.name), given.model) as (pid, port):
                good &= asyncio.run(soak(given, pid, port, known))
    sys.exit(not good)


if __name__ == "__main__":
    main()
