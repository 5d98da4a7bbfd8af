"""What the renderer knows of one grammar, and what its steps cost."""

from __future__ import annotations

import itertools
from typing import Any, Final

from toolgrammar import combinators as c
from toolgrammar.readings.first import Chains, FirstSets, is_control, literals, nodes_of

# What a step costs. The cheapest way is what a template would write.
MARK: Final = 1
#: An arm that is not the first, unless it may be empty; one that is but a marker; one that is nothing at all.
LATER_ARM: Final = 100
LATER_MARK: Final = 10
NOTHING: Final = 50
#: A field that only steers.
STEER: Final = 150
#: Reasoning passed by in silence.
SILENT: Final = 300
#: A message without the header its kind has.
HEADLESS: Final = 400
#: A repeat of what stands in front of it: several in one wrapper that usually holds one.
REPEAT: Final = 500
#: A call section without a call.
EMPTY: Final = 600
#: What shows that something is missing, and a call in open reasoning.
MISSING: Final = 2000

#: Stand at the end of a call, of a call section, and of a draft, in chains.
END_CALL: Final = c.Let("\0end", "call")
END_SECTION: Final = c.Let("\0end", "section")
END_DRAFT: Final = c.Let("\0end", "draft")


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
        #: Sections and attempts that hold calls.
        self.sections = {
            id(node)
            for node in nodes
            if isinstance(node, (c.Section, c.Attempt)) and self.holds_call(node.item, ())
        }

    def holds_call(self, node: Any, passed: tuple[str, ...]) -> bool:
        """Whether a call is part of ``node``."""
        if isinstance(node, (c.Call, c.Envelope)):
            return True
        if isinstance(node, c.Ref):
            inner = self.grammar.rules[node.rule]
            return node.rule not in passed and self.holds_call(inner, (*passed, node.rule))
        return any(self.holds_call(child, passed) for child in c.children(node))

    def repeats(self, seq: c.Seq) -> list[c.Many]:
        """The repeats in ``seq`` of what stands in front of them."""
        plain = [item for item in seq.items if not isinstance(item, c.Ws)]
        return [
            item for before, item in itertools.pairwise(plain)
            if isinstance(item, c.Many)
            and before == (item.item.items[-1] if isinstance(item.item, c.Seq) else item.item)
            and not self.first.of(before).empty
        ]  # fmt: skip

    def arm_costs(self, arms: tuple[Any, ...]) -> list[int]:
        """What the arms cost: the first one that begins with something of its own is the one a template takes."""
        usual = next((arm for arm in arms if not misses(arm)), None)
        costs = []
        for arm in arms:
            if misses(arm):
                costs.append(MISSING)
            elif arm == c.Seq(()):
                costs.append(NOTHING)
            elif arm is usual or self.first.of(arm).empty:
                costs.append(0)
            else:
                costs.append(LATER_MARK if isinstance(arm, c.Lit) else LATER_ARM)
        return costs

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


def misses(arm: Any) -> bool:
    """Whether an arm begins by looking ahead: it stands for something that is missing."""
    return isinstance(arm, c.Peek) or (isinstance(arm, c.Seq) and bool(arm.items) and misses(arm.items[0]))
