"""The command line: ``toolgrammar COMMAND``.

    app.py          the group, loaded command by command; how an exception becomes a message and an exit code
    commands/       one file per command
    options.py      options that several commands share
    inputs.py       files and records: text, JSONL, recorded SSE
    feeding.py      records to parsers: which grammar, tools, start and cuts
    schemas.py      the JSON of messages, events, explanations (every object has ``"v": 1``)
    output.py       where results go; pretty.py, tables.py: results for a person
    errors.py       error codes, exit codes, their pages
    terminal.py     colours, messages on stderr, the progress bar

Results go to stdout, everything for people to stderr. A command imports what it needs when it runs.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """The console script."""
    from toolgrammar.cli.app import app

    app(prog_name="toolgrammar")
