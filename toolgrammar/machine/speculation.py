"""Speculation as data: what the machine must remember to take a stretch of output back.

While a savepoint is open, events go to a log and the raw text is kept. A commit hands the log out; a
rollback releases the raw text to the text state it was held from, less the control tokens in it, and the
reading goes on at the token that did not fit: never behind it, so the cost stays linear.
"""

from __future__ import annotations

from typing import Any, Final

from toolgrammar.machine.program import Program, State

ATTEMPT: Final = 0
CALL: Final = 1
DRAFT: Final = 2

#: Characters a stretch may be held undecided before it is released.
HELD_LIMIT: Final = 65_536


class Save:
    """A point to come back to. ``start``: code points of raw output before it."""

    __slots__ = (
        "behind", "behind_log", "call", "draft_phase", "fallback", "fresh", "join", "kind", "log", "next_index",
        "node", "opened", "origin", "regs", "said", "start", "until",
    )  # fmt: skip

    def __init__(self, kind: int, node: Any, start: int, origin: State) -> None:
        self.kind = kind
        self.node = node
        self.start = start
        self.origin = origin
        self.fallback: State | None = origin.fallback
        self.log = 0
        self.regs: dict[str, str] = {}
        self.call: Any = None
        self.next_index = 0
        self.said = 0
        self.fresh = False
        self.join = False
        #: DRAFT: 1 in a candidate, 2 behind the closer of reasoning.
        self.draft_phase = 1
        #: DRAFT, phase 2: where the closer began, and the log's length there.
        self.behind = 0
        self.behind_log = 0
        #: Raw position behind the opener.
        self.opened = start
        #: What makes the attempt certain.
        self.until: str = getattr(node, "until", "announced")

    @property
    def aside(self) -> bool:
        """Whether the attempt is no call section."""
        return bool(getattr(self.node, "aside", False))

    def stumble(self, raw: str, at: int) -> int:
        """Where a draft's candidate that cannot go on at ``at`` of ``raw``, its text, is over: at the beginning of
        the closer that ``at`` lies in, be it whole or cut off by the end. In all other cases ``at``.

        A closer's front may fit a candidate: "[" begins an array, too.
        """
        found = at
        if self.kind == DRAFT and self.draft_phase == 1:
            for closer in self.node.texts:
                for start in range(max(1, at - len(closer) + 1), found):
                    if closer.startswith(raw[start : start + len(closer)]):
                        found = start
                        break
        return found

    def copy(self) -> Save:
        """An independent copy."""
        new = Save(self.kind, self.node, self.start, self.origin)
        new.fallback, new.call, new.until, new.opened = self.fallback, self.call, self.until, self.opened
        new.log, new.next_index, new.said = self.log, self.next_index, self.said
        new.fresh, new.join = self.fresh, self.join
        new.draft_phase, new.behind, new.behind_log = self.draft_phase, self.behind, self.behind_log
        new.regs = dict(self.regs)
        return new

    def stored(self) -> tuple[Any, ...]:
        """What ``restored_save`` needs, with numbers in place of the program's states."""
        fallback = None if self.fallback is None else self.fallback.index
        node = self.node.index if isinstance(self.node, State) else self.node
        places = self.start, self.opened, self.behind, self.behind_log, self.log
        said = self.next_index, self.said, self.fresh, self.join
        call = None if self.call is None else self.call.stored()
        states = node, self.origin.index, fallback
        return self.kind, states, places, said, self.regs, call, self.until, self.draft_phase


def restored_save(program: Program, stored: tuple[Any, ...]) -> Save:
    """The save that ``stored`` was made of, in ``program``."""
    kind, (node, origin, fallback), places, said, regs, call, until, draft_phase = stored
    node = program.states[node] if isinstance(node, int) else node
    save = Save(kind, node, places[0], program.states[origin])
    save.fallback = None if fallback is None else program.states[fallback]
    save.opened, save.behind, save.behind_log, save.log = places[1:]
    save.next_index, save.said, save.fresh, save.join = said
    save.regs, save.until, save.draft_phase = regs, until, draft_phase
    save.call = None if call is None else restored_call(call)
    return save


class CallState:
    """The call being read. ``start``: where it began in the raw output."""

    __slots__ = ("announced", "broken", "given", "id", "index", "members", "name", "passed", "remarks", "start")

    def __init__(self, index: int, start: int) -> None:
        self.index = index
        self.start = start
        self.name = ""
        self.id = ""
        self.announced = False
        #: The arguments are not what the format promises.
        self.broken = False
        #: Members written so far, of arguments we put together ourselves.
        self.members = 0
        #: Whether any argument text was passed on.
        self.passed = False
        self.given: frozenset[str] = frozenset()
        #: Diagnostics about it, told at its end.
        self.remarks: tuple[tuple[str, int, int], ...] = ()

    def copy(self) -> CallState:
        """An independent copy."""
        return restored_call(self.stored())

    def stored(self) -> tuple[Any, ...]:
        """What ``restored_call`` needs."""
        known = self.index, self.start, self.name, self.id, self.announced
        return *known, self.broken, self.members, self.passed, self.given, self.remarks


def restored_call(stored: tuple[Any, ...]) -> CallState:
    """The call that ``stored`` was made of."""
    call = CallState(stored[0], stored[1])
    call.name, call.id, call.announced, call.broken = stored[2:6]
    call.members, call.passed, call.given, call.remarks = stored[6:]
    return call
