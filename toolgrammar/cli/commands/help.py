"""``toolgrammar help``: a command's help, or the page of an error code or diagnostic."""

from __future__ import annotations

import textwrap

import click

from toolgrammar.cli.app import COMMANDS, Command
from toolgrammar.cli.errors import EXIT_CODES, PAGES, CliError

_EXAMPLES = """
toolgrammar help
toolgrammar help parse
toolgrammar help E012
toolgrammar help W201
"""

_CLASSES = {
    "W1": "The text was read as asked; it may be in another format. Try 'toolgrammar detect FILE'.",
    "W2": "A recovery was applied and the rest was read on; nothing that the model wrote is lost. "
    "--no-repair turns the repairs of JSON off.",
    "E1": "The call is malformed: its arguments are kept as received, and 'arguments' is null.",
    "E2": "The output ended too early: nothing was made up to close it, and 'unfinished' is true.",
    "E3": "The call is reported and flagged: 'known' is false.",
    "E4": "The call is reported as the model wrote it.",
}


@click.command("help", cls=Command, examples=_EXAMPLES)
@click.argument("topic", required=False, metavar="[COMMAND|CODE]")
@click.pass_context
def command(ctx: click.Context, topic: str | None) -> None:
    """Explain a command, an error code (E012), an exit code (4) or a diagnostic (W201). Alone, list them."""
    from toolgrammar.diagnostics import CODES

    root = ctx.find_root()
    if topic is None:
        click.echo(_index())
    elif topic in COMMANDS:
        assert isinstance(root.command, click.Group)
        found = root.command.get_command(root, topic)
        assert found is not None
        click.echo(found.get_help(click.Context(found, info_name=topic, parent=root)))
    elif topic.upper() in PAGES:
        page = PAGES[topic.upper()]
        click.echo(f"error[{topic.upper()}]: {page.title}\n")
        click.echo(_wrap(page.text))
        click.echo(f"\nExit code {page.exit}: {EXIT_CODES[page.exit]}.")
    elif topic.upper() in CODES:
        code = topic.upper()
        click.echo(f"diagnostic {code}: {CODES[code]}\n")
        click.echo(_wrap(_CLASSES[code[:2]]))
    elif topic.isdecimal() and int(topic) in EXIT_CODES:
        click.echo(f"exit code {topic}: {EXIT_CODES[int(topic)]}")
    else:
        raise CliError("E001", f"no command or code {topic!r}", "toolgrammar help")


def _index() -> str:
    from toolgrammar.diagnostics import CODES

    lines = ["Exit codes", *(f"  {code:<4}  {text}" for code, text in EXIT_CODES.items())]
    lines += ["", "Errors", *(f"  {code}  {page.title}  (exit {page.exit})" for code, page in PAGES.items())]
    lines += ["", "Diagnostics", *(f"  {code}  {text}" for code, text in CODES.items())]
    lines += [
        "",
        "Commands: " + ", ".join(COMMANDS) + ". 'toolgrammar help COMMAND' or 'help CODE' explains one.",
    ]
    return "\n".join(lines)


def _wrap(text: str) -> str:
    return textwrap.fill(text, 88, break_long_words=False, break_on_hyphens=False)
