"""The command line: ``toolgrammar COMMAND``.

    app.py          the group, loaded command by command; how an exception becomes a message and an exit code
    commands/       one file per command
    options.py      options that several commands share
    inputs.py       files and records: text, JSONL; sse.py: recorded event streams
    feeding.py      records to parsers: which grammar, tools, start and cuts; tokenizing.py for token ids
    grammars.py     grammars by name or file, and their markers; detecting.py ranks them
    schemas.py      the JSON of messages, events, explanations (every object has ``"v": 1``)
    output.py       where results go; pretty.py, tables.py, tally.py: results for a person
    workloads.py    what bench measures; measuring.py: how
    errors.py       error codes, exit codes, their pages
    terminal.py     colours, messages on stderr, the progress bar

Results go to stdout, everything for people to stderr. A command imports what it needs when it runs.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """The console script."""
    import os
    import sys

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115

    from toolgrammar.cli.app import app

    app(prog_name="toolgrammar")
