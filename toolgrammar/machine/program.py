"""What a grammar compiles to: a graph of states. Plain data, shared by all sessions of a grammar.

A state is one step with the state behind it; a state with several ways to go on has arms. An arm is a
marker with what happens when it is taken: the framing white space in front of it goes with it, its effects
run (a savepoint, a call's begin), and the machine stands at ``target``.
"""

from __future__ import annotations

from typing import Any, Final

from toolgrammar.machine.safe_text import SafeText

# Steps that consume input.
TEXT: Final = 0
ALT: Final = 1
WS: Final = 2
FIELD: Final = 3
JSON: Final = 4
ENVELOPE: Final = 5
TYPED: Final = 6
PYARGS: Final = 7
QUOTED: Final = 8
VERBATIM: Final = 9
# Steps that only change the machine.
CHOOSE: Final = 10
SAVE: Final = 11
CLOSED: Final = 12
CALL: Final = 13
ENDCALL: Final = 14
DRAFT: Final = 15
DRAFTED: Final = 16
CONFIRM: Final = 17
END: Final = 18
LET: Final = 19

NAMES: Final = (
    "text", "alt", "ws", "field", "json", "envelope", "typed", "pyargs", "quoted", "verbatim",
    "choose", "save", "closed", "call", "endcall", "draft", "drafted", "confirm", "end", "let",
)  # fmt: skip

#: White space a marker's framing may hold; a longer run is text.
RUN_LIMIT: Final = 1024

CONTENT: Final = 0
REASONING: Final = 1
DROP: Final = 2


class Arm:
    """A marker and where it leads. ``frame``: characters of the framing run before it, or ``exact``, a string."""

    __slots__ = (
        "breaks", "closes", "consume", "control", "effects", "exact", "frame", "key_end", "least", "line_start",
        "peek", "peek_frame", "rule", "skip", "stops", "target", "text",
    )  # fmt: skip

    def __init__(self, text: str, target: State, rule: str) -> None:
        self.text = text
        self.target = target
        self.rule = rule
        self.frame = ""
        self.exact = ""
        self.least = 0
        #: What must follow (any of), behind a run of ``peek_frame``; () is nothing.
        self.peek: tuple[str, ...] = ()
        self.peek_frame = ""
        self.consume = True
        self.control = False
        self.line_start = False
        #: It ends the turn.
        self.stops = False
        #: The marker goes with the text around it: no new stretch begins.
        self.skip = False
        #: What stood before it was no field after all.
        self.breaks = False
        #: The closer of reasoning behind a draft.
        self.closes = False
        #: A declared, not yet given key must follow, up to this string.
        self.key_end = ""
        self.effects: tuple[State, ...] = ()

    def copy(self) -> Arm:
        """A copy whose framing and effects may be changed."""
        new = Arm(self.text, self.target, self.rule)
        for slot in Arm.__slots__:
            setattr(new, slot, getattr(self, slot))
        return new


class State:
    """One step. Which fields count depends on ``op``."""

    __slots__ = (
        "arms", "cases", "chars", "default", "edge", "exact", "fallback", "frame", "full", "guard", "index",
        "marks", "next", "node", "op", "open", "options", "partial", "rest", "rule", "sink", "special",
        "strip", "texts",
    )  # fmt: skip

    def __init__(self, op: int, rule: str) -> None:
        self.op = op
        self.rule = rule
        self.index = -1
        self.next: State | None = None
        self.node: Any = None
        #: A stream that ends here leaves the turn unfinished.
        self.open = False
        #: Where the rest of the section goes on after a flaw.
        self.rest: State | None = None
        #: ALT: the ways to go on, before arms are worked out.
        self.options: tuple[State, ...] = ()
        self.arms: tuple[Arm, ...] = ()
        self.default: State | None = None
        #: ALT: the arms' markers.
        self.texts: tuple[str, ...] = ()
        #: ALT: compiled matchers of the arms.
        self.full: Any = None
        self.partial: Any = None
        #: TEXT, FIELD, values: the live markers, and a character that every one begins with.
        self.marks: SafeText | None = None
        self.guard: str = ""
        #: Searches for any character a live marker begins with.
        self.special: Any = None
        #: TEXT: characters of which a run at the end may be framing; or a string; and all their characters.
        self.frame = ""
        self.exact = ""
        self.edge = ""
        #: Where text goes that was held from here and turned out to be text.
        self.fallback: State | None = None
        self.sink = CONTENT
        self.strip = 0
        self.chars: Any = None
        self.cases: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.index} {NAMES[self.op]} {self.rule}>"


class Program:
    """A compiled grammar. Immutable after compilation; one per grammar and set of token markers."""

    __slots__ = ("grammar", "lost", "starts", "states", "tokens")

    def __init__(
        self,
        grammar: Any,
        states: tuple[State, ...],
        starts: dict[str, State],
        lost: State,
        tokens: tuple[str, ...],
    ) -> None:
        self.grammar = grammar
        self.tokens = tokens
        #: Where reading goes on when nothing fits and no section says better: content to the end.
        self.lost = lost
        self.states = states
        self.starts = starts
        for index, state in enumerate(states):
            state.index = index
