"""Calls to text: the grammar read backwards.

    >>> render_calls(registry.load("hermes"), [("weld", {"n": 2})], content="Now.")
    'Now.\\n<tool_call>\\n{"name": "weld", "arguments": {"n": 2}}\\n</tool_call>'

The renderer looks for a way through the grammar on which the wanted parts come up in order, and writes what
stands on it. Where the grammar leaves a choice it takes the cheapest way, by the costs of ``book``:

* the first spelling, and the first arm, or the last one if that may be empty; arms that begin with ``&(...)``
  say that something is missing and are the last resort;
* ``x?`` only if ``x`` is needed, while ``(x | ())`` writes it;
* ``x*`` as often as it helps, but not a repeat of what stands before it, as in ``x (ws x)*``;
* no empty reasoning, and a header in front of text whose stretches are messages (``@join``).

White space: ``Ws.canonical``; else line feeds for ``nl``, the exact string for ``gap``, a line feed next to a tag
or a fence, a blank behind a comma, and nothing elsewhere or at the ends of the turn.

Guarantee: the text reads back as the parts given, unless a *word-like* format takes what is said for a call
(a whole JSON call in the content of llama3-json). What cannot be written raises ``RenderError``. Each pair of
place in the grammar and parts left is tried once, so the time is bounded by grammar times parts.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from toolgrammar.combinators import Grammar
from toolgrammar.errors import ToolgrammarError
from toolgrammar.readings.book import Book
from toolgrammar.readings.paper import Paper, put_together
from toolgrammar.readings.style import Canonical, Style
from toolgrammar.readings.turns import Called, Part, Said, parts_of
from toolgrammar.readings.walk import Walker
from toolgrammar.schema import ToolTable

#: Places tried before the search is given up.
_LIMIT = 20_000
_BOOKS = 8
_books: dict[int, Book] = {}


class RenderError(ToolgrammarError):
    """The format cannot say this. The message names the part and why."""


def render_calls(
    grammar: Grammar,
    calls: Iterable[Sequence[Any] | Called],
    tools: Sequence[Any] | ToolTable | None = None,
    *,
    content: str | None = None,
    reasoning: str | None = None,
    start: str = "content",
    style: Style = Canonical,
) -> str:
    """The turn that thinks ``reasoning``, says ``content`` and makes ``calls``, as the model would write it.

    ``calls`` are ``(name, arguments)`` or ``(name, arguments, id)``; an id goes unsaid where the format carries
    none. ``start``: what the prompt left open. Raises ``RenderError``.
    """
    return render(grammar, parts_of(calls, content, reasoning), tools, start=start, style=style)


def render(
    grammar: Grammar,
    parts: Sequence[Part],
    tools: Sequence[Any] | ToolTable | None = None,
    *,
    start: str = "content",
    style: Style = Canonical,
) -> str:
    """The same for any order of parts. Raises ``RenderError``."""
    try:
        return write(grammar, parts, tools, start=start, style=style)[0]
    except RenderError:
        bare = [replace(part, id=None) if isinstance(part, Called) else part for part in parts]
        if bare == list(parts):
            raise
        return write(grammar, bare, tools, start=start, style=style)[0]


def write(
    grammar: Grammar,
    parts: Sequence[Part],
    tools: Sequence[Any] | ToolTable | None = None,
    *,
    start: str = "content",
    style: Style = Canonical,
) -> tuple[str, list[Part]]:
    """The text, ids and all, and the parts as they stand in it, blocks told apart. Raises ``RenderError``."""
    if start not in grammar.starts:
        raise RenderError(
            f"{grammar.name}: generation cannot start in {start!r}; it can in {', '.join(grammar.starts)}"
        )
    table = tools if isinstance(tools, ToolTable) else ToolTable.of(tools)
    walker = Walker(_book(grammar), parts, table, style)
    found = _search(walker, start)
    if found is None:
        raise RenderError(f"{grammar.name}: {walker.trouble()}")
    text = put_together(found)
    said = [
        replace(part, block=place in found.blocks) if isinstance(part, Said) else part
        for place, part in enumerate(parts)
    ]
    return (_without_anchor(grammar, text) if start == "content" else text), said


def _book(grammar: Grammar) -> Book:
    """What is known of ``grammar``; the last few are kept."""
    book = _books.pop(id(grammar), None)
    if book is None or book.grammar is not grammar:
        book = Book(grammar)
    _books[id(grammar)] = book
    if len(_books) > _BOOKS:
        _books.pop(next(iter(_books)))
    return book


def _search(walker: Walker, start: str) -> Paper | None:
    """Cheapest first, no place twice."""
    order = itertools.count()
    waiting = [(0, next(order), walker.begin(start))]
    seen: set[Any] = set()
    while waiting and len(seen) < _LIMIT:
        _, _, paper = heapq.heappop(waiting)
        key = paper.key()
        if key in seen:
            continue
        seen.add(key)
        if paper.chain is None:
            if walker.done(paper):
                return paper
            continue
        for further in walker.step(paper):
            heapq.heappush(waiting, (further.cost, next(order), further))
    return None


def _without_anchor(grammar: Grammar, text: str) -> str:
    """``text`` less what the prompt has already said of it."""
    for anchor in grammar.anchors:
        if anchor and text.startswith(anchor):
            return text[len(anchor) :]
    return text
