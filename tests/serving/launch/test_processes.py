"""Real children: awaited, stopped, and their whole groups gone afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from toolgrammar_serving.launch.problems import LaunchError
from toolgrammar_serving.launch.processes import Child, Children, describe, start_child

GUARD_S = 30.0
#: Starts a child of its own, tells its number, and waits. Argument: what to do at SIGTERM.
PARENT = """
import os, signal, subprocess, sys
if sys.argv[1] == "ignore":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = [subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])]
print("up", flush=True)
signal.pause()
"""


def _python(code: str, *args: str, fd: int | None = None) -> Child:
    return start_child("child", [sys.executable, "-c", code, *args], stdout=fd)


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe: a read gives b"" only when every process that inherited the writing end is gone."""
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(reading)


async def read(fd: int) -> bytes:
    """A line, or b"" at the end."""

    def line() -> bytes:
        found = b""
        while not found.endswith(b"\n") and (more := os.read(fd, 1)):
            found += more
        return found

    async with asyncio.timeout(GUARD_S):
        return await asyncio.to_thread(line)


@pytest.mark.parametrize(
    "code,expected", [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9), ("", 0)]
)
def test_an_end_is_told(code: str, expected: int) -> None:
    async def body() -> int:
        return await asyncio.wait_for(_python(code).ended, GUARD_S)

    assert asyncio.run(body()) == expected


@pytest.mark.parametrize(
    "what,grace_s,expected", [("die", GUARD_S, -signal.SIGTERM), ("ignore", 0.1, -signal.SIGKILL)]
)
def test_stopping_ends_the_whole_group(what: str, grace_s: float, expected: int) -> None:
    async def body() -> int:
        with pipe() as (reading, writing):
            child = _python(PARENT, what, fd=writing)
            os.close(writing)
            assert await read(reading) == b"up\n"
            code = await asyncio.wait_for(child.stop(grace_s), GUARD_S)
            assert await read(reading) == b""
            return code

    assert asyncio.run(body()) == expected


def test_what_a_dead_leader_leaves_behind_is_killed() -> None:
    async def body() -> None:
        with pipe() as (reading, writing):
            child = _python(PARENT, "die", fd=writing)
            os.close(writing)
            assert await read(reading) == b"up\n"
            os.kill(child.pid, signal.SIGKILL)
            assert await asyncio.wait_for(child.ended, GUARD_S) == -signal.SIGKILL
            assert await read(reading) == b""

    asyncio.run(body())


def test_children_are_stopped_when_the_block_fails() -> None:
    async def body() -> None:
        with pipe() as (reading, writing):
            with pytest.raises(ZeroDivisionError):
                async with Children(GUARD_S) as children:
                    children.add(_python(PARENT, "die", fd=writing))
                    children.add(_python("", fd=writing))
                    os.close(writing)
                    assert await read(reading) == b"up\n"
                    raise ZeroDivisionError
            assert await read(reading) == b""

    asyncio.run(body())


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's doing, on Linux")
def test_children_end_with_a_launcher_that_was_killed() -> None:
    launcher = """
import asyncio, sys
from toolgrammar_serving.launch.processes import start_child
async def body():
    code = "import signal; print('up', flush=True); signal.pause()"
    await start_child("child", [sys.executable, "-c", code]).ended
asyncio.run(body())
"""
    with subprocess.Popen([sys.executable, "-c", launcher], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.kill()
        assert process.stdout.read() == b""  # nobody holds the pipe any more


def test_a_program_that_does_not_exist_is_told() -> None:
    async def body() -> None:
        start_child("engine", ["no-such-program-anywhere"])

    with pytest.raises(LaunchError, match="engine: there is no program 'no-such-program-anywhere'"):
        asyncio.run(body())


@pytest.mark.parametrize(
    "code,text", [(0, "exit code 0"), (3, "exit code 3"), (-9, "signal SIGKILL"), (-99, "signal 99")]
)
def test_ends_are_described(code: int, text: str) -> None:
    assert describe(code) == text
