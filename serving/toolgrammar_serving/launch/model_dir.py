"""A model's name to the directory with its tokenizer and configuration: a path, or in Hugging Face's cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from toolgrammar_serving.launch.problems import LaunchError

#: One of these says that a directory is a model's.
_SIGNS: Final = ("config.json", "tokenizer.json", "tokenizer_config.json", "params.json")


def find_model(name: str, revision: str | None = None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The directory of ``name``; None if it is a model id that the cache does not have. Nothing is downloaded.

    Raises ``LaunchError`` for a path that is no model directory.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        if not any((path / sign).is_file() for sign in _SIGNS):
            raise LaunchError(
                f"{name} is no model directory: it has none of {', '.join(_SIGNS)}",
                f"toolgrammar-serve --replay {name}" if any(path.glob("*.jsonl")) else "",
            )
        return path
    if path.exists():
        raise LaunchError(f"{name} is a file", f"a model is a directory; captured outputs: --replay {name}")
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise LaunchError(f"there is no model directory {name}")
    return _cached(name, revision or "main", environ)


def need_model(name: str, revision: str | None = None) -> Path:
    """``find_model``, where it must be there."""
    found = find_model(name, revision)
    if found is None:
        raise LaunchError(
            f"there is no model directory {name}, and the Hugging Face cache has no model of that name",
            f"hf download {name}, or no model at all: toolgrammar-serve --replay FILE",
        )
    return found


def _cached(name: str, revision: str, environ: Mapping[str, str]) -> Path | None:
    home = environ.get("HF_HUB_CACHE") or os.path.join(
        environ.get("HF_HOME") or os.path.join(environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"), "hub"
    )
    folder = Path(home).expanduser() / ("models--" + name.replace("/", "--"))
    reference = folder / "refs" / revision
    commit = reference.read_text(encoding="utf-8").strip() if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    return snapshot if any((snapshot / sign).is_file() for sign in _SIGNS) else None
