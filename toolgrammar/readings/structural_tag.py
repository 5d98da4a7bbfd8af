"""A grammar as a constraint for guided decoding: a structural tag, as xgrammar takes it and engines pass it on.

    >>> tools = [{"type": "function", "function": {"name": "weld", "strict": True, "parameters": {...}}}]
    >>> structural_tag(registry.load("hermes"), tools, choice="required", reasoning=False)
    {'type': 'structural_tag', 'format': {'type': 'sequence', 'elements': [...]}}

The constraint is written from the grammar's own nodes, for the offered tools. What it admits reads back as complete
calls of these tools; the renderer's text for such calls is admitted, and other layouts that the grammar reads.

``auto``: any text, until something begins a call; from there on the call must be right. A marker that only begins calls
is enough; where an opener may be prose as well (a bare ``{``, a ``[``), it takes the name of an offered tool.
``required``: calls and nothing but calls, behind reasoning if there is any. ``named``: one call.

Formats without calls (``identity``, ``kimi-vl``) have no constraint: ``exports`` says so, and the answer is None. A tool whose
name the format cannot write is left out, and if none is left the answer is None too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from toolgrammar import combinators as c
from toolgrammar.combinators import Grammar
from toolgrammar.errors import ToolsError
from toolgrammar.readings.book import Book
from toolgrammar.readings.constrain.formats import EMPTY, NEVER, Format, Free, behind, dump, either, opt
from toolgrammar.readings.constrain.graph import solve
from toolgrammar.readings.constrain.offer import Offer
from toolgrammar.readings.constrain.triggers import openers
from toolgrammar.readings.constrain.walk import LIMIT, Walk
from toolgrammar.readings.first import nodes_of

Choice: TypeAlias = Literal["auto", "required", "named"]
Start: TypeAlias = Literal["content", "reasoning", "section"]

#: White space that a call may want in front of it; in free text it may stand anyway.
_FRAMES: Final = ("", "\n", "\n\n", " ")


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
    ``strict``: whether arguments follow the tools' schemas; None: those of tools with ``"strict": true`` do, others
    are any object. ``reasoning``: the turn may begin with reasoning, which is part of the constraint; without it
    the constraint begins behind the reasoning. ``start``: what the prompt left open; ``"reasoning"`` says that
    reasoning has begun. The tools are not changed. Raises ``ToolsError``: no tool to call, a name nobody offered.
    """
    if start not in grammar.starts:
        raise ValueError(f"format {grammar.name!r} cannot start in {start!r}; it can in {', '.join(grammar.starts)}")
    if not exports(grammar):
        return None
    offer = Offer(tools, names, strict)
    if not offer.targets:
        if choice != "auto":
            raise ToolsError(f"tools: choice {choice!r} needs a tool to call")
        return {"type": "structural_tag", "format": dump(Free())}
    walk = Walk(
        Book(grammar), offer, parallel=parallel and choice != "named", reasoning=reasoning or start == "reasoning"
    )
    found = _auto(walk, start) if choice == "auto" else _required(walk, start)
    return None if found is None else {"type": "structural_tag", "format": found}


def _required(walk: Walk, start: str) -> dict[str, Any] | None:
    """Calls, behind reasoning if there is any."""
    found = solve(walk.begin(start), walk.step, _over, LIMIT)
    return None if found == NEVER else dump(found)


def _over(place: Any) -> bool:
    """Whether a turn with calls may end here."""
    ended = place.chain is None and place.called and not place.need and not place.unfinished
    return ended and not (place.marked and place.since == "content")


def _auto(walk: Walk, start: str) -> dict[str, Any] | None:
    """Free text, and calls where something begins one."""
    begin = walk.begin(start)
    texts = walk.texts(begin)
    sources = [begin, *(behind_it for sink, behind_it in texts if sink == "content")]
    thoughts = [behind_it for sink, behind_it in texts if sink == "reasoning"]
    in_thought = either(*(walk.run(source, called=True) for source in thoughts))
    calls = either(in_thought, *(walk.run(source, called=True) for source in sources))
    others = either(*(walk.run(source, called=False) for source in (*sources, *thoughts)))
    firsts = either(*(walk.first_call(source) for source in (*sources, *thoughts)))
    rules: dict[str, Format] = {}
    for begun, named in ((calls, False), (firsts, True)):
        # Behind a name only this call is settled; what follows it may be prose again.
        for text in openers(begun, others, named=named):
            if not text.startswith(tuple(rules)):
                rules[text] = either(*(behind(begun, white + text) for white in _FRAMES))
    if not rules:
        return None
    free = {
        "type": "dispatch", "rules": [[text, dump(rest)] for text, rest in rules.items() if rest != NEVER], "loop": walk.parallel,
        "excludes": [],
    }  # fmt: skip
    if not walk.reasoning or in_thought != NEVER:
        # A call counts in open reasoning as well, or there is none.
        return free
    thought = solve(begin, walk.step, _thought, LIMIT)
    thought = thought if start == "reasoning" else opt(thought)
    return free if thought in (EMPTY, NEVER) else {"type": "sequence", "elements": [dump(thought), free]}


def _thought(place: Any) -> bool:
    """Whether reasoning ends here and the rest of the turn begins."""
    return place.thought and not place.called and place.since == "content" and not place.marked
