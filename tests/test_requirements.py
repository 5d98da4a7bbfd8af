"""What a command imports comes with what is installed for it: pyproject.toml against the sources.

Tests run where everything is installed, so a requirement that was forgotten shows in none of them.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {"toolgrammar": ROOT / "toolgrammar", "toolgrammar_serving": ROOT / "serving" / "toolgrammar_serving"}
#: The requirement that brings a module of another name.
BROUGHT_BY = {
    "opentelemetry": "opentelemetry-sdk",
    "prometheus_client": "prometheus-client",
    "starlette": "fastapi",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
#: Looked for first, and done without if it is not there.
OPTIONAL = {"opentelemetry"}


def imported(node: ast.AST) -> Iterator[str]:
    """The modules that are imported somewhere below ``node``, but for types, and for what is only tried."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Try) and any("Import" in ast.unparse(h.type or h) for h in child.handlers):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.module is not None
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        else:
            yield from imported(child)


def files_of(module: str) -> list[Path]:
    """The files that are run when ``module``, or a name in it, is imported: the packages above it, too."""
    base, *parts = module.split(".")
    folder = SOURCES[base]
    found = [folder / "__init__.py"]
    for part in parts:
        if (folder / f"{part}.py").is_file():
            return [*found, folder / f"{part}.py"]
        folder /= part
        if not folder.is_dir():
            break
        found.append(folder / "__init__.py")
    return [path for path in found if path.is_file()]


def needed(modules: set[str]) -> dict[str, str]:
    """Foreign packages that ``modules`` and all they import of ours need, each with a file that imports it."""
    todo = [path for module in modules for path in files_of(module)]
    seen: set[Path] = set()
    found: dict[str, str] = {}
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for module in imported(ast.parse(path.read_text("utf-8"))):
            package = module.split(".")[0]
            if package in SOURCES:
                todo += files_of(module)
            elif package not in sys.stdlib_module_names and package not in OPTIONAL:
                found[BROUGHT_BY.get(package, package)] = str(path.relative_to(ROOT))
    return found


def declared(extra: str | None) -> set[str]:
    """The names of what is installed with ``extra``, or with none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: set[str] = set()
    todo = [*project["dependencies"], *(project["optional-dependencies"][extra] if extra else ())]
    while todo:
        name = todo.pop()
        inner = re.match(r"toolgrammar\[(\w+)\]", name)
        if inner:
            todo += project["optional-dependencies"][inner[1]]
        else:
            found.add(re.split(r"[^\w.-]", name)[0])
    return found


def modules_below(package: str) -> set[str]:
    """All modules of a package of ours."""
    folder = files_of(package)[-1].parent
    return {".".join([package, *path.relative_to(folder).with_suffix("").parts]) for path in folder.rglob("*.py")}


COMMANDS = {
    # The command line imports its commands by name.
    "toolgrammar": (None, {"toolgrammar", *modules_below("toolgrammar.cli")}),
    "toolgrammar-serve": ("serve", {"toolgrammar_serving.launch.serve", "toolgrammar_serving.launch.worker"}),
    "toolgrammar-frontend": (
        "serve",
        {"toolgrammar_serving.launch.frontend", "toolgrammar_serving.launch.worker"},
    ),
    "toolgrammar-replay": ("serve", {"toolgrammar_serving.replay.__main__"}),
    "toolgrammar-engine": ("engine", modules_below("toolgrammar_serving.engine")),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_needs_only_what_is_installed_for_it(command: str) -> None:
    extra, modules = COMMANDS[command]
    missing = {name: path for name, path in needed(modules).items() if name not in declared(extra)}
    assert missing == {}


def test_every_command_is_looked_at() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(COMMANDS) == set(project["scripts"])
    for name, entry in project["scripts"].items():
        module = entry.split(":")[0]
        assert any(one == module or one.startswith(f"{module}.") for one in COMMANDS[name][1])


def test_what_only_tests_have_is_found_where_it_is_imported() -> None:
    assert {"parsy", "hypothesis"} <= needed(modules_below("toolgrammar.readings")).keys()
