"""The steps of a constraint: at a place in the grammar, what may be written there and where that leads.

The ways are those of the grammar, less what only mends: missing closers, calls spelled in open reasoning, markers
said twice. So what a constraint admits reads back as calls of the tools it was made for. Tools are holes here;
their names are told apart only where the grammar's choices do.

White space is of any kind the grammar takes, but never more than a few characters: a model that may write white
space without end sometimes does.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from toolgrammar import combinators as c
from toolgrammar.readings.book import Book
from toolgrammar.readings.constrain.calls import Calls
from toolgrammar.readings.constrain.formats import EMPTY, Const, Format, Free, Run, either, opt, seq
from toolgrammar.readings.constrain.places import END_CALL, END_MEMBER, END_SECTION, JsonId, JsonName, Place

Step = tuple[Format, Place]

#: Characters of white space where the grammar takes any number.
MOST_WHITE: Final = 4
#: What a marker has in it that cannot be a word of prose.
_TAGS: Final = "<[|｜◁"


class Walk(Calls):
    """Finds the ways through one grammar.

    ``parallel``: there may be more than one call. ``reasoning``: the turn may think before.
    """

    def __init__(
        self, book: Book, likes: tuple[str, ...], offered: frozenset[str], *, parallel: bool, reasoning: bool
    ) -> None:
        super().__init__(book, likes, offered)
        self.parallel = parallel
        self.reasoning = reasoning
        self._thought_ends = self._ends("reasoning") - self._ends("content")

    def begin(self, start: str) -> Place:
        """Where the turn begins."""
        return Place(self.chains.push(c.Ref(self.grammar.starts[start]), None))

    def step(self, place: Place) -> list[Step]:
        """What may be written at ``place``, and the places behind it."""
        if place.chain is None:
            return []
        node, rest = place.chain.node, place.chain.next
        here = replace(place, chain=rest)
        match node:
            case c.Seq(items):
                return [(EMPTY, replace(place, chain=self.chains.push_all(self.sensible(items), rest)))]
            case c.Ref(rule):
                return [(EMPTY, replace(place, chain=self.chains.push(self.grammar.rules[rule], rest)))]
            case c.Alt(arms):
                return self.ways(place, [(arm,) for arm in self.calling(place, usual(arms))])
            case c.Opt(item):
                none = [()] if self.stray(item) else [*self.none(place, item), (item,)]
                return self.ways(place, none)
            case c.Many(item) if place.in_call and self.holds_value(item):
                return self.members(place, node)
            case c.Many(item, least):
                again = (item, self.chains.rest_of(node))
                return self.ways(place, [again] if least else [again, *self.none(place, item)])
            case c.Section(c.Ws() as item):
                return [(EMPTY, replace(place, chain=self.chains.push(item, rest), unfinished=True))]
            case c.Section(item) | c.Attempt(item):
                return [(EMPTY, self.opened(place, node, item))]
            case c.Call(item):
                return self.call(place, item)
            case c.Envelope() if not place.in_call:
                return self.call(place, node)
            case c.Envelope():
                return [(EMPTY, replace(place, chain=self.chains.push(self.envelope(node), rest)))]
            case c.Let() if node is END_SECTION:
                return [(EMPTY, replace(here, sections=place.sections[:-1], word=False))]
            case c.Let() if node is END_CALL or node is END_MEMBER:
                return []
            case c.Let(register, value):
                return self.let(here, register, value)
            case c.Lit():
                return self.mark(here, node)
            case c.Ws():
                return self.white(here, node)
            case c.Text():
                return self.text(here, node)
            case c.Peek():
                return self.peek(here, node)
            case c.Choose():
                return self.choose(here, node)
            case c.Field() | JsonName() | JsonId():
                return self.field(here, node)
            case c.Draft():
                return []
        return self.value(here, node)

    # ---- structure ----------------------------------------------------------------------------------------

    def sensible(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        """``items`` less what only says once more what stands in front of it; parameters ``x x*`` as ``x+``."""
        kept: list[Any] = []
        before: Any = None
        for item in items:
            inner = marks_of(item.item) if isinstance(item, c.Opt | c.Many) else []
            if inner == [before] and isinstance(before, c.Lit):
                continue
            if inner == [before] and isinstance(item, c.Many) and self.holds_value(before):
                # The first parameter is like the others: white space may stand in front of it, too.
                kept[kept.index(before)] = item
            else:
                kept.append(item)
            if not isinstance(item, c.Ws):
                before = item
        return tuple(kept) if kept != list(items) else items

    def ways(self, place: Place, ways: list[tuple[Any, ...]]) -> list[Step]:
        """One place for each way. What stands on the others is no beginning of a raw value."""
        assert place.chain is not None
        begins = [{marker.text for marker in self.first.of(*way).markers} for way in ways]
        found: list[Step] = []
        for number, way in enumerate(ways):
            others = set(place.skipped).union(*begins[:number], *begins[number + 1 :]) - begins[number]
            chain = self.chains.push_all(way, place.chain.next)
            found.append((EMPTY, replace(place, chain=chain, skipped=tuple(sorted(others)))))
        return found

    def opened(self, place: Place, node: Any, item: Any) -> Place:
        """``place`` inside a section or an attempt."""
        assert place.chain is not None
        prose = isinstance(node, c.Attempt) and (node.word or node.unsure or node.until != "announced")
        if id(node) not in self.sections:
            return replace(place, chain=self.chains.push(item, place.chain.next), word=place.word or prose)
        chain = self.chains.push_all((item, END_SECTION), place.chain.next)
        return replace(place, chain=chain, sections=(*place.sections, False), word=place.word or prose)

    def none(self, place: Place, item: Any) -> list[tuple[Any, ...]]:
        """The way past ``item``; none past the calls of a section in which no call was made."""
        return [] if self.empty(place) and self.book.holds_call(item, ()) else [()]

    def calling(self, place: Place, arms: tuple[Any, ...]) -> tuple[Any, ...]:
        """``arms``; in such a section without those that are but a marker, where others hold calls."""
        if self.empty(place) and any(self.book.holds_call(arm, ()) for arm in arms):
            return tuple(arm for arm in arms if not only_marks(arm))
        return arms

    def empty(self, place: Place) -> bool:
        """Whether a section is open in which no call was made."""
        return bool(place.sections) and not place.sections[-1]

    def stray(self, item: Any) -> bool:
        """Whether it is but an end of reasoning that was not begun, or has ended."""
        if any(not isinstance(node, c.Lit | c.Ws | c.Seq | c.Alt | c.Ref) for node in self.below(item)):
            return False
        markers = {marker.text for marker in self.first.of(item).markers}
        return bool(markers) and markers <= self._thought_ends

    def _ends(self, sink: str) -> set[str]:
        """The markers that may stand directly behind text of one sink."""
        found: set[str] = set()
        for node in self.nodes:
            for place, item in enumerate(node.items if isinstance(node, c.Seq) else ()):
                if isinstance(item, c.Text) and item.sink == sink:
                    found |= {marker.text for marker in self.first.of(*node.items[place + 1 :]).markers}
        return found

    # ---- characters ---------------------------------------------------------------------------------------

    def mark(self, place: Place, node: c.Lit) -> list[Step]:
        """A marker, in every spelling."""
        if node.line_start and not place.line_start:
            return []
        targets: dict[Place, list[Format]] = {}
        for text in node.spellings:
            if (place.need and not text.startswith(place.need)) or text in place.marks:
                continue
            marks = place.marks
            if not place.in_call and len(text) > 1:
                marks = tuple(sorted({*marks, *node.spellings}))
            head = next((each[len(text) :] for each in self.grammar.anchors if each.startswith(text)), "")
            target = replace(self.wrote(place, head=head, line_start=text.endswith("\n")), marks=marks)
            sure = not place.word and any(char in text for char in _TAGS)
            targets.setdefault(target, []).append(Const(text, sure=sure))
        return [(either(*texts), target) for target, texts in targets.items()]

    def white(self, place: Place, node: c.Ws) -> list[Step]:
        """Framing."""
        said: Format
        if node.exact:
            said = either(*(seq(Const(text)) for text in dict.fromkeys((node.canonical, node.exact, ""))))
        else:
            blank = node.canonical or node.chars[0] * node.least
            usual = (blank,) if node.least or not blank else (blank, "")
            said = Run(_class(node.chars), node.least, max(MOST_WHITE, node.least, len(node.canonical)), usual)
        if "\n" not in (node.exact or node.chars):
            return [(said, replace(place, line_start=place.line_start and not node.least))]
        if not any(marker.line_start for marker in self.first.of_chain(place.chain).markers):
            return [(said, replace(place, line_start=False))]
        ended = Const(node.exact) if node.exact.endswith("\n") else Const("\n")
        return [(ended, replace(place, line_start=True)), (opt(said), place)]

    def text(self, place: Place, node: c.Text) -> list[Step]:
        """Free text: thoughts, if they come first and are wanted; all other text is nothing."""
        if place.sections:
            if node.sink == "drop" and self.empty(place):
                return []
            return [(Run(_class(c.WHITE), 0, MOST_WHITE), place)] if node.strip == "all" else [(EMPTY, place)]
        if node.sink == "drop":
            return []
        further = replace(place, word=False, marked=False, marks=(), head="", skipped=())
        if node.sink == "content":
            silly = place.marked and place.since in ("start", "content")
            return [] if silly else [(EMPTY, replace(further, since="content"))]
        if place.called or place.thought or place.need or not self.reasoning:
            return []
        ends = {marker.text for marker in self.first.of_chain(place.chain).markers}
        target = replace(further, since="reasoning", thought=True, line_start=False)
        return [(Free(tuple(sorted(ends))), target)]

    def peek(self, place: Place, node: c.Peek) -> list[Step]:
        """What must follow."""
        markers = {
            marker.text for marker in self.first.of(node.item).markers if place.line_start or not marker.line_start
        }
        if place.need:
            markers = {one for one in markers if one.startswith(place.need)} | {
                one for one in place.need if one.startswith(tuple(markers))
            }
        return [(EMPTY, replace(place, need=tuple(sorted(markers))))] if markers else []


def marks_of(node: Any) -> list[Any]:
    """What stands in a sequence, less white space."""
    items = node.items if isinstance(node, c.Seq) else (node,)
    return [item for item in items if not isinstance(item, c.Ws)]


def usual(arms: tuple[Any, ...]) -> tuple[Any, ...]:
    """``arms`` without one that stands for a closer that is missing."""
    kept = tuple(arm for arm in arms if not isinstance(arm, c.Peek))
    return kept if kept and all(map(only_marks, kept)) else arms


def only_marks(node: Any) -> bool:
    """Whether nothing but markers and white space stand in it."""
    if isinstance(node, c.Seq | c.Alt | c.Opt):
        return all(map(only_marks, c.children(node)))
    return isinstance(node, c.Lit | c.Ws)


def _class(chars: str) -> str:
    """A class of characters as it stands between brackets."""
    return "".join({"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char, char) for char in chars)
