"""A grammar's rules as figures: what the text looks like, not how it is read. For people, as EBNF or a picture.

Left out: framing white space that may be missing, extents of sections, speculation. Rules that say the same are
one, small ones stand where they are used, and names lose their arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from toolgrammar import combinators as c
from toolgrammar.readings.words import guard, word

#: Weight up to which a rule stands where it is used: anywhere, or if it is used once and makes no rule too heavy.
_SMALL, _ONCE, _FULL = 2, 6, 14


@dataclass(frozen=True)
class Leaf:
    """A literal with its spellings, a word, a rule, or a condition. ``place``: "bol" or "bow" before a literal."""

    kind: Literal["literal", "word", "rule", "guard"]
    text: str
    more: tuple[str, ...] = ()
    place: str = ""
    #: What a word stands for; no part of what the leaf is.
    means: str = field(default="", compare=False)


@dataclass(frozen=True)
class Row:
    """One after the other; none: nothing."""

    items: tuple[Figure, ...]


@dataclass(frozen=True)
class Ways:
    """One of several; ``Row(())`` is a way, too."""

    arms: tuple[Figure, ...]


@dataclass(frozen=True)
class Loop:
    """Once or more, with ``between`` from one to the next."""

    item: Figure
    between: Figure


@dataclass(frozen=True)
class Frame:
    """A part that is something: "call", "candidate call", or ``AHEAD``."""

    item: Figure
    label: str


Figure: TypeAlias = Leaf | Row | Ways | Loop | Frame
NOTHING = Row(())
AHEAD = "must follow"


@dataclass(frozen=True)
class Figures:
    """The rules of a page in reading order, and where a turn may start: state to rule."""

    rules: dict[str, Figure]
    starts: dict[str, str]


def figures(grammar: c.Grammar) -> Figures:
    """The grammar's rules as figures: merged, named anew, small ones inlined."""
    rules = {name: _figure(node) for name, node in grammar.rules.items()}
    same = _same(rules)
    rules = {name: _renamed(body, same) for name, body in rules.items() if same[name] == name}
    starts = {state: same[rule] for state, rule in grammar.starts.items()}
    _inline(rules, set(starts.values()))
    order = list(dict.fromkeys(found for start in starts.values() for found in _reached(start, rules)))
    names = _names(order)
    named = {names[rule]: _renamed(rules[rule], names) for rule in order}
    return Figures(named, {state: names[rule] for state, rule in starts.items()})


def leaves(figure: Figure) -> Iterator[Leaf]:
    """All leaves, left to right."""
    if isinstance(figure, Leaf):
        yield figure
    for part in parts(figure):
        yield from leaves(part)


def parts(figure: Figure) -> tuple[Figure, ...]:
    """The figures directly inside one."""
    match figure:
        case Row(items):
            return items
        case Ways(arms):
            return arms
        case Loop(item, between):
            return (item, between)
        case Frame(item):
            return (item,)
    return ()


def mapped(figure: Figure, change: Callable[[Leaf], Figure]) -> Figure:
    """The figure with each leaf changed."""
    match figure:
        case Row(items):
            return row(*(mapped(item, change) for item in items))
        case Ways(arms):
            return ways(*(mapped(arm, change) for arm in arms))
        case Loop(item, between):
            return Loop(mapped(item, change), mapped(between, change))
        case Frame(item, label):
            return Frame(mapped(item, change), label)
    return change(figure)


