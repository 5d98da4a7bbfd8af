"""What a grammar compiles to: a graph of states. Plain data, shared by all sessions of a grammar.

A state is one step with the state behind it; a state with several ways to go on has arms. An arm is a
marker with what happens when it is taken: the framing white space in front of it goes with it, its effects
run (a savepoint, a call's begin), and the machine stands at ``target``.
"""

from __future__ import annotations

from typing import Any, Final

from toolgrammar.machine.safe_text import Rests, SafeText

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
ELEMENTS: Final = 9
VERBATIM: Final = 10
# Steps that only change the machine.
CHOOSE: Final = 11
SAVE: Final = 12
CLOSED: Final = 13
CALL: Final = 14
ENDCALL: Final = 15
DRAFT: Final = 16
DRAFTED: Final = 17
CONFIRM: Final = 18
END: Final = 19
LET: Final = 20

NAMES: Final = (
    "text", "alt", "ws", "field", "json", "envelope", "typed", "pyargs", "quoted", "elements",
    "verbatim", "choose", "save", "closed", "call", "endcall", "draft", "drafted", "confirm", "end", "let",
)  # fmt: skip

#: White space a marker's framing may hold; a longer run is text.
RUN_LIMIT: Final = 1024

NO_RESTS: Final = Rests(())

CONTENT: Final = 0
REASONING: Final = 1
DROP: Final = 2


class Arm:
    """A marker and where it leads. ``frame``: characters of the framing run before it, or ``exact``, a string."""

    __slots__ = (
        "breaks", "closes", "consume", "control", "effects", "exact", "frame", "key_end", "least", "line_start",
        "peek", "peek_frame", "plain", "rests", "rule", "skip", "stops", "target", "text", "whole",
        "word_start",
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
        #: It is a whole token or tag, not the beginning of one.
        self.whole = False
        self.line_start = False
        self.word_start = False
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
        #: What is missing of the texts of ``peek``.
        self.rests = NO_RESTS
        #: The marker counts whatever stands around it (see ``seal``).
        self.plain = True

    def seal(self) -> None:
        """Work out whether the marker counts whatever stands around it."""
        self.rests = Rests(self.peek) if self.peek else NO_RESTS
        self.plain = not (self.peek or self.line_start or self.word_start or self.key_end)

    def copy(self) -> Arm:
        """A copy whose framing and effects may be changed."""
        # Slot by slot (a new slot goes here too): compiling a grammar makes thousands.
        new = Arm(self.text, self.target, self.rule)
        new.frame, new.exact, new.least = self.frame, self.exact, self.least
        new.peek, new.peek_frame, new.consume = self.peek, self.peek_frame, self.consume
        new.control, new.whole, new.key_end, new.plain = self.control, self.whole, self.key_end, self.plain
        new.line_start, new.word_start, new.stops = self.line_start, self.word_start, self.stops
        new.skip, new.breaks, new.closes, new.effects = self.skip, self.breaks, self.closes, self.effects
        new.rests = self.rests
        return new


class State:
    """One step. Which fields count depends on ``op``."""

    __slots__ = (
        "arms",
        "block",
        "breaks",
        "cases",
        "chars",
        "clear",
        "default",
        "edge",
        "exact",
        "fallback",
        "frame",
        "full",
        "full_eof",
        "guard",
        "index",
        "marks",
        "next",
        "node",
        "op",
        "open",
        "options",
        "partial",
        "rest",
        "rests",
        "retry",
        "rule",
        "settled",
        "sink",
        "step",
        "strip",
        "texts",
    )  # fmt: skip

    def __init__(self, op: int, rule: str) -> None:
        self.op = op
        self.rule = rule
        self.index = -1
        #: The method that reads it (bound by ``loop.bind``).
        self.step: Any = None
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
        self.rests = NO_RESTS
        #: ALT: compiled matchers of the arms.
        self.full: Any = None
        self.full_eof: Any = None
        self.partial: Any = None
        #: TEXT, FIELD, values: the live markers, and a character that every one begins with.
        self.marks: SafeText | None = None
        self.guard: str = ""
        #: TEXT: says that a delta has no character a live marker begins with.
        self.clear: Any = None
        #: TEXT: characters of which a run at the end may be framing; or a string; and all their characters.
        self.frame = ""
        self.exact = ""
        self.edge = ""
        #: Where text goes that was held from here and turned out to be text.
        self.fallback: State | None = None
        #: TEXT: joined to what its sink said before.
        self.block = False
        #: QUOTED: control tokens that break it off.
        self.breaks: SafeText | None = None
        #: SAVE: the way on that reads the text again if the attempt fails.
        self.retry: State | None = None
        self.sink = CONTENT
        #: A draft's candidate is complete here.
        self.settled = False
        self.strip = 0
        self.chars: Any = None
        self.cases: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.index} {NAMES[self.op]} {self.rule}>"


class Program:
    """A compiled grammar. Immutable after compilation; one per grammar and set of token markers."""

    __slots__ = ("controls", "grammar", "lost", "source", "starts", "states", "tokens")

    def __init__(
        self,
        grammar: Any,
        states: tuple[State, ...],
        starts: dict[str, State],
        lost: State,
        tokens: tuple[str, ...],
    ) -> None:
        self.grammar = grammar
        #: The grammar before its special tokens became sentinels.
        self.source = grammar
        self.tokens = tokens
        #: The control tokens among the grammar's markers.
        self.controls: tuple[str, ...] = ()
        #: Where reading goes on when nothing fits and no section says better: content to the end.
        self.lost = lost
        self.states = states
        self.starts = starts
        for index, state in enumerate(states):
            state.index = index

    def breaks_of(self, state: State, quote: str) -> SafeText | None:
        """Control tokens that break a notation off where they stand outside its strings."""
        if state.breaks is None:
            ends = state.marks.markers if state.marks is not None else ()
            found = [text for text in self.controls if text not in ends and text != quote]
            state.breaks = SafeText(tuple(found))
        return state.breaks if state.breaks.markers else None
