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

    def copy(self) -> Save:
        """An independent copy."""
        new = Save(self.kind, self.node, self.start, self.origin)
        for slot in Save.__slots__:
            setattr(new, slot, getattr(self, slot))
        new.regs = dict(self.regs)
        return new

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        fields = {slot: getattr(self, slot) for slot in Save.__slots__}
        fields["origin"] = self.origin.index
        fields["fallback"] = None if self.fallback is None else self.fallback.index
        if isinstance(self.node, State):
            fields["node"] = self.node.index
        return None, fields

    def bind(self, program: Program) -> None:
        """After unpickling: put the program's states in place of their numbers."""
        self.origin = program.states[self.origin]  # type: ignore[call-overload]
        if self.fallback is not None:
            self.fallback = program.states[self.fallback]  # type: ignore[call-overload]
        if isinstance(self.node, int):
            self.node = program.states[self.node]


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
        new = CallState(self.index, self.start)
        for slot in CallState.__slots__:
            setattr(new, slot, getattr(self, slot))
        return new
