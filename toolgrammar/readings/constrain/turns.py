"""A turn with calls as one expression with holes: nothing but calls, or calls in free text."""

from __future__ import annotations

from typing import NamedTuple

from toolgrammar import combinators as c
from toolgrammar.readings.constrain.formats import EMPTY, NEVER, Const, Format, either, opt
from toolgrammar.readings.constrain.graph import solve
from toolgrammar.readings.constrain.places import Place, Since
from toolgrammar.readings.constrain.triggers import Opener, named_openers, needed, openers
from toolgrammar.readings.constrain.walk import Step, Walk


class Mixed(NamedTuple):
    """Free text and what begins calls in it, behind ``thought``."""

    thought: Format
    #: All calls up to the next free text are settled; or only the first, if what begins it names the tool.
    whole: list[Opener]
    first: list[Opener]


def calls_only(walk: Walk, start: str) -> Format:
    """Calls, behind reasoning if there is any."""

    def over(place: Place) -> bool:
        ended = place.chain is None and place.called and not place.need and not place.unfinished
        return ended and not (place.marked and place.since == "content")

    return solve(walk.begin(start), walk.step, over)


def calls_in_text(walk: Walk, start: str) -> Mixed:
    """Free text, and calls where something begins one."""
    begin = walk.begin(start)
    texts = _texts(walk, begin)
    sources = [begin, *(source for sink, source in texts if sink == "content")]
    thoughts = [source for sink, source in texts if sink == "reasoning"]
    in_thought = [_run(walk, source, called=True) for source in thoughts]
    runs = [*in_thought, *(_run(walk, source, called=True) for source in sources)]
    others = either(*(_run(walk, source, called=False) for source in (*sources, *thoughts)))
    firsts = [_first_call(walk, source) for source in (*sources, *thoughts)]
    sure = openers(list(dict.fromkeys(runs)), others)
    whole = [*sure, *named_openers(list(dict.fromkeys(runs)), others)]
    first = [*sure, *named_openers(list(dict.fromkeys(firsts)), others)]
    thought: Format = EMPTY
    if walk.reasoning and all(run == NEVER for run in in_thought):
        # Where a call counts in open reasoning as well, there is nothing to tell apart.
        thought = solve(begin, walk.step, _thought_over)
        thought = EMPTY if thought == NEVER else thought if start == "reasoning" else opt(thought)
    return Mixed(thought, needed(whole), needed(first))


def _thought_over(place: Place) -> bool:
    """Whether reasoning ends here and the rest of the turn begins."""
    return place.thought and not place.called and place.since == "content" and not place.marked


def _texts(walk: Walk, begin: Place) -> list[tuple[str, Place]]:
    """The places behind free text outside of calls, with the text's sink."""
    found: dict[tuple[str, Place], None] = {}
    waiting, seen = [begin], {begin}
    while waiting:
        place = waiting.pop()
        text = _at_text(place)
        if text is not None:
            assert place.chain is not None
            since: Since = "reasoning" if text.sink == "reasoning" else "content"
            targets = [Place(place.chain.next, since=since, line_start=False)]
            found[text.sink, targets[0]] = None
        else:
            targets = [target for _, target in walk.step(place)]
        for target in targets:
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return list(found)


def _at_text(place: Place) -> c.Text | None:
    """The free text that stands at ``place``, outside of call sections."""
    node = place.chain.node if place.chain is not None else None
    return node if isinstance(node, c.Text) and not place.sections else None


def _run(walk: Walk, begin: Place, *, called: bool) -> Format:
    """What may stand between ``begin`` and the next free text or the turn's end, with calls in it or without."""

    def steps(place: Place) -> list[Step]:
        if _at_text(place) is not None:
            # What must follow is written here, though the text behind it is free.
            return [(either(*map(Const, place.need)), _without_need(place))] if place.need else []
        found = walk.step(place)
        return found if called else [step for step in found if not step[1].called]

    def done(place: Place) -> bool:
        text = _at_text(place)
        over = place.chain is None or (text is not None and not (called and text.sink == "reasoning"))
        return over and place.called == called and not place.need and not place.unfinished

    return solve(begin, steps, done)


def _without_need(place: Place) -> Place:
    return Place(place.chain, called=place.called)


def _first_call(walk: Walk, begin: Place) -> Format:
    """What may stand between ``begin`` and the end of the first call."""

    def steps(place: Place) -> list[Step]:
        return [] if place.called or _at_text(place) is not None else walk.step(place)

    return solve(begin, steps, lambda place: place.called)
