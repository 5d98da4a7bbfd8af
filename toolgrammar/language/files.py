"""The files a grammar is made of: finding imports, and joining several files to one book.

Nearer wins: a file's own rules go before what it imports, imports before what it is ``@like``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from toolgrammar.errors import GrammarError, GrammarSyntaxError, UnknownRuleError, Where
from toolgrammar.language import headers as head
from toolgrammar.language import tree as t
from toolgrammar.language.pages import Page

if TYPE_CHECKING:
    from pathlib import Path  # every start pays for an import: here, texts are found without it

SUFFIX = ".tg"
#: (path as written, importing file) to (file, text), or None where there is no such file.
Loader: TypeAlias = Callable[[str, str], "tuple[str, str] | None"]


def shipped_folder() -> str:
    """Where the shipped grammars are: inside the installed package, or beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, "grammars")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "grammars")


def grammars_folder() -> Path:
    """Where the shipped grammars are, as a path."""
    from pathlib import Path

    return Path(shipped_folder())


def read_text(path: str | os.PathLike[str]) -> str:
    """A grammar file's text, line ends as line feeds."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        where = Where(str(path), 1, 1, "")
        raise GrammarSyntaxError(f"byte {error.start} is not UTF-8 text", where=where) from None


def folder_loader(*folders: str | Path) -> Loader:
    """Finds imports beside the importing file, then in ``folders`` (the shipped grammars by default)."""
    places = folders or (shipped_folder(),)

    def load(path: str, importer: str) -> tuple[str, str] | None:
        name = path if path.endswith(SUFFIX) else path + SUFFIX
        for folder in (os.path.dirname(importer), *places):
            found = os.path.normpath(os.path.join(folder, name))
            if os.path.isfile(found):
                return found, read_text(found)
        return None

    return load


def stem(path: str) -> str:
    """The name of a file without its suffix."""
    return os.path.splitext(os.path.basename(path))[0]


def closure(file: str, text: str, load: Loader) -> dict[str, str]:
    """The files a grammar is made of, with their texts; found without lark. Missing ones are left out."""
    texts = {file: text}
    waiting = [(file, text)]
    while waiting:
        importer, text = waiting.pop()
        for header in head.headers(Page(importer, text), only=("import", "like")):
            for item in header.items:
                found = load(item.text, importer)
                if found is not None and found[0] not in texts:
                    texts[found[0]] = found[1]
                    waiting.append(found)
    return texts


class Book(NamedTuple):
    """A format as written: its files joined, nothing elaborated."""

    name: str
    #: Every rule in reach, by name.
    rules: Mapping[str, t.Rule]
    #: The names of the rules that stand in the format's own file.
    own: frozenset[str]
    starts: Mapping[str, t.Start]
    headers: Mapping[str, tuple[t.Header, ...]]
    files: tuple[str, ...]
    top: Where


class Shelf:
    """Reads each file once, and joins them."""

    def __init__(self, load: Loader) -> None:
        self.load = load
        self.trees: dict[str, t.Tree] = {}

    def book(self, file: str, text: str) -> Book:
        """The book of a format file and everything it refers to."""
        tree = self._read(file, text)
        rules = self._rules(tree, (tree.file,))
        starts, headers = self._headers(tree)
        return Book(stem(file), rules, frozenset(tree.rules), starts, headers, tuple(self.trees), tree.top)

    def _read(self, file: str, text: str) -> t.Tree:
        from toolgrammar.language.reader import read_tree

        if file not in self.trees:
            self.trees[file] = read_tree(text, file)
        return self.trees[file]

    def _referred(self, tree: t.Tree, word: str) -> Iterator[tuple[t.Item, t.Tree]]:
        """The files that the ``@word`` lines of a file name."""
        for header in tree.headers:
            if header.word == word:
                if not header.items:
                    raise head.fail(f"@{word} needs the name of a file", header.where)
                for item in header.items:
                    found = self.load(item.text, tree.file)
                    if found is None:
                        raise UnknownRuleError(
                            f"no grammar file '{item.text}'",
                            where=item.where,
                            hint="looked beside this file, then in the grammars folder; '.tg' is added",
                        )
                    yield item, self._read(*found)

    def _rules(self, tree: t.Tree, path: tuple[str, ...]) -> dict[str, t.Rule]:
        """The rules of a file and of what it refers to."""
        rules: dict[str, t.Rule] = {}
        for item, base in self._referred(tree, "like"):
            rules.update(self._rules(base, _longer(path, base, item)))
        imported: dict[str, t.Rule] = {}
        for item, other in self._referred(tree, "import"):
            for name, rule in self._rules(other, _longer(path, other, item)).items():
                if name not in tree.rules and imported.get(name, rule) is not rule:
                    first, second = imported[name].where.file, rule.where.file
                    raise GrammarError(
                        f"rule '{name}' comes from two files, {first} and {second}",
                        where=item.where,
                        hint="define it here to decide",
                    )
                imported[name] = rule
        return rules | imported | tree.rules

    def _headers(self, tree: t.Tree) -> tuple[dict[str, t.Start], dict[str, tuple[t.Header, ...]]]:
        """Start states and header lines: those of ``@like`` that are about the text, then the file's own."""
        starts: dict[str, t.Start] = {}
        headers: dict[str, tuple[t.Header, ...]] = {}
        bases = list(self._referred(tree, "like"))
        if len(bases) > 1:
            raise GrammarError("a format is like one other format", where=bases[1][0].where)
        for _, base in bases:
            starts, inherited = self._headers(base)
            headers = {word: lines for word, lines in inherited.items() if word not in head.IDENTITY}
        own: dict[str, tuple[t.Header, ...]] = {}
        for header in tree.headers:
            own[header.word] = (*own.get(header.word, ()), header)
        return _own_starts(tree, starts), headers | own


def _longer(path: tuple[str, ...], tree: t.Tree, item: t.Item) -> tuple[str, ...]:
    if tree.file in path:
        raise GrammarError(f"'{item.text}' imports itself", where=item.where)
    return (*path, tree.file)


def _own_starts(tree: t.Tree, inherited: Mapping[str, t.Start]) -> dict[str, t.Start]:
    starts = dict(inherited)
    seen: set[str] = set()
    for start in tree.starts:
        if start.state in seen:
            raise GrammarError(f"@start {start.state} appears twice", where=start.where)
        seen.add(start.state)
        if start.item is not None:
            starts[start.state] = start
        elif starts.pop(start.state, None) is None:
            raise head.fail(
                f"@start {start.state} needs an expression",
                start.state_where,
                f"as in '@start {start.state} = turn'",
            )
    return starts
