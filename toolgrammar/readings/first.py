"""What a node may begin with: FIRST sets on the algebra, for the readings that are no machine.

Written apart from ``toolgrammar.machine.compile``, which works out the same thing on states: the readings check
the machine, so they must not share its mistakes.

    >>> grammar = registry.load("kimi-k2")
    >>> sorted(marker.text for marker in FirstSets(grammar).of(grammar.rules["call"]).markers)
    ['<|tool_call_begin|>']

A ``Chain`` is what follows a node up to the end of the turn: a linked list of nodes, each pair kept once, so
that a rule which goes back to itself at its end gives a finite number of chains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from toolgrammar import combinators as c

_CONTROL = re.compile(r"<[|｜][^|｜<>]*[|｜]?>|<[^|｜<>]*[|｜]>")


class Marker(NamedTuple):
    """A text something may begin with."""

    text: str
    #: It opens a word-like attempt: mere text unless what follows makes a call of it.
    word: bool = False
    line_start: bool = False


class First(NamedTuple):
    """``markers``: how it may begin. ``empty``: it may be nothing. ``free``: it may begin with anything."""

    markers: frozenset[Marker]
    empty: bool
    free: bool = False


class Chain:
    """A node and what follows it. Made by ``Chains``; equal chains are one object."""

    __slots__ = ("next", "node")

    def __init__(self, node: Any, following: Chain | None) -> None:
        self.node = node
        self.next = following

    def __iter__(self) -> Iterator[Any]:
        chain: Chain | None = self
        while chain is not None:
            yield chain.node
            chain = chain.next


class Chains:
    """Makes chains of the nodes of one grammar, each once. Nodes are told apart by identity."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], Chain] = {}
        self._derived: dict[tuple[int, str], Any] = {}

    def push(self, node: Any, following: Chain | None) -> Chain:
        """``node``, then ``following``."""
        key = (id(node), id(following))
        if key not in self._made:
            self._made[key] = Chain(node, following)
        return self._made[key]

    def push_all(self, nodes: tuple[Any, ...], following: Chain | None) -> Chain | None:
        """All of ``nodes`` in order, then ``following``."""
        for node in reversed(nodes):
            following = self.push(node, following)
        return following

    def rest_of(self, node: c.Many) -> c.Many:
        """``node`` as it stands behind the first of its items."""
        key = (id(node), "many")
        if node.least == 0:
            return node
        if key not in self._derived:
            self._derived[key] = msgspec.structs.replace(node, least=node.least - 1)
        found: c.Many = self._derived[key]
        return found


class FirstSets:
    """FIRST sets of one grammar, each worked out once. Grammars with left recursion do not compile."""

    def __init__(self, grammar: c.Grammar) -> None:
        self._rules = grammar.rules
        self._open: set[str] = set()
        #: By the identity of nodes and chains, which are kept so that it stays theirs.
        self._nodes: dict[int, First] = {}
        self._chains: dict[int, First] = {}
        self._kept: list[Any] = []

    def of_chain(self, chain: Chain | None) -> First:
        """What ``chain`` may begin with; nothing behind it is a marker."""
        if chain is None:
            return First(frozenset(), True)
        if id(chain) not in self._chains:
            self._kept.append(chain)
            self._chains[id(chain)] = self.of(*chain)
        return self._chains[id(chain)]

    def of(self, *nodes: Any) -> First:
        """What the sequence ``nodes`` may begin with."""
        markers: frozenset[Marker] = frozenset()
        free = False
        for node in nodes:
            one = self._one(node)
            markers |= one.markers
            free |= one.free
            if not one.empty:
                return First(markers, False, free)
        return First(markers, True, free)

    def _one(self, node: Any) -> First:
        known = self._nodes.get(id(node))
        if known is None:
            known = self._make(node)
            if not self._open:
                self._nodes[id(node)] = known
                self._kept.append(node)
        return known

    def _make(self, node: Any) -> First:
        match node:
            case c.Lit(spellings, line_start):
                return First(frozenset(Marker(text, False, line_start) for text in spellings), False)
            case c.Ws() | c.Let() | c.Text():
                return First(frozenset(), True)
            case c.Seq(items):
                return self.of(*items)
            case c.Alt(arms):
                return _either([self._one(arm) for arm in arms])
            case c.Choose(_, arms):
                return _either([self._one(arm.item) for arm in arms])
            case c.Opt(item):
                return self._one(item)._replace(empty=True)
            case c.Many(item, least):
                inner = self._one(item)
                return inner._replace(empty=inner.empty or least == 0)
            case c.Attempt(item, word):
                inner = self._one(item)
                markers = {marker._replace(word=marker.word or word) for marker in inner.markers}
                return inner._replace(markers=frozenset(markers))
            case c.Call(item) | c.Section(item) | c.Draft(item) | c.Peek(item):
                return self._one(item)
            case c.Envelope():
                return First(frozenset({Marker("{")}), False)
            case c.Quoted():
                return First(frozenset({Marker("{"), Marker("(")}), False)
            case c.Ref(rule):
                return self._rule(rule)
        return First(frozenset(), isinstance(node, c.Field) and node.empty, True)

    def _rule(self, rule: str) -> First:
        if rule in self._open:
            return First(frozenset(), False)
        self._open.add(rule)
        found = self._one(self._rules[rule])
        self._open.remove(rule)
        return found


def _either(arms: list[First]) -> First:
    markers: frozenset[Marker] = frozenset()
    return First(
        markers.union(*(arm.markers for arm in arms)),
        any(arm.empty for arm in arms),
        any(arm.free for arm in arms),
    )


def nodes_of(grammar: c.Grammar) -> Iterator[Any]:
    """Every node of the grammar, outer before inner."""
    waiting = list(reversed(grammar.rules.values()))
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(c.children(node)))


def literals(grammar: c.Grammar) -> list[str]:
    """Every marker of the format, sorted: spellings, stop tokens, string delimiters."""
    found = {*grammar.stops, *grammar.skips, *grammar.tokens}
    for node in nodes_of(grammar):
        if isinstance(node, c.Lit):
            found.update(node.spellings)
        elif isinstance(node, c.Quoted):
            found.add(node.quote)
    return sorted(found)


def is_control(grammar: c.Grammar, text: str) -> bool:
    """Whether ``text`` is a control token, by its looks or by the grammar's own list."""
    return bool(_CONTROL.fullmatch(text)) or text in grammar.tokens
