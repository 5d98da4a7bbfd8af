"""A server as a person starts it: a process, its stderr, a client; and nothing of it left afterwards."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai

#: Longest wait for anything: a guard against hanging, never what is measured.
GUARD_S = 120.0


class Served:
    """A running ``toolgrammar-serve`` (or another module of ours) and what it said so far."""

    def __init__(
        self, arguments: Sequence[str], module: str, env: dict[str, str] | None, pass_fds: Sequence[int]
    ) -> None:
        self.lines: list[str] = []
        self._new: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"toolgrammar_serving.launch.{module}", *arguments],
            stderr=subprocess.PIPE,
            env={**os.environ, "NO_COLOR": "1", **(env or {})},
            text=True,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                self.lines.append(line.rstrip("\n"))
                self._new.put(line)
        self._new.put(None)  # nobody of its children has stderr any more either

    @property
    def said(self) -> str:
        """Everything on stderr."""
        return "\n".join(self.lines)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line that matches."""
        seen = 0
        while True:
            for line in self.lines[seen:]:
                seen += 1
                if found := re.search(pattern, line):
                    return found
            if self._new.get(timeout=GUARD_S) is None:
                raise AssertionError(f"it ended without {pattern!r}:\n{self.said}")

    @property
    def url(self) -> str:
        """Where it serves, once it does."""
        return self.wait_for(r"^ready +(\S+)/v1$")[1]

    def ends(self) -> int:
        """Its exit code. Only when nobody holds its stderr any more: no child is left."""
        self._reader.join(GUARD_S)
        assert not self._reader.is_alive(), f"it, or a child of it, still runs:\n{self.said}"
        return self.process.wait(GUARD_S)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal it; its exit code."""
        self.process.send_signal(number)
        return self.ends()


@contextmanager
def serving(
    *arguments: str, module: str = "serve", env: dict[str, str] | None = None, pass_fds: Sequence[int] = ()
) -> Iterator[Served]:
    """A server on a free port (unless ``arguments`` say otherwise), killed at the end if it still runs."""
    served = Served(arguments, module, env, pass_fds)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            os.killpg(served.process.pid, signal.SIGKILL)
        served.process.wait(GUARD_S)


@contextmanager
def client(url: str, **settings: Any) -> Iterator[openai.OpenAI]:
    """An openai client of a server."""
    with (
        httpx.Client(timeout=GUARD_S, **settings) as http,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=http) as made,
    ):
        yield made


def captures(path: Path, *records: dict[str, Any]) -> str:
    """A JSONL file of captured outputs."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)
