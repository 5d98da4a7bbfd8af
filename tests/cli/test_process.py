"""The real process: pipes, signals, what gets imported, memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOOLGRAMMAR = [sys.executable, "-m", "toolgrammar.cli"]
LINE = json.dumps({"text": 'Hi <tool_call>{"name": "f", "arguments": {}}</tool_call>' + " x" * 200}) + "\n"


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_text(LINE * 3000, encoding="utf-8")
    for shape in ("jsonl", "events", "pretty"):
        with subprocess.Popen(
            [*TOOLGRAMMAR, "parse", "-m", "hermes", "-f", shape, file],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(30) == 0


def _heed_ctrl_c() -> None:
    """In the child: a test run in the background of a script has SIGINT ignored, and would hand that on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_events_come_while_input_is_open_and_ctrl_c_ends_it() -> None:
    command = [*TOOLGRAMMAR, "parse", "-m", "hermes", "-f", "events"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, preexec_fn=_heed_ctrl_c) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("grün ".encode()[:3])
        process.stdin.flush()
        first = process.stdout.readline()
        assert json.loads(first)["text"] == "gr"
        process.stdin.write("ün".encode()[1:])
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["text"] == "ün"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_piped_output_imports_neither_rich_nor_lark(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(LINE, encoding="utf-8")
    script = (
        "import sys\n"
        "from toolgrammar.cli import main\n"
        f"sys.argv = ['toolgrammar', 'parse', '-m', 'hermes', {str(file)!r}]\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'rich', 'lark', 'tokenizers', 'asyncio', 'parsy', 'hypothesis'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "commands = {name for name in sys.modules if name.startswith('toolgrammar.cli.commands.')}\n"
        "assert commands == {'toolgrammar.cli.commands.parse'}, commands\n"
    )
    warm = subprocess.run([*TOOLGRAMMAR, "parse", "-m", "hermes", file], capture_output=True, check=False)
    assert warm.returncode == 0
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    import resource

    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    small.write_text(LINE * 100, encoding="utf-8")
    large.write_text(LINE * 40_000, encoding="utf-8")
    peaks = []
    for file in (small, large):
        process = subprocess.Popen([*TOOLGRAMMAR, "parse", "-m", "hermes", "-o", os.devnull, file])
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        peaks.append(usage.ru_maxrss)
    assert isinstance(resource.RUSAGE_CHILDREN, int)
    assert peaks[1] < peaks[0] + 8_000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_and_closed_streams() -> None:
    line = f"{sys.executable} -m toolgrammar.cli parse -m hermes"
    full = subprocess.run(f"echo x | {line} > /dev/full", shell=True, capture_output=True, text=True, check=False)
    assert full.returncode == 2
    assert full.stderr == "error[E006]: cannot write stdout: No space left on device\n"
    closed = subprocess.run(f"{line} <&- >&-", shell=True, capture_output=True, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")
