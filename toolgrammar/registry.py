"""The formats at hand: which there are, which one a model writes, and their grammars.

    >>> resolve("Qwen/Qwen3-Coder-30B-A3B-Instruct")
    'qwen3-coder'
    >>> grammar = load("qwen3_xml")

A name is looked for as a format, a peer's parser name, a directory with a model, then as a model id. Nothing
is read before it is asked for; lark runs only for a grammar that was never elaborated before.

Several formats may fit a model. Those of the lowest ``@rank`` go first; among these the longest ``@models``
pattern, or the ``@detect`` line with the most terms.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from toolgrammar.combinators import Grammar
from toolgrammar.errors import UnknownModelError, Where
from toolgrammar.language import files, stored

if TYPE_CHECKING:
    from pathlib import Path  # every start pays for an import: strings do

    from toolgrammar.language.detect import Evidence, Term

#: Evidence of this rank and above is looked at only after model names.
LATE = 10
#: How alike a name must be to be suggested (``difflib``): one letter of four is too much, two swapped are not.
_NEAR = 0.8
#: Parser names of peers that stand for no format, and why.
NO_FORMAT: Mapping[str, str] = {
    "hf": "it reads by a response template, which comes with the model: give that with --template",
    "response-template": "a response template comes with the model: give it with --template",
    "default": "it stands for guessing among JSON formats: name the format",
}


class Registry:
    """The grammars of one folder, with the cache that goes with it."""

    def __init__(self, folder: Path | None = None, cache: Path | None = None) -> None:
        self.folder = os.fspath(folder) if folder is not None else files.shipped_folder()
        self.cache = os.fspath(cache) if cache is not None else stored.cache_path()
        self._loader = files.folder_loader(self.folder)
        self._grammars: dict[str, Grammar] = {}

    # ---- names

    @cached_property
    def known(self) -> Mapping[str, stored.Known]:
        """Every format by name, with what identifies it."""
        names = self._names()
        if names:
            return {name: stored.known(self._path(name)) for name in names}
        return {name: entry.known for name, entry in sorted(self._shipped.items())}

    @cached_property
    def _aliases(self) -> Mapping[str, str]:
        """Spelling-independent name to format; a format's own name goes before what others claim."""
        aliases = {_plain(name): name for name in self.known}
        for name, known in self.known.items():
            for alias in known.names:
                aliases.setdefault(_plain(alias), name)
        return aliases

    @cached_property
    def _squeezed(self) -> Mapping[str, str]:
        """The same, names without any separator; a format's own name goes first here too."""
        squeezed: dict[str, str] = {}
        for alias, name in self._aliases.items():
            squeezed.setdefault(_squeeze(alias), name)
        return squeezed

    def formats(self) -> list[str]:
        """The names of all formats, sorted."""
        return sorted(self.known)

    def resolve(self, model: str) -> str:
        """The format that a name, model id or model directory stands for. Raises ``UnknownModelError``."""
        if self._is_format(model):
            return model
        found = self._aliases.get(_plain(model))
        if found is None and os.path.isdir(model):
            return self._resolve_directory(model)
        if found is None and _plain(model) in NO_FORMAT:
            raise UnknownModelError(model, reason=NO_FORMAT[_plain(model)])
        found = found or self._squeezed.get(_squeeze(model)) or self._by_model_id(model)
        if found is None:
            raise UnknownModelError(model, self._near(model))
        return found

    def _is_format(self, name: str) -> bool:
        """Whether a name is a format's own, exactly; cheaper than reading every header."""
        return name in self._names()

    def _names(self) -> list[str]:
        """The names of the grammar files in the folder, sorted."""
        try:
            found = os.listdir(self.folder)
        except OSError:
            return []
        return sorted(files.stem(name) for name in found if name.endswith(files.SUFFIX))

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, f"{name}{files.SUFFIX}")

    def _by_model_id(self, model: str) -> str | None:
        """The format with the longest name pattern that is part of the id, of the lowest rank that has one."""
        plain = _plain(model)
        fits = [
            (known.rank, -len(pattern), name)
            for name, known in self.known.items()
            for pattern in known.models
            if pattern in model.lower() or _plain(pattern) in plain
        ]
        return min(fits)[2] if fits else None

    def _resolve_directory(self, folder: str) -> str:
        from pathlib import Path

        from toolgrammar.language.evidence import gather

        evidence, names = gather(Path(folder))
        found = self.by_evidence(evidence)
        if found and self.known[found[0][0]].rank < LATE:
            return found[0][0]
        for name in names:
            if (by_id := self._by_model_id(name)) is not None:
                return by_id
        if found:
            return found[0][0]
        raise UnknownModelError(folder, reason="no format's @detect or @models lines fit what is in the directory")

    def by_evidence(self, evidence: Evidence) -> list[tuple[str, tuple[Term, ...]]]:
        """The formats that a ``@detect`` line speaks for, the best first, each with its best line."""
        from toolgrammar.language.detect import parse_lines

        best: dict[str, tuple[Term, ...]] = {}
        for name, known in self.known.items():
            line = max(parse_lines(known.detect), key=evidence.weight, default=())
            if line and evidence.weight(line) > (0, 0):
                best[name] = line

        def place(found: tuple[str, tuple[Term, ...]]) -> tuple[int, int, int]:
            terms, length = evidence.weight(found[1])
            return self.known[found[0]].rank, -terms, -length

        return sorted(best.items(), key=place)

    def _near(self, model: str) -> tuple[str, ...]:
        from difflib import get_close_matches

        near = get_close_matches(_plain(model.rsplit("/", 1)[-1]), list(self._aliases), n=6, cutoff=_NEAR)
        return tuple(dict.fromkeys(self._aliases[alias] for alias in near))[:3]

    # ---- grammars

    @cached_property
    def _shipped(self) -> Mapping[str, stored.Entry]:
        shipped = stored.shipped(self.folder)
        if shipped is None:
            return {}
        usable = shipped.schema == stored.schema() or not self._names()
        return shipped.formats if usable else {}

    def load(self, name_or_path: str | Path) -> Grammar:
        """The grammar of a format, of anything ``resolve`` knows, or of a grammar file (``*.tg``).

        A model directory that fits no format may bring a response template, which is read then.
        """
        if str(name_or_path).endswith(files.SUFFIX):
            if not os.path.isfile(name_or_path):
                raise UnknownModelError(str(name_or_path), reason="there is no such file")
            return self._read(str(name_or_path))
        try:
            name = self.resolve(str(name_or_path))
        except UnknownModelError:
            grammar = _from_template(str(name_or_path))
            if grammar is None:
                raise
            return grammar
        if name not in self._grammars:
            path = self._path(name)
            there = os.path.isfile(path)
            self._grammars[name] = self._read(path) if there else stored.decode(self._shipped[name].grammar)
        return self._grammars[name]

    def _read(self, path: str) -> Grammar:
        """The grammar of a file that is there: made ahead of time, cached, or elaborated now."""
        text = files.read_text(path)
        texts = files.closure(path, text, self._loader)
        entry = self._shipped.get(files.stem(path))
        if entry is not None and entry.sources == stored.sources(self.folder, texts):
            return stored.decode(entry.grammar)
        key = stored.key(files.stem(path), texts)
        grammar = stored.recall(self.cache, key)
        if grammar is None:
            from toolgrammar.language import read_grammar

            grammar = read_grammar(text, file=path, loader=self._loader)
            stored.remember(self.cache, key, grammar)
        return grammar

    def where(self, name_or_path: str | Path, rule: str) -> Where | None:
        """Where a rule is written, None if that is not known (no sources). Reads the file anew, with lark."""
        from toolgrammar.language import read_source_file

        path = str(name_or_path)
        if not path.endswith(files.SUFFIX):
            path = self._path(self.resolve(path))
        return read_source_file(path, loader=self._loader).where.get(rule) if os.path.isfile(path) else None


