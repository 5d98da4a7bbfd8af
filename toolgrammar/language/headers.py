"""Header lines: ``@word`` and what follows it. Read without lark, so that names and imports are cheap to see.

    @names   hermes qwen25          words
    @stop    "<|im_end|>"           literals
    @note    anything to the end    text, kept as written

A line that begins with white space continues the one above it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from toolgrammar.errors import GrammarSyntaxError, Where
from toolgrammar.language.pages import Page
from toolgrammar.language.tree import Header, Item

#: Headers that describe the format, not its text: a variant (``@like``) has its own.
IDENTITY = frozenset({"title", "names", "models", "detect", "rank", "note"})
#: Headers of literals, and the field of ``Grammar`` each fills.
LITERALS = {"stop": "stops", "tokens": "tokens", "skip": "skips", "anchor": "anchors"}
#: Headers made of words and literals. The others are kept as text, where ``#`` is no comment.
STRUCTURED = frozenset(
    {"title", "names", "models", "join", "ids", "mend", "import", "like", "detect", "rank", *LITERALS}
)
#: Of these, the ones that stay text in ``Grammar.facts``.
FACTS = frozenset({"detect", "rank"})
#: The other headers: an unknown word is a mistake, unless it begins with ``FREE``.
TEXTS = frozenset({"note", "template", "response-template", "write"})
KNOWN = STRUCTURED | TEXTS | {"start"}
FREE = "x-"
IDS = ("call", "alnum9")
MENDED = ("line-feeds",)
SINKS = ("content", "reasoning")

_HEADER = re.compile(r"^@[^\n]*(?:\n[ \t]+[^\s][^\n]*)*", re.MULTILINE)
_WORD = re.compile(r"@([A-Za-z][\w-]*)(?=\s|$)")
_ITEM = re.compile(r'(?P<space>\s+)|(?P<comment>#[^\n]*)|(?P<quoted>"(?:\\.|[^"\\\n])*")|(?P<word>[^\s"#][^\s"]*)')
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}


def headers(page: Page, only: Collection[str]) -> Iterator[Header]:
    """The headers of a page that have one of some words."""
    for match in _HEADER.finditer(page.text):
        word = _WORD.match(match[0])
        if word is not None and word[1] in only:
            yield header(page, match.start(), match[0])


def header(page: Page, offset: int, text: str) -> Header:
    """The header that ``text`` at ``offset`` is. Raises ``GrammarSyntaxError`` for a word that is none."""
    word = _WORD.match(text)
    if word is None:
        raise GrammarSyntaxError(
            "expected a word directly behind '@'", where=page.where(offset), hint="as in '@names hermes'"
        )
    if word[1] not in KNOWN and not word[1].startswith(FREE):
        raise fail(f"no header @{word[1]}", page.where(offset), _near_header(word[1]))
    items = tuple(_items(page, offset + word.end(), text[word.end() :])) if word[1] in STRUCTURED else ()
    return Header(word[1], _body(word[1], text[word.end() :]), items, page, offset)


def _near_header(word: str) -> str:
    """What an unknown header may have been meant to be."""
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), sorted(KNOWN), 1, 0.7)
    if near:
        return f"did you mean @{near[0]}?"
    return f"facts of your own begin with '{FREE}', as in '@{FREE}{word} ...'"


def _body(word: str, text: str) -> str:
    """The text behind the word, continuation lines joined with a blank."""
    lines = [line.strip() for line in text.split("\n")]
    if word in STRUCTURED:
        lines = [_without_comment(line) for line in lines]
    return " ".join(line for line in lines if line)


def _without_comment(line: str) -> str:
    for match in _ITEM.finditer(line):
        if match.lastgroup == "comment":
            return line[: match.start()].rstrip()
    return line


def _items(page: Page, offset: int, text: str) -> Iterator[Item]:
    """The words and literals of a header."""
    at = 0
    while at < len(text):
        match = _ITEM.match(text, at)
        if match is None:
            raise fail("this literal has no closing '\"' on its line", page.where(offset + at))
        if match.lastgroup == "quoted":
            yield Item(unquote(match[0], page, offset + at), True, page, offset + at)
        elif match.lastgroup == "word":
            yield Item(match[0], False, page, offset + at)
        at = match.end()


def unquote(text: str, page: Page, offset: int) -> str:
    """The string that a literal with its quotes, found at ``offset``, stands for."""

    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape not in _ESCAPES:
            where = page.where(offset + 1 + match.start())
            raise GrammarSyntaxError(
                f"'\\{escape}' is no escape", where=where, hint='write one of \\n \\t \\r \\" \\\\ \\uXXXX'
            )
        return _ESCAPES[escape]

    if len(text) == 2:
        raise GrammarSyntaxError(
            "an empty literal matches nothing",
            where=page.where(offset),
            hint="write '?' behind what may be absent",
        )
    return _ESCAPE.sub(character, text[1:-1])


def literals(header: Header) -> tuple[str, ...]:
    """The items of a header that takes literals only."""
    for item in header.items:
        if not item.quoted:
            raise GrammarSyntaxError(
                f"@{header.word} takes literals, found the word '{item.text}'",
                where=item.where,
                hint=f'write "{item.text}"',
            )
    return tuple(item.text for item in header.items)


def words(header: Header, among: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The items of a header that takes words, of those in ``among`` if given."""
    for item in header.items:
        if item.text.endswith(","):
            raise fail(f"@{header.word} takes words separated by blanks, found '{item.text}'", item.where)
        if among and item.text not in among:
            raise GrammarSyntaxError(
                f"@{header.word} takes {' or '.join(among)}, found '{item.text}'", where=item.where
            )
    return tuple(item.text for item in header.items)


def number(header: Header) -> int:
    """The number that a header is."""
    wrong = next((item for item in header.items if item.quoted or not item.text.isdecimal()), None)
    if wrong is not None or len(header.items) != 1:
        found = f", found '{wrong.text}'" if wrong is not None else ""
        raise fail(f"@{header.word} takes one number{found}", (wrong or header).where)
    return int(header.items[0].text)


def title(header: Header) -> str:
    """One literal, or the text of the line."""
    if len(header.items) == 1 and header.items[0].quoted:
        return header.items[0].text
    return header.body


def fail(message: str, where: Where, hint: str = "") -> GrammarSyntaxError:
    """A syntax error at a place."""
    return GrammarSyntaxError(message, where=where, hint=hint)
