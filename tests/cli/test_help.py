"""Every help text, as a snapshot; every code has a page."""

from __future__ import annotations

import importlib

import pytest
from syrupy.assertion import SnapshotAssertion

from toolgrammar.cli.app import COMMANDS
from toolgrammar.cli.errors import EXIT_CODES, PAGES
from toolgrammar.diagnostics import CODES

from .conftest import Run

COMMAND_LINES = [[], *([name] for name in COMMANDS), ["grammar", "show"], ["grammar", "export"]]


@pytest.mark.parametrize("line", COMMAND_LINES, ids=" ".join)
def test_help(line: list[str], run: Run, snapshot: SnapshotAssertion) -> None:
    shown = run(*line, "--help")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == snapshot
    assert run(*line, "-h").out == shown.out
    assert "Examples:" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 100


def test_the_index(run: Run, snapshot: SnapshotAssertion) -> None:
    listed, _, diagnostics = run("help").out.partition("\nDiagnostics\n")
    assert listed == snapshot
    assert [line.split()[0] for line in diagnostics.splitlines()[: len(CODES)]] == list(CODES)


@pytest.mark.parametrize("code", [*PAGES, *CODES, *map(str, EXIT_CODES)])
def test_every_code_has_a_page(code: str, run: Run) -> None:
    page = run("help", code.lower())
    assert page.code == 0
    assert code in page.out


def test_a_page(run: Run, snapshot: SnapshotAssertion) -> None:
    assert run("help", "E012").out + run("help", "W201").out == snapshot


def test_help_of_a_command_is_its_help(run: Run) -> None:
    assert run("help", "parse").out == run("parse", "--help").out


def test_codes_of_errors_and_diagnostics_do_not_meet() -> None:
    assert not PAGES.keys() & CODES.keys()
    assert {page.exit for page in PAGES.values()} == {2, 3, 4, 5}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_where_the_table_says(name: str) -> None:
    module = importlib.import_module(f"toolgrammar.cli.commands.{COMMANDS[name][0]}")
    assert module.command.name == name


def test_no_command_shows_the_help(run: Run) -> None:
    shown = run()
    assert (shown.code, shown.out) == (2, "")
    assert "Commands:" in shown.err


def test_version(run: Run) -> None:
    shown = run("--version")
    assert shown.code == 0
    assert shown.out.startswith("toolgrammar ")
