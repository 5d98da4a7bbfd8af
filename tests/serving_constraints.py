"""What xgrammar, which engines use, makes of a constraint that a request went out with."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
import xgrammar


@functools.cache
def _compiler() -> Any:
    vocabulary = [bytes([byte]) for byte in range(256)] + [b"<end>"]
    info = xgrammar.TokenizerInfo(vocabulary, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[256])
    return xgrammar.GrammarCompiler(info)


def _compiled(outputs: Any) -> Any:
    if outputs.structural_tag is not None:
        return _compiler().compile_structural_tag(outputs.structural_tag)
    if outputs.json is not None:
        return _compiler().compile_json_schema(msgspec.json.encode(outputs.json).decode())
    if outputs.json_object:
        return _compiler().compile_builtin_json_grammar()
    raise AssertionError(outputs)


def admits(outputs: Any, text: str) -> bool:
    """Whether ``text`` is a whole output under the constraint."""
    matcher = xgrammar.GrammarMatcher(_compiled(outputs))
    return bool(matcher.accept_string(text)) and bool(matcher.accept_token(256))
