"""The incremental machine: one compiled grammar, one stream, plain state.

``feed(delta)`` and ``finish()`` return events; nothing else. The run loop looks at the state's step and lets
it consume what it can; input that is undecided stays in the buffer, everything else is gone. A delta of plain
text, or of plain text inside a string argument, takes a short path of a few tests.
"""

from __future__ import annotations

import re
from typing import Any, Final

from toolgrammar.combinators import WHITE
from toolgrammar.events import CallArguments, Content, Event, Reasoning
from toolgrammar.machine import program as p
from toolgrammar.machine.envelope import EnvelopeScanner
from toolgrammar.machine.program import RUN_LIMIT, Arm, Program, State
from toolgrammar.machine.scanner import MORE, Scanner
from toolgrammar.machine.reading import TAIL_LIMIT, run_length, tail_length, unquote
from toolgrammar.machine.speculation import DRAFT, HELD_LIMIT
from toolgrammar.machine.values import COLLECT_PHASE, STRING_PHASE, Values
from toolgrammar.schema import ToolTable

#: Undecided characters up to which deltas are added unread.
QUIET_LIMIT: Final = 256
#: White space at the start of a stretch that may be held to see whether text follows.
FRESH_LIMIT: Final = 4096


class Session(Values):
    """One stream read by one grammar. Not thread-safe; ``copy`` it to go on in two ways; picklable."""

    def __init__(
        self, program: Program, tools: ToolTable, repair: bool = True, strict: bool = False, start: str = "content"
    ) -> None:
        super().__init__(program, tools, repair, strict, program.starts[start])
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
        self.special: Any = None
        self.event: Any = None

    # ---- the two public steps -----------------------------------------------------------------------------

    def feed(self, delta: str) -> list[Event]:
        """Read ``delta``; return what is certain now. Amortised linear in ``len(delta)``."""
        if not delta:
            return []
        if self.straight:
            # The state is one that plain text passes through.
            plain = self.plain
            if plain is None:
                if self.buf:
                    return self.text_delta(self.buf + delta)
                guard = self.guard
                if (guard in delta if guard else self.special(delta) is not None) or delta[-1] in self.edge:
                    return self.text_delta(delta)
                start = self.base
                self.base = end = start + len(delta)
                self.prev = delta
                event = self.event
                return [event(delta, start, end)] if event is not None else []
            if not self.buf and plain(delta) is None:
                start = self.base
                self.base = end = start + len(delta)
                self.prev = delta
                return [CallArguments(self.next_index - 1, delta, start, end)]
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
        if self.direct is not None:
            return self.ask(self.direct, delta)
        return self.read(delta)

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
        return [self.event(text, start, end)] if self.event is not None else []

    def ask(self, direct: Scanner, text: str) -> list[Event]:
        """Let the value's scanner take ``text``; if it ends something, or finds fault, read on from there."""
        stop = direct.scan(text, 0, len(text), False)
        if direct.status != MORE or direct.notes or (self.silent and self.telling(direct)):
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
        text = direct.text
        return [CallArguments(self.next_index - 1, text, start, end)] if text else []

    def read(self, text: str) -> list[Event]:
        """The long way: the loop over steps."""
        self.out = out = []
        spec = self.spec
        if not spec:
            self.sink = out
        elif spec[0].kind == DRAFT:
            self.pump(text, False)
            return self.out
        self.run(text, False)
        if self.spec:
            self.guard_held()
        return self.out

    def finish(self) -> list[Event]:
        """The stream ended: release what is held, decide what is open. Nothing may be fed afterwards."""
        self.out = []
        if not self.spec:
            self.sink = self.out
        self.pump(self.buf, True)
        while self.speculative() and self.innermost().word and not self.certain():
            self.ws_end = -1
            self.take_back(self.innermost(), self.base + len(self.buf))
            self.pump(self.buf, True)
        if self.state.open and self.state.op != p.END:
            self.unfinished = True
        at = self.base + len(self.buf)
        self.cut(at)
        if self.buf and self.tail_start < 0:
            self.tail_start = self.base
            self.tail.append(self.buf[:TAIL_LIMIT])
        self.base, self.buf = at, ""
        return self.out

    def certain(self) -> bool:
        """Whether the open attempt has shown a name that makes it a call even if cut here."""
        return self.innermost().until == "announced" and bool(self.regs.get("name"))

    @property
    def held_characters(self) -> int:
        """How many raw characters are fed but neither given out nor decided."""
        return len(self.buf) + (self.base - self.spec[0].start if self.spec else 0)

    # ---- the loop -----------------------------------------------------------------------------------------

    def pump(self, buf: str, eof: bool) -> None:
        """Read ``buf``, which begins at raw ``base``, as far as possible, minding an open draft."""
        while True:
            closer = self.closer_ahead(buf)
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
            if self.drafting():
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
            self.ws_end = -1
            self.take_back(self.spec[0], self.base, "W211")
            self.moved = False

    def drafting(self) -> bool:
        """Whether a candidate of a draft is open and incomplete."""
        return (
            bool(self.spec)
            and self.spec[0].kind == DRAFT
            and self.spec[0].draft_phase == 1
            and self.state.op != p.DRAFTED
        )

    def closer_ahead(self, buf: str) -> int | None:
        """Raw position of reasoning's closer in what an incomplete candidate holds or is to read."""
        if not self.drafting():
            return None
        closer: str = self.spec[0].node.guard
        before = self.held[-1][1 - len(closer) :] if self.held else ""
        if len(self.held) > 1 and len(before) < len(closer) - 1:
            before = "".join(self.held[-len(closer) :])[1 - len(closer) :]
        at = (before + buf).find(closer)
        return None if at < 0 else self.base - len(before) + at

    def run(self, buf: str, eof: bool) -> None:
        """The loop over steps."""
        self.buf = buf
        self.held_from = 0
        self.moved = False
        self.wait = self.pause = False
        self.expect = ""
        pos = 0
        n = len(buf)
        while not (self.wait or self.pause):
            state = self.state
            op = state.op
            if op == p.TEXT:
                pos = self.text(state, buf, pos, n, eof)
            elif op == p.ALT or op == p.DRAFTED:
                pos = self.choice(state, buf, pos, n, eof)
            elif op == p.WS:
                pos = self.white(state, buf, pos, n, eof)
            elif op == p.TYPED:
                pos = self.typed(state, buf, pos, n, eof)
            elif op == p.FIELD:
                pos = self.field(state, buf, pos, n, eof)
            elif op < p.VERBATIM:
                pos = self.scan(state, buf, pos, n, eof)
            elif op == p.VERBATIM:
                pos = self.verbatim(state, buf, pos, n, eof)
            elif op == p.CHOOSE:
                pos = self.choose(state, pos)
            elif op == p.END:
                pos = self.rest_of_input(buf, pos, n)
            else:
                self.effect(state, self.base + pos, state)
                if self.state is state:
                    assert state.next is not None
                    self.state, self.phase = state.next, 0
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

    def rest_of_input(self, buf: str, pos: int, n: int) -> int:
        """What follows the end of the turn is not read."""
        if self.tail_start < 0:
            self.tail_start = self.base + pos
        if sum(map(len, self.tail)) < TAIL_LIMIT:
            self.tail.append(buf[pos:n][:TAIL_LIMIT])
        self.wait = True
        return n

    def set_path(self) -> None:
        """Whether, and by which test, the next delta may go straight through, and whom to ask else."""
        state = self.state
        op = state.op
        self.direct = self.quiet = self.plain = None
        self.silent = False
        if op == p.TEXT:
            self.straight = not self.fresh and not self.spec and self.phase == 1 and self.trace is None
            self.guard, self.special, self.edge = state.guard, state.special, state.edge
            self.event = None if state.sink == p.DROP else Content if state.sink == p.CONTENT else Reasoning
            return
        self.straight = False
        if op == p.ALT or op == p.WS:
            return
        spec = self.spec
        if self.trace is not None or (spec and spec[0].kind == DRAFT):
            return
        if op == p.FIELD:
            if self.buf and not self.strict:
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
        return isinstance(scanner, EnvelopeScanner) and scanner.announced

    def keep(self, delta: str) -> list[Event]:
        """Take in ``delta``, which decides nothing."""
        if self.state.op == p.TYPED and self.collected is not None:
            self.collected.append(delta)
            self.base += len(delta)
            self.prev = delta
        else:
            self.buf += delta
        return []

    # ---- text and choices ---------------------------------------------------------------------------------

    def text(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """Free text: give out what cannot be a marker, take the first marker that counts."""
        if self.phase == 0:
            self.phase = 1
            self.enter(state)
        marks = state.marks
        assert marks is not None
        at = pos
        while True:
            i = marks.find(buf, at, n, eof)
            which = marks.which
            self.wait = True
            if which < 0:
                if i < n:
                    self.may_go_on(marks.markers, buf[i:n])
                break
            arm = self.pick(state.cases[which], buf, i, n, eof)
            if arm is not None:
                if arm.skip:
                    self.say(state, buf[pos:i], self.base + pos)
                    pos = at = i + len(arm.text)
                    continue
                j = self.frame_start(arm, buf, pos, i)
                self.say(state, buf[pos:j], self.base + pos)
                return self.take(arm, state, j, i)
            if self.wait:
                break
            at = i + 1
        j = i if eof and not state.strip else i - self.edge_length(state, buf, pos, i)
        if j > pos and not self.say(state, buf[pos:j], self.base + pos):
            # Only white space so far: framing if a marker follows, text if text does.
            if not eof and j - pos <= FRESH_LIMIT:
                return pos
            if not eof or self.base + pos == 0:
                self.fresh = False
                self.write(state, buf[pos:j], self.base + pos)
        return n if eof else j

    def edge_length(self, state: State, buf: str, pos: int, i: int) -> int:
        """How much of the text before ``i`` may be framing of a marker that is still to come."""
        if state.frame:
            return tail_length(buf, max(pos, i - RUN_LIMIT), i, state.frame)
        for length in range(min(len(state.exact), i - pos), 0, -1):
            if buf.endswith(state.exact[:length], pos, i):
                return length
        return 0

    def frame_start(self, arm: Arm, buf: str, pos: int, i: int) -> int:
        """Where the framing of the marker at ``i`` begins, not before ``pos``."""
        if arm.exact:
            return i - len(arm.exact) if buf.endswith(arm.exact, pos, i) else i
        if arm.frame:
            return i - tail_length(buf, max(pos, i - RUN_LIMIT), i, arm.frame)
        return i

    def choice(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """One of several ways on, by what stands here; white space in front of a marker goes with it."""
        if state.full is not None:
            match = state.full(buf, pos, n)
            if match is not None:
                i = match.start(match.lastindex)
                arm = state.arms[match.lastindex - 1]
                if arm.peek or arm.line_start:
                    same = tuple(other for other in state.arms if other.text == arm.text)
                    chosen = self.pick(same, buf, i, n, eof)
                    if self.wait:
                        return pos
                    if chosen is None:
                        return self.otherwise(state, pos, eof)
                    arm = chosen
                if arm.closes:
                    self.spec[-1].draft_phase = 2
                    self.spec[-1].behind = self.base + pos
                    self.spec[-1].behind_log = len(self.log)
                return self.take(arm, state, pos, i)
            if (not eof or state.default is None) and state.partial(buf, pos, n) is not None:
                self.wait = True
                if pos < n:
                    self.may_go_on(state.texts, buf[pos:n].lstrip(WHITE))
                return pos
        return self.otherwise(state, pos, eof)

    def otherwise(self, state: State, pos: int, eof: bool) -> int:
        """No marker of the choice stands here."""
        if state.op == p.DRAFTED:
            if not eof or self.buf[pos:].strip(WHITE):
                return self.take_back(self.spec[-1], self.base + pos)
            self.confirm()
            self.wait = True
            return len(self.buf)
        if state.default is not None:
            self.state, self.phase = state.default, 0
            return pos
        return self.flaw(pos)

    def white(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """Framing white space: skipped as it comes."""
        node = state.node
        if node.exact:
            if not eof and n - pos < len(node.exact) and node.exact.startswith(buf[pos:n]):
                self.wait = True
                return pos
            end = pos + len(node.exact) if buf.startswith(node.exact, pos) else pos
        else:
            end = pos + run_length(buf, pos, n, node.chars)
        if end > pos:
            at = self.base + pos
            if self.ws_end != at:
                self.ws_start = at
            self.ws_end = self.base + end
            if self.trace is not None:
                self.log_span(at, self.base + end, state.rule, "skip")
            self.phase = 1
        if end == n and not node.exact and (not eof or state.open):
            self.wait = True
            return end
        if node.least and self.phase == 0:
            return self.flaw(pos)
        assert state.next is not None
        self.state, self.phase = state.next, 0
        return end

    def field(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """A captured name, key or id, up to what follows it."""
        node = state.node
        marks = state.marks
        if marks is None:
            return self.class_field(state, buf, pos, n, eof)
        arm: Arm | None = None
        i = pos
        end = min(n, pos + node.limit + RUN_LIMIT)
        while arm is None:
            i = marks.find(buf, i, end, eof and end == n)
            self.wait = True
            if marks.which < 0:
                break
            arm = self.pick(state.cases[marks.which], buf, i, n, eof)
            if arm is None:
                if self.wait:
                    break
                i += 1
        text = buf[pos:i].strip(WHITE)
        if not self.fits_field(state, buf, pos, i, text, arm is not None):
            self.wait = False
            return self.flaw(pos)
        if arm is not None and arm.breaks:
            return self.flaw(i)
        if arm is None:
            if i - pos > node.limit:
                self.wait = False
                return self.flaw(pos, "W212")
            if eof and text and state.chars is not None and state.chars(buf, i - 1, i).end() < i:
                self.regs[node.register] = unquote(text) if node.quoted else text
            return pos
        if not arm.stops:
            self.regs[node.register] = unquote(text) if node.quoted else text
        if self.trace is not None:
            self.log_span(self.base + pos, self.base + i, f"{state.rule}.{node.register}", "skip")
        return self.take(arm, state, i, i)

    def class_field(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """A field that ends where its class of characters ends."""
        node = state.node
        end = state.chars(buf, pos, n).end()
        if end == n and not eof and n - pos <= node.limit:
            self.wait = True
            return pos
        if (end == pos and not node.empty) or end - pos > node.limit:
            return self.flaw(pos)
        self.regs[node.register] = unquote(buf[pos:end]) if node.quoted else buf[pos:end]
        assert state.next is not None
        self.state, self.phase = state.next, 0
        return end

    def fits_field(self, state: State, buf: str, pos: int, i: int, text: str, whole: bool) -> bool:
        """Whether ``text`` can be, or (not ``whole``) become, what the field captures."""
        node = state.node
        if state.chars is not None:
            first = pos + run_length(buf, pos, i, WHITE)
            if first + len(text) > state.chars(buf, first, i).end():
                return False
        if node.quoted and whole:
            text = unquote(text)
        if whole and not text and not node.empty:
            return False
        if node.offered or (self.strict and node.register == "name" and self.tools.offered is not None):
            offered = self.tools.offered or frozenset()
            return text in offered if whole else any(name.startswith(unquote(text)) for name in offered)
        return True

    def choose(self, state: State, pos: int) -> int:
        """Branch by a register."""
        text = self.regs.get(state.node.register, "")
        for fullmatch, when, target in state.cases:
            match = fullmatch(text)
            if match is None:
                continue
            found = {name: value for name, value in match.groupdict().items() if value is not None}
            if when and not self.allowed(when, text, found):
                continue
            if self.strict and "name" in found and not self.tools.known(found["name"]):
                continue
            self.regs.update(found)
            self.state, self.phase = target, 0
            return pos
        return self.flaw(pos)

    def allowed(self, when: str, text: str, found: dict[str, str]) -> bool:
        """Whether an arm's condition on the offered tools holds; may set the name."""
        offered = self.tools.offered or frozenset()
        name = found.get("name", text)
        if when == "offered":
            return name in offered
        names = [one for one in offered if when == "sole" or re.sub(r"[^A-Za-z0-9_-]", "_", one) == name]
        if len(names) == 1:
            found["name"] = names[0]
        return len(names) == 1

    def forget(self) -> None:
        """Keep the state, forget what was read to get there: the output begins here."""
        self.base = 0
        self.prev = "\n"
        self.said = 0
        self.join = False
        self.next_index = 0
        self.unfinished = False
        self.ws_start = self.ws_end = self.tail_start = -1
        self.tail = []
        self.out = []

    # ---- copies -------------------------------------------------------------------------------------------

    def copy(self) -> Session:
        """An independent session in the same state."""
        new = Session.__new__(Session)
        new.__dict__.update(self.__dict__)
        new.trace = None if self.trace is None else self.trace[:]
        for name in ("out", "log", "held", "controls", "tail"):
            setattr(new, name, list(getattr(self, name)))
        new.sink = new.log if self.sink is self.log else new.out
        new.spec = [save.copy() for save in self.spec]
        new.regs = dict(self.regs)
        new.call = self.call.copy() if self.call is not None else None
        new.scanner = self.scanner.copy() if self.scanner is not None else None
        new.set_path()
        return new

    def __getstate__(self) -> dict[str, Any]:
        fields = dict(self.__dict__)
        fields["state"] = self.state.index
        fields["plain"] = fields["sink"] = fields["direct"] = fields["quiet"] = fields["special"] = None
        fields["program"] = (self.program.grammar, self.program.tokens)
        return fields

    def __setstate__(self, fields: dict[str, Any]) -> None:
        from toolgrammar.machine.cache import program_of

        self.__dict__.update(fields)
        self.program = program_of(*fields["program"])
        self.state = self.program.states[fields["state"]]
        for save in self.spec:
            save.bind(self.program)
        self.sink = self.log if self.spec else self.out
        self.set_path()
