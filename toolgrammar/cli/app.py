"""The ``toolgrammar`` group: finds a command's module when it is asked for, and turns exceptions into exit
codes."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from toolgrammar.cli.errors import INTERRUPTED, OK, USAGE, CliError, from_library
from toolgrammar.cli.terminal import Console

#: Command, its module under ``commands`` and its line in ``toolgrammar --help``, which imports none of them.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "parse": ("parse", "Read model output: reasoning, content, tool calls."),
    "explain": ("explain", "Show which rule took which characters, and what was held back."),
    "detect": ("detect", "Rank the formats for a text, chat template or tokenizer directory."),
    "formats": ("formats", "List the formats, or show one."),
    "models": ("models", "List the names that select a format."),
    "grammar": ("grammar", "Show a grammar."),
    "check": ("check", "Run case files: every case fed in every way."),
    "bench": ("bench", "Measure the parser: cost per delta, growth, pieces."),
    "help": ("help", "Explain a command, an error code or a diagnostic."),
}

_SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Option(click.Option):
    """An option that stands under ``group`` in the help."""

    def __init__(self, *args: Any, group: str = "Options", **kwargs: Any) -> None:
        self.group = group
        super().__init__(*args, **kwargs)


class Command(click.Command):
    """A command whose help has one paragraph, grouped options and examples."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        self.examples = examples
        kwargs.setdefault("context_settings", _SETTINGS)
        super().__init__(*args, **kwargs)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section per group, in the order in which they first appear; ``Options`` last."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                groups.setdefault(getattr(param, "group", "Options"), []).append(record)
        groups["Options"] = groups.pop("Options")
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl(rows, col_max=26)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, as written."""
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples.strip("\n").splitlines():
                    formatter.write(f"  {line}".rstrip() + "\n")


class Group(click.Group):
    """Commands by name, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"toolgrammar.cli.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write("  toolgrammar parse --model deepseek-v3.2 captured.txt\n")
            formatter.write("  some-model | toolgrammar parse --model qwen3-coder --format events | jq .\n")
            formatter.write("  toolgrammar explain --model hermes broken.txt\n")
        formatter.write("\nExit codes: 0 ok, 1 findings, 2 usage, 3 unknown model, 4 unreadable input, ")
        formatter.write("5 internal error.\n'toolgrammar help CODE' explains any error[...] and diagnostic.\n")

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that went away ends it quietly (click itself would give exit code 1)."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return _closed_pipe()

    def main(self, args: Sequence[str] | None = None, *rest: Any, **kwargs: Any) -> Any:
        """Run, and exit with the code of the table in ``errors.py``; nothing escapes."""
        kwargs["standalone_mode"] = False
        sys.exit(guarded(lambda: super(Group, self).main(args, *rest, **kwargs)))


def guarded(run: Any) -> int:
    """``run()``'s exit code; exceptions are shown and become one."""
    Console.new()
    try:
        code = run()
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except BrokenPipeError:  # in the last flush
        return _closed_pipe()
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.UsageError as error:
        name = error.ctx.command_path if error.ctx else "toolgrammar"
        Console.current.error(CliError("E001", error.format_message(), f"{name} --help"))
    except click.ClickException as error:
        Console.current.error(CliError("E001", error.format_message()))
    except CliError as error:
        Console.current.error(error)
    except Exception as error:  # the last resort: report it, with its trace
        known = from_library(error)
        if known is None:
            import traceback

            traceback.print_exc()
            known = CliError("E090", f"{type(error).__name__}: {error}", "this is a bug: toolgrammar help E090")
        Console.current.error(known)
    return Console.current.exit


def _closed_pipe() -> int:
    """The reader went away, as ``| head`` does: nothing is left to say."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("toolgrammar")
        except PackageNotFoundError:
            number = "unknown (not installed)"
        click.echo(f"toolgrammar {number}")
        ctx.exit()


@click.group(cls=Group, context_settings=_SETTINGS, subcommand_metavar="COMMAND [ARGS]...")
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version."
)
def app() -> None:
    """Read what language models say: reasoning, content and tool calls, whole or streamed, to the character.

    One grammar file per output format. Nothing is sent anywhere and no model is loaded.
    """
