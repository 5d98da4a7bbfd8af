"""Runs the commands of a page in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def environment(folder: Path) -> dict[str, str]:
    """Where ``toolgrammar`` is the one under test and nothing is kept outside ``folder``."""
    command = folder / "bin" / "toolgrammar"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m toolgrammar.cli "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "COLUMNS")}
    return kept | {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "PYTHONUTF8": "1",
    }


def ran(arguments: list[str], folder: Path, variables: dict[str, str]) -> str:
    """What a command shows, without blanks at line ends; ids are ``call_ID``."""
    found = subprocess.run(
        arguments, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert found.returncode in (0, 1)
    shown = re.sub(r"call_[0-9a-f]{24}", "call_ID", found.stdout.decode())
    return "".join(f"{line.rstrip()}\n" for line in shown.splitlines())


def commands(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with what it shows."""
    for step in block.split("$ ")[1:]:
        command, _, shown = step.partition("\n")
        yield command, shown
