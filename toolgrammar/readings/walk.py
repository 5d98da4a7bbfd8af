"""The steps of the renderer: at a place in the grammar, which ways go on and what is written on each.

``step`` takes the first node of a paper's chain and returns the papers behind it, most wanted first; none, if
the wanted parts cannot be written here. Nothing is known of any format: it all stands in the nodes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from toolgrammar import combinators as c
from toolgrammar.readings.elements import write_elements
from toolgrammar.readings.first import Chain, Chains, FirstSets, is_control, literals, nodes_of
from toolgrammar.readings.headers import Slot, take, written
from toolgrammar.readings.paper import Paper, Token, last_character, text_before, white_token
from toolgrammar.readings.raw import Unwritable, closes_early, raw_text
from toolgrammar.readings.style import Style
from toolgrammar.readings.turns import Called, Part, Said
from toolgrammar.schema import ToolTable

# What a step costs. The cheapest way is what a template would write.
_MARK = 1
#: An arm that is not the first, unless it may be empty; one that is but a marker; one that is nothing at all.
_LATER_ARM = 100
_LATER_MARK = 10
_NOTHING = 50
#: A field that only steers.
_STEER = 150
#: Reasoning passed by in silence.
_SILENT = 300
#: A message without the header its kind has.
_HEADLESS = 400
#: A repeat of what stands in front of it: several in one wrapper that usually holds one.
_REPEAT = 500
#: What shows that something is missing, and a call in open reasoning.
_MISSING = 2000

#: Stand at the end of a call, and of a draft, in chains.
_END_CALL = c.Let("\0end", "call")
_END_DRAFT = c.Let("\0end", "draft")


class Book:
    """What the renderer knows of one grammar, worked out once."""

    def __init__(self, grammar: c.Grammar) -> None:
        self.grammar = grammar
        self.chains = Chains()
        self.first = FirstSets(grammar)
        nodes = list(nodes_of(grammar))
        #: Registers that say whether a raw value is a string.
        self.kinds = {node.kind for node in nodes if isinstance(node, c.Typed) and node.kind}
        self.controls = frozenset(text for text in literals(grammar) if is_control(grammar, text))
        #: Repeats of what stands in front of them.
        self.again = {id(node) for seq in nodes if isinstance(seq, c.Seq) for node in self.repeats(seq)}

    def repeats(self, seq: c.Seq) -> list[c.Many]:
        """The repeats in ``seq`` of what stands in front of them."""
        plain = [item for item in seq.items if not isinstance(item, c.Ws)]
        return [
            item for before, item in zip(plain, plain[1:], strict=False)
            if isinstance(item, c.Many)
            and before == (item.item.items[-1] if isinstance(item.item, c.Seq) else item.item)
            and not self.first.of(before).empty
        ]  # fmt: skip


class Walker:
    """Finds the ways through one grammar for one list of parts."""

    def __init__(self, book: Book, parts: Sequence[Part], table: ToolTable, style: Style) -> None:
        self.grammar = book.grammar
        self.chains, self.first = book.chains, book.first
        self.kinds, self.controls, self.again = book.kinds, book.controls, book.again
        self.parts = parts
        self.table = table
        self.style = style
        self._furthest = -1
        self._trouble = ""

    # ---- ends -------------------------------------------------------------------------------------------------

    def begin(self, start: str) -> Paper:
        """Where the turn begins."""
        return Paper(self.chains.push(c.Ref(self.grammar.starts[start]), None))

    def done(self, paper: Paper) -> bool:
        """Whether the end of the turn may be here."""
        return paper.part == len(self.parts) and not paper.need and not paper.unfinished

    def trouble(self) -> str:
        """Why the furthest way ended."""
        what = "the turn" if self._furthest < 0 else _name(self.parts, self._furthest)
        return f"{what} cannot be written" + (f": {self._trouble}" if self._trouble else " in this format")

    def no(self, paper: Paper, why: str) -> list[Paper]:
        """This is no way on."""
        if paper.part >= self._furthest:
            self._furthest, self._trouble = paper.part, why
        return []

    def next_call(self, paper: Paper) -> Called | None:
        """The call to be written next, or being written."""
        part = self.parts[paper.part] if paper.part < len(self.parts) else None
        return part if isinstance(part, Called) else None

    # ---- steps ------------------------------------------------------------------------------------------------

    def step(self, paper: Paper) -> list[Paper]:
        """The places behind the first node of the chain."""
        assert paper.chain is not None
        node, rest = paper.chain.node, paper.chain.next
        here = replace(paper, chain=rest)
        match node:
            case c.Seq(items):
                return [replace(paper, chain=self.chains.push_all(items, rest))]
            case c.Ref(rule):
                return [replace(paper, chain=self.chains.push(self.grammar.rules[rule], rest))]
            case c.Alt(arms):
                return self.ways(paper, [(arm,) for arm in arms], self.arm_costs(arms))
            case c.Opt(item):
                return self.ways(paper, [(), (item,)], [0, 0])
            case c.Many(item, least):
                again = (item, self.chains.rest_of(node))
                if least:
                    return self.ways(paper, [again], [0])
                return self.ways(paper, [again, ()], [_REPEAT if id(node) in self.again else 0, 0])
            case c.Section(c.Ws() as item):
                return [replace(paper, chain=self.chains.push(item, rest), unfinished=True)]
            case c.Section(item) | c.Attempt(item):
                return [replace(paper, chain=self.chains.push(item, rest))]
            case c.Draft(item):
                cost = paper.cost + self.style.cost(_MISSING)
                closers = frozenset(marker.text for marker in self.first.of(node.closer).markers)
                chain = self.chains.push_all((item, _END_DRAFT), rest)
                return [replace(paper, chain=chain, cost=cost, closers=closers)]
            case c.Call(item):
                return self.open_call(replace(paper, chain=self.chains.push_all((item, _END_CALL), rest)))
            case c.Envelope() if not paper.in_call:
                return self.open_call(replace(paper, chain=self.chains.push_all((node, _END_CALL), rest)))
            case c.Let() if node is _END_CALL:
                return self.close_call(here)
            case c.Let() if node is _END_DRAFT:
                return [here] if here.part == len(self.parts) else self.no(here, "it stands behind a call in reasoning")
            case c.Let(register, value):
                return [_with(here, register, value)]
            case c.Lit():
                return self.mark(here, node)
            case c.Ws():
                return self.white(here, node)
            case c.Text():
                return self.text(here, node)
            case c.Peek():
                markers = {marker.text for marker in self.first.of(node.item).markers}
                return self.needing(here, markers)
            case c.Choose():
                return self.choose(here, node, rest)
            case c.Field():
                return self.field(here, node)
        return self.value(here, node)

    def arm_costs(self, arms: tuple[Any, ...]) -> list[int]:
        """What the arms cost: the first one that begins with something of its own is the one a template takes."""
        usual = next((arm for arm in arms if not _misses(arm)), None)
        costs = []
        for arm in arms:
            if _misses(arm):
                costs.append(_MISSING)
            elif arm == c.Seq(()):
                costs.append(_NOTHING)
            elif arm is usual or self.first.of(arm).empty:
                costs.append(0)
            else:
                costs.append(_LATER_MARK if isinstance(arm, c.Lit) else _LATER_ARM)
        return costs

    def ways(self, paper: Paper, ways: list[tuple[Any, ...]], costs: list[int]) -> list[Paper]:
        """One paper for each way; what stands on the others is remembered as not written."""
        assert paper.chain is not None
        rest = paper.chain.next
        begins = [
            frozenset(marker.text for marker in self.first.of(*way).markers if not marker.word) for way in ways
        ]
        found = []
        fields = [self.openers(way) for way in ways]
        for place, way in enumerate(ways):
            heads = paper.heads.union(*fields[:place], *fields[place + 1 :])
            others = paper.skipped.union(*begins[:place], *begins[place + 1 :])
            cost = paper.cost + self.style.cost(costs[place])
            found.append(replace(paper, chain=self.chains.push_all(way, rest), skipped=others, heads=heads, cost=cost))
        return found

    def openers(self, way: tuple[Any, ...]) -> set[tuple[str, tuple[str, ...]]]:
        """The fields that ``way`` may begin with, as a class of characters and what ends it."""
        chain = self.chains.push_all(way, None)
        while chain is not None and isinstance(chain.node, (c.Ws, c.Attempt, c.Section, c.Seq, c.Ref)):
            node = chain.node
            inner: tuple[Any, ...] = () if isinstance(node, c.Ws) else c.children(node)
            if isinstance(node, c.Ref):
                inner = (self.grammar.rules[node.rule],)
            chain = self.chains.push_all(inner, chain.next)
        if chain is None or not isinstance(chain.node, c.Field) or not chain.node.chars:
            return set()
        ends = tuple(sorted(marker.text for marker in self.first.of_chain(chain.next).markers))
        return {(chain.node.chars, ends)}

    def needing(self, paper: Paper, markers: set[str]) -> list[Paper]:
        """``paper`` where one of ``markers`` must follow, and what must follow already."""
        if paper.need:
            markers = {one for one in markers if one.startswith(paper.need)} | {
                one for one in paper.need if one.startswith(tuple(markers))
            }
        return [replace(paper, need=tuple(sorted(markers)))] if markers else []

    def put(self, paper: Paper, kind: Any, text: str, slot: int = -1) -> list[Paper]:
        """``paper`` with one more token, if that is what must follow."""
        if paper.need and not text.startswith(paper.need):
            return []
        if any(closer in text for closer in paper.closers):
            return self.no(paper, "it holds what ends reasoning, inside a call in reasoning")
        before = text_before(paper.last)
        if kind in ("mark", "control") and (before + text).find(text) < len(before):
            return self.no(paper, f"its end runs into {text!r}")
        return [replace(paper, last=Token(kind, text, paper.last, slot), need=(), skipped=frozenset(), heads=frozenset(), unfinished=False)]

    def mark(self, paper: Paper, node: c.Lit) -> list[Paper]:
        text = self.style.spelling(node)
        before = last_character(paper.last)
        if (node.line_start and before != "\n") or (node.word_start and re.fullmatch(r"[\w.]", before)):
            return []
        paper = replace(paper, cost=paper.cost + self.style.cost(_MARK), headed=max(paper.headed - 1, 0))
        return self.put(paper, "control" if is_control(self.grammar, text) else "mark", text)

    def white(self, paper: Paper, node: c.Ws) -> list[Paper]:
        text = self.style.white(node)
        last = paper.last
        if last is not None and last.kind == "text" and last.text:
            if node.exact:
                if text != node.exact and last.text.endswith(node.exact):
                    return self.no(replace(paper, part=paper.part - 1), "its end would be taken for framing")
            elif last.text[-1] in node.chars:
                why = "the white space at its end would be taken for framing"
                return self.no(replace(paper, part=paper.part - 1), why)
        return [replace(paper, last=white_token(node, text, last))]

    # ---- text -------------------------------------------------------------------------------------------------

    def text(self, paper: Paper, node: c.Text) -> list[Paper]:
        part = self.parts[paper.part] if paper.part < len(self.parts) else None
        cost = self.style.cost(0 if node.sink == "content" else _SILENT)
        silent = replace(paper, cost=paper.cost + cost, headed=0)
        if not isinstance(part, Said) or part.sink != node.sink or paper.need:
            return [silent]
        why = self.unfit(paper, node, part.text)
        if why:
            self.no(paper, why)
            return [silent]
        bare = (node.block or node.sink in self.grammar.joined) and not paper.headed
        said = replace(
            paper, part=paper.part + 1, said=paper.said | {node.sink}, headed=0, skipped=frozenset(), heads=frozenset(), unfinished=False,
            blocks=(*paper.blocks, paper.part) if node.block else paper.blocks,
            last=Token("text", part.text, paper.last), cost=paper.cost + self.style.cost(_HEADLESS if bare else 0),
        )  # fmt: skip
        return [said, silent]

    def unfit(self, paper: Paper, node: c.Text, text: str) -> str:
        """Why ``text`` cannot stand here; "" if it can."""
        if not text.strip(c.WHITE):
            return "it is white space only"
        if node.strip != "none" and text != text.rstrip(c.WHITE):
            return "the white space at its end would be taken for framing"
        if (node.strip == "all" or (node.strip == "first" and node.sink not in paper.said)) and text != text.lstrip(c.WHITE):
            return "the white space at its start would be taken for framing"
        if paper.last is not None and paper.last.kind == "white" and text[0] in paper.last.chars:
            return "the white space at its start would be taken for framing"
        for marker in paper.skipped:
            if text.lstrip(c.WHITE).startswith(marker):
                return f"it begins with {marker!r}"
        for chars, ends in paper.heads:
            rest = text.lstrip(c.WHITE)
            rest = rest[len(re.match(f"(?:{chars})*", rest)[0]) :]  # type: ignore[index]
            if not rest.strip(c.WHITE) or rest.startswith(ends) or rest.lstrip(c.WHITE).startswith(ends):
                return "it begins as a header does"
        begins = self.first.of_chain(paper.chain).markers
        for marker in begins:
            if marker.word and text.rstrip(c.WHITE).endswith(marker.text):
                return f"it ends in {marker.text!r}"
        markers = [marker.text for marker in begins if not marker.word]
        for marker in (*markers, *self.grammar.stops, *self.grammar.skips, *self.controls):
            if marker in text:
                return f"it holds the marker {marker!r}"
        return ""

    # ---- fields and choices -----------------------------------------------------------------------------------

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
        return [_with(each, node.register, text) for each in self.put(paper, "field", said)]

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
                id_said=each.id_said or node.register == "id", cost=each.cost + self.style.cost(_STEER),
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
            slot = replace(paper.slots[number], chosen=(*paper.slots[number].chosen, (node, place))).settle(offered)
            if slot is None:
                continue
            slots = (*paper.slots[:number], slot, *paper.slots[number + 1 :])
            taken = take(node, slot.text, offered)
            assert taken is not None
            found += self.arm(replace(paper, slots=slots), node, place, taken[1], rest)
        return found

    def arm(self, paper: Paper, node: c.Choose, place: int, groups: dict[str, str], rest: Chain | None) -> list[Paper]:
        call = self.next_call(paper)
        if "name" in groups and (call is None or groups["name"] != call.name):
            return []
        for register, value in groups.items():
            paper = _with(paper, register, value)
        return [replace(paper, chain=self.chains.push(node.arms[place].item, rest))]

    # ---- calls ------------------------------------------------------------------------------------------------

    def open_call(self, paper: Paper) -> list[Paper]:
        if self.next_call(paper) is None or paper.in_call:
            return []
        return [replace(paper, in_call=True, members=0)]

    def close_call(self, paper: Paper) -> list[Paper]:
        call = self.next_call(paper)
        assert call is not None
        if paper.reg("name") != call.name or paper.members != len(call.arguments):
            return []
        if call.id is not None and not self.id_written(paper, call):
            return self.no(paper, f"the format cannot carry the id {call.id!r}")
        return [
            replace(
                paper, part=paper.part + 1, in_call=False, members=0, id_said=False, regs=(), slot_of=(), headed=0
            )
        ]  # fmt: skip

    def id_written(self, paper: Paper, call: Called) -> bool:
        number = dict(paper.slot_of).get("id", -1)
        return paper.id_said and (number < 0 or paper.slots[number].text == call.id)

    def value(self, paper: Paper, node: Any) -> list[Paper]:
        """A value of the call: all arguments at once, or one member."""
        call = self.next_call(paper)
        if call is None or not paper.in_call:
            return []
        try:
            if isinstance(node, c.Typed):
                return self.member(paper, node, call)
            if paper.members:
                return []
            text = self.whole(paper, node, call)
        except (Unwritable, ValueError) as problem:
            return self.no(paper, str(problem))
        behind = replace(paper, members=len(call.arguments))
        if isinstance(node, c.Envelope):
            behind = _with(replace(behind, id_said=bool(node.ids) and not node.tool_key), "name", call.name)
        return self.put(behind, "value", text)

    def whole(self, paper: Paper, node: Any, call: Called) -> str:
        """All arguments in one value."""
        match node:
            case c.Json():
                return self.style.json(call.arguments)
            case c.Envelope():
                if node.decide in ("weak", "offered") and call.name not in (self.table.offered or ()):
                    raise Unwritable(f"{call.name!r} is not an offered tool, so it is no call here")
                return self.style.envelope(node, call.name, call.arguments, call.id)
            case c.PyArgs():
                return self.style.keywords(call.arguments)
            case c.Quoted():
                return self.style.quoted(node, call.arguments)
            case c.Elements(prefix):
                return write_elements(self.style, prefix, call.arguments, self.table.parameters(call.name))
        value = call.arguments.get(node.key) if len(call.arguments) == 1 else None
        if not isinstance(value, str) or not value:
            raise Unwritable(f"its only argument here is the text {node.key!r}")
        for marker in (*(each.text for each in self.first.of_chain(paper.chain).markers), *self.grammar.stops):
            if marker in value:
                raise Unwritable(f"{node.key!r} holds the marker {marker!r}")
        return value

    def member(self, paper: Paper, node: c.Typed, call: Called) -> list[Paper]:
        """One raw value."""
        key, kind = paper.reg("key"), paper.reg(node.kind) if node.kind else None
        if key is None or (node.kind and kind is None):
            return []
        value = call.arguments[key]
        text = raw_text(self.style, value, kind, self.table.plan(call.name, key), key)
        if paper.last is not None and paper.last.kind == "white" and text[:1] in paper.last.chars:
            raise Unwritable(f"{key!r} begins with white space")
        for marker in paper.skipped:
            if text.startswith(marker):
                raise Unwritable(f"{key!r} begins with {marker!r}")
        closes_early(self.first, paper.chain, node, text, key)
        regs = tuple(each for each in paper.regs if each[0] not in ("key", node.kind))
        return self.put(replace(paper, members=paper.members + 1, regs=regs), "value", node.trim + text + node.trim)


def _with(paper: Paper, register: str, value: str) -> Paper:
    return replace(paper, regs=tuple(sorted({**dict(paper.regs), register: value}.items())))


def _misses(arm: Any) -> bool:
    """Whether an arm begins by looking ahead: it stands for something that is missing."""
    return isinstance(arm, c.Peek) or (isinstance(arm, c.Seq) and bool(arm.items) and _misses(arm.items[0]))


def _name(parts: Sequence[Part], place: int) -> str:
    if place >= len(parts):
        return "the end of the turn"
    part = parts[place]
    return f"the call of {part.name!r}" if isinstance(part, Called) else f"the {part.sink} {part.text[:40]!r}"
