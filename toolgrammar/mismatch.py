"""Text that looks like a call of another format: said, never silent (W101).

Small models do not always write what their template asks for. When an output ended without a call although tools
were offered, its content is read once more by the formats whose call markers stand in it, by ``pythonic`` if a
list of calls (``[name(``) does, and by ``json-fenced``, which needs none. The first that finds a whole call of an
offered tool is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from toolgrammar import combinators as c
from toolgrammar import registry
from toolgrammar.events import Diagnostic
from toolgrammar.message import Call, Message

#: Content is judged by its beginning.
_LIMIT: Final = 65_536
#: A marker that says something about the format: long, and no word.
_SHORTEST: Final = 5
_ANYWHERE: Final = "json-fenced"
#: Its one marker is a bracket.
_LIST: Final = "pythonic"


def mismatch(message: Message, tools: Any) -> Diagnostic | None:
    """What ``message``, which has no calls, would be in another format; None if nothing is found.

    ``tools``: the request's tool table. Costs nothing unless an offered name stands in the content.
    """
    content = (message.content or "")[:_LIMIT]
    if message.calls or not tools.offered or not any(name in content for name in tools.offered):
        return None
    listed = [_LIST] if _lists_a_call(content, tools.offered) else []
    for name in (*_speaking(content, message.grammar), *listed, _ANYWHERE):
        if name == message.grammar:
            continue
        call = _whole_call(content, name, tools)
        if call is not None:
            start, end = _raw_span(message, call.span)
            detail = f"{name} reads a call of {call.name!r} there; try --model {name}"
            return Diagnostic("W101", f"the text looks like a call of another format: {detail}", start, end)
    return None


def _lists_a_call(content: str, offered: Iterable[str]) -> bool:
    """Whether a list begins with a call of an offered name."""
    return any(re.search(rf"\[\s{{0,64}}{re.escape(name)}\(", content) for name in offered)


def _whole_call(content: str, name: str, tools: Any) -> Call | None:
    """The first whole call of an offered tool that the format ``name`` reads in ``content``."""
    from toolgrammar.parser import Parser

    parser = Parser(name, tools)
    parser._looks_further = False
    parser.feed(content)
    parser.finish()
    calls = parser.message().calls
    return next((call for call in calls if call.status == "complete" and call.known), None)


def _raw_span(message: Message, span: tuple[int, int]) -> tuple[int, int]:
    """A span of the content as a span of the raw output; of several stretches the one it begins in."""
    at = 0
    for start, end, kind in message.spans:
        if kind == "content":
            if span[0] < at + end - start:
                begin = start + span[0] - at
                return begin, min(end, begin + span[1] - span[0])
            at += end - start
    return 0, 0


def _speaking(content: str, but: str) -> Iterator[str]:
    """Formats with a call marker in ``content``: the longest first, of equal ones what goes by most names."""
    known = registry.default().known
    found = [
        (-max((len(marker) for marker in markers if marker in content), default=0), -len(known[name].names), name)
        for name, markers in _markers().items()
        if name != but
    ]
    yield from (name for length, _, name in sorted(found) if length)


@lru_cache(maxsize=1)
def _markers() -> dict[str, frozenset[str]]:
    """The call markers of every format: literals inside its attempts, sections and calls."""
    return {name: frozenset(_literals(registry.load(name))) for name in registry.formats()}


def _literals(grammar: c.Grammar) -> Iterator[str]:
    def inside(node: Any, calls: bool, seen: frozenset[str]) -> Iterator[str]:
        if isinstance(node, c.Lit):
            if calls:
                yield from (text for text in node.spellings if len(text) >= _SHORTEST and not text.isalpha())
        elif isinstance(node, c.Ref):
            if node.rule not in seen:
                yield from inside(grammar.rules[node.rule], calls, seen | {node.rule})
        else:
            deeper = calls or isinstance(node, c.Attempt | c.Section | c.Call)
            for child in c.children(node):
                yield from inside(child, deeper, seen)

    for node in grammar.rules.values():
        yield from inside(node, False, frozenset())
