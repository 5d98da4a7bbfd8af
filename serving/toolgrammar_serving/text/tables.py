"""A tokenizer's decoder, read as tables.

Two kinds of vocabulary cover nearly all models: *byte-level* ones spell each byte by a printable character (``Ġ``
is a blank), *byte-fallback* ones spell a blank ``▁`` and bytes without a token ``<0x0A>``. In both, a token is
always the same bytes, wherever it stands. Decoders that look at a token's neighbours have no tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from toolgrammar_serving.text.vocabulary import Vocabulary

_BYTE: Final = re.compile("<0x([0-9A-Fa-f]{2})>")


def vocabulary_of(tokenizer: Any) -> Vocabulary | None:
    """The tables of a ``tokenizers.Tokenizer``; None if its decoder has none."""
    decoder = _decoder(tokenizer)
    size = tokenizer.get_vocab_size()
    added = tokenizer.get_added_tokens_decoder()
    size = max([size - 1, *added]) + 1
    tokens = map(tokenizer.id_to_token, range(size))
    special = {id_: token.content for id_, token in added.items() if token.special}
    if [step["type"] for step in decoder] == ["ByteLevel"]:
        return _tables(map(_byte_level, tokens), special)
    steps = _fallback_steps(decoder)
    if steps is None:
        return None
    replaced, bytes_too, blanks = steps
    return _tables((_fallback(token, replaced, bytes_too) for token in tokens), special, leading_blanks=blanks)


def _tables(tokens: Iterable[bytes], special: Mapping[int, str], *, leading_blanks: int = 0) -> Vocabulary:
    texts: list[str | None] = []
    partial = {}
    for id_, data in enumerate(tokens):
        try:
            texts.append(data.decode())
        except UnicodeDecodeError:
            texts.append(None)
            partial[id_] = data
    return Vocabulary(texts, partial, special, leading_blanks=leading_blanks)


def _decoder(tokenizer: Any) -> list[dict[str, Any]]:
    """The decoder's steps, flat."""
    if tokenizer.decoder is None:
        return []
    top = json.loads(tokenizer.decoder.__getstate__())
    return list(top["decoders"]) if top["type"] == "Sequence" else [top]


class _Alphabet(dict[int, str]):
    """The characters that stand for bytes, to characters of the bytes' values; all others to one beyond them."""

    def __missing__(self, key: int) -> str:
        return "\uffff"


def _alphabet() -> _Alphabet:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return _Alphabet({byte: chr(byte) for byte in printable} | {256 + i: chr(b) for i, b in enumerate(others)})


_ALPHABET: Final = _alphabet()


def _byte_level(token: str | None) -> bytes:
    if token is None:
        return b""
    try:
        return token.translate(_ALPHABET).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()  # an added token with a character that stands for no byte is itself


def _fallback_steps(decoder: list[dict[str, Any]]) -> tuple[list[tuple[str, str]], bool, int] | None:
    """Texts replaced in each token, whether there are tokens of bytes, blanks dropped in front of it all."""
    rest = list(decoder)
    replaced = []
    while rest and rest[0]["type"] == "Replace" and "String" in rest[0]["pattern"]:
        replaced.append((rest[0]["pattern"]["String"], rest.pop(0)["content"]))
    if not replaced:
        return None
    bytes_too = bool(rest) and rest[0]["type"] == "ByteFallback"
    rest = rest[bytes_too:]
    if [step["type"] for step in rest] == ["Fuse"]:
        return replaced, bytes_too, 0
    if [step["type"] for step in rest] == ["Fuse", "Strip"] and (rest[1]["content"], rest[1]["stop"]) == (" ", 0):
        return replaced, bytes_too, rest[1]["start"]
    return None


def _fallback(token: str | None, replaced: list[tuple[str, str]], bytes_too: bool) -> bytes:
    if token is None:
        return b""
    for old, new in replaced:
        token = token.replace(old, new)
    byte = _BYTE.fullmatch(token) if bytes_too else None
    return token.encode() if byte is None else bytes((int(byte[1], 16),))