def shown_spellings(leaf: Leaf) -> tuple[str, ...]:
    """The spellings of a literal, the first one alone if the others are much like it."""
    every = (leaf.text, *leaf.more)
    alike = len({text[: (min(map(len, every)) + 1) // 2] for text in every}) == 1
    return every[:1] if len(every) > 2 and alike else every


def row(*items: Figure) -> Figure:
    """A row, flat; ``x (sep x)*`` becomes a loop."""
    flat: list[Figure] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Row) else (item,))
    done: list[Figure] = []
    for item in flat:
        done.append(item)
        if (loop := _looped(done)) is not None:
            done[loop[0] :] = [loop[1]]
    return done[0] if len(done) == 1 else Row(tuple(done))


def _looped(done: list[Figure]) -> tuple[int, Figure] | None:
    """What the end of a row is as a loop, and from where: ``x (sep x)*``, with its last item just added."""
    match done[-1]:
        case Ways((Loop(item, Row(())), Row(()))):
            inner = item.items if isinstance(item, Row) else (item,)
            for length in range(len(inner), 0, -1):
                if tuple(done[-1 - length : -1]) == inner[-length:]:
                    return len(done) - 1 - length, Loop(row(*inner[-length:]), row(*inner[:-length]))
    return None


def ways(*arms: Figure) -> Figure:
    """One of several, flat, each once, nothing last."""
    flat: list[Figure] = []
    for arm in arms:
        flat.extend(arm.arms if isinstance(arm, Ways) else (arm,))
    once = list(dict.fromkeys(flat))
    once.sort(key=lambda arm: arm == NOTHING)
    return once[0] if len(once) == 1 else Ways(tuple(once))


# ---- nodes to figures -----------------------------------------------------------------------------------------


def _figure(node: Any) -> Figure:
    match node:
        case c.Lit(spellings, line_start, word_start):
            return Leaf(
                "literal", spellings[0], spellings[1:], "bol" if line_start else "bow" if word_start else ""
            )
        case c.Ws(least=0):
            return NOTHING
        case c.Seq(items):
            return row(*map(_figure, items))
        case c.Alt(arms):
            return ways(*map(_figure, arms))
        case c.Opt(item):
            return ways(_figure(item), NOTHING)
        case c.Many(item, least):
            loop = Loop(_figure(item), NOTHING)
            return loop if least else ways(loop, NOTHING)
        case c.Ref(rule):
            return Leaf("rule", rule)
        case c.Choose(register, arms):
            return ways(*(row(Leaf("guard", guard(register, arm)), _figure(arm.item)) for arm in arms))
        case c.Peek(item):
            ahead = _figure(item)
            return Frame(ahead, AHEAD) if ahead != NOTHING else NOTHING
        case c.Call(item):
            return Frame(_figure(item), "call")
        case c.Draft(item):
            return Frame(_figure(item), "candidate call")
        case c.Section(item) | c.Attempt(item):
            return _figure(item)
    text, means = word(node)
    return Leaf("guard" if isinstance(node, c.Let) else "word", text, means=means)


def _same(rules: dict[str, Figure]) -> dict[str, str]:
    """Each rule to the first one that says the same; a rule that is only another one's name is that one."""
    classes = dict.fromkeys(rules, "")
    while True:
        seen: dict[Figure, str] = {}
        new: dict[str, str] = {}
        for name, body in rules.items():
            while isinstance(body, Leaf) and body.kind == "rule":
                body = rules[body.text]
            signature = _renamed(body, classes)
            new[name] = seen.setdefault(signature, str(len(seen)))
        if len(set(new.values())) == len(set(classes.values())):
            break
        classes = new
    first: dict[str, str] = {}
    for name, body in rules.items():
        if not (isinstance(body, Leaf) and body.kind == "rule"):
            first.setdefault(new[name], name)
    return {name: first[new[name]] for name in rules}


def _names(rules: Iterable[str]) -> dict[str, str]:
    """Each rule to a short name: without its arguments, numbered if that is taken."""
    short: dict[str, str] = {}
    for rule in rules:
        base, number = rule.partition("<")[0], 1
        while (name := base if number == 1 else f"{base}{number}") in short.values():
            number += 1
        short[rule] = name
    return short


def _renamed(figure: Figure, names: dict[str, str]) -> Figure:
    return mapped(figure, lambda leaf: replace(leaf, text=names[leaf.text]) if leaf.kind == "rule" else leaf)


def _inline(rules: dict[str, Figure], keep: set[str]) -> None:
    """Put small rules where they are used, until none is left that may be."""
    done = False
    while not done:
        done = True
        used = Counter(leaf.text for body in rules.values() for leaf in leaves(body) if leaf.kind == "rule")
        for name, body in list(rules.items()):
            if name in keep or _uses(body, name):
                continue
            hosts = [host for host, other in rules.items() if host != name and _uses(other, name)]
            grown = max((_weight(rules[host]) for host in hosts), default=0) + _weight(body)
            if _weight(body) <= _SMALL or (used[name] == 1 and _weight(body) <= _ONCE and grown <= _FULL):
                for host in hosts:
                    rules[host] = mapped(rules[host], lambda leaf, n=name, b=body: b if _is(leaf, n) else leaf)  # type: ignore[misc]
                del rules[name]
                done = False
                break


def _weight(figure: Figure) -> int:
    """How much room a figure takes: its leaves, long ones counted more than once."""
    return sum(1 + (len(leaf.text) // 16 if leaf.kind != "guard" else 0) for leaf in leaves(figure))


def _is(leaf: Leaf, rule: str) -> bool:
    return leaf.kind == "rule" and leaf.text == rule


def _uses(figure: Figure, rule: str) -> bool:
    return any(_is(leaf, rule) for leaf in leaves(figure))


def _reached(rule: str, rules: dict[str, Figure]) -> Iterator[str]:
    seen, waiting = set(), [rule]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name
            waiting.extend(reversed([leaf.text for leaf in leaves(rules[name]) if leaf.kind == "rule"]))
