"""The regular expressions of response templates, expanded to what a streaming machine can look for.

A pattern becomes a few *shapes*, each a sequence of parts: fixed words, runs of white space, captures that end
where the next word begins, and at the end perhaps words that must follow. What cannot be had that way is refused.

    >>> [shape.parts for shape in expand(r"<call>\\s*<f=(?P<name>\\w+)>")]
    [(Word(text='<call>'), White(...), Word(text='<f='), Capture(name='name', chars='\\\\w', ...), Word(text='>'))]
"""

from __future__ import annotations

import re
import re._parser as sre  # type: ignore[import-not-found]
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias

from toolgrammar.combinators import WHITE
from toolgrammar.templates.classes import class_of, is_white, union, white_chars, with_bounds

#: Shapes one pattern may stand for, as in peers' derivations of structural tags.
MOST: Final = 16
#: Members up to which a character class is so many literals.
_FEW: Final = 4


class PatternError(Exception):
    """A pattern that cannot be used; ``hint`` says what could be."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)


class Word(NamedTuple):
    """Fixed text."""

    text: str


class White(NamedTuple):
    """A run of white space; with ``exact`` that very string or nothing."""

    chars: str = WHITE
    least: int = 0
    exact: str = ""


class Capture(NamedTuple):
    """Text up to the next word, made of ``chars`` ("" is any); ``name`` is "" if nobody asks for it.

    With ``pattern`` all of it must match that, too.
    """

    name: str
    chars: str = ""
    empty: bool = False
    pattern: str = ""


class Fixed(NamedTuple):
    """The words before it are the value of this group."""

    name: str
    value: str


class Look(NamedTuple):
    """One of these words must follow, behind white space if ``white``."""

    texts: tuple[str, ...]
    white: bool = False


class Edge(NamedTuple):
    """The start of the output, or its end."""

    start: bool


Part: TypeAlias = Word | White | Capture | Fixed | Look | Edge
Way: TypeAlias = tuple[Part, ...]


class Shape(NamedTuple):
    """One way to match. ``start``: only as the first thing of the output."""

    parts: Way
    start: bool = False

    @property
    def word(self) -> str:
        """The first fixed text, "" if there is none."""
        return next((part.text for part in self.parts if isinstance(part, Word)), "")


def literals(texts: Iterable[str]) -> tuple[Shape, ...]:
    """The shapes of plain words, the longest first."""
    return tuple(Shape((Word(text),)) for text in sorted(texts, key=len, reverse=True))


def expand(pattern: str) -> tuple[Shape, ...]:
    """The shapes of ``pattern``; those that only the end of the output matches are left out."""
    return tuple(shape for way in _ways(parse(pattern)) if (shape := _shape(way)) is not None)


def parse(pattern: str) -> Any:
    """The syntax tree of a pattern, flags checked."""
    try:
        tree = sre.parse(pattern, re.S)
    except Exception as error:  # re.error, OverflowError, RecursionError
        raise PatternError(f"/{pattern}/ is not a regular expression: {error}") from None
    if tree.state.flags & (re.I | re.M | re.L):
        raise PatternError(f"/{pattern}/ sets flags", "spell what it matches without (?i), (?m), (?L)")
    return tree


def groups(pattern: str) -> tuple[str, ...]:
    """The names of its named groups."""
    return tuple(parse(pattern).state.groupdict)


# ---- ways ----------------------------------------------------------------------------------------------------


def _ways(items: Iterable[Any]) -> list[Way]:
    """Every way through a sequence of syntax-tree items."""
    ways: list[Way] = [()]
    for item in items:
        ways = [way + more for way in ways for more in _options(item)]
        if len(ways) > MOST:
            raise PatternError(*_MANY)
    return ways


def _options(item: Any) -> list[Way]:
    op, argument = str(item[0]), item[1]
    if op == "LITERAL":
        return [(Word(chr(argument)),)]
    if (chars := class_of(item)) is not None:
        return _one_of(item, chars)
    if op in ("MAX_REPEAT", "MIN_REPEAT"):
        return _repeat(*argument)
    if op == "SUBPATTERN":
        return _group(*argument)
    if op == "BRANCH":
        return [way for branch in argument[1] for way in _ways(branch)]
    if op == "AT":
        where = str(argument)
        return [()] if "BOUNDARY" in where else [(Edge("BEGINNING" in where),)]
    if op == "ASSERT":
        return [_look(*argument)]
    raise PatternError(*_REFUSED.get(op, (f"it uses {op.lower()}, which cannot be read as it comes", "")))


_REFUSED: Final = {
    "ASSERT_NOT": ("it looks for what must not be there", "spell what must be there"),
    "GROUPREF": ("it refers back to a group", "spell the text again"),
    "GROUPREF_EXISTS": ("it refers back to a group", "use alternatives"),
}
_MANY: Final = (f"it stands for more than {MOST} different texts", "use fewer alternatives")
_NESTED: Final = (
    "it repeats a group without bound", "repeat one character class, as in [^<]* or \\w+, instead of a group"
)  # fmt: skip


def _one_of(item: Any, chars: str) -> list[Way]:
    """One character of a class."""
    if is_white(item):
        return [(White(least=1),)]
    members = item[1] if str(item[0]) == "IN" else ()
    if 0 < len(members) <= _FEW and all(str(member[0]) == "LITERAL" for member in members):
        return [(Word(chr(member[1])),) for member in members]
    return [(Capture("", chars, pattern=with_bounds(chars, 1, 1)),)]


def _repeat(least: int, most: Any, body: Sequence[Any]) -> list[Way]:
    endless = most is sre.MAXREPEAT
    if len(body) == 1 and is_white(body[0]):
        char = chr(body[0][1]) if str(body[0][0]) == "LITERAL" else ""
        if char and (least, most) == (0, 1):
            return [(White(exact=char),)]
        return [(White(white_chars(body[0]), least),)]
    if len(body) == 1 and endless and (chars := class_of(body[0])) is not None:
        return [(Capture("", chars, not least, with_bounds(chars, least, most) if least > 1 else ""),)]
    inner = _ways(body)
    if endless:
        if all(_blank(part) for way in inner for part in way):
            return [(White(least=least),)]
        raise PatternError(*_NESTED)
    if (int(most) - least + 1) * len(inner) > MOST or int(most) > 64:
        raise PatternError(*_MANY)
    ways: list[Way] = []
    for count in range(least, int(most) + 1):
        some: list[Way] = [()]
        for _ in range(count):
            some = [way + more for way in some for more in inner]
            if len(some) > MOST:
                raise PatternError(*_MANY)
        ways += some
    return ways


def _blank(part: Part) -> bool:
    return isinstance(part, White) or (isinstance(part, Word) and not part.text.strip())


def _group(number: Any, add: int, drop: int, body: Any) -> list[Way]:
    if add & (re.I | re.M | re.L) or drop & re.S:
        raise PatternError("it sets flags", "spell what it matches without flags")
    names = {index: name for name, index in body.state.groupdict.items()}
    return _capture(names[number], body) if number in names else _ways(body)


def _capture(name: str, body: Any) -> list[Way]:
    """A named group: few fixed texts, or characters of certain classes."""
    endless = any(str(item[0]).endswith("REPEAT") and item[1][1] is sre.MAXREPEAT for item in body)
    pieces = [_piece(item) for item in body]
    if not endless and any(piece is None for piece in pieces):
        ways = [_merged(way) for way in _ways(body)]
        if all(all(isinstance(part, Word) for part in way) for way in ways):
            return [(*way, Fixed(name, way[0].text if way else "")) for way in ways]  # type: ignore[union-attr]
    if not pieces or any(piece is None for piece in pieces):
        raise PatternError(f"group {name!r}: {_NESTED[0]}", _NESTED[1])
    known = [piece for piece in pieces if piece is not None]
    chars = union([piece[0] for piece in known])
    simple = len(known) == 1 and known[0][1] < 2 and endless
    pattern = "" if simple else "".join(with_bounds(*piece) for piece in known)
    return [(Capture(name, chars, not any(piece[1] for piece in known), pattern),)]


def _piece(item: Any) -> tuple[str, int, Any] | None:
    """A class with its bounds, None if ``item`` is anything else."""
    if str(item[0]) in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, body = item[1]
        chars = class_of(body[0], any_literal=True) if len(body) == 1 else None
        return None if chars is None else (chars, least, most)
    chars = class_of(item)
    return None if chars is None else (chars, 1, 1)


def _look(direction: int, body: Any) -> Way:
    if direction < 0:
        raise PatternError("it looks behind", "put what stands before into the pattern")
    texts: list[str] = []
    white = ends = False
    for way in map(_merged, _ways(body)):
        white = white or any(isinstance(part, White) for part in way)
        words = [part.text for part in way if isinstance(part, Word)]
        rest = [part for part in way if not isinstance(part, (Word, White))]
        if not words and rest == [Edge(False)]:
            ends = True
        elif len(words) == 1 and not rest:
            texts.append(words[0])
        else:
            raise PatternError("what it looks ahead for is not a few fixed texts", "name the texts")
    return (Look(tuple(texts), white),) if texts else (Edge(False),) if ends else ()


# ---- shapes --------------------------------------------------------------------------------------------------


def _merged(way: Way) -> Way:
    """Neighbouring words joined."""
    out: list[Part] = []
    for is_word, run in groupby(way, lambda part: isinstance(part, Word)):
        parts = list(run)
        out += [Word("".join(part.text for part in parts))] if is_word else parts  # type: ignore[union-attr]
    return tuple(out)


def _shape(way: Way) -> Shape | None:
    """The shape of a way; None if nothing but an edge of the output could match it."""
    start = bool(way) and way[0] == Edge(True)
    parts = _merged(way[start:])
    if any(isinstance(part, Edge) for part in parts):
        return None
    if any(isinstance(part, Look) for part in parts[:-1]):
        raise PatternError("it looks ahead in the middle", "a lookahead may only come last")
    return Shape(parts, start)
