"""What begins a call in free text: the shortest texts after which nothing but a call may follow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from toolgrammar.readings.constrain.formats import (
    EMPTY, NEVER, Const, Each, Format, Hole, Or, Repeat, Run, Seq, either, may_be_empty, seq, star,
)  # fmt: skip

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


def openers(calls: Format, others: Format) -> list[Opener]:
    """Markers that begin ``calls``, and nothing of ``others``."""
    texts = dict.fromkeys(
        found.text
        for _, found in zip(range(_MOST), _openers((calls,), "", True, others, ""), strict=False)
        if found.name is None
    )
    return [Opener(text, behind(calls, text)) for text in texts]


def named_openers(calls: Format, others: Format) -> list[Opener]:
    """Beginnings of ``calls`` up to a tool's name, where no marker is enough.

    White space in them is what templates write. Behind a name stands what follows it, if that is certain, so that
    no name is the beginning of another.
    """
    found: dict[Opener, None] = {}
    for _, opener in zip(range(_MOST), _openers((calls,), "", True, others, ""), strict=False):
        if opener.name is not None:
            found[opener] = None
    return list(found)


def _openers(items: tuple[Format, ...], front: str, sure: bool, others: Format, like: str) -> Iterator[Opener]:
    """The same for a sequence behind ``front``; ``sure``: no word of prose stands in it."""
    if not items:
        return
    first, rest = items[0], items[1:]
    match first:
        case Const(text) if not front and not text.strip():
            # White space in front of everything belongs to the free text.
            yield from _openers(rest, front, sure, others, like)
        case Const(text):
            so_far, so_sure = front + text, sure and first.sure
            if so_sure and behind(others, so_far) == NEVER:
                yield Opener(so_far, EMPTY)
            else:
                yield from _openers(rest, so_far, so_sure, others, like)
        case Hole("name"):
            for after in _texts_behind(rest, first):
                yield Opener(front, behind(seq(*rest), after), first, after, like)
        case Run(usual=usual):
            for text in usual if front else ("",):
                yield from _openers(rest, front + text, sure, others, like)
        case Seq(inner):
            yield from _openers((*inner, *rest), front, sure, others, like)
        case Or(ways):
            for way in ways:
                yield from _openers((way, *rest), front, sure, others, like)
        case Each(inner, own):
            # What stands behind the call is for every tool again.
            yield from _openers((inner,), front, sure, others, own)
        case Repeat(inner, kind):
            yield from _openers((inner, *rest), front, sure, others, like)
            if kind != "+":
                yield from _openers(rest, front, sure, others, like)


def _texts_behind(items: tuple[Format, ...], name: Hole) -> tuple[str, ...]:
    """What stands behind a name, as far as it is certain; a name between quotes needs nothing."""
    if name.node is not None and not hasattr(name.node, "register"):
        return ("",)
    match items:
        case (Const(text), *_):
            return (text,)
        case (Run(usual=usual), Const(text), *_):
            return tuple(blank + text for blank in usual)
    return ("",)


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
