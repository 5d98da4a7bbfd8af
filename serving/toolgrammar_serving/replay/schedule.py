"""Who runs, who waits, and what everybody gets in one engine step.

Requests without delays move in lockstep: each engine step gives each of them its next step. Requests with delays
have a clock of their own. For the first kind a step costs two list appends a request: everything is encoded
beforehand.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count

from toolgrammar_serving.protocol.wire import ABORTED, ERROR, EngineCoreOutput
from toolgrammar_serving.replay.counters import Tally
from toolgrammar_serving.replay.running import Running, encoded
from toolgrammar_serving.replay.scripts import Then


class Schedule:
    """The requests of one engine. ``fate`` is set when a script ends the engine itself."""

    def __init__(self, clients: int, max_num_seqs: int, tally: Tally, keep_delays: bool = True) -> None:
        self.known: dict[str, Running] = {}
        self.fate: Then = ""
        #: Whether waiting requests may begin.
        self.admits = True
        #: Ids that ended since they were last taken, by front end.
        self.ended: list[set[str]] = [set() for _ in range(clients)]
        #: Aux frames of the message that is being made, by front end.
        self.frames: list[list[bytes]] = [[] for _ in range(clients)]
        self._max = max_num_seqs
        self._tally = tally
        self._keep_delays = keep_delays
        self._waiting: deque[Running] = deque()
        self._lockstep: list[list[Running]] = [[] for _ in range(clients)]
        self._clocked: list[tuple[float, int, Running]] = []
        self._numbers = count()

    @property
    def waiting(self) -> int:
        """Requests that have not begun."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Requests that have begun and not ended."""
        return len(self.known) - len(self._waiting)

    @property
    def unfinished_tokens(self) -> int:
        """Tokens of requests that have not ended, as far as they are not counted yet."""
        return sum(one.tokens - one.counted for one in self.known.values())

    def count_afresh(self) -> None:
        """What requests got so far belongs to the count before."""
        for one in self.known.values():
            one.counted = one.tokens

    def add(self, one: Running, now: float) -> None:
        """Let ``one`` wait for its turn, or begin."""
        self.known[one.id] = one
        self._waiting.append(one)
        self.admit(now)

    def admit(self, now: float) -> None:
        """Let waiting requests begin as long as there is room."""
        while self._waiting and self.admits and self.running < self._max:
            one = self._waiting.popleft()
            if one.plan.script.finish is None and not one.plan.script.steps:
                continue  # known, but nothing comes
            if self._keep_delays and one.plan.timed:
                self._wind(one, now)
            else:
                self._lockstep[one.client].append(one)

    def _wind(self, one: Running, since: float) -> None:
        one.due = since + one.plan.steps[one.at].delay_s
        heapq.heappush(self._clocked, (one.due, next(self._numbers), one))

    def abort(self, request_ids: Iterable[str]) -> None:
        """Forget requests; as in a real engine no last output is sent. Late steps, if scripted, still come."""
        touched = set()
        for request_id in request_ids:
            one = self.known.get(request_id)
            if one is None or one.aborted:
                continue
            self._tally.counters.aborted += 1
            late = one.plan.script.late_steps
            if late and not one.over and one not in self._waiting:
                one.aborted = True
                one.follow(one.plan.until(one.at + late))
                continue
            self._forget(one)
            one.over = True
            touched.add(one.client)
        if touched:
            self._waiting = deque(one for one in self._waiting if not one.over)
        for client in touched:
            self._sweep(client)

    def abort_all(self) -> list[tuple[int, bytes]]:
        """End everything with finish reason abort: client and output of each request."""
        last = []
        for one in list(self.known.values()):
            one.over = True
            self._forget(one)
            last.append((one.client, encoded(EngineCoreOutput(one.id, [], finish_reason=ABORTED))))
        self._waiting.clear()
        for client in range(len(self._lockstep)):
            self._lockstep[client] = []
        return last

    def _forget(self, one: Running) -> None:
        del self.known[one.id]
        self._tally.counters.tokens += one.tokens - one.counted
        self.ended[one.client].add(one.id)

    def _sweep(self, client: int) -> None:
        self._lockstep[client] = [one for one in self._lockstep[client] if not one.over]

    def ready(self, full: Callable[[int], bool]) -> bool:
        """Whether a lockstep would give anybody anything: ``full`` front ends take nothing now."""
        return any(group and not full(client) for client, group in enumerate(self._lockstep))

    def next_due(self) -> float | None:
        """When the first clock is due."""
        clocked = self._clocked
        while clocked and clocked[0][2].over:
            heapq.heappop(clocked)
        return clocked[0][0] if clocked else None

    def lockstep(self, full: Callable[[int], bool]) -> dict[int, list[bytes]]:
        """One step of all without delays. By client: two byte strings for every output."""
        given: dict[int, list[bytes]] = {}
        for client, group in enumerate(self._lockstep):
            if not group or full(client):
                continue
            parts: list[bytes] = []
            append = parts.append
            ended = False
            for one in group:
                at = one.at
                if at != one.special:
                    one.at = at + 1
                    append(one.head)
                    append(one.tails[at])
                else:
                    self._special(one, parts)
                    ended = ended or one.over
            if ended:
                self._sweep(client)
            given[client] = parts
        return given

    def clocked(self, now: float, given: dict[int, list[bytes]]) -> None:
        """Add one step of everybody whose time has come."""
        due = []
        while self._clocked and self._clocked[0][0] <= now:
            due.append(heapq.heappop(self._clocked)[2])
        for one in due:
            if one.over:
                continue
            self._special(one, given.setdefault(one.client, []))
            if not one.over:
                self._wind(one, one.due)

    def _special(self, one: Running, parts: list[bytes]) -> None:
        """A step of ``one`` that may be its first or last, or have more than token ids."""
        if one.skips():
            return
        output = one.special_output(self.frames[one.client])
        parts.append(encoded(output))
        parts.append(b"")
        if not one.over:
            return
        if output.finish_reason is not None:
            self._tally.counters.finished += 1
            self._tally.counters.refused += output.finish_reason == ERROR
        if output.finish_reason is not None or one.aborted:
            self._forget(one)
        if one.plan.script.then:
            self.fate = one.plan.script.then
