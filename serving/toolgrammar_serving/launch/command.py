"""The click command made from the options table: arguments and environment and config file to ``Options``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import click
from click.types import OptionHelpExtra

from toolgrammar.cli.app import Command, Option
from toolgrammar_serving.launch.config_file import read_config
from toolgrammar_serving.launch.options import Options, Row, rows

_SETTINGS: Final = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "auto_envvar_prefix": "TOOLGRAMMAR",
    "ignore_unknown_options": False,
}


class JsonType(click.ParamType[dict[str, Any]]):
    """A JSON object."""

    name = "JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        try:
            found = json.loads(value)
        except ValueError as error:
            self.fail(f"{value!r} is not JSON: {error}", param, ctx)
        if not isinstance(found, dict):
            self.fail(f"{value!r} is not a JSON object", param, ctx)
        return found


def make_command(
    name: str, run: Callable[[Options, tuple[str, ...]], int], help: str, examples: str
) -> click.Command:
    """A command that calls ``run(options, rest)``; ``rest`` is what stood behind ``--``."""

    def callback(rest: tuple[str, ...], config: None, **values: Any) -> int:
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        return run(Options(**values), rest)

    params: list[click.Parameter] = [_parameter(row) for row in rows()]
    params.append(click.Argument(["rest"], nargs=-1, metavar="[-- ENGINE OPTIONS]", type=click.UNPROCESSED))
    params.append(
        Option(
            ["--config"],
            metavar="FILE",
            is_eager=True,
            expose_value=False,
            callback=_configure,
            group="Running",
            help="Options from a YAML or TOML file; command line and environment win.",
        )
    )
    params.append(
        Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Show the version.",
        )
    )
    return _ServeCommand(
        name,
        params=params,
        callback=lambda **values: callback(values.pop("rest"), None, **values),
        help="\n\n".join([help, *(f"{row.about.metavar}: {_help(row)}" for row in rows() if row.about.argument)]),
        examples=examples,
        context_settings=_SETTINGS,
    )


class _ServeCommand(Command):
    """Keeps what follows ``--`` from being taken as MODEL."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest: Sequence[str] = ()
        if "--" in args:
            at = args.index("--")
            args, rest = args[:at], args[at + 1 :]
        left = super().parse_args(ctx, args)
        if ctx.params["rest"]:
            raise click.UsageError(f"Got unexpected extra argument ({ctx.params['rest'][0]})", ctx)
        ctx.params["rest"] = tuple(rest)
        return left


class _TableOption(Option):
    """An option whose help says everything: click adds nothing."""

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        return {}


def _parameter(row: Row) -> click.Parameter:
    about = row.about
    if about.argument:
        return click.Argument([row.name], required=False, metavar=f"[{about.metavar}]", envvar=row.env)
    settings: dict[str, Any] = {"group": about.group, "help": _help(row), "default": row.default}
    if row.kind is bool:
        return _TableOption([f"{row.flag}/--no-{row.flag[2:]}"], is_flag=True, **settings)
    return _TableOption([row.flag], type=_type(row), metavar=about.metavar, multiple=row.many, **settings)


def _type(row: Row) -> Any:
    if row.kind is dict:
        return JsonType()
    if row.about.choices:
        return click.Choice(row.about.choices)
    if row.about.minimum is not None:
        if row.kind is int:
            return click.IntRange(int(row.about.minimum), row.about.maximum)
        return click.FloatRange(row.about.minimum)
    return row.kind


def _help(row: Row) -> str:
    help_text = row.about.help
    notes = []
    if row.default not in (None, (), {}, "", False) and "[default:" not in help_text:
        notes.append(f"default: {row.default:g}" if isinstance(row.default, float) else f"default: {row.default}")
    notes.append(f"env: {row.env}")
    head, _, stated = help_text.partition("  [default: ")
    if stated:
        notes.insert(0, "default: " + stated.rstrip("]"))
    return f"{head}  [{'; '.join(notes)}]"


def _configure(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is not None:
        ctx.default_map = {**read_config(path), **(ctx.default_map or {})}


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"toolgrammar {version('toolgrammar')}")
        ctx.exit()
