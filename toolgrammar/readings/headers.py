"""Texts for header fields: what a captured register may say so that the choices made by it go the wanted way.

A format's headers (a channel, a type, an id that holds the name) are decided by the patterns of its ``Choose``
nodes. The renderer writes the field first and decides the choices later, so a ``Slot`` keeps what is asked of
the text, and ``Slot.settle`` finds the first candidate that answers all of it. Candidates are built of the words
below, the patterns' own literals and the tool's name.

A grammar may say what its template writes, in a header line that is looked at first::

    @write header "assistant<|channel|>final" "<|channel|>commentary to=functions.{name}"
    @write id     "functions.{name}:{index}"
"""

from __future__ import annotations

import functools
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping
from re import _constants as sre  # type: ignore[attr-defined, unused-ignore]
from re import _parser as sre_parser  # type: ignore[attr-defined, unused-ignore]
from typing import Any

import msgspec
from msgspec.structs import replace

from toolgrammar import combinators as c

#: Words that headers are made of in formats at large, by what comes behind the header.
WORDS: Mapping[str, tuple[str, ...]] = {
    "reasoning": ("analysis", "thought"),
    "content": ("final", "response"),
    "call": ("commentary", "function"),
    "": (),
}


class Slot(msgspec.Struct, frozen=True, eq=False):
    """A field whose text is still to be found. ``chosen``: choices made by it, each with its arm's place."""

    node: c.Field
    #: What is said behind the header: "reasoning", "content", "call" or "".
    purpose: str
    name: str | None
    id: str | None
    index: int
    #: The text in front, as far as the format's own anchors begin with it, and what it must begin with.
    heads: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ("",)
    #: What may not stand in it.
    barred: frozenset[str] = frozenset()
    written: tuple[str, ...] = ()
    chosen: tuple[tuple[c.Choose, int], ...] = ()
    text: str = ""

    def settle(self, offered: frozenset[str]) -> Slot | None:
        """The slot with the first text that answers everything asked so far; None if no candidate does."""
        for text in self._candidates():
            if self._fits(text, offered):
                return replace(self, text=text)
        return None

    def _fits(self, text: str, offered: frozenset[str]) -> bool:
        node = self.node
        if text != text.strip() or len(text) > node.limit or not (text or node.empty):
            return False
        if not text.startswith(self.prefixes) or (node.chars and not re.fullmatch(f"(?:{node.chars})*", text)):
            return False
        rest = text
        for held in node.holds:
            rest = rest.replace(held, "")
        if any(marker in rest for marker in self.barred):
            return False
        for choice, place in self.chosen:
            taken = take(choice, text, offered)
            if taken is None or taken[0] != place or taken[1].get("name", self.name) != self.name:
                return False
        return True

    def _candidates(self) -> Iterator[str]:
        values = {"name": self.name or "", "index": str(self.index), "id": self.id or ""}
        for line in self.written:
            if self.name is not None or "{name}" not in line:
                yield line.format_map(values)
        if self.id is not None and self.node.register == "id":
            yield self.id
        patterns = [choice.arms[place].pattern for choice, place in self.chosen]
        tails = [sample(pattern, values, full) for pattern in patterns for full in (True, False)]
        named = [tail for tail in tails if self.name and self.name in tail]
        words = (*WORDS[self.purpose], *WORDS[""], "")
        parts: tuple[tuple[str, ...], ...]
        if self.node.holds:
            parts = (*self.heads, ""), (self.node.holds[0], ""), words, (*named, "", *tails)
        else:
            yield from named
            if self.name is not None and any(arm.when for choice, _ in self.chosen for arm in choice.arms):
                yield self.name
            parts = (*self.heads, ""), ("",), (*reversed(words[:-1]), ""), ("", *tails)
        for head, held, word, tail in itertools.product(*parts):
            yield head + held + word + (" " if tail and word else "") + tail


def take(choice: c.Choose, text: str, offered: frozenset[str]) -> tuple[int, dict[str, str]] | None:
    """The arm that ``text`` takes, and the registers it sets."""
    for place, arm in enumerate(choice.arms):
        found = re.fullmatch(arm.pattern, text, re.S)
        if found is None:
            continue
        groups = {name: value for name, value in found.groupdict().items() if value is not None}
        name = groups.get("name", text)
        if arm.when == "offered" and name not in offered:
            continue
        if arm.when in ("sole", "mangled"):
            names = [one for one in offered if arm.when == "sole" or re.sub(r"[^A-Za-z0-9_-]", "_", one) == name]
            if len(names) != 1:
                continue
            groups["name"] = names[0]
        return place, groups
    return None


def written(grammar: c.Grammar, register: str) -> tuple[str, ...]:
    """What the grammar's own ``@write`` lines offer for ``register``."""
    lines = (shlex.split(line) for line in grammar.facts.get("write", ()))
    return tuple(text for first, *texts in lines if first == register for text in texts)


def sample(pattern: str, values: Mapping[str, str], full: bool) -> str:
    """A text that ``pattern`` may match: short, with optional parts if ``full``, named groups from ``values``."""
    parsed, names = _parse(pattern)
    return _sample(parsed, names, values, full)


@functools.lru_cache(1024)
def _parse(pattern: str) -> tuple[Any, Mapping[int, str]]:
    parsed = sre_parser.parse(pattern)
    return parsed, {number: name for name, number in parsed.state.groupdict.items()}


def _sample(items: Any, names: Mapping[int, str], values: Mapping[str, str], full: bool) -> str:
    out = []
    for op, value in items:
        if op is sre.LITERAL:
            out.append(chr(value))
        elif op is sre.SUBPATTERN:
            number, inner = value[0], value[-1]
            given = values.get(names.get(number, ""))
            out.append(_sample(inner, names, values, full) if given is None else given)
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, inner = value
            optional = full and most == 1 and _sample(inner, names, values, full)
            out.append(_sample(inner, names, values, full) * (1 if optional else least))
        elif op is sre.BRANCH:
            out.append(_sample(value[1][0], names, values, full))
        elif op is sre.IN:
            out.append(_member(value, values))
    return "".join(out)


def _member(value: Any, values: Mapping[str, str]) -> str:
    for op, what in value:
        if op is sre.CATEGORY and what is sre.CATEGORY_DIGIT:
            return values["index"] or "0"
        if op is sre.LITERAL:
            return chr(what)
        if op is sre.RANGE:
            return chr(what[0])
    return "x"
