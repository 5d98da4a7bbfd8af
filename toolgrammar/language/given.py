"""What a word of the language was given between its parentheses, taken apart and checked by kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, get_args

from msgspec import Struct, structs

from toolgrammar import combinators as c
from toolgrammar.errors import BadPatternError, GrammarSyntaxError, Where
from toolgrammar.language import tree as t


class Elaborate(Protocol):
    """The expression compiler, with the parameters of the rule at hand."""

    def __call__(self, expression: t.Expression) -> c.Node: ...


@dataclass(frozen=True)
class Given:
    """What an application was given, taken apart by kind."""

    word: str
    where: Where
    items: tuple[t.Expression, ...]
    flags: frozenset[str]
    options: Mapping[str, t.Value]
    elaborate: Elaborate

    def item(self) -> c.Node:
        """The one expression between the parentheses."""
        if len(self.items) != 1:
            raise GrammarSyntaxError(
                f"'{self.word}(...)' takes one expression, {len(self.items)} given",
                where=self.items[1].where if self.items else self.where,
            )
        return self.elaborate(self.items[0])

    def literal(self, value: t.Value | None, default: str = "") -> str:
        """The text of a literal."""
        return default if value is None else self.literals(value, 1)[0]

    def literals(self, value: t.Value, most: int = 0) -> tuple[str, ...]:
        """The texts of literals separated by ``|``; ``()`` is none."""
        node = None if isinstance(value, t.Number | t.Regex) else self.elaborate(value)
        if node == c.Seq(()) and not most:
            return ()
        if not isinstance(node, c.Lit) or (most and len(node.spellings) > most):
            raise GrammarSyntaxError(
                "expected a literal" + ("" if most else ", or several separated by '|'"), where=value.where
            )
        return node.spellings

    def option(self, name: str, default: str = "") -> str:
        """An option that is a literal."""
        return self.literal(self.options.get(name), default)

    def listed(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """An option that is a list of literals."""
        value = self.options.get(name)
        return default if value is None else self.literals(value)

    def one_of(self, kind: type[Struct], name: str) -> Any:
        """An option that is one of the words of the field of that name."""
        among = choices(kind, name)
        value = self.options.get(name)
        if value is None:
            return among[0]
        if not isinstance(value, t.Word) or value.name not in among:
            words = [*filter(None, among)]
            said = f"is one of {', '.join(words)}" if len(words) > 1 else f"can only be {words[0]}"
            raise GrammarSyntaxError(f"'{name}' {said}", where=value.where)
        return value.name

    def register(self, name: str) -> str:
        """An option that names a register."""
        value = self.options.get(name)
        if value is None:
            return ""
        if not isinstance(value, t.Word):
            raise GrammarSyntaxError(f"'{name}' takes the name of a register", where=value.where)
        return value.name

    def number(self, name: str, default: int, least: int = 0) -> int:
        """An option that is a number, of at least ``least``."""
        value = self.options.get(name)
        if value is None:
            return default
        if not isinstance(value, t.Number):
            raise GrammarSyntaxError(f"'{name}' takes a number", where=value.where)
        if value.value < least:
            raise GrammarSyntaxError(f"'{name}' takes a number from {least} on", where=value.where)
        return value.value

    def char_class(self, name: str) -> str:
        value = self.options.get(name)
        if value is None:
            return ""
        if not isinstance(value, t.Regex):
            raise GrammarSyntaxError(f"'{name}' takes a character class, as in /[a-z]/", where=value.where)
        return pattern(value.pattern, value.where)


def choices(kind: type[Struct], field: str) -> tuple[str, ...]:
    """The words that a field of a node may be, as its type says; the default first."""
    (found,) = (each for each in structs.fields(kind) if each.name == field)
    return tuple(sorted(get_args(found.type), key=lambda word: bool(word != found.default)))


def pattern(text: str, where: Where) -> str:
    """A regular expression that compiles."""
    try:
        re.compile(text)
    except re.error as error:
        raise BadPatternError(f"not a regular expression: {error}", where=where) from None
    return text
