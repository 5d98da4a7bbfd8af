"""The grammar-file language: ``.tg`` text to ``Grammar`` and back. Reference: ``docs/grammar-language.md``.

Layout
    pages, tree           the text and what it says, as data
    syntax.lark, reader   text -> tree; the one user of lark. ``mistakes``: its complaints in human words
    headers               ``@`` lines, read without lark. ``detect``, ``evidence``: what ``@detect`` looks at
    files                 imports: several trees -> one book
    forms, given          the words, the nodes they make, and what each may be given
    elaborate             book -> ``Grammar``
    writer                ``Grammar`` -> text
    stored                elaborated grammars on disk

Importing this package is cheap: each function imports what it needs, and only reading a text imports lark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgrammar.combinators import Grammar
from toolgrammar.language.files import Loader, folder_loader, read_text
from toolgrammar.language.pages import Source

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Loader",
    "Source",
    "folder_loader",
    "read_grammar",
    "read_grammar_file",
    "read_source",
    "read_source_file",
    "write_grammar",
]


def read_source(text: str, *, file: str = "grammar.tg", loader: Loader | None = None) -> Source:
    """The grammar that ``text`` states, with the place of each rule. See ``read_grammar``."""
    from toolgrammar.language.elaborate import elaborate
    from toolgrammar.language.files import Shelf

    return elaborate(Shelf(loader or folder_loader()).book(file, text))


def read_source_file(path: str | Path, *, loader: Loader | None = None) -> Source:
    """The grammar of a file, with the place of each rule."""
    return read_source(read_text(path), file=str(path), loader=loader)


def read_grammar(text: str, *, file: str = "grammar.tg", loader: Loader | None = None) -> Grammar:
    """The grammar that ``text`` states. Raises ``GrammarError`` with the place of what is wrong.

    It is named by the stem of ``file``. ``loader`` finds imports: beside ``file`` and in the shipped grammars
    unless given.
    """
    return read_source(text, file=file, loader=loader).grammar


def read_grammar_file(path: str | Path, *, loader: Loader | None = None) -> Grammar:
    """The grammar of a file."""
    return read_source_file(path, loader=loader).grammar


def write_grammar(grammar: Grammar) -> str:
    """The text of a grammar file. Read under the file name ``NAME.tg`` it gives ``grammar`` again."""
    from toolgrammar.language.writer import write_grammar as write

    return write(grammar)
