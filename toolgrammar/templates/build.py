"""From a checked response template to a grammar.

    start     the start of the turn, if a template says that something opens only there
    begin     the start of the turn, and behind a call: reasoning spelled with plain text may open here
    turn      the text outside the regions, then one of them
    NAME      the text of a field's region, up to its closer
    call      one call, or a section of calls

Inside a region its closer is live, and every control token that opens another region or ends the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolgrammar import combinators as c
from toolgrammar.templates.calls import compile_calls
from toolgrammar.templates.checks import Region, Template
from toolgrammar.templates.errors import TemplateError
from toolgrammar.templates.nodes import Markers, begins, closers, either, sequence, without
from toolgrammar.templates.patterns import Capture, Shape, Way, White, Word


def build(template: Template, tokens: Sequence[str], stops: Sequence[str], source: str) -> c.Grammar:
    """The grammar of a template. ``tokens``: special tokens of the model; ``stops``: those that end its turn."""
    return _Builder(template, tokens, stops).grammar(source)


class _Builder:
    def __init__(self, template: Template, tokens: Sequence[str], stops: Sequence[str]) -> None:
        self.template = template
        self.stops = tuple(stops)
        self.implicit = next((region for region in template.regions if region.implicit), None)
        self.regions = [self.usable(region) for region in template.regions if not region.implicit]
        ends = self.implicit.close if self.implicit is not None else ()
        special = [text for shape in ends if (text := shape.word.strip()) and " " not in text]
        words = [shape.word for region in self.regions for shape in region.open or () if shape.word]
        known = [token for token in tokens if any(token in word for word in words)]
        self.tokens = tuple(dict.fromkeys((*special, *stops, *known)))
        self.markers = Markers(words, self.tokens)
        self.ends = [left for node in closers(ends, framed=True) for left in without(node, stops)]
        self.end_texts = tuple(text for node in self.ends for text in begins(node))
        self.rules: dict[str, c.Node] = {}

    def usable(self, region: Region) -> Region:
        """A region whose openers begin with a fixed text.

        Without an implicit field what stands in front of that is dropped anyway.
        """
        shapes = list(region.open or ())
        if self.implicit is None:
            shapes = [Shape(_from_word(shape), shape.start) if shape.word else shape for shape in shapes]
            shapes = [one for one in shapes if not any(_ends_with(one, other) for other in shapes)]
        for shape in shapes:
            if shape.parts and (not shape.word or isinstance(shape.parts[0], Capture)):
                hint = "where it begins cannot be seen" if self.implicit else "begin with fixed text"
                raise self.fail(region, "open_pattern", "it does not begin with a fixed text", hint)
        return region._replace(open=tuple(shapes))

    def fail(self, region: Region, key: str, message: str, hint: str = "") -> TemplateError:
        return TemplateError(message, name=self.template.name, field=region.name, key=key, hint=hint)

    # ---- the grammar

    def grammar(self, source: str) -> c.Grammar:
        if self.implicit is not None and self.implicit.sink == "calls":
            raise self.fail(self.implicit, "open", "calls need an opener")
        self.rules["begin"] = self.begin(False)
        self.rules["turn"] = self.turn()
        for region in self.regions:
            if region.sink != "calls":
                self.rules[_rule(region)] = self.body(region)
        starts = self.starts()
        return c.Grammar(
            name=self.template.name, rules=self.rules, starts=starts, stops=self.stops, tokens=self.tokens,
            skips=self.skips(), joined=self.joined(), anchors=self.template.anchors,
            title=f"from a response template ({', '.join(region.name for region in self.template.regions)})",
            facts=self.facts(source),
        )  # fmt: skip

    def facts(self, source: str) -> dict[str, tuple[str, ...]]:
        """Where the grammar is from, and what is not as the template says."""
        extras = [region.name for region in self.template.regions if region.sink == "drop"]
        notes = list(self.template.notes)
        if extras:
            notes.append(f"dropped, for a message has no place for them: {', '.join(extras)}")
        if self.implicit is None:
            notes.append("no field takes the text outside the regions: it is dropped")
        facts: dict[str, tuple[str, ...]] = {"response-template": (source or self.template.name,)}
        return {**facts, "note": tuple(notes)} if notes else facts

    def starts(self) -> dict[str, str]:
        starts = {"content": "begin"}
        if any(shape.start for region in self.regions for shape in region.open or ()):
            self.rules["start"] = self.begin(True)
            starts["content"] = "start"
        thoughts = [region for region in self.regions if region.sink == "reasoning"]
        if self.implicit is not None and self.implicit.sink == "reasoning":
            starts["reasoning"] = "turn"
        elif thoughts:
            region = thoughts[0]
            self.rules["resume"] = c.seq(c.opt(c.ws, self.opener(region)), c.Ref(_rule(region)))
            starts["reasoning"] = "resume"
        return starts

    def begin(self, first: bool) -> c.Node:
        """Where a stray closer of plain reasoning is dropped, and its opener counts.

        ``first``: nothing was read yet.
        """
        arms: list[c.Node] = []
        strays: list[c.Node] = []
        behind: c.Node = c.Ref("turn")
        for region in self.regions:
            plain = [
                shape for shape in region.open or ()
                if shape.parts and self.only_first(region, shape) and (first or not shape.start)
            ]  # fmt: skip
            if plain and region.sink == "calls":
                arms.append(c.seq(c.ws, self.call(region, plain), c.Ref("begin")))
            elif plain:
                arms.append(c.seq(c.ws, self.opener(region, plain), c.Ref(_rule(region))))
                strays += [
                    c.Lit(begins(node)) for node in closers(region.close, framed=True) if not self.control(node)
                ]
            if first and any(not shape.parts for shape in region.open or ()):
                behind = c.Ref(_rule(region))
        stray = [c.opt(c.ws, either(strays), c.ws)] if strays else []
        return c.seq(*stray, c.alt(*arms, behind)) if arms else behind

    def only_first(self, region: Region, shape: Shape) -> bool:
        """Whether an opener counts only as the first thing of the turn, or behind a call."""
        return shape.start or (region.sink == "reasoning" and not self.markers.is_control(shape.word))

    def turn(self) -> c.Node:
        """The text outside the regions, and what may open in it."""
        if self.implicit is None or self.implicit.sink == "drop":
            text = c.drop
        else:
            strip = self.implicit.args.get("strip", True)
            thought = self.implicit.sink == "reasoning"
            trim: Any = ("all" if thought else "first") if strip else "none"
            text = c.Text("reasoning" if thought else "content", strip=trim)
        return _then(text, self.openings(None))

    def openings(self, inside: Region | None, taken: frozenset[str] = frozenset()) -> list[c.Node]:
        """What may open in the text around the regions, or ``inside`` one of them, where ``taken`` closes it."""
        ways: list[c.Node] = []
        for region in self.regions:
            shapes = [shape for shape in region.open or () if shape.parts and not self.only_first(region, shape)]
            if inside is not None:
                shapes = [
                    shape for shape in shapes if self.markers.is_control(shape.word) and shape.word not in taken
                ]
            if shapes and region.sink == "calls":
                ways.append(c.seq(*([] if inside else [c.ws]), self.call(region, shapes), c.Ref("begin")))
            elif shapes:
                ways.append(c.seq(self.opener(region, shapes), c.Ref(_rule(region))))
        if ends := [left for node in self.ends for left in without(node, taken)]:
            ways.append(c.seq(either(ends), c.Ref("turn")))
        return ways

    def body(self, region: Region) -> c.Node:
        """The text of a region and what may end it."""
        strip = bool(region.args.get("strip", True))
        sink: Any = region.sink
        block = sink == "content" and region.join != ""
        text = c.Text(sink, strip="all" if strip and sink != "drop" else "none", block=block)
        close = closers(region.close, framed=strip)
        behind = c.Ref("turn") if region.sink == "reasoning" else c.Ref("begin")
        ways: list[c.Node] = [c.seq(either(close), behind)] if close else []
        taken = frozenset(text for node in close for text in begins(node))
        ways += self.openings(region, taken)
        if region.sink == "reasoning" and (draft := self.draft(close)) is not None:
            ways.append(draft)
        return _then(text, ways)

    def draft(self, close: list[c.Node]) -> c.Node | None:
        """A call spelled with plain text while reasoning is open: what follows it decides."""
        regions = [region for region in self.regions if region.sink == "calls"]
        plain = [
            shape for region in regions for shape in region.open or () if not self.markers.is_control(shape.word)
        ]
        if not plain:
            return None
        call = c.seq(c.ws, self.call(regions[0], plain))
        if not close:
            return c.seq(call, c.Ref("begin"))
        return c.seq(c.Draft(call, c.seq(c.ws, either(close), c.ws)), c.Ref("begin"))

    def call(self, region: Region, shapes: Sequence[Shape]) -> c.Node:
        """A call that begins in one of these ways."""
        whole = len(shapes) == len(region.open or ())
        rule = "call" if whole else "token-call" if self.markers.is_control(shapes[0].word) else "tag-call"
        if rule not in self.rules:
            some = region._replace(open=tuple(shapes))
            compiled = compile_calls(some, self.template.name, self.markers, self.end_texts)
            self.rules |= {**compiled.rules, rule: compiled.item}
        return c.Ref(rule)

    def opener(self, region: Region, shapes: Sequence[Shape] | None = None) -> c.Node:
        """What opens a region of text."""
        ways = []
        for shape in region.open if shapes is None and region.open is not None else shapes or ():
            nodes = sequence(shape.parts, {}, self.markers)
            if nodes:
                long = sum(isinstance(node, (c.Lit, c.Field)) for node in nodes) > 1
                ways.append(c.Attempt(c.seq(*nodes), aside=True) if long else c.seq(*nodes))
        return either(ways)

    # ---- what is around it

    def control(self, node: c.Node) -> bool:
        return all(self.markers.is_control(text) for text in begins(node))

    def skips(self) -> tuple[str, ...]:
        """Control tokens that are consumed where they stand alone."""
        closing = [node for region in self.regions for node in closers(region.close, framed=True)]
        texts = [text for node in closing if not isinstance(node, c.Peek) for text in begins(node)]
        found = [*(text for text in texts if self.markers.is_control(text)), *sorted(self.markers.shared)]
        return tuple(dict.fromkeys(text for text in found if text not in self.stops))

    def joined(self) -> tuple[str, ...]:
        """Whether stretches of reasoning are joined with a line feed."""
        thoughts = [region for region in self.regions if region.sink == "reasoning"]
        return ("reasoning",) if thoughts and not all(region.join == "" for region in thoughts) else ()


def _rule(region: Region) -> str:
    return f"in-{region.name}"


def _then(text: c.Node, ways: Sequence[c.Node]) -> c.Node:
    return c.seq(text, c.opt(c.alt(*ways))) if ways else text


def _from_word(shape: Shape) -> Way:
    """The parts of a shape from its first fixed text on, if nobody asks for what stands in front."""
    first = next(n for n, part in enumerate(shape.parts) if isinstance(part, Word))
    asked = any(
        not isinstance(part, (White, Capture)) or getattr(part, "name", "") for part in shape.parts[:first]
    )
    return shape.parts if asked else shape.parts[first:]


def _ends_with(one: Shape, other: Shape) -> bool:
    """Whether ``other`` is the end of ``one``, so that looking for it finds both."""
    length = len(other.parts)
    return 0 < length < len(one.parts) and one.parts[-length:] == other.parts
