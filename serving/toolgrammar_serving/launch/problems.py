"""What keeps a server from starting, or ends it: a message, a next step, an exit code.

Exit codes: 0 stopped by a signal, 1 a server or engine failed while running, 2 it could not start as asked,
5 a bug, 130 interrupted before it was ready.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import click

from toolgrammar.cli.terminal import Paint, visible, wants_colour

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
BUG: Final = 5
INTERRUPTED: Final = 130


class LaunchError(Exception):
    """The server cannot start, or has to end. ``hint`` is what to do about it, often a command."""

    def __init__(self, message: str, hint: str = "", *, exit: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit = exit


def show(error: LaunchError, colour: str = "auto") -> None:
    """``error: …`` and ``hint: …`` on stderr."""
    paint = Paint(wants_colour(colour, sys.stderr))
    lines = [f"{paint('error', 'error')}: {visible(error.message)}"]
    if error.hint:
        lines.append(f"  {paint('name', 'hint')}: {visible(error.hint)}")
    sys.stderr.write("\n".join(lines).encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
    sys.stderr.flush()


def guarded(run: Callable[[], int | None], colour: str = "auto") -> int:
    """``run()``'s exit code; what it raises is shown and becomes one."""
    try:
        return run() or OK
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.Exit as asked:
        return asked.exit_code
    except click.UsageError as error:
        name = error.ctx.command_path if error.ctx else "toolgrammar-serve"
        show(LaunchError(error.format_message(), f"{name} --help"), colour)
        return USAGE
    except click.ClickException as error:
        show(LaunchError(error.format_message()), colour)
        return USAGE
    except LaunchError as error:
        show(error, colour)
        return error.exit
    except Exception as error:  # the last resort: report it, with its trace
        import traceback

        traceback.print_exc()
        show(
            LaunchError(f"{type(error).__name__}: {error}", "this is a bug: please report the trace above"), colour
        )
        return BUG
