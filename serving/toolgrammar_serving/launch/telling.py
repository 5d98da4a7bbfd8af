"""What a person hears of a start, on stderr: what is waited for, what is served and why, and what to do next."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from toolgrammar.cli.terminal import Paint, is_terminal, visible, wants_colour
from toolgrammar_serving.launch.options import Options


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What an API process says of itself when it serves. ``why``: the reason for ``format``.
    ``start``: where outputs begin, if there is something to say of it."""

    models: tuple[str, ...]
    format: str
    why: str
    tokenizer: str
    max_model_len: int
    engine: str
    ranks: int = 1
    start: str = ""


class Teller:
    """A line that moves on a terminal, plain lines elsewhere, nothing if quiet. ``hello``: what the request to
    copy says."""

    hello = "Hello"

    def __init__(self, options: Options) -> None:
        self._quiet = options.quiet
        self._paint = Paint(wants_colour(options.color, sys.stderr))
        self._last = ""
        self._rich: Any = None
        self._status: Any = None
        if not self._quiet and is_terminal(sys.stderr) and options.color != "never":
            from rich.console import Console as RichConsole

            self._rich = RichConsole(stderr=True)

    def stage(self, text: str) -> None:
        """This is being waited for now."""
        if self._quiet or text == self._last:
            return
        self._last = text
        if self._rich is None:
            self._write(f"{text} …")
        elif self._status is None:
            self._status = self._rich.status(visible(text))
            self._status.start()
        else:
            self._status.update(visible(text))

    def line(self, text: str) -> None:
        """What somebody else wrote, above the moving line."""
        if self._rich is not None:
            self._rich.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            self._write(text)

    def clear(self) -> None:
        """The moving line goes."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def announce(self, summary: Summary, url: str, key: bool) -> None:
        """What is served, and a first request to copy."""
        self.clear()
        if self._quiet:
            return
        model = summary.models[0]
        rows = {
            "model": ", ".join(summary.models),
            "format": f"{summary.format} ({summary.why})",
            "start": summary.start,
            "tokens": summary.tokenizer,
            "engine": summary.engine + (f", {summary.ranks} ranks" if summary.ranks > 1 else ""),
            "context": f"{summary.max_model_len} tokens",
        }
        for name, value in rows.items():
            if not value:
                continue
            self._write(f"{self._paint('dim', f'{name:<8}')} {visible(value)}")
        self._write(f"{self._paint('good', 'ready')}    {url}/v1")
        self._write(f"\n  {request_line(url, model, key, self.hello)}\n")

    def _write(self, text: str) -> None:
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
        sys.stderr.flush()


def request_line(url: str, model: str, key: bool, hello: str = "Hello") -> str:
    """A first request, for a shell."""
    body = msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": hello}]}).decode()
    body = body.replace("'", "'\\''")
    scheme, _, place = url.partition("://")
    where = url
    if scheme.endswith("+unix"):
        where = f"--unix-socket {place} {scheme.removesuffix('+unix')}://localhost"
    auth = ' -H "authorization: Bearer $TOOLGRAMMAR_API_KEY"' if key else ""
    return f"curl -s {where}/v1/chat/completions -H 'content-type: application/json'{auth} -d '{body}'"
