"""The syntax tree of a grammar file: what was written, and where. No meaning is attached yet."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from toolgrammar.errors import Where
from toolgrammar.language.pages import Page


class String(Struct, frozen=True):
    """``"text"``, ``bol "text"`` (``line_start``), ``bow "text"`` (``word_start``), or ``bol ("a" | "b")``."""

    spellings: tuple[str, ...]
    where: Where
    line_start: bool = False
    word_start: bool = False


class Word(Struct, frozen=True):
    """A name on its own: a word of the language, a parameter or a rule. ``quoted``: between backquotes."""

    name: str
    where: Where
    quoted: bool = False


class Apply(Struct, frozen=True):
    """``name(arguments, option: value)``."""

    name: str
    arguments: tuple[Expression, ...]
    options: tuple[Option, ...]
    where: Where
    quoted: bool = False


class Option(Struct, frozen=True):
    """``name: value`` inside an application."""

    name: str
    value: Value
    where: Where


class Number(Struct, frozen=True):
    value: int
    where: Where


class Regex(Struct, frozen=True):
    pattern: str
    where: Where


class Group(Struct, frozen=True):
    """Parentheses; without content they are the empty sequence."""

    item: Expression | None
    where: Where


class Repeat(Struct, frozen=True):
    item: Expression
    quantifier: Literal["?", "*", "+"]
    where: Where


class Sequence(Struct, frozen=True):
    items: tuple[Expression, ...]
    where: Where


class Alternatives(Struct, frozen=True):
    arms: tuple[Expression, ...]
    where: Where


class PeekAt(Struct, frozen=True):
    item: Expression
    where: Where


class ChooseArm(Struct, frozen=True):
    """``/pattern/ when condition -> item``; ``else`` has the pattern that takes everything."""

    pattern: str
    when: str
    item: Expression
    where: Where
    when_where: Where


class ChooseBy(Struct, frozen=True):
    register: str
    arms: tuple[ChooseArm, ...]
    where: Where


Expression: TypeAlias = String | Word | Apply | Group | Repeat | Sequence | Alternatives | PeekAt | ChooseBy
Value: TypeAlias = Expression | Number | Regex


class Rule(Struct, frozen=True):
    name: str
    parameters: tuple[str, ...]
    body: Expression
    where: Where


class Start(Struct, frozen=True):
    """``@start state = item``; without an item an inherited state is given up."""

    state: str
    item: Expression | None
    where: Where
    state_where: Where


class Item(Struct, frozen=True):
    """One word or literal of a header line."""

    text: str
    quoted: bool
    page: Page
    offset: int

    @property
    def where(self) -> Where:
        return self.page.where(self.offset)


class Header(Struct, frozen=True):
    """``@word body``, the continuation lines joined."""

    word: str
    body: str
    items: tuple[Item, ...]
    page: Page
    offset: int

    @property
    def where(self) -> Where:
        """The place of its ``@``."""
        return self.page.where(self.offset)


class Tree(Struct, frozen=True):
    """One file as written."""

    file: str
    headers: tuple[Header, ...]
    starts: tuple[Start, ...]
    rules: dict[str, Rule]
    top: Where
