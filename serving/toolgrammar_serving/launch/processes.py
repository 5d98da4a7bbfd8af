"""Child processes: each in a process group of its own, its end awaited, the whole group gone when we are done.

A group is signalled while its leader is still unreaped, so its number cannot have passed to somebody else. On
Linux a child also gets SIGTERM when the launcher dies without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from toolgrammar_serving.launch.problems import LaunchError

_log = logging.getLogger("toolgrammar.launch")
_PR_SET_PDEATHSIG: Final = 1


class Child:
    """A running process. ``name`` is what messages call it; ``ended`` resolves to how it ended, once."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.pid = process.pid
        self.ended: asyncio.Future[int] = loop.create_future()
        self._process = process
        self._loop = loop
        self._reaping = threading.Lock()
        threading.Thread(target=self._watch, name=f"watch {name}", daemon=True).start()

    def _watch(self) -> None:
        # WNOWAIT: the process stays a zombie, and its group's number ours, until reap().
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._has_ended)

    def _has_ended(self) -> None:
        code = self.reap()
        if not self.ended.done():
            self.ended.set_result(code)

    def reap(self) -> int:
        """Kill what the group still has and take the exit code. The leader has ended."""
        with self._reaping:
            if self._process.returncode is None:
                self.signal(signal.SIGKILL)
                self._process.wait()
            return self._process.returncode

    def signal(self, number: int) -> None:
        """To every process of the group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def stop(self, grace_s: float) -> int:
        """SIGTERM, and SIGKILL to what is there after ``grace_s``. Returns the exit code."""
        if not self.ended.done():
            self.signal(signal.SIGTERM)
            _, late = await asyncio.wait([self.ended], timeout=grace_s)
            if late:
                _log.warning("%s did not end within %g s: killed", self.name, grace_s)
                self.signal(signal.SIGKILL)
        return await asyncio.shield(self.ended)


def start_child(
    name: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    stdout: Any = None,
) -> Child:
    """Start ``argv``; its output goes where ours goes unless ``stdout`` says otherwise (both streams then).

    Raises ``LaunchError`` if there is no such program.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stdout,
            env=dict(os.environ if env is None else env),
            pass_fds=tuple(pass_fds),
            process_group=0,
            preexec_fn=_dies_with_parent(),
        )
    except FileNotFoundError:
        raise LaunchError(f"{name}: there is no program {argv[0]!r}") from None
    except OSError as error:
        raise LaunchError(f"{name}: {argv[0]} cannot be started: {error.strerror}") from None
    return Child(name, process, asyncio.get_running_loop())


def _dies_with_parent() -> Callable[[], None] | None:
    """What a child does first, on Linux: ask for SIGTERM at the death of the thread that started it."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # looked up here: between fork and exec nothing may be loaded
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Children:
    """All children of a launcher: stopped in reverse order of their start, whatever happens."""

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s
        self._children: list[Child] = []
        self._others: list[Callable[[], Awaitable[None]]] = []

    def add(self, child: Child) -> Child:
        """Take care of it from now on."""
        self._children.append(child)
        return child

    def then(self, stop: Callable[[], Awaitable[None]]) -> None:
        """Something that is no process, to be stopped after all processes."""
        self._others.append(stop)

    async def stop(self) -> None:
        """End all that still run."""
        for child in reversed(self._children):
            await child.stop(self.grace_s)
        for stop in reversed(self._others):
            await stop()

    def kill(self) -> None:
        """At once, without waiting for what they would say."""
        for child in self._children:
            if not child.ended.done():
                child.signal(signal.SIGKILL)

    async def __aenter__(self) -> Children:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def describe(code: int) -> str:
    """``exit code 1``, ``signal SIGKILL``."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
