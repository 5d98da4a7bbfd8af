"""Places and steps between them, made one expression: states are taken out until two are left."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from toolgrammar.readings.constrain.formats import EMPTY, NEVER, Format, either, seq, star, weight

P = TypeVar("P", bound=Hashable)
_Edges: TypeAlias = dict[Hashable, dict[Hashable, Format]]

#: Stand for the beginning and the end.
_START: Final = "\0start"
_END: Final = "\0end"
#: Places in one grammar, at most; the walk over a sensible one ends long before.
_LIMIT: Final = 100_000


class TooManyPlaces(Exception):
    """The walk does not end: the grammar has more places than any format needs."""


def solve(start: P, steps: Callable[[P], Sequence[tuple[Format, P]]], done: Callable[[P], bool]) -> Format:
    """What leads from ``start`` to places that are ``done``. Raises ``TooManyPlaces``."""
    out, places = _explored(start, steps)
    for place in places:
        if done(place):
            out[place][_END] = EMPTY
    return _shortest(_trimmed(out))


def solve_each(
    start: P, steps: Callable[[P], Sequence[tuple[Format, P]]], end: Callable[[P], P | None]
) -> list[tuple[Format, P]]:
    """The same for each place that ``end`` makes of those where the way ends."""
    out, places = _explored(start, steps)
    ends: dict[P, list[P]] = {}
    for place in places:
        found = end(place)
        if found is not None:
            ends.setdefault(found, []).append(place)
    solved = []
    for found, last in ends.items():
        edges = {place: dict(ways) for place, ways in out.items()}
        for place in last:
            edges[place][_END] = EMPTY
        solved.append((_shortest(_trimmed(edges)), found))
    return solved


def _explored(start: P, steps: Callable[[P], Sequence[tuple[Format, P]]]) -> tuple[_Edges, list[P]]:
    """All steps from ``start`` on, and the places."""
    out: _Edges = {_START: {start: EMPTY}}
    waiting, seen = [start], {start: None}
    while waiting:
        place = waiting.pop()
        edges = out.setdefault(place, {})
        for label, target in steps(place):
            if label == NEVER:
                continue
            edges[target] = either(edges[target], label) if target in edges else label
            if target not in seen:
                if len(seen) > _LIMIT:
                    raise TooManyPlaces
                seen[target] = None
                waiting.append(target)
    return out, list(seen)


def _trimmed(out: _Edges) -> _Edges:
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


def _merged(out: _Edges) -> _Edges:
    """Places from which the same ways lead on, as one."""
    classes: dict[Hashable, int] = dict.fromkeys(out, 0)
    classes[_START], classes[_END] = 1, 2
    count = 0
    while count != (count := len(set(classes.values()))):
        seen: dict[Any, int] = {}
        classes = {
            place: seen.setdefault(
                (classes[place], frozenset((label, classes[target]) for target, label in out[place].items()))
                if place in out else _END,
                len(seen),
            )
            for place in classes
        }  # fmt: skip
    first: dict[int, Hashable] = {}
    for place in classes:
        first.setdefault(classes[place], place)
    merged: _Edges = {}
    for place, edges in out.items():
        if first[classes[place]] is place:
            ways = merged[place] = {}
            for target, label in edges.items():
                known = ways.get(first[classes[target]])
                ways[first[classes[target]]] = label if known is None else either(known, label)
    return merged


class _Elimination:
    """Takes places out, one after the other; the ways through them become ways past them."""

    def __init__(self, out: _Edges) -> None:
        self.out = out
        self.into: dict[Hashable, set[Hashable]] = {}
        for place, edges in out.items():
            for target in edges:
                self.into.setdefault(target, set()).add(place)
        self.rest = set(out) - {_START, _END}
        self.order = {place: number for number, place in enumerate(out)}

    def run(self) -> Format:
        # First what stands in a line, then the place that makes the fewest copies, of equals the last found.
        self.lines(sorted(self.rest, key=lambda place: -self.order[place]))
        while self.rest:
            place = min(self.rest, key=lambda each: (self.copied(each), -self.order[each]))
            self.lines(list(self.take_out(place)))
        return self.out[_START].get(_END, NEVER)

    def lines(self, waiting: list[Hashable]) -> None:
        """Take out those of ``waiting``, and their neighbours, that have one way in and one out."""
        while waiting:
            place = waiting.pop()
            if (
                place in self.rest
                and len(self.into[place] - {place}) == 1
                and len(self.out[place].keys() - {place}) == 1
            ):
                waiting.extend(self.take_out(place))

    def take_out(self, place: Hashable) -> set[Hashable]:
        """Take out ``place``; its neighbours."""
        self.rest.remove(place)
        edges = self.out.pop(place)
        loop = star(edges.pop(place)) if place in edges else EMPTY
        sources = self.into.pop(place) - {place}
        for target in edges:
            self.into[target].discard(place)
        for source in sources:
            ways = self.out[source]
            label = ways.pop(place)
            for target, further in edges.items():
                way = seq(label, loop, further)
                known = ways.get(target)
                ways[target] = way if known is None else either(known, way)
                self.into[target].add(source)
        return (sources | edges.keys()) & self.rest

    def copied(self, place: Hashable) -> int:
        """How much is written more than once when ``place`` is taken out."""
        sources, edges = self.into[place] - {place}, self.out[place]
        targets = edges.keys() - {place}
        return (
            sum(weight(self.out[source][place]) for source in sources) * (len(targets) - 1)
            + sum(weight(edges[target]) for target in targets) * (len(sources) - 1)
            + (weight(edges[place]) * (len(sources) * len(targets) - 1) if place in edges else 0)
        )


def _shortest(out: _Edges) -> Format:
    """The one expression from start to end; with equal places as one, if that makes it shorter."""
    if _START not in out:
        return NEVER
    merged = _merged(out)
    plain = _Elimination(out).run()
    return min(plain, _Elimination(merged).run(), key=weight) if len(merged) < len(out) else plain
