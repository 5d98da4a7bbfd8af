"""Token ids in place of text: special tokens count only as themselves.

A marker that is a special token must not be spelled by ordinary tokens. Each such marker is given one
*sentinel*, a code point that no decoder produces (a lone surrogate); the grammar is compiled with sentinels in
its literals, ids become sentinels or text, and what comes out is translated back, spans included.

Who decodes by itself puts the sentinels into the text (``Marks.by_id``) and feeds that: it costs nothing as long
as no sentinel has come, and one new event per event afterwards.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from toolgrammar import combinators as c
from toolgrammar.events import CallArguments, Content, Event, Reasoning
from toolgrammar.machine.checks import walk
from toolgrammar.machine.prompt import tail_of
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


class Marks:
    """The special tokens that a grammar knows, and their sentinels. Never changed: one serves all streams.

    ``Parser(grammar=..., tokenizer=Marks(grammar, special))`` reads text in which the caller has put ``by_id[id]``
    for those ids; text without sentinels is ordinary, whatever it spells.
    """

    def __init__(self, grammar: c.Grammar, special: Mapping[int, str]) -> None:
        """``special``: a tokenizer's special tokens, id to text."""
        self.grammar = grammar
        self._given = dict(special)
        self.tokens = marker_tokens(grammar, tuple(special.values()))
        table = sentinels(self.tokens)
        #: What stands for an id in the text.
        self.by_id = {number: table[text] for number, text in special.items() if text in table}
        self._back = str.maketrans({sentinel: token for token, sentinel in table.items()})
        #: A sentinel that was data in a value stands there escaped.
        self._escaped = {quote(sentinel)[1:-1]: quote(token)[1:-1] for token, sentinel in table.items()}
        #: How many more raw characters a sentinel stands for.
        self.extra = {sentinel: len(token) - 1 for token, sentinel in table.items()}
        pattern = re.compile(f"[{''.join(table.values())}]" if table else r"(?!)")
        self.find, self.each = pattern.search, pattern.finditer
        self._inward = list(table.items())

    def __reduce__(self) -> tuple[Any, ...]:
        return (Marks, (self.grammar, self._given))

    def inward(self, text: str) -> str:
        """``text`` with sentinels for the special tokens that are spelled in it."""
        for token, sentinel in self._inward:
            text = text.replace(token, sentinel)
        return text

    def prompt(self, text: str) -> str:
        """The tail of a prompt that says where the output begins, with sentinels."""
        return self.inward(tail_of(text, self.grammar.anchors))

    def outward(self, text: str) -> str:
        """Sentinels back to their tokens."""
        return text if text.isascii() else text.translate(self._back)

    def without(self, text: str) -> str:
        """``text`` without its sentinels."""
        return "".join([char for char in text if char not in self.extra])

    def outward_json(self, text: str) -> str:
        """The same for a piece of JSON text."""
        if "\\uDb" in text:
            for escaped, token in self._escaped.items():
                text = text.replace(escaped, token)
        return self.outward(text)


class TokenReader:
    """Turns ids, or text with sentinels, into the machine's input, and its events back. Copyable."""

    def __init__(self, grammar: c.Grammar, tokenizer: Any) -> None:
        """``tokenizer``: see ``Tokenizer``, or ``Marks``. Raises ``TypeError`` for what is none."""
        self._decoder: Any = None
        self._special: Mapping[int, str] = {}
        if isinstance(tokenizer, Marks):
            self.marks = tokenizer
        else:
            tokenizer = adapted(tokenizer)
            special = tokenizer.special_tokens()
            self.marks = Marks(grammar, special)
            self._special = {**special, **self.marks.by_id}
            self._decoder = tokenizer.decoder()
        #: Machine positions behind each sentinel so far, and how many more raw characters lie before them.
        self._at: list[int] = []
        self._more: list[int] = []

    @property
    def decodes(self) -> bool:
        """Whether it takes ids, and not only text."""
        return self._decoder is not None

    def feed(self, session: Any, ids: Sequence[int]) -> list[Event]:
        """Read ``ids``."""
        pieces = []
        for id_ in ids:
            special = self._special.get(id_)
            piece = special if special is not None else self._decoder.step(id_)
            if piece:
                pieces.append(piece)
        return self.feed_text(session, "".join(pieces))

    def feed_text(self, session: Any, text: str) -> list[Event]:
        """Read text; a special token is in it only as its sentinel."""
        if not isinstance(text, str):
            raise TypeError("token ids need a tokenizer: this parser reads text with its special tokens marked")
        if not text.isascii() and self.marks.find(text) is not None:
            self._count(session.base + len(session.buf), text)
        events: list[Event] = session.feed(text)
        if not self._at or not events:
            return events
        if len(events) == 1 and events[0].start >= self._at[-1]:
            return [self._behind(events[0], self._more[-1])]
        return self.outward(events)

    def _count(self, at: int, text: str) -> None:
        """Keep book of the positions that the sentinels in ``text``, which begins at ``at``, move."""
        more = self._more[-1] if self._more else 0
        for found in self.marks.each(text):
            more += self.marks.extra[found.group()]
            self._at.append(at + found.end())
            self._more.append(more)

    def finish(self, session: Any) -> list[Event]:
        """The stream ended."""
        flush = getattr(self._decoder, "flush", None)
        rest = flush() if flush is not None else ""
        events = self.feed_text(session, rest) if rest else []
        return events + self.outward(session.finish())

    def raw_length(self, at: int) -> int:
        """The raw position of one of the machine's."""
        i = bisect_right(self._at, at)
        return at + self._more[i - 1] if i else at

    def outward(self, events: list[Event]) -> list[Event]:
        """The machine's events as the caller's."""
        if not self._at:
            return events
        last, more = self._at[-1], self._more[-1]
        return [self._behind(event, more) if event.start >= last else self._event(event) for event in events]

    def _behind(self, event: Event, more: int) -> Event:
        """An event behind the last sentinel, which most are."""
        kind = type(event)
        if kind is Content or kind is Reasoning:
            text: str = event.text  # type: ignore[union-attr]
            if not text.isascii() and self.marks.find(text) is not None:
                text = self.marks.outward(text)
            return kind(text, event.start + more, event.end + more)
        if kind is CallArguments:
            delta: str = event.delta  # type: ignore[union-attr]
            if "\\uDb" in delta or not delta.isascii():
                delta = self.marks.outward_json(delta)
            return kind(event.index, delta, event.start + more, event.end + more)  # type: ignore
        return self._event(event)

    def _event(self, event: Event) -> Event:
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        for name in ("text", "name", "id", "message"):
            if name in fields:
                fields[name] = self.marks.outward(fields[name])
        if "delta" in fields:
            fields["delta"] = self.marks.outward_json(fields["delta"])
        fields["start"] = self.raw_length(event.start)
        fields["end"] = self.raw_length(event.end)
        return type(event)(**fields)

    def copy(self) -> TokenReader:
        """An independent reader in the same state."""
        new = TokenReader.__new__(TokenReader)
        new.__dict__.update(self.__dict__)
        new._at, new._more = self._at[:], self._more[:]
        new._decoder = self._decoder.copy() if self._decoder is not None else None
        return new
