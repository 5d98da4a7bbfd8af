"""The renderer's steps over calls and their values."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from toolgrammar import combinators as c
from toolgrammar.readings.elements import write_elements
from toolgrammar.readings.paper import Paper
from toolgrammar.readings.pen import Pen, with_register
from toolgrammar.readings.raw import Unwritable, closes_early, raw_text
from toolgrammar.readings.turns import Called


class Calls(Pen):
    """Writes calls."""

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
            behind = with_register(
                replace(behind, id_said=bool(node.ids) and not node.tool_key), "name", call.name
            )
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
        for marker in (*paper.skipped, *self.grammar.stops) if paper.skipped else ():
            if text.startswith(marker):
                raise Unwritable(f"{key!r} begins with {marker!r}")
        closes_early(self.first, paper.chain, node, text, key)
        regs = tuple(each for each in paper.regs if each[0] not in ("key", node.kind))
        return self.put(
            replace(paper, members=paper.members + 1, regs=regs), "value", node.trim + text + node.trim
        )
