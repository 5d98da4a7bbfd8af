"""A grammar as a constraint for guided decoding: a structural tag, as xgrammar takes it and engines pass it on.

    >>> tools = [{"type": "function", "function": {"name": "weld", "strict": True, "parameters": {...}}}]
    >>> structural_tag(registry.load("hermes"), tools, choice="required")
    {'type': 'structural_tag', 'format': {'type': 'plus', 'content': {'type': 'sequence', 'elements': [...]}}}

The constraint is written from the grammar's own nodes. What it admits reads back as complete calls of the tools.
It admits what the renderer writes, if arguments stand in the order of the schema, and the other layouts that the
grammar reads.

``auto``      any text, until something begins a call; from there on the call must be right. A marker that begins
              nothing but calls is enough; where an opener may be prose as well (a bare ``{``, a ``[``), it takes
              the name of an offered tool behind it, and with many tools only that call is settled.
``required``  calls and nothing but calls, behind reasoning if there is any
``named``     the same, with one call

Formats without calls (``identity``, ``kimi-vl``) have no constraint: ``exports`` says so, the answer is None. A
tool whose name the format cannot write is left out; if none is left, the answer is None too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from toolgrammar import combinators as c
from toolgrammar.combinators import Grammar
from toolgrammar.errors import ToolsError
from toolgrammar.readings.book import Book
from toolgrammar.readings.constrain.dumping import dump
from toolgrammar.readings.constrain.filling import Filling
from toolgrammar.readings.constrain.formats import EACH, EMPTY, NEVER, Const, Format, Free, weight
from toolgrammar.readings.constrain.names import likes
from toolgrammar.readings.constrain.offer import Offer
from toolgrammar.readings.constrain.turns import Mixed, calls_in_text, calls_only
from toolgrammar.readings.constrain.walk import Walk
from toolgrammar.readings.first import nodes_of

Choice: TypeAlias = Literal["auto", "required", "named"]
Start: TypeAlias = Literal["content", "reasoning", "section"]

#: Calls of all tools that may be written behind openers with names in them.
_MOST_COPIES: Final = 300
#: Constraints with holes, for the formats last asked for.
_KEPT: Final = 64
_known: OrderedDict[Any, tuple[Grammar, Format | Mixed]] = OrderedDict()
_lock = threading.Lock()


def exports(grammar: Grammar) -> bool:
    """Whether the format has calls, so that ``structural_tag`` has something to say."""
    return any(isinstance(node, c.Call | c.Envelope) for node in nodes_of(grammar))


def structural_tag(
    grammar: Grammar,
    tools: Sequence[Mapping[str, Any]],
    *,
    choice: Choice,
    names: Collection[str] | None = None,
    parallel: bool = True,
    strict: bool | None = None,
    reasoning: bool = False,
    start: Start = "content",
) -> dict[str, Any] | None:
    """The constraint for a turn that may call ``tools``; None if the format has none.

    ``names``: only these tools may be called. ``parallel``: more than one call; a named choice is always one.
    ``strict``: whether arguments follow the tools' schemas; None: those of tools with ``"strict": true`` do, all
    others are any object. ``reasoning``: the turn may begin with reasoning, and the constraint covers it; without
    it the constraint begins behind the reasoning. ``start``: what the prompt left open; ``"reasoning"`` says that
    reasoning has begun, and is covered. The tools are not changed.

    Raises ``ToolsError`` for a choice that needs a tool where none may be called, and for names that are not
    offered; ``ValueError`` for a start that the format lacks.
    """
    if start not in grammar.starts:
        known = ", ".join(grammar.starts)
        raise ValueError(f"format {grammar.name!r} cannot start in {start!r}; it can in {known}")
    if not exports(grammar):
        return None
    offer = Offer(tools, names, strict)
    if not offer.targets:
        if choice != "auto":
            raise ToolsError(f"tools: choice {choice!r} needs a tool that may be called")
        return {"type": "structural_tag", "format": dump(Free())}
    like, offered = likes(grammar, offer)
    parallel = parallel and choice != "named"
    template = _template(
        grammar, tuple(sorted(set(like.values()))), offered, choice == "auto", parallel,
        reasoning or start == "reasoning", start,
    )  # fmt: skip
    filling = Filling(offer, like)
    if isinstance(template, Mixed):
        found = _mixed(template, filling, parallel)
    else:
        filled = filling.fill(template)
        found = None if filled == NEVER else dump(filled)
    return None if found is None else {"type": "structural_tag", "format": found}


def _template(
    grammar: Grammar, names: tuple[str, ...], offered: frozenset[str], auto: bool, parallel: bool,
    reasoning: bool, start: Start,
) -> Format | Mixed:  # fmt: skip
    """The constraint with holes for the tools; the last few are kept."""
    key = (id(grammar), names, offered, auto, parallel, reasoning, start)
    with _lock:
        known = _known.pop(key, None)
    if known is None or known[0] is not grammar:
        walk = Walk(Book(grammar), names, offered, parallel=parallel, reasoning=reasoning)
        known = (grammar, calls_in_text(walk, start) if auto else calls_only(walk, start))
    with _lock:
        _known[key] = known
        if len(_known) > _KEPT:
            _known.popitem(last=False)
    return known[1]


def _mixed(template: Mixed, filling: Filling, parallel: bool) -> dict[str, Any] | None:
    """Free text in which calls begin."""
    rules: dict[str, Format] = {}
    # An opener with a name in it is there for every tool, and so is every call behind it.
    named = [opener for opener in template.whole if opener.name is not None]
    copies = len(filling.offer.targets) ** 2 * sum(1 + weight(opener.rest) // EACH for opener in named)
    for opener in template.whole if copies <= _MOST_COPIES else template.first:
        if opener.name is None:
            rules[opener.text] = filling.fill(opener.rest)
            continue
        for tool in filling.tools.get(opener.like, ()):
            name = filling.fill(opener.name, tool)
            if isinstance(name, Const):
                text = opener.text + name.text + opener.after
                rules.setdefault(text, filling.fill(opener.rest, tool))
    rows = [[text, dump(rest)] for text, rest in rules.items() if rest != NEVER]
    if not rows:
        return None
    free = {"type": "dispatch", "rules": rows, "loop": parallel, "excludes": []}
    if template.thought == EMPTY:
        return free
    return {"type": "sequence", "elements": [dump(template.thought), free]}
