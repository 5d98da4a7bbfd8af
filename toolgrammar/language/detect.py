"""Detection evidence: ``@detect`` lines.

    @detect template "<function=" and "<parameter=" and not "<tool_sep>"
    @detect vocab "<|channel>"
    @detect arch gemma4*

All terms of a line must hold; any line is enough. A kind goes on to the terms behind it. ``*`` stands for
anything in an architecture or a vocabulary entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from toolgrammar.errors import GrammarSyntaxError
from toolgrammar.language.headers import header
from toolgrammar.language.pages import Page
from toolgrammar.language.tree import Header, Item

KINDS = ("template", "vocab", "arch")


@dataclass(frozen=True, slots=True)
class Term:
    """One piece of evidence."""

    kind: str
    text: str
    negated: bool = False


@dataclass(frozen=True)
class Evidence:
    """What is known about a model."""

    template: str = ""
    vocab: frozenset[str] = frozenset()
    archs: tuple[str, ...] = field(default=())

    def holds(self, term: Term) -> bool:
        """Whether a term is true of the model."""
        match term.kind:
            case "template":
                found = term.text in self.template
            case "vocab":
                found = self._spelled(term.text)
            case _:
                found = any(fnmatchcase(arch.lower(), term.text.lower()) for arch in self.archs)
        return found != term.negated

    def _spelled(self, text: str) -> bool:
        """Whether a token is in the vocabulary, or spelled in the template."""
        if "*" not in text:
            return text in self.vocab or text in self.template
        parts = [re.escape(part) for part in text.split("*")]
        entry = re.compile(".*".join(parts))
        return any(map(entry.fullmatch, self.vocab)) or bool(re.search(r"[^\s<>]*".join(parts), self.template))

    def weight(self, terms: tuple[Term, ...]) -> tuple[int, int]:
        """How much a line that holds says, (0, 0) if it does not: number of terms, then their length."""
        if not all(map(self.holds, terms)):
            return (0, 0)
        return len(terms), sum(len(term.text) for term in terms)


def parse_detect(header: Header) -> tuple[Term, ...]:
    """The terms of a ``@detect`` line."""
    terms: list[Term] = []
    kind = ""
    items = list(header.items)
    take: Callable[[], Item] = lambda: items.pop(0)  # noqa: E731
    while items:
        if terms:
            joint = take()
            if joint.quoted or joint.text != "and":
                raise _wrong("expected 'and'", joint)
        negated = bool(items) and not items[0].quoted and items[0].text == "not"
        if negated:
            take()
        if items and not items[0].quoted and items[0].text in KINDS:
            kind = take().text
        if items and not kind:
            raise _wrong(f"expected {', '.join(KINDS[:-1])} or {KINDS[-1]}", items[0])
        if not items:
            break
        text = take()
        if not text.quoted and kind != "arch":
            raise _wrong("expected a literal", text)
        terms.append(Term(kind, text.text, negated))
    if not terms:
        raise GrammarSyntaxError(
            "@detect needs evidence", where=header.where, hint="as in '@detect template \"<tool_call>\"'"
        )
    return tuple(terms)


def parse_lines(lines: Iterable[str]) -> Iterator[tuple[Term, ...]]:
    """The terms of ``@detect`` lines, without the word. A wrong line is passed over: loading says so."""
    for line in lines:
        text = f"@detect {line}"
        with suppress(GrammarSyntaxError):
            yield parse_detect(header(Page("", text), 0, text))


def _wrong(message: str, item: Item) -> GrammarSyntaxError:
    return GrammarSyntaxError(f"{message}, found '{item.text}'", where=item.where)
