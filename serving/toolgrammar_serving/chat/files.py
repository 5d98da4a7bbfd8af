"""What a model directory has for chat: its templates, and the names of its special tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

_NAMED: Final = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


class ChatFiles(msgspec.Struct):
    """``templates`` by name, the main one is "default"; ``tokens`` by name, as templates use them."""

    templates: dict[str, str] = {}
    tokens: dict[str, str] = {}


def chat_files(directory: str | Path | None) -> ChatFiles:
    """What is in ``directory``. Files win over what the tokenizer's configuration has, as in transformers."""
    if directory is None:
        return ChatFiles()
    folder = Path(directory)
    config = _read(folder / "tokenizer_config.json")
    templates = _templates(_read(folder / "chat_template.json").get("chat_template"))
    templates |= _templates(config.get("chat_template"))
    for path in sorted(folder.glob("additional_chat_templates/*.jinja")):
        templates[path.stem] = path.read_text(encoding="utf-8")
    if (path := folder / "chat_template.jinja").is_file():
        templates["default"] = path.read_text(encoding="utf-8")
    tokens = {**_tokens(_read(folder / "special_tokens_map.json")), **_tokens(config)}
    return ChatFiles(templates, tokens)


def _templates(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, list):
        named = [each for each in value if isinstance(each, dict)]
        return {str(each.get("name")): str(each.get("template", "")) for each in named}
    return {}


def _tokens(config: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _NAMED:
        value = config.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            found[name] = value
    return found


def _read(path: Path) -> dict[str, Any]:
    """A JSON object, empty if there is none."""
    try:
        value = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return value if isinstance(value, dict) else {}
