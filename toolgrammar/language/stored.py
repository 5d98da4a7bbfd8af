"""Elaborated grammars on disk, so that lark runs only for a grammar that is new.

Two places: ``elaborated.msgpack`` beside the shipped grammars, made when the wheel is built, and the user's
cache folder. Both are checked against the texts they were made of and against the code that made them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from toolgrammar.combinators import Grammar
from toolgrammar.errors import GrammarError
from toolgrammar.language import files
from toolgrammar.language import headers as head
from toolgrammar.language.pages import Page

if TYPE_CHECKING:
    from pathlib import Path  # every start pays for an import: recalling a grammar does without

FILE = "elaborated.msgpack"


class Known(msgspec.Struct, frozen=True):
    """What finding a format by name or evidence needs: the file's own header lines."""

    title: str = ""
    names: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    #: Each ``@detect`` line as written.
    detect: tuple[str, ...] = ()
    #: Formats of a lower rank go first, whatever else the evidence says.
    rank: int = 0


class Entry(msgspec.Struct, frozen=True):
    """One shipped grammar."""

    known: Known
    #: Path in the grammars folder to digest of the text, for every file the grammar is made of.
    sources: dict[str, str]
    #: A ``Grammar``, not decoded before it is asked for.
    grammar: msgspec.Raw


class Shipped(msgspec.Struct, frozen=True):
    """The content of ``elaborated.msgpack``."""

    schema: str
    formats: dict[str, Entry]


def digest(*texts: str | bytes) -> str:
    """A digest of texts and where they begin. It tells changes, not forgeries: hashlib would cost 3 ms a start."""
    from importlib.util import source_hash

    made = []
    for text in texts:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        made.append(b"%d:" % len(data) + data)
    return source_hash(b"".join(made)).hex()


@cache
def schema() -> str:
    """A digest of the code that makes grammars: the nodes and this package."""
    here = os.path.dirname(os.path.abspath(__file__))
    code = sorted(name for name in os.listdir(here) if name.endswith(".py"))
    names = [*code, "syntax.lark", os.path.join("..", "combinators.py")]
    return digest(*(_bytes(here, name) for name in names if os.path.isfile(os.path.join(here, name))))


def _bytes(folder: str | os.PathLike[str], name: str) -> bytes:
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def known(path: str | os.PathLike[str]) -> Known:
    """The identity of a format, from its header lines alone. Nothing if one is wrong: loading says so."""
    try:
        return _known(files.read_text(path))
    except GrammarError:
        return Known()


def _known(text: str) -> Known:
    lines: dict[str, list[str]] = {"title": [], "names": [], "models": [], "detect": []}
    rank = 0
    for header in head.headers(Page("", text), only=lines.keys() | {"rank"}):
        match header.word:
            case "title":
                lines["title"].append(head.title(header))
            case "detect":
                lines["detect"].append(header.body)
            case "rank":
                rank = head.number(header)
            case _:
                lines[header.word].extend(item.text for item in header.items)
    title = lines["title"][0] if lines["title"] else ""
    models = tuple(map(str.lower, lines["models"]))
    return Known(title, tuple(lines["names"]), models, tuple(lines["detect"]), rank)


def sources(folder: str | os.PathLike[str], texts: Mapping[str, str]) -> dict[str, str]:
    """Digests by path in the grammars folder."""
    return {os.path.relpath(file, folder).replace(os.sep, "/"): digest(text) for file, text in texts.items()}


# ---- ahead of time -----------------------------------------------------------------------------------------


def build(folder: Path, out: Path) -> int:
    """Write the shipped grammars of ``folder`` to ``out``, and say how many there are."""
    formats = {path.stem: _entry(folder, path) for path in sorted(folder.glob(f"*{files.SUFFIX}"))}
    _write(out, msgspec.msgpack.encode(Shipped(schema(), formats)))
    return len(formats)


def _entry(folder: Path, path: Path) -> Entry:
    from toolgrammar.language import read_grammar

    text = files.read_text(path)
    load = files.folder_loader(folder)
    grammar = read_grammar(text, file=str(path), loader=load)
    texts = files.closure(str(path), text, load)
    return Entry(known(path), sources(folder, texts), msgspec.Raw(msgspec.msgpack.encode(grammar)))


def shipped(folder: str | os.PathLike[str]) -> Shipped | None:
    """The grammars made ahead of time, if there are any."""
    try:
        return msgspec.msgpack.decode(_bytes(folder, FILE), type=Shipped)
    except (OSError, msgspec.DecodeError):
        return None


def decode(data: bytes | msgspec.Raw) -> Grammar:
    """A stored grammar."""
    return msgspec.msgpack.decode(data, type=Grammar)


# ---- the user's cache --------------------------------------------------------------------------------------


def cache_path() -> str:
    """The user's cache folder for grammars; it need not exist. A user without a home has none that works."""
    folder = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return os.path.join(os.devnull if folder.startswith("~") else folder, "toolgrammar")


def cache_folder() -> Path:
    """The user's cache folder for grammars, as a path."""
    from pathlib import Path

    return Path(cache_path())


def key(name: str, texts: Mapping[str, str]) -> str:
    """What a grammar made of these files is cached under."""
    return f"{name}-{digest(schema(), *_named(texts))[:32]}"


def _named(texts: Mapping[str, str]) -> Iterator[str]:
    for file, text in texts.items():
        yield os.path.basename(file)
        yield text


def recall(folder: str | os.PathLike[str], key: str) -> Grammar | None:
    """A cached grammar. What cannot be read is as good as not there."""
    try:
        return decode(_bytes(folder, f"{key}.msgpack"))
    except (OSError, msgspec.DecodeError):
        return None


def remember(folder: str | os.PathLike[str], key: str, grammar: Grammar) -> None:
    """Cache a grammar, if the folder can be written."""
    from pathlib import Path

    with suppress(OSError):
        _write(Path(folder, f"{key}.msgpack"), msgspec.msgpack.encode(grammar))


def _write(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_bytes(data)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
