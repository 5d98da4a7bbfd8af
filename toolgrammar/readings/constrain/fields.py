"""The steps over names, keys, headers, and the choices made by them."""

from __future__ import annotations

import html
import itertools
import json
import re
from typing import Any, Final

from msgspec.structs import replace

from toolgrammar import combinators as c
from toolgrammar.readings.book import Book
from toolgrammar.readings.constrain.formats import EMPTY, Const, Format, Run, either, opt, seq
from toolgrammar.readings.constrain.offer import Offer
from toolgrammar.readings.constrain.places import ANY, JsonId, JsonName, Place
from toolgrammar.readings.first import nodes_of
from toolgrammar.readings.headers import Slot, take, written

Step = tuple[Format, Place]

#: Stand for a tool's name and a call's number while header texts are looked for.
_NAME: Final = "qxnameqx"
_NUMBER: Final = 90817
#: Ids that models may give, and texts of fields that mean nothing to the parser.
_ID: Final = Run("A-Za-z0-9_.:-", 1, 64)
_WORD_MOST: Final = 16
#: What headers say about a value's type.
_TYPES: Final = ("string", "number", "integer", "boolean", "array", "object", "null")


class Fields:
    """Steps over captured text."""

    def __init__(self, book: Book, offer: Offer) -> None:
        self.book, self.offer = book, offer
        self.grammar, self.chains, self.first = book.grammar, book.chains, book.first
        self.sections, self.controls = book.sections, book.controls
        nodes = list(nodes_of(book.grammar))
        self.choices: dict[str, list[c.Choose]] = {}
        for node in nodes:
            if isinstance(node, c.Choose) and node not in self.choices.setdefault(node.register, []):
                self.choices[node.register].append(node)
        self._headers: dict[Any, list[tuple[str, str]]] = {}

    def wrote(self, place: Place, *, head: str = "", line_start: bool = False) -> Place:
        """``place`` behind something that was written."""
        raise NotImplementedError

    # ---- registers ----------------------------------------------------------------------------------------

    def let(self, place: Place, register: str, value: str) -> list[Step]:
        """A register that the grammar sets itself."""
        if register == "key" and place.in_call:
            return [(EMPTY, found) for found in self.chosen(place) if self.key_of(found) in (value, None)]
        if register == "name" and value not in self.offer.targets:
            # Tried by name whether such a tool is offered; a choice goes on from here.
            return [(EMPTY, replace(place, regs=place.with_reg(register, value)))]
        return [(EMPTY, replace(place, regs=place.with_reg(register, value)))]

    def choose(self, place: Place, node: c.Choose) -> list[Step]:
        """The arm that the register's text takes."""
        taken = take(node, place.reg(node.register) or "", self.offer.names)
        if taken is None:
            return []
        number, groups = taken
        if "name" in groups and groups["name"] not in self.offer.targets:
            return []
        regs = dict(place.regs) | groups
        chain = self.chains.push(node.arms[number].item, place.chain)
        return [(EMPTY, replace(place, chain=chain, regs=tuple(sorted(regs.items()))))]

    # ---- fields -------------------------------------------------------------------------------------------

    def field(self, place: Place, node: Any) -> list[Step]:
        """A captured text, for each thing it may say."""
        if isinstance(node, JsonId):
            said = seq(Const('"'), Run("A-Za-z0-9_.:-", 1, 64), Const('"'))
            return [(said, self.wrote(place))]
        if isinstance(node, JsonName) or node.register == "name":
            return self.name(place, node)
        if node.register == "key" or node.register in self.book.kinds:
            return self.key(place, node)
        if node.register in place.filled:
            return []
        if node.register in self.choices:
            return self.header(place, node)
        if node.register == "id":
            said = opt(_ID) if node.empty else _ID
        elif node.chars:
            said = Run(_inside(node.chars), 0 if node.empty else 1, min(node.limit, _WORD_MOST), ("", "json"))
        else:
            said = Run("A-Za-z0-9_-", 0 if node.empty else 1, _WORD_MOST, ("", "json"))
        return [] if place.need else [(said, self.wrote(place))]

    def name(self, place: Place, node: Any) -> list[Step]:
        """The tool's name."""
        known = place.reg("name")
        found = []
        for name in self.offer.targets if known is None else [known]:
            text = name
            if isinstance(node, c.Field):
                if not self.fits(place, node, name):
                    continue
                text = html.escape(name) if node.unescape else name
            said = json.dumps(name, ensure_ascii=False) if isinstance(node, JsonName) else text
            if not place.need or said.startswith(place.need):
                found.append((Const(said, name=True), replace(self.wrote(place), regs=place.with_reg("name", name))))
        return found

    def fits(self, place: Place, node: c.Field, text: str) -> bool:
        """Whether a name or key can stand in the field."""
        markers = self.first.of_chain(place.chain).markers
        return (
            text == text.strip()
            and bool(text or node.empty)
            and len(text) <= node.limit
            and (not node.chars or bool(re.fullmatch(f"(?:{node.chars})*", text)))
            and not (node.quoted and len(text) > 1 and text[0] == text[-1] and text[0] in "\"'")
            and not any(marker.text in text for marker in markers)
            and not any(control in text for control in self.controls - set(node.holds))
            and (not node.offered or text in self.offer.names)
        )

    # ---- keys ---------------------------------------------------------------------------------------------

    def chosen(self, place: Place) -> list[Place]:
        """The places where the next parameter to be written is settled."""
        if place.chosen or not place.in_call:
            return [place] if place.in_call else []
        tool = self.offer.targets[place.reg("name") or ""]
        if place.written:
            return []
        if tool.parameters is None:
            return [replace(place, member=ANY, chosen=True)]
        found = []
        for number in range(place.member, len(tool.parameters)):
            found.append(replace(place, member=number, chosen=True))
            if place.in_loop or tool.parameters[number].required:
                break
        return found

    def may_pass(self, place: Place) -> bool:
        """Whether the next parameter may be left out."""
        tool = self.offer.targets.get(place.reg("name") or "")
        if tool is None or tool.parameters is None or place.written or place.member >= len(tool.parameters):
            return False
        return not tool.parameters[place.member].required

    def key_of(self, place: Place) -> str | None:
        """The chosen parameter's key; None if it may be any."""
        parameters = self.offer.targets[place.reg("name") or ""].parameters
        return None if parameters is None else parameters[place.member].key

    def key(self, place: Place, node: c.Field) -> list[Step]:
        """The key of the next parameter, or what kind its value is."""
        register = node.register
        if register in place.filled or place.need or place.reg("name") is None:
            return []
        found: list[Step] = []
        for here in self.chosen(place):
            key = self.key_of(here)
            filled = tuple(sorted({*here.filled, register}))
            if register != "key":
                for kind in ("true", "false"):
                    target = replace(self.wrote(here), regs=here.with_reg(register, kind), filled=filled)
                    found.append((Const(kind), target))
            elif key is None:
                target = replace(self.wrote(here), regs=here.with_reg("key", ""), filled=filled)
                found.append((self._any_key(here, node), target))
            elif self.fits(here, node, key):
                said = html.escape(key) if node.unescape else key
                target = replace(self.wrote(here), regs=here.with_reg("key", key), filled=filled)
                found.append((Const(said), target))
        return found

    def _any_key(self, place: Place, node: c.Field) -> Format:
        return Run("A-Za-z0-9_", 1, 64)

    # ---- headers ------------------------------------------------------------------------------------------

    def header(self, place: Place, node: c.Field) -> list[Step]:
        """A field that choices go by: one way for each outcome of those choices."""
        filled = tuple(sorted({*place.filled, node.register})) if place.in_call else place.filled
        known = place.reg("name")
        names = list(self.offer.targets) if known is None else [known]
        outcomes: dict[Place, list[Format]] = {}
        for template, sample in self._templates(place, node):
            for name in names if _NAME in template else [None]:
                text = template.replace(_NAME, name or "")
                regs = place.with_reg(node.register, sample.replace(_NAME, name or ""))
                target = replace(self.wrote(place), regs=regs, filled=filled)
                outcomes.setdefault(target, []).append(_said(text, name if _NAME in template else None))
        return [(either(*texts), target) for target, texts in outcomes.items()]

    def _templates(self, place: Place, node: c.Field) -> list[tuple[str, str]]:
        """Texts of the field, and the one that stands for all with the same outcome."""
        key = (node, place.need, place.head, id(place.chain), place.in_call)
        if key not in self._headers:
            self._headers[key] = list(self._found(place, node))
        return self._headers[key]

    def _found(self, place: Place, node: c.Field) -> Any:
        choices = self.choices[node.register]
        offered = frozenset({_NAME, *self.offer.names})
        markers = {marker.text for marker in self.first.of_chain(place.chain).markers}
        barred = frozenset(markers | (self.controls - set(node.holds)))
        first: dict[Any, str] = {}
        for purpose, name in (("call", _NAME), ("reasoning", None)):
            slot = Slot(
                node, purpose=purpose, name=name, id=None, index=_NUMBER, heads=(place.head,) if place.head else (),
                prefixes=place.need or ("",), barred=barred, written=written(self.grammar, node.register),
            )  # fmt: skip
            values = {"name": name or "", "index": str(_NUMBER), "id": ""}
            told = [line.format_map(values) for line in slot.written if name is not None or "{name}" not in line]
            texts = [*told, *(_TYPES if place.in_call else ())]
            settled = (
                replace(slot, chosen=tuple(zip(choices, arms, strict=True))).settle(offered)
                for arms in itertools.product(*(range(len(choice.arms)) for choice in choices))
            )
            for text in [*texts, *(one.text for one in (*settled, slot.settle(offered)) if one is not None)]:
                outcome = (*(_outcome(take(choice, text, offered)) for choice in choices), _NAME in text)
                alone = replace(slot, written=(text,)).settle(offered)
                if (text in texts or outcome not in first) and alone is not None and alone.text == text:
                    yield text, first.setdefault(outcome, text)


def _outcome(taken: tuple[int, dict[str, str]] | None) -> Any:
    return None if taken is None else (taken[0], tuple(sorted(taken[1].items())))


def _said(text: str, name: str | None) -> Format:
    """A header's text, with any number where the call's number stands, and the name marked."""
    front, number, back = text.partition(str(_NUMBER))
    if number:
        return seq(_said(front, name), Run("0-9", 1, 4, ("0",)), _said(back, name))
    if name is None:
        return Const(text)
    front, found, back = text.partition(name)
    return seq(Const(front), Const(name, name=True), Const(back)) if found else Const(text)


def _inside(chars: str) -> str:
    """What stands between the brackets of a class of characters."""
    return chars[1:-1]

