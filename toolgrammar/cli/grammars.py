"""What the commands ask of grammars: load one by name or file, and list its markers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from toolgrammar import combinators as c
from toolgrammar.cli.errors import CliError
from toolgrammar.errors import GrammarError

_CONTROL: Final = re.compile(r"<[|｜][^<>]*[|｜]>")


class Marker(NamedTuple):
    """A marker text of a grammar, whether it is (or contains) a control token, and the rules that have it."""

    text: str
    control: bool
    rules: tuple[str, ...]


def load(name: str) -> c.Grammar:
    """The grammar of a format, a model or a grammar file."""
    from toolgrammar import registry

    is_file = name.endswith(".tg") or (os.path.isfile(name) and name not in registry.formats())
    return load_file(name) if is_file else registry.load(name)


def load_file(path: str) -> c.Grammar:
    """The grammar of a file, whatever its suffix; one that does not compile is refused, with the place."""
    from toolgrammar import registry
    from toolgrammar.language import read_grammar_file

    if not os.path.isfile(path):
        what = "is a directory" if os.path.isdir(path) else "there is no such file"
        raise CliError("E002", f"cannot read grammar file {path}: {what}")
    try:
        grammar = registry.load(path) if path.endswith(".tg") else read_grammar_file(path)
    except OSError as error:
        raise CliError("E002", f"cannot read grammar file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CliError("E002", f"grammar file {path} is not UTF-8 at byte {error.start}") from error
    _compile(grammar, path)
    return grammar


def named_file(name: str) -> c.Grammar | None:
    """The grammar of a model name that is a grammar file, None for any other name. Raises ``CliError``."""
    from toolgrammar.cli.errors import from_library

    if not name.endswith(".tg") or not os.path.isfile(name):
        return None
    try:
        return load_file(name)
    except GrammarError as error:
        raise from_library(error) or error from error


def _compile(grammar: c.Grammar, path: str) -> None:
    """Compile ``grammar``; the parser finds the program. Raises ``GrammarError`` with its place in ``path``."""
    from toolgrammar.machine.cache import program_of

    try:
        program_of(grammar)
    except GrammarError as error:
        raise placed(error, path) from None


def placed(error: GrammarError, path: str) -> GrammarError:
    """``error`` with the place of its rule in the file ``path``, if it has none: compiling knows only rules."""
    from toolgrammar import registry
    from toolgrammar.language import read_source_file

    if error.where is not None or not error.rule:
        return error
    is_tg = path.endswith(".tg")
    where = registry.where(path, error.rule) if is_tg else read_source_file(path).where.get(error.rule)
    return type(error)(error.message, rule=error.rule, where=where, hint=error.hint)


def given_grammar(grammar: str | None, template: str | None) -> c.Grammar | None:
    """The grammar of ``--grammar FILE`` or ``--template FILE``, None if neither is given."""
    if template is None:
        return load_file(grammar) if grammar is not None else None
    from toolgrammar.templates import read_template

    return read_template(template)


def is_control(text: str, tokens: tuple[str, ...]) -> bool:
    """Whether ``text`` is a control token or contains one."""
    return bool(_CONTROL.search(text)) or any(token in text for token in tokens)


def markers_of(grammar: c.Grammar) -> list[Marker]:
    """The literals of a grammar that are marks rather than punctuation, in the order of the rules."""
    rules: dict[str, list[str]] = {}
    for name, node in grammar.rules.items():
        for text in literals(node):
            found = rules.setdefault(text, [])
            if name not in found:
                found.append(name)
    for text in grammar.stops:
        rules.setdefault(text, []).append("@stop")
    return [
        Marker(text, is_control(text, grammar.tokens), tuple(names))
        for text, names in rules.items()
        if len(text.strip()) > 1 or is_control(text, grammar.tokens)
    ]


def literals(node: Any) -> Iterator[str]:
    """Every spelling of every literal under ``node``."""
    if isinstance(node, c.Lit):
        yield from node.spellings
    for child in c.children(node):
        yield from literals(child)
    if isinstance(node, c.Choose):
        for arm in node.arms:
            if arm.pattern.isalnum():
                yield arm.pattern
