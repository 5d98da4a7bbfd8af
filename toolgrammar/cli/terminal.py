"""What goes to a person: colours, messages on stderr, a progress bar. Plain text unless a terminal wants
more."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from types import TracebackType
from typing import IO, Any, ClassVar, Final

from toolgrammar.cli.errors import OK, CliError

#: Inputs smaller than this finish before a bar would help.
PROGRESS_FROM_BYTES: Final = 1_000_000

_STYLES: Final = {
    "error": "1;31",
    "warn": "33",
    "good": "32",
    "head": "1",
    "name": "36",
    "dim": "2",
    "reason": "3;2",
}


@cache
def _control() -> re.Pattern[str]:
    return re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def wants_colour(choice: str, stream: IO[Any]) -> bool:
    """``always`` and ``never`` decide; ``auto``: NO_COLOR, FORCE_COLOR, whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: IO[Any]) -> bool:
    """Whether a person is looking at it."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def visible(text: str) -> str:
    """``text`` with control, surrogate and bidi characters spelled out: it cannot steer a terminal."""
    return _control().sub(lambda match: _spell(match[0]), text)


def _spell(char: str) -> str:
    if char == "\r":
        return "\\r"
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


class Paint:
    """Wraps text in a style if colours are wanted."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, style: str, text: str) -> str:
        if not self.colour or not text:
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


class Console:
    """Messages on stderr and the exit code they lead to."""

    #: The console of the running command: errors that end it are shown on it.
    current: ClassVar[Console]

    def __init__(self, colour: str = "auto", quiet: bool = False) -> None:
        self.colour = colour
        self.quiet = quiet
        self.exit = OK
        self.bar: Progress | None = None

    @classmethod
    def new(cls, colour: str = "auto", quiet: bool = False) -> Console:
        """The console of a command."""
        cls.current = cls(colour, quiet)
        return cls.current

    def error(self, error: CliError) -> None:
        """Show ``error`` and remember its exit code."""
        paint = Paint(wants_colour(self.colour, sys.stderr))
        lines = [f"{paint('error', f'error[{error.code}]')}: {visible(error.message)}"]
        if error.hint:
            lines.append(f"  {paint('name', 'hint')}: {visible(error.hint)}")
        self._write("\n".join(lines))
        self.exit = max(self.exit, error.exit)

    def note(self, text: str) -> None:
        """Show a remark, unless quiet."""
        if not self.quiet:
            self._write(visible(text))

    def finding(self, code: int) -> None:
        """Remember that the command ends with at least ``code``."""
        self.exit = max(self.exit, code)

    def _write(self, text: str) -> None:
        if self.bar is not None:
            self.bar.clear()
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
        sys.stderr.flush()


class Progress:
    """A bar on stderr for long input. Does nothing, and imports nothing, unless ``total`` is large."""

    def __init__(self, console: Console, total: int, wanted: bool = True) -> None:
        self._console = console
        self._total = total
        self._rich: Any = None
        self._task: Any = None
        self._at = 0
        self._on = wanted and not console.quiet and total > PROGRESS_FROM_BYTES and is_terminal(sys.stderr)

    def __enter__(self) -> Progress:
        if self._on:
            from rich.console import Console as RichConsole
            from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            self._rich = RichProgress(
                TextColumn("{task.fields[records]} records"),
                BarColumn(),
                DownloadColumn(),
                TimeRemainingColumn(),
                console=RichConsole(stderr=True, no_color=not wants_colour(self._console.colour, sys.stderr)),
                transient=True,
                auto_refresh=False,
            )
            self._task = self._rich.add_task("", total=self._total, records=0)
            self._rich.start()
            self._console.bar = self
        return self

    def move(self, at: int, records: int) -> None:
        """``at`` bytes of all inputs are read, ``records`` records done."""
        if self._rich is not None and at - self._at > self._total // 200:
            self._at = at
            self._rich.update(self._task, completed=at, records=records, refresh=True)

    def clear(self) -> None:
        """Take the bar off the screen, to write something else."""
        if self._rich is not None:
            self._rich.stop()
            self._rich = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
        self._console.bar = None
