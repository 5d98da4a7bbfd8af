"""What is installed, what it is called, and what it costs to import."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import toolgrammar

#: Required by the package but not on the parse path; or of the extras.
HEAVY = {"lark", "rich", "click", "parsy", "hypothesis", "pytest", "torch", "transformers", "tokenizers"}
#: Slow parts of the standard library the import must do without.
SLOW = {
    "asyncio",
    "argparse",
    "concurrent.futures",
    "http.client",
    "logging",
    "subprocess",
    "unittest",
}


#: What neither an import nor an ordinary parse has a use for, each 1 to 10 ms of every start.
UNUSED = {
    "dataclasses",
    "difflib",
    "hashlib",
    "pathlib",
    "random",
    "secrets",
    "urllib.parse",
    "toolgrammar.language.elaborate",
    "toolgrammar.language.reader",
    "toolgrammar.machine.prompt",
    "toolgrammar.machine.python_arguments",
    "toolgrammar.machine.quoted_object",
    "toolgrammar.machine.tokens",
}


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def hook(root: Path) -> ModuleType:
    """The build hook, as a module."""
    spec = importlib.util.spec_from_file_location("hatch_build", root / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loaded(code: str, *, cwd: Path) -> set[str]:
    """The modules a fresh interpreter holds after ``code``."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)",
        ],
        cwd=cwd,
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


# ---- pyproject ---------------------------------------------------------------------------------------------


def test_installed_version_is_the_projects(project: dict[str, Any]) -> None:
    assert metadata.version("toolgrammar") == project["project"]["version"] == toolgrammar.__version__


def test_required_dependencies_are_few(project: dict[str, Any]) -> None:
    names = {line.split(">")[0] for line in project["project"]["dependencies"]}
    assert names == {"click", "lark", "msgspec", "rich"}


def test_build_requires_what_elaboration_needs(project: dict[str, Any]) -> None:
    required = {line.split(">")[0]: line for line in project["project"]["dependencies"]}
    build = project["build-system"]["requires"]
    assert {required["lark"], required["msgspec"]} <= set(build)


def test_commands_are_declared(project: dict[str, Any]) -> None:
    declared = project["project"]["scripts"]
    assert declared["toolgrammar"] == "toolgrammar.cli:main"
    for name in declared:
        [entry] = metadata.entry_points(group="console_scripts", name=name)
        assert callable(entry.load()), name


def test_packages_are_folders_with_types(root: Path, project: dict[str, Any]) -> None:
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert (root / package / "__init__.py").is_file(), package
        assert (root / package / "py.typed").is_file(), package


# ---- grammars in the wheel ---------------------------------------------------------------------------------


def test_every_grammar_goes_into_the_wheel(root: Path, hook: ModuleType) -> None:
    files = hook.grammar_files(root)
    assert set(files) == set((root / "grammars").rglob("*.tg")) != set()
    for file, target in files.items():
        assert target == f"toolgrammar/{file.relative_to(root).as_posix()}"


def test_hook_adds_grammars_and_elaboration(root: Path, hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "elaborate", lambda _root, out: out.write_bytes(b""))
    build_data: dict[str, Any] = {"force_include": {}}
    instance = hook.GrammarHook(str(root), {}, None, None, "", "wheel")
    instance.initialize("standard", build_data)
    included = set(build_data["force_include"].values())
    instance.finalize("standard", build_data, "")
    assert included == {*hook.grammar_files(root).values(), "toolgrammar/grammars/elaborated.msgpack"}


def test_hook_leaves_editable_installs_alone(root: Path, hook: ModuleType) -> None:
    build_data: dict[str, Any] = {"force_include": {}}
    instance = hook.GrammarHook(str(root), {}, None, None, "", "wheel")
    instance.initialize("editable", build_data)
    instance.finalize("editable", build_data, "")
    assert build_data == {"force_include": {}}


def test_hook_elaborates(root: Path, hook: ModuleType, tmp_path: Path) -> None:
    hook.elaborate(root, tmp_path / "elaborated.msgpack")
    assert (tmp_path / "elaborated.msgpack").stat().st_size > 0


def test_hook_reports_a_grammar_that_does_not_elaborate(
    root: Path, hook: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.tg").write_text("turn : (", encoding="utf-8")
    monkeypatch.setattr(hook, "SOURCE", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"(?s)do not elaborate:.*broken\.tg"):
        hook.elaborate(root, tmp_path / "out.msgpack")


# ---- what an import costs ----------------------------------------------------------------------------------


def test_import_is_light(tmp_path: Path) -> None:
    modules = loaded("import toolgrammar", cwd=tmp_path)
    assert modules & (HEAVY | SLOW) == set()


def test_import_loads_no_machine(tmp_path: Path) -> None:
    modules = loaded("import toolgrammar", cwd=tmp_path) - loaded("import msgspec", cwd=tmp_path)
    assert modules & UNUSED == set()
    ours = {name.partition(".")[2] for name in modules if name.partition(".")[0] == "toolgrammar"}
    assert ours == {"", "errors", "events", "message", "parser"}


def test_parse_is_light(fixtures: Path, tmp_path: Path) -> None:
    capture = fixtures / "captures" / "deepseek-v3.txt"
    # The first parse of a checkout may fill its cache of elaborated grammars.
    code = (
        f"import toolgrammar; text = open({str(capture)!r}, encoding='utf-8').read()\n"
        "assert len(toolgrammar.parse(text, model='deepseek-v3').calls) == 2"
    )
    loaded(code, cwd=tmp_path)
    modules = loaded(code, cwd=tmp_path) - loaded("import msgspec", cwd=tmp_path)
    assert modules & (HEAVY | UNUSED) == set()


def test_piped_command_is_light(fixtures: Path, tmp_path: Path) -> None:
    capture = fixtures / "captures" / "deepseek-v3.txt"
    code = (
        "import sys; from toolgrammar.cli import main\n"
        f"sys.argv = ['toolgrammar', 'parse', '--model', 'deepseek-v3', {str(capture)!r}]\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code"
    )
    loaded(code, cwd=tmp_path)
    modules = loaded(code, cwd=tmp_path) - loaded("import msgspec, click", cwd=tmp_path)
    assert modules & (HEAVY | UNUSED) == set()
