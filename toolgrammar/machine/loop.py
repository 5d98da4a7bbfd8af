"""The loop over steps, and what must be minded around it: open drafts, and text that is held too long."""

from __future__ import annotations

from typing import Any, Final

from toolgrammar.machine import program as p
from toolgrammar.machine.program import Program, State
from toolgrammar.machine.reading import NOWHERE, TAIL_LIMIT
from toolgrammar.machine.speculation import DRAFT, HELD_LIMIT
from toolgrammar.machine.steps import Steps


class Loop(Steps):
    """Runs the machine over a buffer."""

    def set_path(self) -> None:
        """After a run: how the next delta is best read."""
        raise NotImplementedError

    def pump(self, buf: str, eof: bool) -> None:
        """Read ``buf``, which begins at raw ``base``, as far as possible, minding an open draft."""
        while True:
            closer = self.closer_ahead(buf)
            self.pause = False
            if closer is None:
                self.run(buf, eof)
                if not self.pause:
                    break
                buf = self.buf
                continue
            # Read up to the closer of reasoning; a candidate that is still open there is broken by it.
            rest = buf[max(closer - self.base, 0) :]
            if closer > self.base:
                self.run(buf[: closer - self.base], False)
                rest = self.buf + rest
            self.buf = rest
            self.held_from = 0
            if self.pause:  # another draft was opened before the closer was reached
                buf = rest
                continue
            if self.scanner is not None and self.scanner.quoting:
                self.closer_from = closer + 1  # inside a JSON string it is data
            elif self.drafting():
                self.take_back(self.spec[0], closer)
                self.moved = False
            buf = self.buf
        if self.spec:
            self.guard_held()

    def guard_held(self) -> None:
        """After a run that left something held: a draft reads on, and what grew over the limit is released."""
        if self.pause:
            self.pause = False
            self.pump(self.buf, False)
        elif self.base - self.spec[0].start > HELD_LIMIT:
            self.ws_end = NOWHERE
            self.take_back(self.spec[0], self.base, "W211")
            self.moved = False

    def drafting(self) -> bool:
        """Whether a candidate of a draft is open and incomplete."""
        return (
            bool(self.spec)
            and self.spec[0].kind == DRAFT
            and self.spec[0].draft_phase == 1
            and not (self.state.settled and len(self.spec) == 1)
        )

    def closer_ahead(self, buf: str) -> int | None:
        """Raw position of reasoning's closer in what an incomplete candidate holds or is to read."""
        if not self.drafting():
            return None
        closers: tuple[str, ...] = self.spec[0].node.texts
        reach = max(map(len, closers)) - 1
        before = self.held[-1][-reach:] if self.held else ""
        if len(self.held) > 1 and len(before) < reach:
            before = "".join(self.held[-reach:])[-reach:]
        text = before + buf
        offset = self.base - len(before)
        since = max(self.closer_from - offset, 0)
        found = [at for closer in closers if (at := text.find(closer, since)) >= 0]
        return min(found) + offset if found else None

    def run(self, buf: str, eof: bool) -> None:
        """The loop over steps."""
        self.buf = buf
        self.wait = False
        self.expect = ""
        pos = 0
        n = len(buf)
        while not self.wait:
            state = self.state
            pos = state.step(self, state, buf, pos, n, eof)
            if self.moved:
                buf, n, pos = self.buf, len(self.buf), 0
                self.moved = self.wait = False
        if self.spec:
            self.held.append(buf[self.held_from : pos])
            self.held_from = 0
        if pos:
            self.prev = buf[pos - 1]
            self.base += pos
        self.buf = buf[pos:]
        self.set_path()

    def effects(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """A state that reads nothing."""
        self.effect(state, self.base + pos, state)
        if self.state is state:
            assert state.next is not None
            self.state, self.phase = state.next, 0
        return pos

    def rest_of_input(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """What follows the end of the turn is not read."""
        if self.tail_start < 0:
            self.tail_start = self.base + pos
        if sum(map(len, self.tail)) < TAIL_LIMIT:
            self.tail.append(buf[pos:n][:TAIL_LIMIT])
        self.wait = True
        return n


#: The step of each kind of state that reads something.
_STEPS: Final[dict[int, Any]] = {
    p.TEXT: Loop.text, p.ALT: Loop.choice, p.DRAFTED: Loop.choice, p.WS: Loop.white, p.FIELD: Loop.field,
    p.JSON: Loop.scan, p.ENVELOPE: Loop.scan, p.PYARGS: Loop.scan, p.QUOTED: Loop.scan, p.ELEMENTS: Loop.scan,
    p.TYPED: Loop.typed, p.VERBATIM: Loop.verbatim, p.CHOOSE: Loop.choose, p.END: Loop.rest_of_input,
}  # fmt: skip


def bind(program: Program) -> None:
    """Give every state of ``program`` its step, once: a table look-up per step costs more than the step's call."""
    if program.lost.step is None:
        for state in program.states:
            state.step = _STEPS.get(state.op, Loop.effects)
