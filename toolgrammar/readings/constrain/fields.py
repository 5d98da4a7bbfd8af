"""The steps over names, keys, headers, and the choices made by them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from toolgrammar import combinators as c
from toolgrammar.readings.book import Book
from toolgrammar.readings.constrain.formats import EMPTY, Const, Format, Hole, Run, either, opt, seq
from toolgrammar.readings.constrain.places import JsonId, JsonName, Place
from toolgrammar.readings.first import nodes_of
from toolgrammar.readings.headers import Slot, take, written

Step = tuple[Format, Place]

#: Stands for the name of any tool that no choice of the grammar takes for something special.
ANY_NAME: Final = "qxnameqx"
#: Stands for a call's number while header texts are looked for.
_NUMBER: Final = 90817
#: Ids that models may give; the most characters of a text that means nothing to the parser.
_ID: Final = Run("A-Za-z0-9_.:-", 1, 64)
_WORD_MOST: Final = 16
#: What headers say about a value's type.
_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")


class Fields:
    """Steps over captured text. ``likes``: the names that stand for the tools that may be called.

    ``offered``: names of tools that are there, though they may not be called.
    """

    def __init__(self, book: Book, likes: tuple[str, ...], offered: frozenset[str]) -> None:
        self.book, self.likes = book, likes
        self.grammar, self.chains, self.first = book.grammar, book.chains, book.first
        self.sections, self.controls = book.sections, book.controls
        #: A second name, so that no tool is the only one.
        self.offered = frozenset({*offered, *likes, ANY_NAME, ANY_NAME + "2"})
        self.choices: dict[str, list[c.Choose]] = {}
        for node in nodes_of(book.grammar):
            if isinstance(node, c.Choose) and node not in self.choices.setdefault(node.register, []):
                self.choices[node.register].append(node)
        self._headers: dict[Any, list[tuple[str, str]]] = {}

    def wrote(self, place: Place, *, head: str = "", line_start: bool = False) -> Place:
        """``place`` behind something that was written."""
        return replace(
            place, need=(), skipped=(), head=head, line_start=line_start, marked=True, unfinished=False
        )  # fmt: skip

    def settled(self, label: Format, place: Place, like: str) -> list[Step]:
        """``label``, and all up to the end of the call that bears the name, for every tool that goes this way."""
        raise NotImplementedError

    # ---- registers ----------------------------------------------------------------------------------------

    def let(self, place: Place, register: str, value: str) -> list[Step]:
        """A register that the grammar sets itself."""
        return [(EMPTY, replace(place, regs=place.with_reg(register, value)))]

    def choose(self, place: Place, node: c.Choose) -> list[Step]:
        """The arm that the register's text takes."""
        taken = take(node, place.reg(node.register) or "", self.offered)
        if taken is None:
            return []
        number, groups = taken
        if "name" in groups and groups["name"] not in ((place.like,) if place.like else self.likes):
            return []
        regs = tuple(sorted((dict(place.regs) | groups).items()))
        chain = self.chains.push(node.arms[number].item, place.chain)
        return [(EMPTY, replace(place, chain=chain, regs=regs))]

    # ---- fields -------------------------------------------------------------------------------------------

    def field(self, place: Place, node: Any) -> list[Step]:
        """A captured text, for each thing it may say."""
        if isinstance(node, JsonName) or (isinstance(node, c.Field) and node.register == "name"):
            return self.name(place, node)
        if isinstance(node, JsonId):
            return [(seq(Const('"'), _ID, Const('"')), self.wrote(place))]
        if node.register == "key" or node.register in self.book.kinds:
            return self.key(place, node)
        if node.register in place.filled:
            return []
        if node.register in self.choices:
            return self.header(place, node)
        if node.register == "id":
            said = opt(_ID) if node.empty else _ID
        else:
            chars = node.chars[1:-1] if node.chars else "A-Za-z0-9_-"
            said = Run(chars, 0 if node.empty else 1, min(node.limit, _WORD_MOST), ("json", ""))
        return [] if place.need else [(said, self.wrote(place))]

    def barred(self, place: Place, node: Any) -> tuple[str, ...]:
        """What may not stand in a field."""
        if not isinstance(node, c.Field):
            return ()
        markers = {marker.text for marker in self.first.of_chain(place.chain).markers}
        return tuple(sorted(markers | (self.controls - set(node.holds))))

    def name(self, place: Place, node: Any) -> list[Step]:
        """The tool's name."""
        begins = isinstance(node, JsonName) and '"'.startswith(place.need)
        if "name" in place.filled or (place.need and not begins):
            return []
        filled = tuple(sorted({*place.filled, "name"}))
        known = place.reg("name")
        hole = Hole("name", node, self.barred(place, node))
        if known is not None:
            return [(hole, replace(self.wrote(place), filled=filled))]
        found: list[Step] = []
        for like in (place.like,) if place.like else self.likes:
            target = replace(self.wrote(place), regs=place.with_reg("name", like), filled=filled)
            found += [(hole, target)] if place.like else self.settled(hole, target, like)
        return found

    def key(self, place: Place, node: c.Field) -> list[Step]:
        """The key of a parameter, or what kind its value is."""
        if node.register in place.filled or place.need or not place.in_member:
            return []
        filled = tuple(sorted({*place.filled, node.register}))
        if node.register == "key":
            target = replace(self.wrote(place), filled=filled)
            return [(Hole("key", node, self.barred(place, node)), target)]
        return [
            (Const(kind), replace(self.wrote(place), regs=place.with_reg(node.register, kind), filled=filled))
            for kind in ("true", "false")
        ]

    # ---- headers ------------------------------------------------------------------------------------------

    def header(self, place: Place, node: c.Field) -> list[Step]:
        """A field that choices go by: one way for each outcome of those choices."""
        filled = tuple(sorted({*place.filled, node.register})) if place.in_member or place.in_call else ()
        outcomes: dict[tuple[Place, str], list[Format]] = {}
        for template, sample in self._templates(place, node):
            named = ANY_NAME in template
            for like in self._likes(place) if named else ("",):
                regs = place.with_reg(node.register, sample.replace(ANY_NAME, like) if named else sample)
                target = replace(self.wrote(place), regs=regs, filled=filled)
                outcomes.setdefault((target, like), []).append(self._said(template, node))
        found: list[Step] = []
        for (target, like), texts in outcomes.items():
            if like and not place.like:
                found += self.settled(either(*texts), target, like)
            else:
                found.append((either(*texts), target))
        return found

    def _likes(self, place: Place) -> tuple[str, ...]:
        known = place.like or place.reg("name")
        return (known,) if known else self.likes

    def _said(self, template: str, node: c.Field) -> Format:
        """A header's text: any number where the call's number stands, and the tool's name."""
        choices = tuple(self.choices[node.register])
        check = (choices, template, tuple(_arm(take(choice, template, self.offered)) for choice in choices))
        parts: list[Format] = []
        for text in re.split(f"({_NUMBER}|{ANY_NAME})", template):
            if text == ANY_NAME:
                parts.append(Hole("name", None, check=check))
            else:
                parts.append(Run("0-9", 1, 4, ("0",)) if text == str(_NUMBER) else Const(text))
        return seq(*parts)

    def _templates(self, place: Place, node: c.Field) -> list[tuple[str, str]]:
        """Texts of the field, and for each the one that stands for all with the same outcome."""
        key = (node, place.need, place.head, id(place.chain), place.in_call)
        if key not in self._headers:
            self._headers[key] = list(self._found(place, node))
        return self._headers[key]

    def _found(self, place: Place, node: c.Field) -> Iterator[tuple[str, str]]:
        choices = self.choices[node.register]
        first: dict[Any, str] = {}
        for purpose, name in (("call", ANY_NAME), ("reasoning", None)):
            slot = Slot(
                node, purpose=purpose, name=name, id=None, index=_NUMBER,
                heads=(place.head,) if place.head else (), prefixes=place.need or ("",),
                barred=frozenset(self.barred(place, node)), written=written(self.grammar, node.register),
            )  # fmt: skip
            values = {"name": name or "", "index": str(_NUMBER), "id": ""}
            told = [line.format_map(values) for line in slot.written if name is not None or "{name}" not in line]
            told += _TYPES if place.in_call else ()
            settled = (
                replace(slot, chosen=tuple(zip(choices, arms, strict=True))).settle(self.offered)
                for arms in itertools.product(*(range(len(choice.arms)) for choice in choices))
            )
            # What the grammar itself says is enough.
            tried = () if slot.written else (*settled, slot.settle(self.offered))
            more = (one.text for one in tried if one is not None)
            for text in [*told, *more]:
                outcome = (*(_outcome(take(choice, text, self.offered)) for choice in choices), ANY_NAME in text)
                alone = replace(slot, written=(text,)).settle(self.offered)
                if (text in told or outcome not in first) and alone is not None and alone.text == text:
                    yield text, first.setdefault(outcome, text)


def _outcome(taken: tuple[int, dict[str, str]] | None) -> Any:
    return None if taken is None else (taken[0], tuple(sorted(taken[1].items())))


def _arm(taken: tuple[int, dict[str, str]] | None) -> int | None:
    return None if taken is None else taken[0]
