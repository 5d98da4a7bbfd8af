"""What the tests of constraints share: the real xgrammar, a vocabulary for it, texts by chance under a mask."""

from __future__ import annotations

import functools
import json
import random
import string
from typing import Any

import xgrammar

from toolgrammar.combinators import Elements, Grammar
from toolgrammar.readings.first import literals, nodes_of

END = b"<eos>"
_CHARS = [*(string.ascii_letters + string.digits + string.punctuation + " \n"), "é", "🦀"]


class Vocabulary:
    """Tokens, and a compiler for them; the last token ends the text."""

    def __init__(self, tokens: list[bytes]) -> None:
        self.tokens = [*tokens, END]
        self.end = len(tokens)
        info = xgrammar.TokenizerInfo(self.tokens, xgrammar.VocabType.RAW, stop_token_ids=[self.end])
        self._compiler = xgrammar.GrammarCompiler(info)
        self.bitmask = xgrammar.allocate_token_bitmask(1, len(self.tokens))

    def matcher(self, tag: Any) -> xgrammar.GrammarMatcher:
        """A matcher at the beginning of ``tag``, as JSON text, the way it comes over the wire."""
        return xgrammar.GrammarMatcher(self._compiler.compile_structural_tag(json.dumps(tag)))

    def allowed(self, matcher: xgrammar.GrammarMatcher) -> list[int]:
        """The tokens that may come next."""
        if not matcher.fill_next_token_bitmask(self.bitmask):
            return list(range(len(self.tokens)))
        words = self.bitmask[0].tolist()
        return [token for token in range(len(self.tokens)) if words[token >> 5] >> (token & 31) & 1]


@functools.cache
def byte_vocabulary() -> Vocabulary:
    """All bytes, each a token."""
    return Vocabulary([bytes([byte]) for byte in range(256)])


@functools.cache
def marker_vocabulary(grammar_name: str, markers: tuple[str, ...]) -> Vocabulary:
    """Characters, and the format's markers as tokens of their own."""
    return Vocabulary([text.encode() for text in dict.fromkeys((*_CHARS, *"".join(markers), *markers))])


def vocabulary_of(grammar: Grammar) -> Vocabulary:
    """The vocabulary for a format."""
    prefixes = [node.prefix for node in nodes_of(grammar) if isinstance(node, Elements)]
    return marker_vocabulary(
        grammar.name, tuple(text for text in (*literals(grammar), *prefixes) if len(text) > 1)
    )


def accepted(tag: Any, text: str) -> str | None:
    """None if ``tag`` admits ``text`` as a whole, else how far it came."""
    vocabulary = byte_vocabulary()
    matcher = vocabulary.matcher(tag)
    data = text.encode()
    for place, byte in enumerate(data):
        if not matcher.accept_token(byte):
            return data[:place].decode(errors="replace") + "❚" + data[place:].decode(errors="replace")
    return None if matcher.accept_token(vocabulary.end) else text + "❚ (not the end)"


#: Tokens that bring a text to its end, once it is long enough.
_ENDING = [*map(str.encode, ('"', "}", "]", ")", ">", "0", "e", "'"))]


def by_chance(tag: Any, grammar: Grammar, chance: random.Random, length: int = 60, most: int = 4000) -> str:
    """A text of ``tag`` by chance: any token the mask allows, and after ``length`` of them those that end."""
    vocabulary = vocabulary_of(grammar)
    matcher = vocabulary.matcher(tag)
    said: list[bytes] = []
    while len(said) < most:
        allowed = vocabulary.allowed(matcher)
        assert allowed, f"nothing may follow {b''.join(said)!r}"
        if vocabulary.end in allowed and (len(said) > length or len(allowed) == 1 or chance.random() < 0.3):
            return b"".join(said).decode()
        allowed = [token for token in allowed if token != vocabulary.end]
        if len(said) > length and chance.random() < 0.9:
            markers = [token for token in allowed if len(vocabulary.tokens[token]) > 4]
            ending = [token for token in allowed if vocabulary.tokens[token] in _ENDING]
            allowed = markers if markers and chance.random() < 0.6 else ending or markers or allowed
        token = chance.choice(allowed)
        assert matcher.accept_token(token)
        said.append(vocabulary.tokens[token])
    raise AssertionError(f"no end: {b''.join(said)[-300:]!r}")