def _from_template(folder: str) -> Grammar | None:
    """The grammar of the response template in a model directory, if there is one."""
    if not os.path.isdir(folder):
        return None
    from toolgrammar.templates import model_template

    return model_template(folder)


def _plain(name: str) -> str:
    """A name whatever its case, and with ``-`` for ``_``."""
    return name.lower().replace("_", "-")


def _squeeze(name: str) -> str:
    """A name without what separates its parts: ``qwen3coder`` is ``Qwen3-Coder``."""
    return name.lower().translate(_SEPARATORS)


_SEPARATORS = str.maketrans("", "", "-_. ")
_default: Registry | None = None


def default() -> Registry:
    """The registry of the shipped grammars."""
    global _default
    if _default is None:
        _default = Registry()
    return _default


def load(name_or_path: str | Path) -> Grammar:
    """The grammar of a format, of anything ``resolve`` knows, or of a grammar file (``*.tg``)."""
    return default().load(name_or_path)


def formats() -> list[str]:
    """The names of all formats, sorted."""
    return default().formats()


def resolve(model: str) -> str:
    """The format that a name, model id or model directory stands for. Raises ``UnknownModelError``."""
    return default().resolve(model)


def where(name_or_path: str | Path, rule: str) -> Where | None:
    """Where a rule is written, None if that is not known."""
    return default().where(name_or_path, rule)
