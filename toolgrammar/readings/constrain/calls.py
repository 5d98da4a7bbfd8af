"""The steps over calls: a call, its parameters and its values are one step each."""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec.structs import replace

from toolgrammar import combinators as c
from toolgrammar.readings.book import Book
from toolgrammar.readings.constrain.fields import Fields
from toolgrammar.readings.constrain.formats import EMPTY, Each, Format, Hole, Members, seq
from toolgrammar.readings.constrain.graph import solve_each
from toolgrammar.readings.constrain.places import END_CALL, END_MEMBER, JsonId, JsonName, Place
from toolgrammar.readings.first import nodes_of

Step = tuple[Format, Place]

#: White space inside a call object.
_BLANK: Final = c.Ws()
_SPACE: Final = c.Ws(canonical=" ")


class Calls(Fields):
    """Steps over calls."""

    parallel: bool

    def __init__(self, book: Book, likes: tuple[str, ...], offered: frozenset[str]) -> None:
        super().__init__(book, likes, offered)
        self.nodes = list(nodes_of(book.grammar))
        self._made: dict[Any, list[Step]] = {}
        self._envelopes: dict[int, tuple[Any, Any]] = {}
        self._below: dict[int, tuple[Any, tuple[Any, ...]]] = {}

    def step(self, place: Place) -> list[Step]:
        """What may be written at ``place``, and the places behind it."""
        raise NotImplementedError

    def below(self, item: Any) -> tuple[Any, ...]:
        """All nodes in ``item``, those of its rules too."""
        if id(item) not in self._below:
            found, waiting, seen = [], [item], set()
            while waiting:
                node = waiting.pop()
                found.append(node)
                if isinstance(node, c.Ref) and node.rule not in seen:
                    seen.add(node.rule)
                    waiting.append(self.grammar.rules[node.rule])
                waiting.extend(c.children(node))
            self._below[id(item)] = item, tuple(found)
        return self._below[id(item)][1]

    def holds_value(self, item: Any) -> bool:
        """Whether a parameter's value stands in it."""
        return any(isinstance(node, c.Typed) for node in self.below(item))

    # ---- calls --------------------------------------------------------------------------------------------

    def call(self, place: Place, item: Any) -> list[Step]:
        """A whole call, as one step for each way it leaves the place."""
        assert place.chain is not None
        if place.in_call or (place.called and not self.parallel):
            return []
        plain = self.plain(place, item)
        if plain != place:
            return [(EMPTY, plain)]
        start = replace(
            place, chain=self.chains.push_all((item, END_CALL), place.chain.next), in_call=True, called=True,
            sections=tuple(True for _ in place.sections), since="call", marked=False, marks=(), filled=(),
        )  # fmt: skip
        if start not in self._made:
            found = solve_each(start, self.in_call, self.ended)
            name = place.reg("name")
            if name and not place.like:
                found = [(Each(said, name), end) for said, end in found]
            self._made[start] = found
        return self._made[start]

    def in_call(self, place: Place) -> list[Step]:
        """The steps of a call; at its end the arguments are written, or none are needed."""
        assert place.chain is not None
        if place.chain.node is not END_CALL or place.written:
            return self.step(place)
        return [(Hole("nothing"), replace(place, written=True))] if self.has_name(place) else []

    def has_name(self, place: Place) -> bool:
        return bool(place.like or place.reg("name"))

    def ended(self, place: Place) -> Place | None:
        """The place behind a call that ends here."""
        assert place.chain is not None
        if place.chain.node is not END_CALL or not place.written or not self.has_name(place):
            return None
        return replace(
            place, chain=place.chain.next, in_call=False, written=False, regs=(), filled=(), since="call",
            marked=False, marks=(), word=False, unfinished=False, told=bool(place.like),
        )  # fmt: skip

    def plain(self, place: Place, item: Any) -> Place:
        """``place`` in front of a call, less what the call does not ask for: so that ways to it meet."""
        first = self.first.of(item)
        asked = {"name"}
        for node in self.below(item):
            if isinstance(node, c.Choose):
                asked.add(node.register)
            elif isinstance(node, c.Typed):
                asked |= {"key", node.kind}
        return replace(
            place, regs=tuple(each for each in place.regs if each[0] in asked), head="", filled=(),
            skipped=place.skipped if first.free else (),
            line_start=place.line_start and any(marker.line_start for marker in first.markers),
        )  # fmt: skip

    def settled(self, label: Format, place: Place, like: str) -> list[Step]:
        """``label``, and all up to the end of the call that bears the name, for every tool that goes this way."""
        start = replace(place, like=like)

        def over(at: Place) -> Place | None:
            at_end = at.in_call and at.chain is not None and at.chain.node is END_CALL and at.written
            return replace(at, like="" if at.told else like, told=False) if at.told or at_end else None

        def steps(at: Place) -> list[Step]:
            return [] if at.told else self.in_call(at) if at.in_call else self.step(at)

        key = ("settled", start)
        if key not in self._made:
            self._made[key] = solve_each(start, steps, over)
        return [(Each(seq(label, said), like), replace(end, like="")) for said, end in self._made[key]]

    # ---- arguments ----------------------------------------------------------------------------------------

    def members(self, place: Place, node: c.Many) -> list[Step]:
        """All parameters, each as ``node`` repeats it."""
        assert place.chain is not None
        past = replace(place, chain=place.chain.next)
        if place.written or place.in_member:
            return [] if node.least else [(EMPTY, past)]
        # What follows a parameter is another one, or what follows them all: both may end its value.
        loop = self.chains.push(c.Many(node.item) if node.least else node, place.chain.next)
        start = replace(
            place, chain=self.chains.push_all((node.item, END_MEMBER), loop), in_member=True, filled=()
        )  # fmt: skip
        begins = {marker.text for marker in self.first.of(node.item).markers}
        found: list[Step] = []
        for said, end in solve_each(start, self.step, self._member_over):
            # It was not one more of them that followed the last one.
            need = tuple(text for text in end.need if text not in begins) or end.need
            found.append((Members(said), replace(past, need=need, written=True, line_start=False)))
        return found

    def _member_over(self, place: Place) -> Place | None:
        """A place behind a parameter, with what must follow it."""
        over = place.chain is not None and place.chain.node is END_MEMBER and not place.in_member
        return Place(None, need=place.need) if over else None

    def value(self, place: Place, node: Any) -> list[Step]:
        """A value of the call."""
        if not place.in_call or place.written or not self.has_name(place):
            return []
        if isinstance(node, c.Typed):
            return self.typed(place, node)
        if place.in_member or (place.need and not "{".startswith(place.need)):
            return []
        if isinstance(node, c.Verbatim):
            hole = Hole("only", node, self.ends(place), kind=node.key)
        else:
            # Where prose is still possible, a control token in a string would end the attempt.
            hole = Hole("whole", node, tuple(sorted(self.grammar.stops)) if place.word else ())
        return [(hole, replace(self.wrote(place), written=True))]

    def ends(self, place: Place, also: tuple[str, ...] = ()) -> tuple[str, ...]:
        """What ends a raw text, or would be taken for something else."""
        ends = {marker.text for marker in self.first.of_chain(place.chain).markers}
        barred = {*ends, *also, *place.skipped, *self.controls, *self.grammar.stops}
        texts = {text for text in barred if text.strip()}
        return tuple(sorted(
            text for text in texts if not any(other != text and other in text for other in texts)
        ))  # fmt: skip

    def typed(self, place: Place, node: c.Typed) -> list[Step]:
        """One raw value."""
        if place.need and node.trim not in place.need:
            return []
        lead = node.trim if place.need else ""
        kind = place.reg(node.kind) if node.kind else None
        openers = tuple(marker.text for opener in node.reopen for marker in self.first.of(opener).markers)
        ends = self.ends(place, openers)
        key = place.reg("key")
        if not place.in_member and key is not None:
            # The grammar names the one parameter itself.
            hole = Hole("only", node, ends, kind=key)
            return [(hole, replace(self.wrote(place), written=True))]
        if not place.in_member or "key" not in place.filled or (node.kind and kind is None):
            return []
        return [(Hole("value", node, ends, kind, lead), replace(self.wrote(place), in_member=False))]

    def envelope(self, node: c.Envelope) -> Any:
        """A call object as nodes: its members in the order that templates write them."""
        if id(node) not in self._envelopes:
            self._envelopes[id(node)] = (node, _envelope(node))
        return self._envelopes[id(node)][1]


def _envelope(node: c.Envelope) -> c.Node:
    """The members of a call object, in the order of templates: type, id, name, arguments, or the id last."""
    comma = (_BLANK, c.Lit((",",)), _SPACE)
    colon = (_BLANK, c.Lit((":",)), _SPACE)

    def member(names: tuple[str, ...], value: Any) -> tuple[Any, ...]:
        return (c.Lit(tuple(json.dumps(name) for name in names)), *colon, value)

    items: list[Any] = [c.Lit(("{",)), _BLANK]
    if node.tool_key:
        items += [JsonName(), *colon, c.Json()]
    else:
        id = member(node.ids, JsonId())
        if node.type_value:
            items.append(c.Opt(c.Seq((*member(("type",), c.Lit((json.dumps(node.type_value),))), *comma))))
        if node.ids:
            items.append(c.Opt(c.Seq((*id, *comma))))
        items += (*member(node.names, JsonName()), *comma, *member(node.arguments, c.Json()))
        if node.ids:
            items.append(c.Opt(c.Seq((*comma, *id))))
    return c.Seq((*items, _BLANK, c.Lit(("}",))))
