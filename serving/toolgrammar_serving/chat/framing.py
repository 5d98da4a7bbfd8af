"""Where an answer stands when it begins, found out by feeding a copy of its parser.

A constraint on the content must let the reasoning in front of it pass. Whether there is any, how it is opened
and what closes it, the parser knows: it is asked what it makes of each marker that counts at this place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from toolgrammar import Content, Parser, Reasoning

_WORD = "x"


class Frame(msgspec.Struct, frozen=True):
    """``start``: what is open. ``opener``, ``closer``: of the reasoning that may come first, None if none may."""

    start: Literal["content", "reasoning", "section"]
    opener: str | None = None
    closer: str | None = None
    #: Text at this place is content, or it is known how to get there.
    known: bool = True

    @property
    def reasons(self) -> bool:
        """Whether reasoning may stand in front of the content."""
        return not self.known or self.closer is not None


def frame_of(parser: Parser, outward: Callable[[str], str], section: bool = False) -> Frame:
    """The frame of what ``parser``, which has read nothing yet, is about to read. ``outward``: marks to tokens."""
    if section:
        return Frame("section", known=False)
    sink = _sink(parser, _WORD)
    if sink is Reasoning:
        closer = _closer(parser)
        return Frame("reasoning", None, closer and outward(closer), closer is not None)
    for marker in parser.markers:
        if _sink(parser, marker + _WORD) is Reasoning:
            inside = parser.copy()
            inside.feed(marker)
            closer = _closer(inside)
            if closer is not None:
                return Frame("content", outward(marker), outward(closer))
    # Where text is not yet certain, reasoning may come in some other way: by headers.
    return Frame("content", known=parser.in_text or "reasoning" not in parser.grammar.starts)


def _closer(parser: Parser) -> str | None:
    """A marker behind which content begins."""
    inside = parser.copy()
    inside.feed(_WORD)
    return next((marker for marker in inside.markers if _sink(inside, marker + _WORD) is Content), None)


def _sink(parser: Parser, text: str) -> type | None:
    """What the end of ``text`` would be."""
    events = parser.copy().feed(text)
    return type(events[-1]) if events else None


def framed(value: dict[str, Any], frame: Frame) -> dict[str, Any]:
    """A format for structural tags: ``value`` as the content, the reasoning in front of it free."""
    if frame.closer is None:
        return value
    blank = {"type": "regex", "pattern": r"[ \n]{0,4}"}
    thought = {"type": "tag", "begin": frame.opener or "", "content": {"type": "any_text"}, "end": frame.closer}
    behind = {"type": "sequence", "elements": [thought, blank, value]}
    return behind if frame.opener is None else {"type": "or", "elements": [behind, value]}
