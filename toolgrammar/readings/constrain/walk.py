"""The steps of a constraint: at a place in the grammar, what may be written there and where that leads.

The ways are those of the grammar, less what only mends: missing closers, calls spelled in open reasoning, a marker
said twice. So what a constraint admits reads back as calls of the tools it was made for.

White space is of any kind the grammar takes, but never more than a few characters: a model that may write white
space without end sometimes does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from toolgrammar import combinators as c
from toolgrammar.readings.book import Book
from toolgrammar.readings.constrain.formats import EMPTY, Const, Format, Free, Run, either, opt, seq
from toolgrammar.readings.constrain.graph import solve
from toolgrammar.readings.constrain.offer import Offer
from toolgrammar.readings.constrain.places import END_CALL, END_SECTION, JsonId, JsonName, Place, Since, Told
from toolgrammar.readings.constrain.values import Values
from toolgrammar.readings.first import nodes_of

#: Characters of white space where the grammar takes any number.
MOST_WHITE = 4
#: Places in one grammar.
LIMIT = 200_000

Step = tuple[Format, Place]


class Walk(Values):
    """Finds the ways through one grammar on which the tools of ``offer`` are called.

    ``parallel``: more than one call. ``reasoning``: the turn may think before.
    """

    def __init__(self, book: Book, offer: Offer, *, parallel: bool, reasoning: bool) -> None:
        super().__init__(book, offer)
        self.parallel = parallel
        self.reasoning = reasoning
        #: Call sections may be empty: while ways without calls are looked for.
        self.idle = False
        self._calls: dict[Place, list[Step]] = {}
        self._envelopes: dict[int, Any] = {}
        self._asked: dict[int, set[str]] = {}
        self._thought_ends = self._ends("reasoning") - self._ends("content")

    def begin(self, start: str) -> Place:
        """Where the turn begins."""
        return Place(self.chains.push(c.Ref(self.grammar.starts[start]), None))

    def texts(self, begin: Place) -> list[tuple[str, Place]]:
        """The places behind free text outside of calls, with the text's sink."""
        found: dict[tuple[str, Place], None] = {}
        waiting, seen = [begin], {begin}
        while waiting:
            place = waiting.pop()
            text = self.at_text(place)
            if text is not None:
                assert place.chain is not None
                since: Since = "reasoning" if text.sink == "reasoning" else "content"
                targets = [Place(place.chain.next, since=since, line_start=False)]
                found[text.sink, targets[0]] = None
            else:
                targets = [target for _, target in self.step(place)]
            for target in targets:
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return list(found)

    def at_text(self, place: Place) -> c.Text | None:
        """The free text that stands at ``place``, outside of call sections."""
        node = place.chain.node if place.chain is not None else None
        return node if isinstance(node, c.Text) and not place.sections else None

    def run(self, begin: Place, *, called: bool) -> Format:
        """What may stand between ``begin`` and the next free text or the turn's end, with calls in it or without."""

        def steps(place: Any) -> list[Step]:
            if self.at_text(place) is not None:
                # What must follow is written here, though the text behind it is free.
                return [(either(*map(Const, place.need)), replace(place, need=()))] if place.need else []
            found = self.step(place)
            return found if called else [step for step in found if not step[1].called]

        def done(place: Any) -> bool:
            over = place.chain is None or self.at_text(place) is not None
            return over and place.called == called and not place.need and not place.unfinished

        self.idle = not called
        try:
            return solve(begin, steps, done, LIMIT)
        finally:
            self.idle = False

    def first_call(self, begin: Place) -> Format:
        """What may stand between ``begin`` and the end of the first call."""

        def steps(place: Any) -> list[Step]:
            return [] if place.called or self.at_text(place) is not None else self.step(place)

        return solve(begin, steps, lambda place: place.called, LIMIT)

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
                return self.ways(place, [(arm,) for arm in self.usual(arms)])
            case c.Opt(item) if self.stray(item):
                return [(EMPTY, here)]
            case c.Opt(item):
                return self.ways(place, [(), (item,)])
            case c.Many():
                return self.again(place, node)
            case c.Section(item) | c.Attempt(item) if id(node) in self.sections:
                chain = self.chains.push_all((item, END_SECTION), rest)
                word = place.word or (
                    isinstance(node, c.Attempt) and (node.word or node.unsure or node.until != "announced")
                )
                return [(EMPTY, replace(place, chain=chain, sections=(*place.sections, False), word=word))]
            case c.Section(c.Ws() as item):
                return [(EMPTY, replace(place, chain=self.chains.push(item, rest), unfinished=True))]
            case c.Section(item) | c.Attempt(item):
                return [(EMPTY, replace(place, chain=self.chains.push(item, rest)))]
            case c.Call(item):
                return self.call(place, item)
            case c.Envelope() if not place.in_call:
                return self.call(place, node)
            case c.Envelope():
                return [(EMPTY, replace(place, chain=self.chains.push(self.envelope(node), rest)))]
            case Told("section"):
                behind = replace(here, sections=place.sections[:-1], word=False)
                return [(EMPTY, behind)] if place.sections[-1] or self.idle else []
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
            case c.Draft() | Told():
                return []
        return self.value(here, node)

    # ---- structure ----------------------------------------------------------------------------------------

    def sensible(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        """``items`` without those that only say once more what stands in front of them."""
        kept: list[Any] = []
        before: Any = None
        for item in items:
            if isinstance(item, c.Opt | c.Many) and isinstance(before, c.Lit):
                inner = item.item.items if isinstance(item.item, c.Seq) else (item.item,)
                if [each for each in inner if not isinstance(each, c.Ws)] == [before]:
                    continue
            kept.append(item)
            if not isinstance(item, c.Ws):
                before = item
        return tuple(kept) if len(kept) < len(items) else items

    def stray(self, item: Any) -> bool:
        """Whether it is but an end of reasoning that was not begun, or has ended."""
        parts = item.items if isinstance(item, c.Seq) else (item,)
        marks = [part for part in parts if not isinstance(part, c.Ws)]
        return (
            len(marks) == 1 and isinstance(marks[0], c.Lit) and marks[0].spellings[0] in self._thought_ends
        )

    def usual(self, arms: tuple[Any, ...]) -> tuple[Any, ...]:
        """``arms`` without one that stands for a closer that is missing."""
        kept = tuple(arm for arm in arms if not isinstance(arm, c.Peek))
        return kept if kept and all(map(_only_marks, kept)) else arms

    def ways(self, place: Place, ways: list[tuple[Any, ...]]) -> list[Step]:
        """One place for each way. What stands on the others is no beginning of a raw value."""
        assert place.chain is not None
        begins = [{marker.text for marker in self.first.of(*way).markers} for way in ways]
        found = []
        for number, way in enumerate(ways):
            others = set(place.skipped).union(*begins[:number], *begins[number + 1 :]) - begins[number]
            chain = self.chains.push_all(way, place.chain.next)
            found.append((EMPTY, replace(place, chain=chain, skipped=tuple(sorted(others)))))
        return found

    def again(self, place: Place, node: c.Many) -> list[Step]:
        """The ways of a repeat. One that writes parameters may pass by the next one, if that is optional."""
        assert place.chain is not None
        into = replace(place, in_loop=place.in_call)
        ways: list[tuple[Any, ...]] = [(node.item, self.chains.rest_of(node))]
        if not node.least:
            ways.append(())
        found = self.ways(into, ways)
        if not node.least:
            found[1] = (EMPTY, replace(found[1][1], in_loop=place.in_loop))
        if place.in_call and not place.chosen and self.may_pass(place):
            found.append((EMPTY, replace(place, member=place.member + 1)))
        return found

    def call(self, place: Place, item: Any) -> list[Step]:
        """A whole call, as one step for each way it leaves the place."""
        assert place.chain is not None
        if place.in_call or (place.called and not self.parallel):
            return []
        plain = self.plain(place, item)
        if plain != place:
            return [(EMPTY, plain)]
        chain = self.chains.push_all((item, END_CALL), place.chain.next)
        start = replace(
            place, chain=chain, in_call=True, called=True, sections=tuple(True for _ in place.sections),
            since="call", marked=False, marks=(),
        )  # fmt: skip
        if start not in self._calls:
            self._calls[start] = list(self._solved(start))
        return self._calls[start]

    def plain(self, place: Place, item: Any) -> Place:
        """``place`` in front of a call, less what the call does not ask for: so that ways to it meet."""
        first = self.first.of(item)
        asked = self.asked(item)
        return replace(
            place, regs=tuple(each for each in place.regs if each[0] in asked), head="",
            skipped=place.skipped if first.free else (),
            line_start=place.line_start and any(marker.line_start for marker in first.markers),
        )  # fmt: skip

    def asked(self, item: Any) -> set[str]:
        """The registers that ``item`` goes by."""
        if id(item) not in self._asked:
            found, waiting, seen = {"name"}, [item], set()
            while waiting:
                node = waiting.pop()
                if isinstance(node, c.Ref) and node.rule not in seen:
                    seen.add(node.rule)
                    waiting.append(self.grammar.rules[node.rule])
                elif isinstance(node, c.Choose):
                    found.add(node.register)
                elif isinstance(node, c.Typed):
                    found |= {"key", node.kind}
                waiting.extend(c.children(node))
            self._asked[id(item)] = found
        return self._asked[id(item)]

    def _solved(self, start: Place) -> Iterator[Step]:
        """The call that begins at ``start``, for each place it may end at."""
        ends: dict[Place, None] = {}

        def steps(place: Any) -> list[Step]:
            if place.chain.node is not END_CALL:
                return self.step(place)
            if self.complete(place):
                ends[self.ended(place)] = None
            return []

        solve(start, steps, lambda place: False, LIMIT)
        for end in ends:
            done = lambda place, end=end: (  # noqa: E731
                place.chain.node is END_CALL and self.complete(place) and self.ended(place) == end
            )
            yield solve(start, steps, done, LIMIT), end

    def ended(self, place: Place) -> Place:
        """The place behind a call."""
        assert place.chain is not None
        return replace(
            place, chain=place.chain.next, in_call=False, member=0, chosen=False, in_loop=False, written=False,
            regs=(), filled=(), since="call", marked=False, marks=(), word=False, unfinished=False,
        )  # fmt: skip

    def _ends(self, sink: str) -> set[str]:
        """The markers that may stand directly behind text of one sink."""
        found: set[str] = set()
        for node in nodes_of(self.grammar):
            for place, item in enumerate(node.items if isinstance(node, c.Seq) else ()):
                if isinstance(item, c.Text) and item.sink == sink:
                    found |= {marker.text for marker in self.first.of(*node.items[place + 1 :]).markers}
        return found

    # ---- characters ---------------------------------------------------------------------------------------

    def mark(self, place: Place, node: c.Lit) -> list[Step]:
        """A marker, in every spelling."""
        if node.line_start and not place.line_start:
            return []
        by_head: dict[Place, list[Format]] = {}
        for text in node.spellings:
            if place.need and not text.startswith(place.need):
                continue
            if text in place.marks:
                continue
            head = next((each[len(text) :] for each in self.grammar.anchors if each.startswith(text)), "")
            marks = place.marks
            if not place.in_call and len(text) > 1:
                marks = tuple(sorted({*marks, *node.spellings}))
            target = replace(self.wrote(place, head=head, line_start=text.endswith("\n")), marks=marks)
            by_head.setdefault(target, []).append(Const(text, sure=not place.word))
        return [(either(*texts), target) for target, texts in by_head.items()]

    def wrote(self, place: Place, *, head: str = "", line_start: bool = False) -> Place:
        """``place`` behind something that was written."""
        return replace(
            place, need=(), skipped=(), head=head, line_start=line_start, marked=True, unfinished=False
        )

    def white(self, place: Place, node: c.Ws) -> list[Step]:
        """Framing."""
        texts = tuple(dict.fromkeys((node.canonical or node.exact, node.exact, "")))
        line = "\n" in (node.exact or node.chars)
        if node.exact:
            said: Format = either(*(seq(Const(text)) for text in texts))
        else:
            most = max(MOST_WHITE, node.least, len(node.canonical))
            blank = node.canonical or node.chars[0] * node.least
            usual = (blank,) if node.least or not blank else (blank, "")
            said = Run(_class(node.chars), node.least, most, usual)
        if not line:
            return [(said, replace(place, line_start=place.line_start and not node.least))]
        if not any(marker.line_start for marker in self.first.of_chain(place.chain).markers):
            return [(said, replace(place, line_start=False))]
        ended = Const(node.exact) if node.exact.endswith("\n") else Const("\n")
        return [(ended, replace(place, line_start=True)), (opt(said), place)]

    def text(self, place: Place, node: c.Text) -> list[Step]:
        """Free text: thoughts, if they come first and are wanted; all other text is nothing."""
        if place.sections:
            return [(Run(_class(c.WHITE), 0, MOST_WHITE), place)] if node.strip == "all" else [(EMPTY, place)]
        if node.sink == "drop":
            return []
        if node.sink == "content":
            if place.marked and place.since in ("start", "content"):
                return []
            return [(EMPTY, replace(place, since="content", marked=False, marks=(), head="", skipped=()))]
        if place.called or place.thought or place.need or not self.reasoning:
            return []
        ends = {marker.text for marker in self.first.of_chain(place.chain).markers}
        target = replace(
            place, since="reasoning", thought=True, marked=False, marks=(), head="",
            skipped=(), line_start=False,
        )  # fmt: skip
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


def _only_marks(node: Any) -> bool:
    """Whether nothing but markers and white space stand in it."""
    if isinstance(node, c.Seq | c.Alt | c.Opt):
        return all(map(_only_marks, c.children(node)))
    return isinstance(node, c.Lit | c.Ws)


def _class(chars: str) -> str:
    """A class of characters as it stands between brackets."""
    return "".join({"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(char, char) for char in chars)
