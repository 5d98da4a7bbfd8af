"""Which package of the serving stack may import which, read from the sources: README, "Layout"."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STACK = ROOT / "serving" / "toolgrammar_serving"

#: What each package imports of the others, at most. ``errors`` may be imported by all.
#: ``server`` serves completions too, which have no chat: they are the text layer's.
ALLOWED = {
    "server": {"chat", "text"},
    "chat": {"text"},
    "text": {"llm"},
    "llm": {"engine_client", "protocol"},
    "engine_client": {"protocol"},
    "protocol": set[str](),
    "replay": {"protocol"},
    "engine": {"protocol"},
    "bench": set[str](),
}


def imported(path: Path) -> Iterator[str]:
    """Full names of the modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_package_has_its_place() -> None:
    packages = {path.parent.name for path in STACK.glob("*/__init__.py")}
    assert packages == {*ALLOWED, "launch"}  # `launch` puts all of them together: nothing is above it


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_a_layer_imports_only_what_is_below_it(package: str) -> None:
    packages = {*ALLOWED, "launch"}
    for path in sorted((STACK / package).rglob("*.py")):
        for name in imported(path):
            parts = name.split(".")
            if parts[0] != "toolgrammar_serving" or len(parts) < 2 or parts[1] not in packages:
                continue
            assert parts[1] in {package, *ALLOWED[package]}, f"{path.relative_to(ROOT)} imports {name}"


def test_the_library_imports_nothing_of_the_stack() -> None:
    for path in sorted((ROOT / "toolgrammar").rglob("*.py")):
        for name in imported(path):
            assert name.split(".")[0] != "toolgrammar_serving", f"{path.relative_to(ROOT)} imports {name}"
