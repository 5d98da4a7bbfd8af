"""A turn as data: what was thought, said and called, in order. What the renderer writes and the oracle reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from toolgrammar.combinators import Grammar

Sink: TypeAlias = Literal["content", "reasoning"]


@dataclass(frozen=True)
class Said:
    """A stretch of reasoning or content."""

    sink: Sink
    text: str
    #: A message or block of its own, whatever its sink: a line feed goes between it and what was said before.
    block: bool = False


@dataclass(frozen=True)
class Called:
    """A complete call. ``id``: the one on the wire, None if there is none, or whatever the writer makes."""

    name: str
    arguments: Mapping[str, Any]
    id: str | None = None


Part: TypeAlias = Said | Called


@dataclass(frozen=True)
class Turn:
    """What a whole, valid turn comes to: the part of a ``Message`` that its text decides."""

    reasoning: str | None = None
    content: str | None = None
    calls: list[tuple[str, dict[str, Any], str | None]] = field(default_factory=list)


#: A spelled line feed, or what protects one. An open span lasts to the end.
_SPELLED = re.compile(
    r"""(?P<kept>\\{2,}|```.*?(?:```|\Z)|`.*?(?:`|\Z)|\$\$.*?(?:\$\$|\Z)|\$.*?(?:\$|\Z)
        |\\\(.*?(?:\\\)|\Z)|\\\[.*?(?:\\\]|\Z))|\\r\\n|\\[rn]""",
    re.DOTALL | re.VERBOSE,
)


def mended(grammar: Grammar, text: str) -> str:
    """``text`` of one channel as the grammar's ``@mend`` has it."""
    if grammar.mend != "line-feeds":
        return text
    return _SPELLED.sub(lambda found: found["kept"] or "\n", text)


def fold(grammar: Grammar, parts: Iterable[Part]) -> Turn:
    """The turn that ``parts`` make up: line feeds between blocks, other stretches as they are.

    Where the format mends spelled line feeds, they are mended.
    """
    said: dict[Sink, str] = {"reasoning": "", "content": ""}
    calls: list[tuple[str, dict[str, Any], str | None]] = []
    for part in parts:
        if isinstance(part, Called):
            calls.append((part.name, dict(part.arguments), part.id))
        else:
            joined = said[part.sink] and (part.block or part.sink in grammar.joined)
            said[part.sink] += ("\n" if joined else "") + part.text
    reasoning, content = (mended(grammar, said[sink]) or None for sink in ("reasoning", "content"))
    return Turn(reasoning, content, calls)


def parts_of(
    calls: Iterable[Sequence[Any] | Called], content: str | None = None, reasoning: str | None = None
) -> list[Part]:
    """The parts of an ordinary turn: reasoning, content, then calls ``(name, arguments[, id])``."""
    said: list[Part] = [Said("reasoning", reasoning)] if reasoning else []
    if content:
        said.append(Said("content", content))
    return said + [each if isinstance(each, Called) else Called(*each) for each in calls]
