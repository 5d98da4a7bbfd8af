"""The steps of the renderer: at a place in the grammar, which ways go on and what is written on each.

``step`` takes the first node of a paper's chain and returns the papers behind it; none, if the wanted parts cannot
be written here. Nothing is known of any format: it all stands in the nodes.

    book    what is known of the grammar, and what steps cost
    pen     tokens onto paper         prose   free text
    fields  names, keys, headers      calls   calls and values
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from toolgrammar import combinators as c
from toolgrammar.readings.book import EMPTY, END_CALL, END_DRAFT, END_SECTION, MARK, MISSING, REPEAT
from toolgrammar.readings.calls import Calls
from toolgrammar.readings.fields import Fields
from toolgrammar.readings.first import is_control
from toolgrammar.readings.paper import Paper, last_character, white_token
from toolgrammar.readings.pen import with_register
from toolgrammar.readings.prose import Prose


class Walker(Prose, Fields, Calls):
    """Finds the ways through one grammar for one list of parts."""

    def begin(self, start: str) -> Paper:
        """Where the turn begins."""
        return Paper(self.chains.push(c.Ref(self.grammar.starts[start]), None))

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
                return self.ways(paper, [(arm,) for arm in arms], self.book.arm_costs(arms))
            case c.Opt(item):
                return self.ways(paper, [(), (item,)], [0, 0])
            case c.Many(item, least):
                again = (item, self.chains.rest_of(node))
                if least:
                    return self.ways(paper, [again], [0])
                return self.ways(paper, [again, ()], [REPEAT if id(node) in self.again else 0, 0])
            case c.Section(c.Ws() as item):
                return [replace(paper, chain=self.chains.push(item, rest), unfinished=True)]
            case c.Section(item) | c.Attempt(item) if id(node) in self.sections:
                chain = self.chains.push_all((item, END_SECTION), rest)
                return [replace(paper, chain=chain, opened=(*paper.opened, paper.part))]
            case c.Section(item) | c.Attempt(item):
                return [replace(paper, chain=self.chains.push(item, rest))]
            case c.Draft(item):
                cost = paper.cost + self.style.cost(MISSING)
                closers = frozenset(marker.text for marker in self.first.of(node.closer).markers)
                chain = self.chains.push_all((item, END_DRAFT), rest)
                return [replace(paper, chain=chain, cost=cost, closers=closers)]
            case c.Call(item):
                return self.open_call(replace(paper, chain=self.chains.push_all((item, END_CALL), rest)))
            case c.Envelope() if not paper.in_call:
                return self.open_call(replace(paper, chain=self.chains.push_all((node, END_CALL), rest)))
            case c.Let() if node is END_CALL:
                return self.close_call(here)
            case c.Let() if node is END_SECTION:
                cost = self.style.cost(EMPTY if here.part == here.opened[-1] else 0)
                return [replace(here, opened=here.opened[:-1], cost=here.cost + cost)]
            case c.Let() if node is END_DRAFT:
                over = here.part == len(self.parts)
                return (
                    [replace(here, over=True)] if over else self.no(here, "it stands behind a call in reasoning")
                )
            case c.Let(register, value):
                return [with_register(here, register, value)]
            case c.Lit():
                return self.mark(here, node)
            case c.Ws():
                return self.white(here, node)
            case c.Text():
                return self.text(here, node)
            case c.Peek():
                line = last_character(here.last) == "\n"
                markers = {
                    marker.text for marker in self.first.of(node.item).markers if line or not marker.line_start
                }
                return self.needing(here, markers)
            case c.Choose():
                return self.choose(here, node, rest)
            case c.Field():
                return self.field(here, node)
        return self.value(here, node)

    def ways(self, paper: Paper, ways: list[tuple[Any, ...]], costs: list[int]) -> list[Paper]:
        """One paper for each way; what stands on the others is remembered as not written."""
        assert paper.chain is not None
        rest = paper.chain.next
        begins = [
            frozenset(marker.text for marker in self.first.of(*way).markers if not marker.word) for way in ways
        ]
        found = []
        fields = [self.book.openers(way) for way in ways]
        for place, way in enumerate(ways):
            heads = paper.heads.union(*fields[:place], *fields[place + 1 :])
            others = paper.skipped.union(*begins[:place], *begins[place + 1 :])
            cost = paper.cost + self.style.cost(costs[place])
            found.append(
                replace(paper, chain=self.chains.push_all(way, rest), skipped=others, heads=heads, cost=cost)
            )
        return found

    def mark(self, paper: Paper, node: c.Lit) -> list[Paper]:
        text = self.style.spelling(node)
        before = last_character(paper.last)
        if (node.line_start and before != "\n") or (node.word_start and re.fullmatch(r"[\w.]", before)):
            return []
        paper = replace(paper, cost=paper.cost + self.style.cost(MARK), headed=max(paper.headed - 1, 0))
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
