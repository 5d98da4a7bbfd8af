"""The renderer's steps over free text: what can be said where, and what would be read as something else."""

from __future__ import annotations

import re

from msgspec.structs import replace

from toolgrammar import combinators as c
from toolgrammar.readings.book import HEADLESS, SILENT
from toolgrammar.readings.paper import Paper, Token
from toolgrammar.readings.pen import Pen
from toolgrammar.readings.turns import Said


class Prose(Pen):
    """Writes reasoning and content."""

    def text(self, paper: Paper, node: c.Text) -> list[Paper]:
        part = self.parts[paper.part] if paper.part < len(self.parts) else None
        cost = self.style.cost(0 if node.sink == "content" else SILENT)
        silent = replace(paper, cost=paper.cost + cost, headed=0)
        if not isinstance(part, Said) or part.sink != node.sink or paper.need:
            return [silent]
        why = self.unfit(paper, node, part.text)
        if why:
            self.no(paper, why)
            return [silent]
        bare = (node.block or node.sink in self.grammar.joined) and not paper.headed
        said = replace(
            paper, part=paper.part + 1, said=paper.said | {node.sink}, headed=0, skipped=frozenset(),
            heads=frozenset(), unfinished=False, last=Token("text", part.text, paper.last),
            blocks=(*paper.blocks, paper.part) if node.block else paper.blocks,
            cost=paper.cost + self.style.cost(HEADLESS if bare else 0),
        )  # fmt: skip
        return [said, silent]

    def unfit(self, paper: Paper, node: c.Text, text: str) -> str:
        """Why ``text`` cannot stand here; "" if it can."""
        if not text.strip(c.WHITE):
            return "it is white space only"
        if node.strip != "none" and text != text.rstrip(c.WHITE):
            return "the white space at its end would be taken for framing"
        if (
            node.strip == "all" or (node.strip == "first" and node.sink not in paper.said)
        ) and text != text.lstrip(c.WHITE):
            return "the white space at its start would be taken for framing"
        if paper.last is not None and paper.last.kind == "white" and text[0] in paper.last.chars:
            return "the white space at its start would be taken for framing"
        for passed in paper.skipped:
            if text.lstrip(c.WHITE).startswith(passed):
                return f"it begins with {passed!r}"
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
        for held in (*markers, *self.grammar.stops, *self.grammar.skips, *self.controls):
            if held in text:
                return f"it holds the marker {held!r}"
        return ""
