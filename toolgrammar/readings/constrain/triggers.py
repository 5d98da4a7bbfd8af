"""What begins a call in free text: the shortest texts after which nothing but a call may follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from toolgrammar.readings.constrain.formats import NEVER, Const, Format, Or, Repeat, Run, Seq, behind

#: Ways looked at, and how deep: enough for every tool of a long list.
_MOST: Final = 20_000


def openers(calls: Format, others: Format, *, named: bool) -> list[str]:
    """The texts that begin ``calls``, and nothing of ``others``: markers, or if ``named`` beginnings up to a tool's name.

    White space in them is what templates write. Behind a name stands what follows it, if that is certain, so that
    no name is the beginning of another.
    """
    found: dict[str, None] = {}
    for count, (text, ends_in_name) in enumerate(_openers((calls,), "", True, others)):
        if ends_in_name == named:
            found[text] = None
        if count > _MOST:
            break
    return list(found)


def _openers(items: tuple[Format, ...], front: str, sure: bool, others: Format) -> Iterator[tuple[str, bool]]:
    """The same for a sequence behind ``front``; ``sure``: no word of prose stands in it."""
    if not items:
        return
    first, rest = items[0], items[1:]
    match first:
        case Const(text) if not front and not text.strip():
            # White space in front of everything belongs to the free text.
            yield from _openers(rest, front, sure, others)
        case Const(text, name):
            so_far, so_sure = front + text, sure and first.sure
            if name:
                yield from ((so_far + after, True) for after in _texts_behind(rest, text))
            elif so_sure and behind(others, so_far) == NEVER:
                yield so_far, False
            else:
                yield from _openers(rest, so_far, so_sure, others)
        case Run(usual=usual):
            for text in usual if front else ("",):
                yield from _openers(rest, front + text, sure, others)
        case Seq(inner):
            yield from _openers((*inner, *rest), front, sure, others)
        case Or(ways):
            for way in ways:
                yield from _openers((way, *rest), front, sure, others)
        case Repeat(inner, kind):
            yield from _openers((inner, *rest), front, sure, others)
            if kind != "+":
                yield from _openers(rest, front, sure, others)


def _texts_behind(items: tuple[Format, ...], name: str) -> tuple[str, ...]:
    """What stands behind a name, as far as it is certain; a name between quotes needs nothing."""
    match items:
        case _ if name.endswith('"'):
            return ("",)
        case (Const(text), *_):
            return (text,)
        case (Run(usual=usual), Const(text), *_):
            return tuple(blank + text for blank in usual)
    return ("",)
