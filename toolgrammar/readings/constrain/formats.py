"""Regular expressions over texts, schemas and free text: what a constraint is made of, before it is JSON.

    >>> dump(seq(Const("<call>"), star(either(Const("a"), Const("b"))), Const("</call>")))
    {'type': 'sequence', 'elements': [{'type': 'const_string', ...

They are kept simple as they are made: ``x x*`` is ``x+``, what several alternatives begin or end with stands once, what
cannot match (``NEVER``) vanishes. ``dump`` writes the formats of xgrammar's structural tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias


@dataclass(frozen=True)
class Const:
    """This very text.

    ``name``: it is a tool's name. ``sure``: it is no word that prose may hold as well.
    """

    text: str
    name: bool = False
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
class Seq:
    """One after the other."""

    items: tuple[Format, ...]

    @cached_property
    def _number(self) -> int:
        return hash(self.items)

    def __hash__(self) -> int:
        return self._number

    @cached_property
    def weight(self) -> int:
        return sum(map(weight, self.items))


@dataclass(frozen=True)
class Or:
    """One of them; none of them is ``NEVER``."""

    items: tuple[Format, ...]

    @cached_property
    def _number(self) -> int:
        return hash(self.items)

    def __hash__(self) -> int:
        return self._number

    @cached_property
    def weight(self) -> int:
        return sum(map(weight, self.items))


@dataclass(frozen=True)
class Repeat:
    """``item``: "?", "*" or "+"."""

    item: Format
    kind: str


Format: TypeAlias = Const | Run | Free | Schema | Rules | Seq | Or | Repeat

EMPTY = Seq(())
NEVER = Or(())


def seq(*items: Format) -> Format:
    """One after the other."""
    flat: list[Format] = []
    for item in items:
        if item == NEVER:
            return NEVER
        for each in item.items if isinstance(item, Seq) else (item,):
            _append(flat, each)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def _append(flat: list[Format], item: Format) -> None:
    """``item`` behind what stands there, joined with it where that is the same but shorter."""
    last = flat[-1] if flat else None
    if isinstance(item, Const):
        if not item.text:
            return
    if isinstance(item, Repeat) and item.kind == "*":
        again = item.item.items if isinstance(item.item, Seq) else (item.item,)
        if again and tuple(flat[-len(again) :]) == again:
            del flat[-len(again) :]
            _append(flat, Repeat(item.item, "+"))
            return
    if isinstance(last, Repeat) and last.kind == "*" and last.item == item:
        flat[-1] = Repeat(item, "+")
        return
    flat.append(item)


def either(*items: Format) -> Format:
    """One of them; what begins or ends alike in all of them stands once."""
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
    """How much there is to write."""
    match item:
        case Const(text):
            return 1 + len(text)
        case Schema(_, key):
            return 30 + len(key)
        case Rules(text):
            return 30 + len(text)
        case Repeat(inner):
            return 10 + weight(inner)
        case Seq() | Or():
            return 10 + item.weight
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
    """Whether nothing at all matches."""
    match item:
        case Const(text):
            return not text
        case Run(least=least):
            return least == 0
        case Free():
            return True
        case Seq(items):
            return all(map(may_be_empty, items))
        case Or(items):
            return any(map(may_be_empty, items))
        case Repeat(inner, kind):
            return kind != "+" or may_be_empty(inner)
    return False


def behind(item: Format, text: str) -> Format:
    """What may follow ``text`` where ``item`` begins with it; NEVER if it cannot.

    Schemas, free text and rules are not looked into: nothing of them is known to begin with a text.
    """
    for char in text:
        item = _behind(item, char)
    return item


def _behind(item: Format, char: str) -> Format:
    """The same for one character."""
    match item:
        case Const(text):
            return seq(Const(text[1:])) if text.startswith(char) else NEVER
        case Run(chars, least, most):
            if not most or not re.match(f"[{chars}]", char):
                return NEVER
            return Run(chars, max(least - 1, 0), most - 1) if most > 1 else EMPTY
        case Or(items):
            return either(*(_behind(each, char) for each in items))
        case Repeat(inner, kind):
            return seq(_behind(inner, char), EMPTY if kind == "?" else star(inner))
        case Seq(items):
            ways = []
            for place, each in enumerate(items):
                ways.append(seq(_behind(each, char), *items[place + 1 :]))
                if not may_be_empty(each):
                    break
            return either(*ways)
    return NEVER


# ---- as JSON -----------------------------------------------------------------------------------------------

#: White space in a row inside JSON: enough for a deep indentation, not enough to go on for ever.
MOST_BLANKS: Final = 32
_KINDS: Mapping[str, str] = {"?": "optional", "*": "star", "+": "plus"}


def dump(item: Format) -> dict[str, Any]:
    """``item`` as a format of a structural tag."""
    match item:
        case Const(text):
            return {"type": "const_string", "value": text}
        case Run(chars, least, most):
            return {"type": "regex", "pattern": f"[{chars}]{{{least},{most}}}"}
        case Free(excludes):
            return {"type": "any_text", "excludes": list(excludes)} if excludes else {"type": "any_text"}
        case Schema(schema, _, excludes):
            found = {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": MOST_BLANKS}
            return {**found, "excludes": list(excludes)} if excludes else found
        case Rules(text):
            return {"type": "grammar", "grammar": text}
        case Seq(items):
            parts = list(_joined(items))
            if not parts:
                return {"type": "const_string", "value": ""}
            return parts[0] if len(parts) == 1 else {"type": "sequence", "elements": parts}
        case Or(items):
            return {"type": "or", "elements": [dump(each) for each in items]}
        case Repeat(inner, kind):
            return {"type": _KINDS[kind], "content": dump(inner)}


def _joined(items: Iterable[Format]) -> Iterable[dict[str, Any]]:
    """The items as formats; texts, names and runs that stand side by side are one."""
    together: list[Const | Run] = []
    for item in items:
        if isinstance(item, Const | Run):
            together.append(item)
            continue
        if together:
            yield _line(together)
            together = []
        yield dump(item)
    if together:
        yield _line(together)


def _line(items: list[Const | Run]) -> dict[str, Any]:
    texts = [item.text for item in items if isinstance(item, Const)]
    if len(texts) == len(items):
        return {"type": "const_string", "value": "".join(texts)}
    return {"type": "regex", "pattern": "".join(map(_pattern, items))}


def _pattern(item: Const | Run) -> str:
    if isinstance(item, Run):
        return f"[{item.chars}]{{{item.least},{item.most}}}"
    return "".join(_ESCAPES.get(char, char) for char in item.text)


_ESCAPES: Mapping[str, str] = {
    **{char: "\\" + char for char in "\\.^$*+?()[]{}|/-"}, "\n": "\\n", "\t": "\\t", "\r": "\\r",
}  # fmt: skip
