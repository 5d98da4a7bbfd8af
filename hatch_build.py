"""Build hook: puts the grammars into the wheel, as text and elaborated ahead of time; compiles, if asked to.

    grammars/**/*.tg                  ->  toolgrammar/grammars/**/*.tg
    toolgrammar.language, run on them ->  toolgrammar/grammars/elaborated.msgpack
    COMPILED, with mypyc              ->  compiled modules beside the .py files (TOOLGRAMMAR_MYPYC=1)

With the elaborated file an installed package parses without importing lark. An editable install gets
none of this: it reads the checkout and keeps a cache of its own. The source tree is never written to.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "grammars"
TARGET = "toolgrammar/grammars"
ELABORATED = "elaborated.msgpack"
SWITCH = "TOOLGRAMMAR_MYPYC"
#: Modules that take part in the optional speed build: folder, and the hot modules in it.
COMPILED = {
    "toolgrammar/machine": (
        "bare_values",
        "element_types",
        "elements",
        "envelope",
        "envelope_spec",
        "held_scanner",
        "json_object",
        "json_skip",
        "json_strings",
        "json_value",
        "json_writer",
        "loop",
        "output",
        "program",
        "python_arguments",
        "python_literals",
        "python_scalars",
        "python_strings",
        "quoted_object",
        "reading",
        "safe_text",
        "scanner",
        "session",
        "speculation",
        "staged",
        "steps",
        "values",
    ),
    # The way of a token through the serving stack, one module a layer or two.
    "serving/toolgrammar_serving": (
        "chat/choices",
        "chat/thinking",
        "engine_client/delivery",
        "llm/generation",
        "server/chat_choice",
        "server/direct_connection",
        "text/detokenizer",
        "text/sequence",
    ),
}


def grammar_files(root: Path) -> dict[Path, str]:
    """Every grammar file below ``root`` and its path in the wheel, in a fixed order."""
    folder = root / SOURCE
    return {file: f"{TARGET}/{file.relative_to(folder).as_posix()}" for file in sorted(folder.rglob("*.tg"))}


def elaborate(root: Path, out: Path) -> None:
    """Write the elaborated grammars of the source tree ``root`` to ``out``, with that tree's own code."""
    _run(
        [sys.executable, "-m", "toolgrammar.language", str(root / SOURCE), str(out)],
        cwd=root,
        failure="the grammars do not elaborate",
    )


def compiled(root: Path, scratch: Path) -> dict[Path, str]:
    """Compile a copy of the packages in ``scratch``: each compiled module and its path in the wheel."""
    for package in ("toolgrammar", "serving/toolgrammar_serving"):
        shutil.copytree(root / package, scratch / Path(package).name)
    modules = [
        f"{folder.removeprefix('serving/')}/{name}.py" for folder, names in COMPILED.items() for name in names
    ]
    mypyc = [sys.executable, "-m", "mypyc", "--strict", "--follow-imports=silent", *modules]
    _run(mypyc, cwd=scratch, failure="mypyc fails")
    made = [file for pattern in ("*.so", "*.pyd") for file in scratch.rglob(pattern)]
    kept = [file for file in made if "build" not in file.relative_to(scratch).parts]
    return {file: file.relative_to(scratch).as_posix() for file in sorted(kept)}


def _run(command: list[str], *, cwd: Path, failure: str) -> None:
    path = os.pathsep.join(filter(None, (str(cwd), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"toolgrammar: {failure}:\n{done.stdout}{done.stderr}")


class GrammarHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds to a standard wheel what the build makes; does nothing for an editable one."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return ["mypy[mypyc]>=1.15", "setuptools>=77"] if os.environ.get(SWITCH) == "1" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":
            return
        root = Path(self.root)
        files = grammar_files(root)
        if not files:
            raise RuntimeError(f"toolgrammar: no {SOURCE}/*.tg in {root}")
        self._scratch = tempfile.TemporaryDirectory(prefix="toolgrammar-build-")
        scratch = Path(self._scratch.name)
        elaborate(root, scratch / ELABORATED)
        files[scratch / ELABORATED] = f"{TARGET}/{ELABORATED}"
        if os.environ.get(SWITCH) == "1":
            files |= compiled(root, scratch)
            build_data["infer_tag"] = True
            build_data["pure_python"] = False
        build_data["force_include"].update({str(file): target for file, target in files.items()})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            scratch.cleanup()
