"""The incremental machine: one compiled grammar, one stream, plain state.

``feed(delta)`` and ``finish()`` return events; nothing else. The run loop looks at the state's step and lets
it consume what it can; input that is undecided stays in the buffer, everything else is gone. A delta of plain
text, or of plain text inside a string argument, takes a short path of a few tests.
"""

from __future__ import annotations

from typing import Any, Final

from toolgrammar.events import CallArguments, Content, Event, Reasoning, joined
from toolgrammar.machine import program as p
from toolgrammar.machine.loop import Loop, bind
from toolgrammar.machine.program import Program
from toolgrammar.machine.reading import NOWHERE, TAIL_LIMIT
from toolgrammar.machine.scanner import Scanner
from toolgrammar.machine.speculation import DRAFT, restored_call, restored_save
from toolgrammar.machine.values import COLLECT_PHASE, STRING_PHASE
from toolgrammar.schema import ToolTable

#: Events kept before neighbours are joined.
STORY_LIMIT: Final = 4096
#: Undecided characters up to which deltas are added unread.
QUIET_LIMIT: Final = 256


class Session(Loop):
    """One stream read by one grammar. Not thread-safe; ``copy`` it to go on in two ways; picklable."""

    def __init__(
        self,
        program: Program,
        tools: ToolTable,
        repair: bool = True,
        start: str = "content",
    ) -> None:
        bind(program)
        super().__init__(program, tools, repair, program.starts[start])
        #: Finds nothing in a delta that may go straight into the open string argument; None: there is none.
        self.plain: Any = None
        #: The next delta may go straight through, if a test of its characters allows it.
        self.straight = False
        #: Finds nothing in a delta that decides nothing; None: any delta may.
        self.quiet: Any = None
        #: The call of the scanner in ``direct`` is not announced yet.
        self.silent = False
        #: Of the text state, for the straight way.
        self.guard = ""
        self.edge = ""
        self.clear: Any = None
        self.event: Any = None
        #: ``finish`` was called.
        self.over = False
        #: What was given out and is in no message yet.
        self.story: list[Event] = []
        self.story_limit = STORY_LIMIT

    # ---- the two public steps -----------------------------------------------------------------------------

    def feed(self, delta: str) -> list[Event]:
        """Read ``delta``; return what is certain now. Amortised linear in ``len(delta)``."""
        if self.straight:
            # The state is one that plain text passes through.
            if not delta:
                return []
            plain = self.plain
            if plain is None:
                buf = self.buf
                if buf:
                    delta = buf + delta
                guard = self.guard
                if (guard not in delta if guard else self.clear(delta)) and delta[-1] not in self.edge:
                    if buf:
                        self.buf = ""
                    start = self.base
                    self.base = end = start + len(delta)
                    self.prev = delta
                    if self.event is None:
                        return []
                    told = self.event(delta, start, end)
                    self.story.append(told)
                    return [told]
                return self.text_delta(delta)
            if not self.buf and plain(delta) is None:
                start = self.base
                self.base = end = start + len(delta)
                self.prev = delta
                piece = CallArguments(self.next_index - 1, delta, start, end)
                self.story.append(piece)
                return [piece]
        elif self.expect:
            # A marker stands half here. While the input spells on with it, there is nothing to look at.
            expect = self.expect
            if len(delta) < len(expect) and expect.startswith(delta):
                self.expect = expect[len(delta) :]
                self.buf += delta
                return []
        elif self.quiet is not None and self.quiet(delta) is None and len(self.buf) < QUIET_LIMIT:
            return self.keep(delta)
        if self.buf:
            delta = self.buf + delta
        if self.direct is None:
            return self.read(delta) if delta else []
        return self.ask(self.direct, delta)

    def text_delta(self, text: str) -> list[Event]:
        """Plain text in which a marker may begin, or framing: the short way if none is whole."""
        state = self.state
        marks = state.marks
        assert marks is not None
        i = marks.find(text, 0, len(text))
        if marks.which >= 0:
            return self.read(text)
        if state.edge:
            i -= self.edge_length(state, text, 0, i)
        self.buf = text[i:]
        if not i:
            return []
        start = self.base
        self.base = end = start + i
        self.prev = text = text[:i]
        if self.event is None:
            return []
        told = self.event(text, start, end)
        self.story.append(told)
        return [told]

    def ask(self, direct: Scanner, text: str) -> list[Event]:
        """Let the value's scanner take ``text``; if it ends something, or finds fault, read on from there."""
        stop = direct.scan(text, 0, len(text), False)
        if direct.status or direct.notes or (self.silent and self.telling(direct)):
            self.scanned = stop
            return self.read(text)
        self.quiet = direct.quiet
        self.buf = text[stop:]
        start = self.base
        self.base = end = start + stop
        if self.silent:
            self.held.append(text[:stop])
            return []
        if direct.in_string:
            self.plain = direct.string_stop
            self.straight = True
        else:
            self.straight = False
        if not direct.text:
            return []
        piece = CallArguments(self.next_index - 1, direct.text, start, end)
        self.story.append(piece)
        return [piece]

    def read(self, text: str) -> list[Event]:
        """The long way: the loop over steps."""
        if not isinstance(text, str):
            raise TypeError("text expected; token ids need a tokenizer: Parser(..., tokenizer=...)")
        if self.over:
            raise RuntimeError("the output is finished; nothing can be fed behind its end")
        out: list[Event] = []
        self.out = out
        spec = self.spec
        if not spec:
            self.sink = out
        elif spec[0].kind == DRAFT:
            self.pump(text, False)
            self.tell()
            return self.out
        self.run(text, False)
        if self.spec:
            self.guard_held()
        if self.out:
            self.tell()
        return self.out

    def tell(self) -> None:
        """Keep what was given out for the message, joined now and then so that it stays small."""
        self.story += self.out
        if len(self.story) > self.story_limit:
            self.story = joined(self.story)
            self.story_limit = max(STORY_LIMIT, 2 * len(self.story))

    def finish(self) -> list[Event]:
        """The stream ended: release what is held, decide what is open. Nothing may be fed afterwards."""
        self.out = []
        if not self.spec:
            self.sink = self.out
        self.pump(self.buf, True)
        while self.released_at_end():
            self.ws_end = NOWHERE
            self.take_back(self.innermost(), self.base + len(self.buf))
            self.moved = False
            self.pump(self.buf, True)
        open_section = self.state.open and self.state.op != p.END
        at = self.base + len(self.buf)
        self.cut(at)
        if open_section and not self.unfinished:
            self.unfinished = True
            self.note("E202", self.base, at)
        if self.buf and self.tail_start < 0:
            self.tail_start = self.base
            self.tail.append(self.buf[:TAIL_LIMIT])
        self.base, self.buf = at, ""
        self.story += self.out
        self.over, self.straight, self.expect, self.quiet, self.direct = True, False, "", None, None
        return self.out

    @property
    def undecided_from(self) -> int:
        """The raw position up to which everything is given out or decided."""
        return min(self.spec[0].start, self.base) if self.spec else self.base

    @property
    def held_characters(self) -> int:
        """How many raw characters are fed but neither given out nor decided."""
        held = len(self.buf) + (self.base - self.spec[0].start if self.spec else 0)
        return min(held, self.base + len(self.buf))  # what the prompt left undecided is not counted

    # ---- how the next delta is best read ------------------------------------------------------------------

    def set_path(self) -> None:
        """Whether, and by which test, the next delta may go straight through, and whom to ask else."""
        state = self.state
        op = state.op
        self.straight = False
        self.direct = None
        if self.expect:
            self.quiet = None
            return
        self.quiet = self.plain = None
        self.silent = False
        spec = self.spec
        if op == p.TEXT:
            if not self.fresh and not spec and self.phase == 1 and self.trace is None:
                self.straight = True
                self.guard, self.clear, self.edge = state.guard, state.clear, state.edge
                self.event = None if state.sink == p.DROP else Content if state.sink == p.CONTENT else Reasoning
            return
        if op == p.ALT or op == p.WS:
            return
        if self.trace is not None or (spec and spec[0].kind == DRAFT):
            return
        if op == p.FIELD:
            if self.buf:
                self.quiet = state.full
            return
        call = self.call
        if call is None:
            return
        if op == p.TYPED:
            if call.announced and not spec:
                self.plain = state.full
                self.straight = self.phase == STRING_PHASE
                if self.phase == COLLECT_PHASE and not self.buf:
                    self.quiet = state.full
        elif self.scanner is not None:
            self.set_direct(self.scanner, call.announced)

    def set_direct(self, scanner: Scanner, announced: bool) -> None:
        """Let the open value's scanner take the next delta."""
        self.quiet = scanner.quiet
        if not announced:
            if self.state.op == p.ENVELOPE and self.spec:
                self.direct = scanner
                self.silent = True
        elif not self.spec:
            direct = scanner.direct()
            if direct is not None:
                self.direct = direct
                self.quiet = direct.quiet
                self.plain = direct.string_stop
                self.straight = direct.in_string

    def telling(self, scanner: Scanner) -> bool:
        """Whether the scanner of a call that is not announced has become certain of it."""
        return bool(getattr(scanner, "announced", False))  # an envelope's; other calls are never silent

    def keep(self, delta: str) -> list[Event]:
        """Take in ``delta``, which decides nothing."""
        if self.state.op == p.TYPED and self.collected is not None:
            self.collected.append(delta)
            self.base += len(delta)
            self.prev = delta
        else:
            self.buf += delta
        return []

    # ---- copies and the prompt -----------------------------------------------------------------------------

    def markers_here(self) -> tuple[str, ...]:
        """The markers that count in the present state, and in the text it leads to."""
        state, found = self.state, self.state.texts
        while state.op == p.ALT and state.default is not None:
            state = state.default
            found += state.texts
        return found + (state.marks.markers if state.marks is not None else ())

    @property
    def in_text(self) -> bool:
        """Whether the present state is free text."""
        return self.state.op == p.TEXT

    def start_at(self, name: str) -> None:
        """Begin in another start state of the grammar, if it has one of that name."""
        self.state = self.program.starts.get(name, self.state)

    def forget(self) -> None:
        """Keep the state, forget what was told on the way: the output begins here, at raw position 0.

        What the prompt left undecided stays, at positions below 0; nothing of it is ever given out.
        """
        shift = self.base + len(self.buf)
        self.base -= shift
        self.held_start -= shift
        self.closer_from -= shift
        self.ws_start -= shift
        self.ws_end -= shift
        self.controls = [(start - shift, end - shift) for start, end in self.controls]
        for save in self.spec:
            save.start -= shift
            save.opened -= shift
            save.behind -= shift
            save.log = save.behind_log = save.next_index = save.said = 0
        if self.call is not None:
            self.call.start -= shift
            self.call.index = 0
            self.call.announced = False  # told again, with the first output in it
        self.said = self.next_index = 0
        self.join = self.unfinished = False
        self.tail_start = self.tag_start = -1
        self.tail, self.out, self.log, self.story = [], [], [], []
        self.sink = self.log if self.spec else self.out
        self.set_path()

    def copy(self) -> Session:
        """An independent session in the same state."""
        new = self.blank()
        for name in PLAIN:
            setattr(new, name, getattr(self, name))
        for name in LISTS:
            setattr(new, name, list(getattr(self, name)))
        new.state, new.encode = self.state, self.encode
        new.collected = None if self.collected is None else self.collected[:]
        new.trace = None if self.trace is None else self.trace[:]
        new.sink = new.log if self.sink is self.log else new.out
        new.spec = [save.copy() for save in self.spec]
        new.regs = dict(self.regs)
        new.call = self.call.copy() if self.call is not None else None
        new.scanner = self.scanner.copy() if self.scanner is not None else None
        new.set_path()
        return new

    def blank(self) -> Session:
        """A new session of the same kind."""
        return Session(self.program, self.tools, self.repair, next(iter(self.program.starts)))

    def __reduce__(self) -> tuple[Any, ...]:
        plain = tuple([getattr(self, name) for name in PLAIN + LISTS])
        spec = [save.stored() for save in self.spec]
        call = None if self.call is None else self.call.stored()
        others = self.collected, self.trace, self.regs, self.scanner, self.encode
        made = self.program.source, self.program.tokens, self.tools, self.repair
        return restored, (made, self.state.index, plain, spec, call, others)


