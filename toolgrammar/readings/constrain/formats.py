"""Regular expressions over texts, schemas and free text: what a constraint is made of, before it is JSON.

They are kept simple as they are made: ``x x*`` is ``x+``, what several alternatives begin or end with stands once,
what cannot match (``NEVER``) vanishes.

A format's constraint is found once, for any tools, with holes (``Hole``) where a request's tools matter; the tools
are put in by ``filling``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Const:
    """This very text. ``sure``: it is no word that prose may hold as well."""

    text: str
    sure: bool = True


@dataclass(frozen=True)
class Run:
    """``least`` to ``most`` characters of a class (what stands between brackets in a pattern).

    ``usual``: the texts that templates write here.
    """

    chars: str
    least: int
    most: int
    usual: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Free:
    """Any text in which none of ``excludes`` stands."""

    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Schema:
    """JSON by a schema, in whose strings none of ``excludes`` stands. ``key`` is the schema's text; it decides."""

    schema: Any
    key: str
    excludes: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and (other.key, other.excludes) == (self.key, self.excludes)

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Rules:
    """An EBNF grammar of its own, with the rule ``root``."""

    text: str


@dataclass(frozen=True)
class Hole:
    """What a tool decides.

    =========  =====================================================================================
    name       its name, in the field ``node``, or as a JSON string
    whole      all its arguments, in the notation of ``node``
    nothing    nothing, where it needs no arguments
    key        the key of a parameter, in the field ``node``
    value      a parameter's value; ``kind`` is what the notation says of it, ``lead`` what must begin it
    only       its argument ``kind``, a text, and no other
    =========  =====================================================================================

    ``excludes``: what may not stand in it. ``check``: choices, a text with the name in it, and the arms it takes.
    """

    what: str
    node: Any = None
    excludes: tuple[str, ...] = ()
    kind: str | None = None
    lead: str = ""
    check: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Each:
    """``item`` for each tool whose names go the way of ``like``."""

    item: Format
    like: str


@dataclass(frozen=True)
class Members:
    """``item`` for each parameter of the tool, in order, those that are optional or not."""

    item: Format


@dataclass(frozen=True)
class Seq:
    """One after the other."""

    items: tuple[Format, ...]

    @cached_property
    def number(self) -> int:
        return hash(self.items)

    @cached_property
    def weight(self) -> int:
        return 10 + sum(map(weight, self.items))

    def __hash__(self) -> int:
        return self.number


@dataclass(frozen=True)
class Or:
    """One of them; none of them is ``NEVER``."""

    items: tuple[Format, ...]

    @cached_property
    def number(self) -> int:
        return hash(self.items)

    @cached_property
    def weight(self) -> int:
        return 10 + sum(map(weight, self.items))

    def __hash__(self) -> int:
        return self.number


@dataclass(frozen=True)
class Repeat:
    """``item``: "?", "*" or "+"."""

    item: Format
    kind: str


Format: TypeAlias = Const | Run | Free | Schema | Rules | Hole | Each | Members | Seq | Or | Repeat

EMPTY = Seq(())
#: The weight of what will stand there for every tool.
EACH = 1000
NEVER = Or(())


def seq(*items: Format) -> Format:
    """One after the other."""
    flat: list[Format] = []
    for item in items:
        if isinstance(item, Seq):
            for each in item.items:
                _append(flat, each)
        elif isinstance(item, Or) and not item.items:
            return NEVER
        else:
            _append(flat, item)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def _append(flat: list[Format], item: Format) -> None:
    """``item`` behind what stands there, joined with it where that is the same but shorter."""
    if isinstance(item, Const) and not item.text:
        return
    if isinstance(item, Repeat) and item.kind == "*":
        again = item.item.items if isinstance(item.item, Seq) else (item.item,)
        if again and tuple(flat[-len(again) :]) == again:
            del flat[-len(again) :]
            flat.append(Repeat(item.item, "+"))
            return
    last = flat[-1] if flat else None
    if isinstance(last, Repeat) and last.kind == "*" and last.item == item:
        flat[-1] = Repeat(item, "+")
        return
    flat.append(item)


def either(*items: Format) -> Format:
    """One of them; what begins or ends alike in several of them stands once."""
    flat: dict[Format, None] = {}
    optional = False
    for item in items:
        for each in item.items if isinstance(item, Or) else (item,):
            if each == EMPTY:
                optional = True
            elif isinstance(each, Repeat) and each.kind in "?*" and len(items) > 1:
                optional = True
                flat[each.item if each.kind == "?" else Repeat(each.item, "+")] = None
            else:
                flat[each] = None
    found = _factored(list(flat))
    return opt(found) if optional else found


def _factored(items: list[Format]) -> Format:
    """The alternatives, with what several of them begin or end with standing once."""
    for side in (0, -1):
        if len(items) < 2:
            break
        groups: dict[Format, list[tuple[Format, ...]]] = {}
        for item in items:
            row = item.items if isinstance(item, Seq) else (item,)
            groups.setdefault(row[side], []).append(row)
        if len(groups) < len(items):
            items = [
                seq(*rows[0]) if len(rows) == 1
                else seq(edge, either(*(seq(*row[1:]) for row in rows))) if side == 0
                else seq(either(*(seq(*row[:-1]) for row in rows)), edge)
                for edge, rows in groups.items()
            ]  # fmt: skip
    if len(items) < 2:
        return items[0] if items else NEVER
    return Or(tuple(items))


def weight(item: Format) -> int:
    """How much there is to write, roughly."""
    match item:
        case Seq() | Or():
            return item.weight
        case Repeat(inner) | Members(inner):
            return 10 + weight(inner)
        case Each(inner):
            return EACH + weight(inner)
        case Schema(_, key) | Rules(key):
            return 30 + len(key)
    return 20


def opt(item: Format) -> Format:
    """``item`` or nothing."""
    if item in (EMPTY, NEVER):
        return EMPTY
    if isinstance(item, Repeat):
        return item if item.kind in "?*" else Repeat(item.item, "*")
    return Repeat(item, "?")


def star(item: Format) -> Format:
    """``item`` any number of times."""
    if item in (EMPTY, NEVER):
        return EMPTY
    return Repeat(item.item if isinstance(item, Repeat) else item, "*")


def may_be_empty(item: Format) -> bool:
    """Whether nothing at all matches. A hole may, if it may for some tool."""
    match item:
        case Const(text):
            return not text
        case Run(least=least):
            return least == 0
        case Free() | Members():
            return True
        case Hole(what):
            return what == "nothing"
        case Each(inner):
            return may_be_empty(inner)
        case Seq(items):
            return all(map(may_be_empty, items))
        case Or(items):
            return any(map(may_be_empty, items))
        case Repeat(inner, kind):
            return kind != "+" or may_be_empty(inner)
    return False
