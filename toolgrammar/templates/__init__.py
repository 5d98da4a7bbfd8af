"""Response templates of Hugging Face models, read as grammars.

    >>> grammar = load_template(json.load(open("template.json")), "mine")
    >>> parse(output, grammar=grammar)

A template compiles to the same nodes as a grammar file, so the same promises hold: arguments stream, any cut gives
the same answer, nothing raises on model output. What a template can say: docs/response-templates.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from toolgrammar.combinators import Grammar
from toolgrammar.errors import GrammarError
from toolgrammar.templates.build import build
from toolgrammar.templates.checks import read
from toolgrammar.templates.errors import TemplateError as TemplateError

__all__ = ["TemplateError", "load_template", "model_template", "read_template"]

_KEY = "response_template"
_CONFIG = "tokenizer_config.json"


def load_template(
    data: Mapping[str, Any],
    name: str = "response-template",
    *,
    tokens: Sequence[str] = (),
    stops: Sequence[str] = (),
    source: str = "",
) -> Grammar:
    """The grammar of a response template, or of a tokenizer configuration that has one.

    ``tokens``: special tokens of the model that do not look like ``<|...|>``; ``stops``: those that end its turn.
    Raises ``TemplateError``, which names the field and key.
    """
    from toolgrammar.machine.cache import program_of

    if isinstance(data, Mapping) and isinstance(data.get(_KEY), Mapping):
        tokens, stops = (*tokens, *_special(data)), (*stops, *_end(data))
        data = data[_KEY]
    grammar = build(read(data, name), tokens, tuple(dict.fromkeys(stops)), source)
    try:
        program_of(grammar)
    except TemplateError:
        raise
    except GrammarError as error:
        raise TemplateError(error.message, name=name, hint=error.hint) from error
    return grammar


def read_template(path: str | PathLike[str]) -> Grammar:
    """The grammar of a template file, of a tokenizer configuration, or of a model directory that has one."""
    file = Path(path)
    name = file.resolve().name if file.is_dir() else file.stem
    file = file / _CONFIG if file.is_dir() else file
    try:
        data = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise TemplateError(f"cannot read {file}: {error.strerror}", name=name) from error
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"{file} is not JSON: {error}", name=name) from error
    if file.name == _CONFIG and not (isinstance(data, Mapping) and isinstance(data.get(_KEY), Mapping)):
        older = isinstance(data, Mapping) and "response_schema" in data
        hint = "the older response_schema is not read, by nobody since transformers 5.13" if older else ""
        raise TemplateError(f"{file} has no {_KEY}", name=name, hint=hint)
    return load_template(data, _plain(name), source=str(path))


def model_template(folder: str | PathLike[str]) -> Grammar | None:
    """The grammar of the template in a model directory, None if it has none."""
    try:
        data = json.loads(Path(folder, _CONFIG).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return read_template(folder) if isinstance(data, dict) and isinstance(data.get(_KEY), dict) else None


def _plain(name: str) -> str:
    return "response-template" if name == _CONFIG.removesuffix(".json") else name


def _special(config: Mapping[str, Any]) -> list[str]:
    """The special tokens of a tokenizer configuration."""
    added = config.get("added_tokens_decoder")
    entries = added.values() if isinstance(added, Mapping) else ()
    special = [each.get("content") for each in entries if isinstance(each, Mapping) and each.get("special")]
    return [text for text in special if isinstance(text, str) and text]


def _end(config: Mapping[str, Any]) -> list[str]:
    """The token that ends the turn."""
    token = config.get("eos_token")
    token = token.get("content") if isinstance(token, Mapping) else token
    return [token] if isinstance(token, str) and token else []
