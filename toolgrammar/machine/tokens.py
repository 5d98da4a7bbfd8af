"""Token ids in place of text: special tokens count only as themselves.

A marker that is a special token must not be spelled by ordinary tokens. Each such marker is given one
*sentinel*, a code point that no decoder produces (a lone surrogate); the grammar is compiled with sentinels in
its literals, ids become sentinels or text, and what comes out is translated back, spans included.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from toolgrammar import combinators as c
from toolgrammar.events import Event
from toolgrammar.machine.checks import walk
from toolgrammar.machine.tokenizers_adapter import adapted
from toolgrammar.schema import quote

#: High surrogates of private planes: no decoder gives one alone, and hardly a model writes its escape.
_FIRST: Final = 0xDB80


class Tokenizer(Protocol):
    """What is asked of a tokenizer. ``tokenizers_adapter`` gives it to ``tokenizers.Tokenizer`` and to the fast
    tokenizers of transformers, which are taken as they are; anything else brings these two methods.
    """

    def special_tokens(self) -> dict[int, str]:
        """Special tokens: id to text."""
        ...

    def decoder(self) -> Any:
        """An incremental decoder of ordinary tokens: ``step(id) -> str | None``, ``copy()``, and if it can hold
        part of a character ``flush() -> str``."""
        ...


def sentinels(tokens: tuple[str, ...]) -> dict[str, str]:
    """Special token text to its sentinel."""
    return {token: chr(_FIRST + i) for i, token in enumerate(tokens)}


def with_sentinels(grammar: c.Grammar, tokens: tuple[str, ...]) -> c.Grammar:
    """``grammar`` with every special token inside its literals replaced by its sentinel."""
    table = sentinels(tokens)
    data = msgspec.to_builtins(grammar)
    for field in ("rules", "stops", "skips", "tokens", "anchors"):
        data[field] = _replaced(data.get(field, {} if field == "rules" else ()), table)
    data["tokens"] = (*data["tokens"], *table.values())
    return msgspec.convert(data, c.Grammar)


def _replaced(value: Any, table: dict[str, str], pattern: bool = False) -> Any:
    if isinstance(value, str):
        for token, sentinel in table.items():
            value = value.replace(token, sentinel)
            if pattern:  # however its bars and brackets are escaped there; no class takes a sentinel
                value = value.replace("[^" + sentinel, "[^").replace("[^", "[^" + sentinel)
                value = value.replace(re.escape(token), sentinel).replace(token.replace("|", r"\|"), sentinel)
        return value
    if isinstance(value, (list, tuple)):
        return [_replaced(item, table) for item in value]
    if isinstance(value, dict):
        kept = ("rule", "type", "chars", "register", "name")
        return {
            key: item if key in kept else _replaced(item, table, key == "pattern") for key, item in value.items()
        }
    return value


def marker_tokens(grammar: c.Grammar, special: Sequence[str]) -> tuple[str, ...]:
    """Those of ``special`` that occur in the grammar's literals, longest first."""
    texts = list(grammar.stops) + list(grammar.skips)
    for node in grammar.rules.values():
        for inner in walk(node):
            if isinstance(inner, c.Lit):
                texts += inner.spellings
            elif isinstance(inner, c.Quoted):
                texts.append(inner.quote)
            elif isinstance(inner, c.Elements):
                texts.append(inner.prefix)
    found = {token for token in special if token and any(token in text for text in texts)}
    return tuple(sorted(found, key=lambda token: (-len(token), token)))


class TokenReader:
    """Turns token ids into the machine's input, and its events back. One per stream; copyable."""

    def __init__(self, grammar: c.Grammar, tokenizer: Any) -> None:
        """``tokenizer``: see ``Tokenizer``. Raises ``TypeError`` for what is none."""
        tokenizer = adapted(tokenizer)
        special = tokenizer.special_tokens()
        self.tokens = marker_tokens(grammar, tuple(special.values()))
        table = sentinels(self.tokens)
        self._sentinel = {id_: table.get(text, text) for id_, text in special.items()}
        self._back = str.maketrans({sentinel: token for token, sentinel in table.items()})
        self._tokens = {sentinel: token for token, sentinel in table.items()}
        #: A sentinel that was data in a value stands there escaped.
        self._escaped = {quote(sentinel)[1:-1]: quote(token)[1:-1] for token, sentinel in table.items()}
        self._lengths = {sentinel: len(token) for token, sentinel in table.items()}
        self._tokenizer = tokenizer
        self._decoder = tokenizer.decoder()
        #: Internal offsets behind each sentinel, and how many more raw characters lie before them.
        self._at: list[int] = [0]
        self._more: list[int] = [0]
        self._fed = 0

    def feed(self, session: Any, ids: Sequence[int]) -> list[Event]:
        """Read ``ids``."""
        pieces = []
        for id_ in ids:
            sentinel = self._sentinel.get(id_)
            piece = sentinel if sentinel is not None else self._decoder.step(id_)
            if piece:
                pieces.append(self._count(piece))
        return self._outward(session.feed("".join(pieces)))

    def _count(self, piece: str) -> str:
        """Keep book of the offsets that ``piece``, a sentinel or text, moves."""
        self._fed += len(piece)
        extra = self._lengths.get(piece, 1) - 1
        if extra:
            self._at.append(self._fed)
            self._more.append(self._more[-1] + extra)
        return piece

    def feed_text(self, session: Any, text: str) -> list[Event]:
        """Read text that came without ids: no special token is in it."""
        return self._outward(session.feed(self._count(text)))

    def prompt(self, text: str) -> str:
        """A prompt's text, with sentinels for the special tokens in it."""
        for sentinel, token in self._tokens.items():
            text = text.replace(token, sentinel)
        return text

    def finish(self, session: Any) -> list[Event]:
        """The stream ended."""
        flush = getattr(self._decoder, "flush", None)
        rest = flush() if flush is not None else ""
        events = self.feed_text(session, rest) if rest else []
        return events + self._outward(session.finish())

    def text(self, text: str) -> str:
        """Sentinels back to their tokens."""
        return text.translate(self._back)

    def raw_length(self, at: int) -> int:
        """The raw offset of an internal one."""
        return at + self._more[bisect_right(self._at, at) - 1]

    def _outward(self, events: list[Event]) -> list[Event]:
        return [self._event(event) for event in events]

    def _event(self, event: Event) -> Event:
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        for name in ("text", "delta", "name", "id", "message"):
            if name in fields:
                fields[name] = self.text(fields[name])
        if "delta" in fields and "\\uDb" in fields["delta"]:
            for escaped, token in self._escaped.items():
                fields["delta"] = fields["delta"].replace(escaped, token)
        fields["start"] = self.raw_length(event.start)
        fields["end"] = self.raw_length(event.end)
        return type(event)(**fields)

    def copy(self) -> TokenReader:
        """An independent reader in the same state."""
        new = TokenReader.__new__(TokenReader)
        new.__dict__.update(self.__dict__)
        new._at, new._more = self._at[:], self._more[:]
        new._decoder = self._decoder.copy()
        return new
