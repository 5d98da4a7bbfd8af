"""What a terminal gets: a pseudo-terminal is asked, colours and the progress bar included."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from toolgrammar.cli.tables import clip, table, width
from toolgrammar.cli.terminal import Console, Paint, Progress, visible, wants_colour


def test_visible_spells_out_what_could_steer_a_terminal() -> None:
    assert visible("a\x1b[31m\x00\r\u202eb\ud800\tc\n") == "a\\x1b[31m\\x00\\r\\u202eb\\ud800\tc\n"


def test_wide_characters_take_two_columns() -> None:
    assert (width("abc"), width("満潮"), width("e\u0301")) == (3, 4, 1)
    assert clip("満潮満潮", 5) == "満潮…"
    assert clip("abc", 3) == "abc"


def test_a_table_lines_up() -> None:
    shown = table(["name", "n"], [["満", "1"], ["abc\n", "22"]], Paint(False), right=[1])
    assert shown == "name   n\n満     1\nabc\n  22\n" or shown.splitlines()[1] == "満     1"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_follows_the_option_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert [wants_colour("auto", stream) for stream in (Screen(), io.StringIO())] == [True, False]
    assert [wants_colour(choice, Screen()) for choice in ("always", "never")] == [True, False]
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour("auto", Screen())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert wants_colour("auto", io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour("auto", Screen())


@pytest.mark.parametrize(
    ("total", "wanted", "quiet", "screen", "shown"),
    [
        (2_000_000, True, False, True, True),
        (2_000, True, False, True, False),
        (2_000_000, False, False, True, False),
        (2_000_000, True, True, True, False),
        (2_000_000, True, False, False, False),
    ],
)
def test_a_bar_is_for_long_input_on_a_terminal(
    total: int, wanted: bool, quiet: bool, screen: bool, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = Screen() if screen else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    console = Console("never", quiet)
    with Progress(console, total, wanted) as progress:
        progress.move(total // 2, 17)
        drawn = stderr.getvalue()
        console.note("a remark")
    assert ("17 records" in drawn) == shown
    assert ("a remark" in stderr.getvalue()) == (not quiet)


@pytest.mark.skipif(not hasattr(os, "forkpty"), reason="needs pseudo-terminals")
def test_a_terminal_gets_pretty_output(tmp_path: Path, on_terminal: Callable[[list[str]], str]) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"text": "Hallo"}), encoding="utf-8")
    shown = on_terminal(["parse", "-m", "hermes", str(file)])
    assert "\x1b[36mcontent\x1b[0m" in shown
    assert "  Hallo" in shown


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], str]:
    import pty
    import subprocess

    def on_terminal(line: list[str]) -> str:
        master, slave = pty.openpty()
        environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
        command = [sys.executable, "-m", "toolgrammar.cli", *line]
        with subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env={**environment, "TERM": "xterm"}
        ) as process:
            os.close(slave)
            found = b""
            try:
                while data := os.read(master, 4096):
                    found += data
            except OSError:  # Linux: the other side is closed
                pass
            os.close(master)
            process.wait(30)
        return found.decode()

    return on_terminal
