"""Where an answer stands when it begins, found out by feeding a copy of its parser.

A constraint on the content must let the reasoning in front of it pass. Whether there is any, how it is opened
and what closes it, the parser knows: it is asked what it makes of each marker that counts at this place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from toolgrammar import Content, Parser, Reasoning
from toolgrammar.combinators import Grammar
from toolgrammar.readings.render import RenderError, render_calls

_WORD: Final = "x"
_THOUGHT: Final = "qzThought"
_ANSWER: Final = "qzAnswer"


class Frame(msgspec.Struct, frozen=True):
    """``start``: what is open. ``opener``, ``closer``: of the reasoning that may come first, None if none may.
    ``plain``: what stands before the content if there is no reasoning."""

    start: Literal["content", "reasoning", "section"]
    opener: str | None = None
    closer: str | None = None
    plain: str = ""
    #: Content may stand here, or it is known how to get there.
    known: bool = True

    @property
    def free(self) -> bool:
        """Whether the content begins at once."""
        return self.known and self.closer is None and not self.plain


def written(grammar: Grammar) -> Frame | None:
    """The frame as the renderer writes it, from a turn's beginning; None if the format cannot be written."""
    try:
        thought = render_calls(grammar, [], reasoning=_THOUGHT, content=_ANSWER)
        plain = render_calls(grammar, [], content=_ANSWER)
    except RenderError:
        return None
    opener, _, rest = thought.partition(_THOUGHT)
    return Frame("content", opener, rest.partition(_ANSWER)[0].lstrip(), plain.partition(_ANSWER)[0])


def opens(parser: Parser) -> bool:
    """Whether a marker opens reasoning where ``parser`` stands, and nothing else does."""
    return any(_sink(parser, marker + _WORD) is Reasoning for marker in parser.markers)


def frame_of(
    parser: Parser, outward: Callable[[str], str], headers: bool, turn: Frame | None, section: bool = False
) -> Frame:
    """The frame of what ``parser``, which has read nothing yet, is about to read. ``outward``: marks to tokens.

    ``headers``: reasoning may come in some other way than behind a marker; then ``turn`` says how a turn is
    written.
    """
    if section:
        return Frame("section", known=False)
    thinks = _sink(parser, _WORD) is Reasoning
    if headers:
        if parser.in_text and not thinks:
            return Frame("content")
        if turn is None:
            return Frame("reasoning" if thinks else "content", known=False)
        return Frame("reasoning", None, turn.closer) if thinks else turn
    if thinks:
        closer = _closer(parser)
        return Frame("reasoning", None, closer and outward(closer), known=closer is not None)
    for marker in parser.markers:
        if _sink(parser, marker + _WORD) is Reasoning:
            inside = parser.copy()
            inside.feed(marker)
            closer = _closer(inside)
            if closer is not None:
                return Frame("content", outward(marker), outward(closer))
    return Frame("content")


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
    plain = _sequence({"type": "const_string", "value": frame.plain}, value) if frame.plain else value
    if frame.closer is None:
        return plain
    blank = {"type": "regex", "pattern": r"[ \n]{0,4}"}
    thought = {"type": "tag", "begin": frame.opener or "", "content": {"type": "any_text"}, "end": frame.closer}
    behind = _sequence(thought, blank, value)
    return behind if frame.opener is None else {"type": "or", "elements": [behind, plain]}


def _sequence(*elements: dict[str, Any]) -> dict[str, Any]:
    return {"type": "sequence", "elements": list(elements)}
