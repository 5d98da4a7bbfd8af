"""The command line in-process: ``run(...)`` gives exit code, stdout and stderr."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from toolgrammar.cli.app import app

MINE = """\
@title "Calls in angle brackets"
@names mine-too
@start content = turn
@stop "<|end|>"
turn : content (call turn)?
call : attempt("<call>" call(name ":" json) "</call>")
"""


class Ran(NamedTuple):
    """What a command did. Generated ids are written ``call_ID``, the temporary folder ``TMP``."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """stdout as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def json(self) -> Any:
        """stdout as one JSON document."""
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def run(*args: str, stdin: str | bytes = b"") -> Ran:
        found = CliRunner().invoke(app, args, input=stdin, prog_name="toolgrammar", catch_exceptions=False)
        return Ran(found.exit_code, _stable(found.stdout, tmp_path), _stable(found.stderr, tmp_path))

    return run


def _stable(text: str, folder: Path) -> str:
    return re.sub(r"call_[0-9a-f]{24}", "call_ID", text).replace(str(folder), "TMP")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], str]:
    """``write(name, content)`` makes a file in the current folder and gives its name."""

    def write(name: str, content: str | bytes) -> str:
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)
        return name

    return write


@pytest.fixture
def mine(write: Callable[[str, str | bytes], str]) -> str:
    """A small grammar of one's own."""
    return write("mine.tg", MINE)
