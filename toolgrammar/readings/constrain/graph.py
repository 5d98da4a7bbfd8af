"""Places and steps between them, made one expression: states are taken out until two are left."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final

from toolgrammar.readings.constrain.formats import EMPTY, NEVER, Format, either, seq, star, weight

Steps = Iterable[tuple[Format, Hashable]]

#: Stand for the beginning and the end.
_START: Final = "\0start"
_END: Final = "\0end"


class TooManyPlaces(Exception):
    """The walk does not end: the grammar has more places than any format needs."""


def solve(start: Hashable, steps: Callable[[Hashable], Steps], done: Callable[[Hashable], bool], limit: int) -> Format:
    """What leads from ``start`` to places that are ``done``. Raises ``TooManyPlaces`` beyond ``limit`` of them."""
    out: dict[Hashable, dict[Hashable, Format]] = {_START: {start: EMPTY}}
    waiting = [start]
    seen = {start}
    while waiting:
        place = waiting.pop()
        edges = out.setdefault(place, {})
        if done(place):
            edges[_END] = EMPTY
        for label, target in steps(place):
            if label == NEVER:
                continue
            edges[target] = either(edges[target], label) if target in edges else label
            if target not in seen:
                if len(seen) > limit:
                    raise TooManyPlaces
                seen.add(target)
                waiting.append(target)
    return _eliminated(_trimmed(out))


def _trimmed(out: dict[Hashable, dict[Hashable, Format]]) -> dict[Hashable, dict[Hashable, Format]]:
    """Without the places that lead nowhere."""
    into: dict[Hashable, list[Hashable]] = {}
    for place, edges in out.items():
        for target in edges:
            into.setdefault(target, []).append(place)
    alive: set[Hashable] = {_END}
    waiting: list[Hashable] = [_END]
    while waiting:
        for place in into.get(waiting.pop(), ()):
            if place not in alive:
                alive.add(place)
                waiting.append(place)
    return {
        place: {target: label for target, label in edges.items() if target in alive}
        for place, edges in out.items()
        if place in alive
    }


def _eliminated(out: dict[Hashable, dict[Hashable, Format]]) -> Format:
    """The one expression from start to end."""
    if _START not in out:
        return NEVER
    into: dict[Hashable, set[Hashable]] = {}
    for place, edges in out.items():
        for target in edges:
            into.setdefault(target, set()).add(place)
    order = {place: number for number, place in enumerate(out)}
    rest = set(out) - {_START, _END}

    def take_out(place: Hashable) -> set[Hashable]:
        rest.remove(place)
        edges = out.pop(place)
        loop = star(edges.pop(place)) if place in edges else EMPTY
        sources = into.pop(place) - {place}
        for target in edges:
            into[target].discard(place)
        for source in sources:
            label = out[source].pop(place)
            for target, further in edges.items():
                way = seq(label, loop, further)
                known = out[source].get(target)
                out[source][target] = way if known is None else either(known, way)
                into[target].add(source)
        return sources | edges.keys()

    # First what stands in a line, then the place that makes the fewest copies, of equals the last found.
    waiting = sorted(rest, key=lambda place: -order[place])
    while waiting:
        place = waiting.pop(0) if len(waiting) < 2 else waiting.pop()
        if place in rest and len(into[place] - {place}) == 1 and len(out[place].keys() - {place}) == 1:
            waiting.extend(take_out(place) & rest)
    while rest:
        place = min(rest, key=lambda each: (_copied(each, out, into), -order[each]))
        line = list(take_out(place) & rest)
        while line:
            place = line.pop()
            if place in rest and len(into[place] - {place}) == 1 and len(out[place].keys() - {place}) == 1:
                line.extend(take_out(place) & rest)
    return out[_START].get(_END, NEVER)


def _copied(place: Hashable, out: dict[Hashable, dict[Hashable, Format]], into: dict[Hashable, set[Hashable]]) -> int:
    """How much is written more than once when ``place`` is taken out."""
    sources, targets = into[place] - {place}, out[place].keys() - {place}
    loop = out[place].get(place)
    return (
        sum(weight(out[source][place]) for source in sources) * (len(targets) - 1)
        + sum(weight(out[place][target]) for target in targets) * (len(sources) - 1)
        + (weight(loop) * (len(sources) * len(targets) - 1) if loop is not None else 0)
    )
