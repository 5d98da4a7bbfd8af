"""Token ids in place of text: special tokens count only as themselves.

A marker that is a special token must not be spelled by ordinary tokens. Each such marker is given one
*sentinel*, a code point that no decoder produces (a lone surrogate); the grammar is compiled with sentinels in
its literals, ids become sentinels or text, and what comes out is translated back, spans included.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from toolgrammar import combinators as c
from toolgrammar.events import Event
from toolgrammar.machine.checks import walk

_FIRST: Final = 0xDC00


class Tokenizer(Protocol):
    """What is asked of a tokenizer; ``tokenizers.Tokenizer`` and transformers' have it by adapters below."""

    def special_tokens(self) -> dict[int, str]:
        """Special tokens: id to text."""
        ...

    def decoder(self) -> Any:
        """An incremental decoder: ``step(id) -> str | None``, ordinary tokens only."""
        ...


def sentinels(tokens: tuple[str, ...]) -> dict[str, str]:
    """Special token text to its sentinel."""
    return {token: chr(_FIRST + i) for i, token in enumerate(tokens)}


def with_sentinels(grammar: c.Grammar, tokens: tuple[str, ...]) -> c.Grammar:
    """``grammar`` with every special token inside its literals replaced by its sentinel."""
    table = sentinels(tokens)
    data = msgspec.to_builtins(grammar)
    for field in ("rules", "stops", "skips", "tokens"):
        data[field] = _replaced(data.get(field, {} if field == "rules" else ()), table)
    data["tokens"] = (*data["tokens"], *table.values())
    return msgspec.convert(data, c.Grammar)


def _replaced(value: Any, table: dict[str, str]) -> Any:
    if isinstance(value, str):
        for token, sentinel in table.items():
            value = value.replace(token, sentinel)
        return value
    if isinstance(value, (list, tuple)):
        return [_replaced(item, table) for item in value]
    if isinstance(value, dict):
        return {
            key: item if key in ("pattern", "type", "chars") else _replaced(item, table)
            for key, item in value.items()
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

    def __init__(self, grammar: c.Grammar, tokenizer: Tokenizer) -> None:
        special = tokenizer.special_tokens()
        self.tokens = marker_tokens(grammar, tuple(special.values()))
        table = sentinels(self.tokens)
        self._sentinel = {id_: table.get(text, text) for id_, text in special.items()}
        self._back = str.maketrans({sentinel: token for token, sentinel in table.items()})
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
            if not piece:
                continue
            self._fed += len(piece)
            extra = self._lengths.get(piece, 1) - 1
            if extra:
                self._at.append(self._fed)
                self._more.append(self._more[-1] + extra)
            pieces.append(piece)
        return self._outward(session.feed("".join(pieces)))

    def finish(self, session: Any) -> list[Event]:
        """The stream ended."""
        return self._outward(session.finish())

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
        for name in ("text", "delta", "name", "id"):
            if name in fields:
                fields[name] = self.text(fields[name])
        fields["start"] = self.raw_length(event.start)
        fields["end"] = self.raw_length(event.end)
        return type(event)(**fields)

    def copy(self) -> TokenReader:
        """An independent reader in the same state."""
        new = TokenReader.__new__(TokenReader)
        new.__dict__.update(self.__dict__)
        new._at, new._more = self._at[:], self._more[:]
        copier = getattr(self._decoder, "copy", None)
        if copier is not None:
            new._decoder = copier()
        return new
