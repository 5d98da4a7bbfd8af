"""The renderer's steps over fields and the choices made by them."""

from __future__ import annotations

import html
import re

from msgspec.structs import replace

from toolgrammar import combinators as c
from toolgrammar.readings.book import STEER
from toolgrammar.readings.first import Chain
from toolgrammar.readings.headers import Slot, take, written
from toolgrammar.readings.paper import Paper
from toolgrammar.readings.pen import Pen, with_register
from toolgrammar.readings.turns import Called, Said


class Fields(Pen):
    """Writes names, keys and headers."""

    def field(self, paper: Paper, node: c.Field) -> list[Paper]:
        call = self.next_call(paper)
        register = node.register
        if register == "name":
            return [] if call is None else self.captured(paper, node, call.name)
        if register == "key" or register in self.kinds:
            if call is None or not paper.in_call or paper.reg(register) is not None:
                return []
            members = list(call.arguments.items())
            if paper.members >= len(members):
                return []
            key, value = members[paper.members]
            kind = "true" if isinstance(value, str) else "false"
            return self.captured(paper, node, key if register == "key" else kind)
        return self.slot(paper, node, call)

    def captured(self, paper: Paper, node: c.Field, text: str) -> list[Paper]:
        """A field that says what the call says."""
        if not self.fits(paper, node, text):
            return self.no(paper, f"{text!r} cannot be written as its {node.register}")
        said = html.escape(text) if node.unescape else text
        return [with_register(each, node.register, text) for each in self.put(paper, "field", said)]

    def fits(self, paper: Paper, node: c.Field, text: str) -> bool:
        markers = self.first.of_chain(paper.chain).markers
        return (
            text == text.strip()
            and bool(text or node.empty)
            and len(text) <= node.limit
            and (not node.chars or bool(re.fullmatch(f"(?:{node.chars})*", text)))
            and not (node.quoted and len(text) > 1 and text[0] == text[-1] and text[0] in "\"'")
            and not any(marker.text in text for marker in markers)
            and not any(control in text for control in self.controls - set(node.holds))
            and (not node.offered or text in (self.table.offered or ()))
        )

    def slot(self, paper: Paper, node: c.Field, call: Called | None) -> list[Paper]:
        """A field that only steers: its text is found when the choices made by it are."""
        part = self.parts[paper.part] if paper.part < len(self.parts) else None
        heads = []
        last = paper.last.text if paper.last is not None else None
        for anchor in self.grammar.anchors:
            if last and anchor.startswith(last):
                heads.append(anchor[len(last) :])
        markers = {marker.text for marker in self.first.of_chain(paper.chain).markers}
        slot = Slot(
            node,
            purpose="call" if call is not None else part.sink if isinstance(part, Said) else "",
            name=call.name if call is not None else None,
            id=call.id if call is not None else None,
            index=sum(isinstance(one, Called) for one in self.parts[: paper.part]),
            heads=tuple(heads),
            prefixes=paper.need or ("",),
            barred=frozenset(markers | (self.controls - set(node.holds))),
            written=written(self.grammar, node.register),
        ).settle(self.table.offered or frozenset())
        if slot is None:
            return []
        number = len(paper.slots)
        registers = {**dict(paper.slot_of), node.register: number}
        return [
            replace(
                each, slots=(*each.slots, slot), slot_of=tuple(sorted(registers.items())), headed=2,
                id_said=each.id_said or node.register == "id", cost=each.cost + self.style.cost(STEER),
            )
            for each in self.put(replace(paper, need=()), "slot", "", number)
        ]  # fmt: skip

    def choose(self, paper: Paper, node: c.Choose, rest: Chain | None) -> list[Paper]:
        number = dict(paper.slot_of).get(node.register, -1)
        offered = self.table.offered or frozenset()
        if number < 0:
            taken = take(node, paper.reg(node.register) or "", offered)
            return [] if taken is None else self.arm(paper, node, taken[0], taken[1], rest)
        found = []
        for place in range(len(node.arms)):
            slot = replace(paper.slots[number], chosen=(*paper.slots[number].chosen, (node, place))).settle(
                offered
            )
            if slot is None:
                continue
            slots = (*paper.slots[:number], slot, *paper.slots[number + 1 :])
            taken = take(node, slot.text, offered)
            assert taken is not None
            found += self.arm(replace(paper, slots=slots), node, place, taken[1], rest)
        return found

    def arm(
        self, paper: Paper, node: c.Choose, place: int, groups: dict[str, str], rest: Chain | None
    ) -> list[Paper]:
        call = self.next_call(paper)
        if "name" in groups and (call is None or groups["name"] != call.name):
            return []
        for register, value in groups.items():
            paper = with_register(paper, register, value)
        return [replace(paper, chain=self.chains.push(node.arms[place].item, rest))]
