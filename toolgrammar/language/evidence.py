"""What a local model directory says about itself: template, vocabulary, architecture, names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from toolgrammar.language.detect import Evidence

T = TypeVar("T")


class _Config(msgspec.Struct):
    model_type: str = ""
    architectures: list[str] | None = None
    name: str = msgspec.field(name="_name_or_path", default="")


class _Added(msgspec.Struct):
    content: str = ""


class _TokenizerConfig(msgspec.Struct):
    chat_template: Any = None
    added_tokens_decoder: dict[str, _Added] = {}


class _Tokenizer(msgspec.Struct):
    added_tokens: list[_Added] = []


def gather(folder: Path) -> tuple[Evidence, tuple[str, ...]]:
    """The evidence in a directory, and the model names it goes by."""
    config = _read(folder / "config.json", _Config) or _Config()
    tokenizer_config = _read(folder / "tokenizer_config.json", _TokenizerConfig) or _TokenizerConfig()
    tokenizer = _read(folder / "tokenizer.json", _Tokenizer) or _Tokenizer()
    added = [*tokenizer_config.added_tokens_decoder.values(), *tokenizer.added_tokens]
    archs = tuple(filter(None, [*(config.architectures or ()), config.model_type]))
    template = _templates(folder, tokenizer_config.chat_template)
    names = tuple(filter(None, (folder.resolve().name, config.name)))
    return Evidence(template, frozenset(token.content for token in added), archs), names


def _templates(folder: Path, value: Any) -> str:
    """Every chat template, one after the other: the file, and what the tokenizer's configuration has."""
    texts = [
        path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("chat_template*.jinja"))
    ]
    for part in value if isinstance(value, list) else [value]:
        texts.append(part.get("template", "") if isinstance(part, dict) else part or "")
    return "\n".join(text for text in texts if isinstance(text, str))


def _read(path: Path, kind: type[T]) -> T | None:
    """A JSON file, None if it is not there or is something else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None
