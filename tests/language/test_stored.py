"""Elaborated grammars on disk: when they are used, and when not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from language.cases import DATA

from toolgrammar import language
from toolgrammar.combinators import Grammar
from toolgrammar.errors import GrammarError
from toolgrammar.language import stored
from toolgrammar.registry import Registry


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the test grammars."""
    return Path(shutil.copytree(DATA, tmp_path / "grammars"))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the grammars that were read from text."""
    names: list[str] = []
    original = language.read_grammar

    def read(text: str, *, file: str = "", loader: language.Loader | None = None) -> Grammar:
        names.append(Path(file).stem)
        return original(text, file=file, loader=loader)

    monkeypatch.setattr(language, "read_grammar", read)
    return names


def test_the_second_load_reads_the_cache(folder: Path, tmp_path: Path, reads: list[str]) -> None:
    first = Registry(folder, tmp_path / "cache").load("tagged")
    second = Registry(folder, tmp_path / "cache").load("tagged")
    assert first == second
    assert reads == ["tagged"]
    assert [path.name.split("-")[0] for path in (tmp_path / "cache").iterdir()] == ["tagged"]


@pytest.mark.parametrize("changed", ["tagged.tg", "families/think.tg"])
def test_a_change_in_any_file_is_seen(folder: Path, tmp_path: Path, reads: list[str], changed: str) -> None:
    Registry(folder, tmp_path / "cache").load("tagged-loose")
    path = folder / changed
    path.write_text(path.read_text() + "# changed\n")
    Registry(folder, tmp_path / "cache").load("tagged-loose")
    assert reads == ["tagged-loose"] * 2


def test_a_change_of_the_code_is_seen(
    folder: Path, tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.build(folder, folder / stored.FILE)
    Registry(folder, tmp_path / "cache").load("tagged")
    monkeypatch.setattr(stored, "schema", lambda: "another")
    Registry(folder, tmp_path / "cache").load("tagged")
    assert reads[-1] == "tagged"
    assert len(reads) == 1 + len(list(folder.glob("*.tg")))


def test_a_grammar_moved_elsewhere_is_the_same(folder: Path, tmp_path: Path, reads: list[str]) -> None:
    Registry(folder, tmp_path / "cache").load("tagged")
    moved = Path(shutil.move(folder, tmp_path / "moved"))
    Registry(moved, tmp_path / "cache").load("tagged")
    assert reads == ["tagged"]


@pytest.mark.parametrize("damage", [b"", b"\xc1", b"\x81\xa4name\x01"])
def test_a_damaged_cache_is_replaced(folder: Path, tmp_path: Path, reads: list[str], damage: bytes) -> None:
    Registry(folder, tmp_path / "cache").load("tagged")
    (path,) = (tmp_path / "cache").iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage)
    Registry(folder, tmp_path / "cache").load("tagged")
    assert reads == ["tagged"] * 2
    assert path.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_skipped(folder: Path, tmp_path: Path, reads: list[str]) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    for _ in range(2):
        Registry(folder, tmp_path / "cache").load("tagged")
    assert reads == ["tagged"] * 2


def test_a_wrong_grammar_is_not_cached(folder: Path, tmp_path: Path) -> None:
    (folder / "wrong.tg").write_text("@start content = (")
    for _ in range(2):
        with pytest.raises(GrammarError, match="never closed"):
            Registry(folder, tmp_path / "cache").load("wrong")
    assert not (tmp_path / "cache").exists()


def test_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert stored.cache_folder() == tmp_path / "toolgrammar"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert stored.cache_folder() == tmp_path / ".cache" / "toolgrammar"


def test_a_user_without_a_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def expanduser(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", expanduser)
    assert Registry(folder).load("tagged").name == "tagged"


# ---- ahead of time -----------------------------------------------------------------------------------------


def test_what_was_made_ahead_is_used(folder: Path, tmp_path: Path, reads: list[str]) -> None:
    count = stored.build(folder, folder / stored.FILE)
    assert len(reads) == count == len(list(folder.glob("*.tg")))
    reads.clear()
    registry = Registry(folder, tmp_path / "cache")
    assert registry.load("tagged") == language.read_grammar_file(folder / "tagged.tg")
    assert reads == []
    assert not (tmp_path / "cache").exists()


def test_a_changed_source_counts_before_what_was_made_ahead(folder: Path, tmp_path: Path) -> None:
    stored.build(folder, folder / stored.FILE)
    path = folder / "tagged.tg"
    path.write_text(path.read_text() + '@stop "more"\n')
    registry = Registry(folder, tmp_path / "cache")
    assert registry.load("tagged").stops[-1] == "more"
    assert registry.load("kinds").name == "kinds"
    assert [path.name.split("-")[0] for path in (tmp_path / "cache").iterdir()] == ["tagged"]


def test_without_sources(folder: Path, tmp_path: Path, reads: list[str]) -> None:
    sources = language.read_grammar_file(folder / "kinds.tg")
    stored.build(folder, tmp_path / "only" / stored.FILE)
    reads.clear()
    registry = Registry(tmp_path / "only", tmp_path / "cache")
    assert registry.formats() == ["kinds", "tagged", "tagged-loose"]
    assert registry.resolve("Qwen2-5") == "tagged"
    assert registry.load("all_kinds") == sources
    assert registry.where("tagged", "call") is None
    assert reads == []


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_the_command(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "made" / "out.msgpack"
    done = run("-m", "toolgrammar.language", str(folder), str(out))
    assert (done.returncode, done.stdout) == (0, f"{out}: 3 grammars\n")
    (folder / "wrong.tg").write_text("@start content = x")
    done = run("-m", "toolgrammar.language", str(folder), str(out))
    assert done.returncode == 1
    assert done.stderr.startswith("no rule or word 'x'")
    assert run("-m", "toolgrammar.language").returncode == 2


CHECK = """
import sys
from pathlib import Path
from toolgrammar.registry import Registry
registry = Registry(Path(sys.argv[1]), Path(sys.argv[2]))
assert registry.resolve("Qwen/QwQ-32B") == "tagged"
registry.load("hermes")
print(*sorted({"lark", "difflib", "toolgrammar.language.elaborate"} & set(sys.modules)))
"""


def test_lark_is_imported_for_new_grammars_only(folder: Path, tmp_path: Path) -> None:
    folders = (str(folder), str(tmp_path / "cache"))
    assert "lark" in run("-c", CHECK, *folders).stdout.split()
    assert run("-c", CHECK, *folders).stdout == "\n"
    stored.build(folder, folder / stored.FILE)
    assert run("-c", CHECK, folders[0], str(tmp_path / "none")).stdout == "\n"


def test_importing_the_registry_is_cheap() -> None:
    heavy = "{'lark', 'difflib', 'toolgrammar.language.elaborate', 'toolgrammar.language.writer'}"
    code = f"import sys, toolgrammar.registry; print(*{heavy} & set(sys.modules))"
    assert run("-c", code).stdout == "\n"
