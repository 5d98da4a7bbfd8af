"""Delimiters as nodes: what opens and what closes a region."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from toolgrammar import combinators as c
from toolgrammar.templates.patterns import Capture, Fixed, Look, Part, Shape, White, Word

_TOKEN: Final = re.compile(r"<[|｜][^<>]*[|｜]>|<[|｜][^<>]*>|<[^<>]*[|｜]>")
_NOTHING: Final = c.Seq(())


class Markers:
    """What is known about the fixed texts of a template: which hold control tokens, which share one."""

    def __init__(self, texts: Iterable[str], tokens: Sequence[str]) -> None:
        self.tokens = tuple(tokens)
        heads: dict[str, set[str]] = {}
        for text in texts:
            if head := self.head(text):
                heads.setdefault(head, set()).add(text)
        #: Control tokens that several delimiters begin with.
        self.shared = {head for head, having in heads.items() if len(having) > 1}

    def is_control(self, text: str) -> bool:
        """Whether a text is, or contains, a control token."""
        return bool(_TOKEN.search(text)) or any(token in text for token in self.tokens)

    def head(self, text: str) -> str:
        """The control token that ``text`` begins with, "" if there is none."""
        match = _TOKEN.match(text)
        found = [match[0]] if match else []
        found += [token for token in self.tokens if text.startswith(token)]
        return max(found, key=len, default="")

    def marker(self, text: str) -> tuple[c.Node, ...]:
        """A fixed text; a control token that nothing else begins with stands by itself.

        So a token is consumed even where the words behind it are others.
        """
        head = self.head(text)
        if not head or head == text or head in self.shared:
            return (c.Lit((text,)),)
        return (c.Lit((head,)), c.Lit((text[len(head) :],)))


def sequence(parts: Sequence[Part], registers: dict[str, str], markers: Markers) -> list[c.Node]:
    """The nodes of a shape. ``registers``: what a group's text is to the call."""
    nodes: list[c.Node] = []
    #: What is asked of captures, as soon as the text behind them shows where they end.
    waiting: list[c.Node] = []
    for between, run in groupby(parts, lambda part: isinstance(part, (Capture, White))):
        for part in _joined(list(run), registers) if between else run:
            match part:
                case Word(text):
                    nodes += [*markers.marker(text), *waiting]
                    waiting = []
                case White():
                    nodes.append(white(part))
                case Capture(name, chars, empty, pattern):
                    register = registers.get(name, name or "skipped")
                    nodes.append(c.Field(register, chars, empty=empty))
                    if pattern:
                        waiting.append(c.Choose(register, (c.Arm(pattern, _NOTHING),)))
                case Fixed(name, value):
                    nodes.append(c.Let(registers.get(name, name), value))
                case Look():
                    nodes.append(look(part))
    return nodes + waiting


def _joined(run: list[Part], registers: dict[str, str]) -> list[Part]:
    """Several captures in a row are one, taken apart by a pattern when all of it is there."""
    captures = [part for part in run if isinstance(part, Capture)]
    if len(captures) < 2:
        return run
    whole = ""
    for part in run:
        if isinstance(part, Capture):
            body = part.pattern or f"{part.chars or '.'}{{{0 if part.empty else 1},}}"
            whole += f"(?P<{registers.get(part.name, part.name)}>{body})" if part.name else f"(?:{body})"
        elif isinstance(part, White):
            run_of = f"[{re.escape(part.chars)}]{{{part.least},}}"
            whole += f"(?:{re.escape(part.exact)})?" if part.exact else run_of
    return [Capture("header", "", all(part.empty for part in captures), whole)]


def white(part: White) -> c.Ws:
    """White space."""
    return c.Ws(exact=part.exact) if part.exact else c.Ws(part.chars, part.least)


def look(part: Look) -> c.Peek:
    """What must follow."""
    node = c.Lit(part.texts)
    return c.Peek(c.seq(c.ws, node) if part.white else node)


def closers(shapes: Sequence[Shape], framed: bool) -> list[c.Node]:
    """What closes a region, each way to do it.

    ``framed``: white space around it does not count; else white space behind it is taken where it is there.
    """
    words = [shape.word.strip() if framed else shape.word for shape in shapes if _is_plain(shape)]
    plain = tuple(dict.fromkeys(word for word in words if word))
    nodes: list[c.Node] = []
    tails = dict.fromkeys(text[len(text.rstrip()) :] for text in plain)
    for tail in tails:
        same = [text.rstrip() for text in plain if text[len(text.rstrip()) :] == tail and text.strip()]
        if same:
            nodes.append(c.seq(c.Lit(tuple(same)), *([c.Ws(exact=tail)] if tail else [])))
    nodes += [c.Lit((text,)) for text in plain if not text.strip()]
    for shape in shapes:
        if not _is_plain(shape) and (parts := _closing(shape, framed)):
            nodes.append(c.seq(*parts))
    return nodes


def _is_plain(shape: Shape) -> bool:
    return len(shape.parts) == 1 and isinstance(shape.parts[0], Word)


def _closing(shape: Shape, framed: bool) -> list[c.Node]:
    nodes: list[c.Node] = []
    for number, part in enumerate(shape.parts):
        if isinstance(part, Word):
            nodes.append(c.Lit((part.text.strip() if framed and not number else part.text,)))
        elif isinstance(part, White) and (nodes or not framed):
            nodes.append(white(part))
        elif isinstance(part, Look):
            nodes.append(look(part))
    return nodes


def either(nodes: Sequence[c.Node]) -> c.Node:
    """One of several nodes; spellings that mean the same become one literal."""
    texts = tuple(text for node in nodes if isinstance(node, c.Lit) for text in node.spellings)
    rest = [node for node in nodes if not isinstance(node, c.Lit)]
    return c.alt(*([c.Lit(texts)] if texts else []), *rest)


def without(node: c.Node, texts: Iterable[str]) -> list[c.Node]:
    """A closer without some of its texts, nothing if none is left."""
    left = tuple(text for text in begins(node) if text not in set(texts))
    if left == begins(node):
        return [node]
    return [c.Lit(left)] if left and isinstance(node, c.Lit) else []


def begins(node: c.Node) -> tuple[str, ...]:
    """The texts that a closer begins with, white space aside."""
    if isinstance(node, c.Lit):
        return node.spellings
    if isinstance(node, c.Seq):
        return next((found for item in node.items if (found := begins(item))), ())
    if isinstance(node, c.Alt):
        return tuple(text for arm in node.arms for text in begins(arm))
    return begins(node.item) if isinstance(node, c.Peek) else ()
