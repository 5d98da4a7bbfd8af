"""Where results go: stdout or ``-o FILE``, as UTF-8 bytes; a lone surrogate becomes its JSON escape."""

from __future__ import annotations

import contextlib
import json
import sys
from types import TracebackType
from typing import IO, Any

from toolgrammar.cli.errors import CliError
from toolgrammar.cli.terminal import is_terminal


class Sink:
    """An open result. Only what is written through it reaches stdout."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path if path not in (None, "-") else None
        self.is_terminal = self.path is None and is_terminal(sys.stdout)
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Sink:
        if self.path is not None:
            try:
                self._file = open(self.path, "wb")
            except OSError as error:
                raise CliError("E006", f"cannot write {self.path}: {error.strerror}") from error
        return self

    def write(self, text: str, flush: bool = False) -> None:
        """Append ``text``; ``flush`` when somebody may be waiting for it."""
        stream = self._file if self._file is not None else sys.stdout.buffer
        try:
            stream.write(text.encode("utf-8", "backslashreplace"))
            if flush:
                stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CliError("E006", f"cannot write {self.path or 'stdout'}: {error.strerror}") from error

    def line(self, text: str, flush: bool = False) -> None:
        """Append a line."""
        self.write(text + "\n", flush)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.write("", flush=True)
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()


def dumps(value: Any, indent: int | None = None) -> str:
    """``value`` as JSON on one line (or indented). Infinity and NaN, which JSON lacks, become strings."""
    separators = (",", ":") if indent is None else (",", ": ")
    try:
        return json.dumps(value, ensure_ascii=False, separators=separators, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, separators=separators, indent=indent)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