def restored(made: tuple[Any, ...], state: int, plain: tuple[Any, ...], *rest: Any) -> Session:
    """The session that was pickled."""
    from toolgrammar.machine.cache import program_of

    program = program_of(made[0], made[1])
    session = Session(program, made[2], made[3], next(iter(program.starts)))
    fill(session, state, plain, *rest)
    return session


def fill(
    session: Session, state: int, plain: tuple[Any, ...], spec: list[Any], call: Any, others: tuple[Any, ...]
) -> None:
    """Put a new session into the pickled state."""
    session.state = session.program.states[state]
    for name, value in zip(PLAIN + LISTS, plain, strict=True):
        setattr(session, name, value)
    session.spec = [restored_save(session.program, stored) for stored in spec]
    session.call = None if call is None else restored_call(call)
    session.collected, session.trace, session.regs, session.scanner, session.encode = others
    session.sink = session.log if session.spec else session.out
    session.set_path()


#: The fields of a session that are numbers, flags and texts, and those that are lists of such or of events. With
#: those that ``copy`` names, and what ``set_path`` works out, they are all; a test counts them.
PLAIN: Final = (
    "base", "said", "fresh", "join", "next_index", "unfinished", "chunk", "releasing", "phase", "buf", "wait",
    "expect", "closer_from", "pause", "moved", "prev", "held_start", "held_from", "tag_start", "ws_start",
    "ws_end", "tail_start", "scanned", "over", "story_limit",
)  # fmt: skip
LISTS: Final = ("out", "log", "held", "controls", "tail", "story")
