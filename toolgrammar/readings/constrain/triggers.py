"""What begins a call in free text: the shortest texts after which nothing but a call may follow."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from toolgrammar.readings.constrain.formats import (
    EMPTY,
    NEVER,
    Const,
    Each,
    Format,
    Hole,
    Or,
    Repeat,
    Run,
    Seq,
    either,
    may_be_empty,
    seq,
    star,
    weight,
)  # fmt: skip
from toolgrammar.readings.constrain.places import JsonName

#: White space that a call may want in front of it; in free text it may stand anyway.
_FRAMES: Final = ("", "\n", "\n\n", " ")
#: Ways looked at: more than any format has.
_MOST: Final = 5_000


class Opener(NamedTuple):
    """``text``, and if ``name`` is not None the name of a tool that goes the way of ``like``, then ``after``.

    ``rest`` is what must follow; it has holes.
    """

    text: str
    rest: Format
    name: Hole | None = None
    after: str = ""
    like: str = ""


def openers(runs: Sequence[Format], others: Format) -> list[Opener]:
    """Markers that begin ``runs``, and nothing of ``others``."""
    whole = either(*runs)
    found: dict[str, list[Format]] = {}
    for run in runs:
        for text in dict.fromkeys(each.text for each in _tried(run, others) if each.name is None):
            found.setdefault(text, []).append(_framed(run, text))
    # The same in two ways, of which sometimes one and sometimes the other is shorter.
    return [Opener(text, min(_framed(whole, text), either(*ways), key=weight)) for text, ways in found.items()]


def _framed(run: Format, text: str) -> Format:
    """What follows ``text``, and the white space in front of it, in ``run``."""
    return next((way for white in _FRAMES if (way := behind(run, white + text)) != NEVER), NEVER)


def named_openers(runs: Sequence[Format], others: Format) -> list[Opener]:
    """Beginnings of ``runs`` up to a tool's name, where no marker is enough.

    White space in them is what templates write. Behind a name stands what follows it, if that is certain, so that
    no name is the beginning of another.
    """
    found: dict[Opener, dict[Format, None]] = {}
    for run in runs:
        for each in _tried(run, others):
            if each.name is not None:
                found.setdefault(each._replace(rest=EMPTY), {})[each.rest] = None
    return [opener._replace(rest=either(*rests)) for opener, rests in found.items()]


def needed(found: Sequence[Opener]) -> list[Opener]:
    """Those without which a call could begin: no other one begins or ends them."""
    sure = tuple(opener.text for opener in found if opener.name is None)
    kept: list[Opener] = []
    for opener in sorted(found, key=lambda each: len(each.text)):
        same = (other for other in kept if (other.name, other.after, other.like) == opener[2:])
        if opener.name is None:
            others = tuple(text for text in sure if text != opener.text)
            barred = opener.text.startswith(others) or opener.text.endswith(others)
        else:
            barred = opener.text.startswith(sure) or any(opener.text.endswith(other.text) for other in same)
        if not barred:
            kept.append(opener)
    return kept


def _tried(run: Format, others: Format) -> Iterator[Opener]:
    """The openers of one run, its white space spelled widely, then tightly."""
    for tight in (False, True):
        yield from itertools.islice(_openers((run,), "", True, others, "", tight), _MOST)


def _openers(
    items: tuple[Format, ...], front: str, sure: bool, others: Format, like: str, tight: bool
) -> Iterator[Opener]:
    """The same for a sequence behind ``front``; ``sure``: no word of prose stands in it."""
    if not items:
        return
    first, rest = items[0], items[1:]
    match first:
        case Const(text) if not front and not text.strip():
            # White space in front of everything belongs to the free text.
            yield from _openers(rest, front, sure, others, like, tight)
        case Const(text):
            so_far, so_sure = front + text, sure and first.sure
            if so_sure and behind(others, so_far) == NEVER:
                yield Opener(so_far, EMPTY)
            else:
                yield from _openers(rest, so_far, so_sure, others, like, tight)
        case Hole("name"):
            # A bare name is a word of prose.
            for after in _texts_behind(rest, first) if front else ():
                yield Opener(front, behind(seq(*rest), after), first, after, like)
        case Run(usual=usual):
            blank = "" if not front else usual[-1] if tight else usual[0]
            yield from _openers(rest, front + blank, sure, others, like, tight)
        case Seq(inner):
            yield from _openers((*inner, *rest), front, sure, others, like, tight)
        case Or(ways):
            for way in ways:
                yield from _openers((way, *rest), front, sure, others, like, tight)
        case Each(inner, own):
            yield from _openers((inner, *rest), front, sure, others, own, tight)
        case Repeat(inner, kind):
            yield from _openers((inner, *rest), front, sure, others, like, tight)
            if kind != "+":
                yield from _openers(rest, front, sure, others, like, tight)


def _texts_behind(items: tuple[Format, ...], name: Hole) -> set[str]:
    """What stands behind a name, as far as it is certain; a name between quotes needs nothing."""
    if isinstance(name.node, JsonName):
        return {""}
    return {text if re.match(r"[\w.-]", text) else text[:1] for text in _heads(items)}


def _heads(items: tuple[Format, ...]) -> Iterator[str]:
    """The first texts of a sequence that are no white space, with that in front."""
    if not items:
        return
    first, rest = items[0], items[1:]
    match first:
        case Const(text):
            yield text
        case Run(usual=usual):
            for blank in usual:
                if blank.strip():
                    yield blank
                else:
                    yield from (blank + text for text in _heads(rest))
        case Seq(inner):
            yield from _heads((*inner, *rest))
        case Or(ways):
            for way in ways:
                yield from _heads((way, *rest))
        case Repeat(inner, kind):
            yield from _heads((inner, *rest))
            if kind != "+":
                yield from _heads(rest)


def behind(item: Format, text: str) -> Format:
    """What may follow ``text`` where ``item`` begins with it; NEVER if it cannot.

    Holes, schemas, free text and rules are not looked into: nothing of them is known to begin with a text.
    """
    for char in text:
        item = _behind(item, char)
    return item


def _behind(item: Format, char: str) -> Format:
    """The same for one character."""
    match item:
        case Const(text):
            return seq(Const(text[1:], item.sure)) if text.startswith(char) else NEVER
        case Run(chars, least, most):
            if not most or not re.match(f"[{chars}]", char):
                return NEVER
            return Run(chars, max(least - 1, 0), most - 1) if most > 1 else EMPTY
        case Or(items):
            return either(*(_behind(each, char) for each in items))
        case Repeat(inner, kind):
            return seq(_behind(inner, char), EMPTY if kind == "?" else star(inner))
        case Each(inner, like):
            found = _behind(inner, char)
            return NEVER if found == NEVER else Each(found, like)
        case Seq(items):
            ways = []
            for place, each in enumerate(items):
                ways.append(seq(_behind(each, char), *items[place + 1 :]))
                if not may_be_empty(each):
                    break
            return either(*ways)
    return NEVER
