"""The machine's incoming side: the buffer, markers, and what happens when something does not fit."""

from __future__ import annotations

from typing import Any, Final

from toolgrammar.combinators import WHITE
from toolgrammar.events import CallStart, Event
from toolgrammar.machine import program as p
from toolgrammar.machine.output import Output
from toolgrammar.machine.program import RUN_LIMIT, Arm, Program, State
from toolgrammar.machine.safe_text import Rests
from toolgrammar.machine.scanner import Scanner
from toolgrammar.machine.speculation import ATTEMPT, CALL, DRAFT, Save
from toolgrammar.schema import ToolTable

#: A raw position that is none; those of the prompt are below 0.
NOWHERE: Final = -(1 << 60)
_YES: Final = 1
_NO: Final = 0
_UNDECIDED: Final = -1

#: Characters of a tail that are kept to be shown.
TAIL_LIMIT: Final = 65_536


class Reading(Output):
    """Consumes input. ``buf`` holds what is undecided; ``held`` the raw text of an open attempt."""

    def __init__(self, program: Program, tools: ToolTable, repair: bool, start: State) -> None:
        super().__init__(program, tools, repair)
        self.state = start
        #: 0: the state was just entered; further phases are the state's own.
        self.phase = 0
        #: The undecided input; during a run, the whole buffer being read.
        self.buf = ""
        #: Nothing more can be read until more input comes.
        self.wait = False
        #: The rest of the one marker that stands half at the end of the buffer; "" if there is no such.
        self.expect = ""
        #: Raw position before which closers of reasoning inside a draft were seen to be data.
        self.closer_from = 0
        #: A draft was opened: look for the closer of reasoning before reading on.
        self.pause = False
        #: A rollback put the buffer at another place.
        self.moved = False
        #: Text that ends with the character before the buffer.
        self.prev = "\n"
        self.scanner: Scanner | None = None
        #: Raw text held since the outermost savepoint, where it began, and where in the buffer it goes on.
        self.held: list[str] = []
        self.held_start = 0
        self.held_from = 0
        #: Control tokens inside the held text.
        self.controls: list[tuple[int, int]] = []
        #: Where a tag began that a control token opened and nothing closed yet; -1: no such tag.
        self.tag_start = -1
        #: The last run of skipped white space, raw.
        self.ws_start = NOWHERE
        self.ws_end = NOWHERE
        #: Where what could not be placed begins, raw; -1 if there is no such text.
        self.tail_start = -1
        self.tail: list[str] = []

    # ---- markers ------------------------------------------------------------------------------------------

    def pick(self, arms: tuple[Arm, ...], buf: str, i: int, n: int, eof: bool) -> Arm | None:
        """The arm whose marker at ``i`` counts; None if none does, or (``wait``) if that is not known yet."""
        self.wait = False
        for arm in arms:
            if arm.plain:
                return arm
            verdict = self.verdict(arm, buf, i, n, eof)
            if verdict == _YES:
                return arm
            if verdict == _UNDECIDED:
                self.wait = True
                return None
        return None

    def verdict(self, arm: Arm, buf: str, i: int, n: int, eof: bool) -> int:
        """Whether what stands around the marker at ``i`` makes it count."""
        if arm.line_start and not (buf[i - 1] if i > 0 else self.prev).endswith("\n"):
            return _NO
        if arm.word_start and _word_before(buf[i - 1 : i] if i > 0 else self.prev[-1:]):
            return _NO
        after = i + len(arm.text)
        if arm.key_end:
            return self.key_follows(arm, buf, after, n, eof)
        if not arm.peek:
            return _YES
        at = after
        if arm.peek_frame:
            limit = min(n, after + RUN_LIMIT)
            at = after + run_length(buf, after, limit, arm.peek_frame)
            if at == limit < n:
                return _NO
        if buf.startswith(arm.peek, at):
            return _YES
        if eof:
            return _NO
        rest = buf[at:n]
        return _UNDECIDED if self.may_go_on(arm.rests, rest) else _NO

    def may_go_on(self, rests: Rests, have: str) -> bool:
        """Whether a text begins with ``have``; if just one, its rest is all there is to look for."""
        rest = rests.of(have)
        if rest is None:
            return False
        self.expect = rest
        return True

    def key_follows(self, arm: Arm, buf: str, after: int, n: int, eof: bool) -> int:
        """Whether a declared key that was not yet given follows."""
        call = self.call
        end = buf.find(arm.key_end, after, min(n, after + RUN_LIMIT))
        if end < 0:
            return _UNDECIDED if not eof and n - after < RUN_LIMIT else _NO
        key = unquote(buf[after:end].strip(WHITE))
        if call is None or key in call.given:
            return _NO
        return _YES if self.tools.declared(self.call_name(), key) else _NO

    def call_name(self) -> str:
        """The name of the call being read."""
        return (self.call.name if self.call is not None else "") or self.regs.get("name", "")

    def take(self, arm: Arm, origin: State, j: int, i: int) -> int:
        """Go on behind the marker at ``i``, whose framing begins at ``j``; returns the new position."""
        at = self.base + j
        end = i + len(arm.text) if arm.consume else i
        if arm.stops:
            if self.released_at_end():
                return self.take_back(self.innermost(), self.base + i)
            self.cut(self.base + i)
        for effect in arm.effects:
            self.effect(effect, at, origin)
        if arm.effects and self.spec:
            self.spec[-1].opened = self.base + end
        self.phase = 0
        self.state = arm.target
        if self.trace is not None and end > j:
            self.log_span(at, self.base + end, arm.rule, "skip")
        if self.spec and arm.consume:
            self.mark_control(arm, self.base + i, self.base + end)
        return end

    def released_at_end(self) -> bool:
        """Whether the end of the stream shows that the open attempt was text."""
        if not self.speculative():
            return False
        node = self.innermost().node
        if getattr(node, "word", False):
            return not (self.innermost().until == "announced" and self.call is not None and self.call.announced)
        if getattr(node, "unsure", False):
            return not (self.regs.get("name") or self.call is not None) and self.beyond_opener()
        return False

    def beyond_opener(self) -> bool:
        """Whether more than its opener and white space was read of the open attempt."""
        save = self.innermost()
        return bool(self.raw(save.opened, self.base + len(self.buf)).strip(WHITE))

    def mark_control(self, arm: Arm, start: int, end: int) -> None:
        """Remember a control token, or a whole tag that begins with one, inside held text."""
        if self.tag_start >= 0 and arm.text.endswith(">"):
            self.controls.append((self.tag_start, end))
            self.tag_start = -1
        elif arm.whole:
            self.controls.append((start, end))
        elif arm.control:
            self.tag_start = start

    def effect(self, state: State, at: int, origin: State) -> None:
        """Run a state that reads nothing; ``at`` is the raw position, ``origin`` where the machine comes from."""
        op = state.op
        if op == p.SAVE:
            self.open_save(ATTEMPT, state.node, at, origin)
        elif op == p.CALL:
            if not self.speculative():
                self.open_save(CALL, None, at, origin)
            self.begin_call(at)
        elif op == p.ENDCALL:
            self.end_call("complete", at)
        elif op == p.CLOSED:
            # Equal, not the same: a pickled session brings nodes of its own.
            if self.speculative() and self.innermost().node == state.node:
                self.commit()
        elif op == p.DRAFT:
            self.open_save(DRAFT, state, at, origin)
            self.pause = self.wait = True
        elif op == p.CONFIRM:
            self.confirm()
        elif op == p.LET:
            self.regs[state.node.register] = state.node.value

    def open_save(self, kind: int, node: Any, at: int, origin: State) -> None:
        """Open a savepoint; the raw text is kept from the outermost one on."""
        if not self.spec:
            self.held = []
            self.held_start = at
            self.held_from = at - self.base
            self.controls = []
            self.tag_start = -1
        self.save(kind, node, at, origin)

    def raw(self, start: int, end: int) -> str:
        """Raw text between two positions, of what is held and of the buffer."""
        text = "".join(self.held) + self.buf[self.held_from :]
        return text[start - self.held_start : end - self.held_start]

    # ---- what does not fit --------------------------------------------------------------------------------

    def flaw(self, pos: int, code: str = "") -> int:
        """The buffer cannot go on at ``pos``. Take an open attempt back, or break the call off."""
        if self.state.breaks is not None:
            pos = self.behind_comma(pos)
        at = self.base + pos
        if self.speculative():
            save = self.innermost()
            draft = self.spec[0]
            if draft.kind == DRAFT and draft.draft_phase == 1:
                save = draft  # candidates of one draft share one fate
            return self.take_back(save, at, code)
        if self.call is not None and self.call.announced:
            self.note("E103", self.call.start, at)
            self.end_call("incomplete" if self.at_control(pos) else "malformed", at)
        self.call = None
        self.scanner = None
        self.state = self.state.rest or self.program.lost
        self.phase = 0
        return pos

    def behind_comma(self, pos: int) -> int:
        """A notation broken off behind a comma: the comma is no text of its own."""
        after = pos + 1 + run_length(self.buf, pos + 1, pos + 1 + RUN_LIMIT, WHITE)
        return after if self.buf.startswith(",", pos) and self.at_control(after) else pos

    def at_control(self, pos: int) -> bool:
        """Whether a value of a notation is broken off by a control token: what it is part of was not finished."""
        breaks = self.state.breaks
        return breaks is not None and self.buf.startswith(breaks.markers, pos)

    def take_back(self, save: Save, fail: int, code: str = "") -> int:
        """Undo everything since ``save``: what was held is text where it stood, reading goes on at raw ``fail``.

        White space in front of ``fail`` is read again, control tokens are dropped. An attempt that nothing
        marked gives way to the next alternative, from its start. Returns the new position, 0.
        """
        raw = self.raw(save.start, self.base + len(self.buf))
        fail = save.start + save.stumble(raw, fail - save.start)
        if self.ws_end == fail and self.ws_start > save.start:
            fail = self.ws_start
        retry = save.origin.retry
        if retry is not None:
            self.restore(save)
            self.state, self.phase = retry, 0
            self.move(save.start, raw, "")
            return 0
        target = save.fallback or save.origin.rest or self.program.lost
        if target.edge:  # it may be framing of a marker that comes next
            fail -= tail_length(raw, max(0, fail - save.start - RUN_LIMIT), fail - save.start, target.edge)
        if fail <= save.start:  # the same marker must not be tried again
            fail = save.start + (1 if target is save.origin and raw else 0)
        controls = [] if save.kind == DRAFT else [span for span in self.controls if span[0] >= save.start]
        self.restore(save)
        self.state, self.phase = target, 1
        if target is not save.origin:
            self.enter(target)
            self.regs = {}  # a name that was read belongs to what was taken back
        if code:
            self.note(code, save.start, fail)
        fail = self.release(target, raw, save.start, fail, controls)
        self.move(fail, raw[fail - save.start :], raw[: fail - save.start])
        return 0

    def release(self, target: State, raw: str, start: int, fail: int, controls: list[tuple[int, int]]) -> int:
        """Give out ``raw`` from ``start`` to ``fail`` as text, less the control tokens; returns where it ends."""
        self.releasing = True
        at = start
        for begin, end in (*controls, (fail, fail)):
            if at < begin <= fail:
                self.say(target, raw[at - start : begin - start], at)
            at = max(at, end)
            if self.trace is not None:
                self.log_span(begin, end, target.rule, "skip")
        self.releasing = False
        return max(fail, at)

    def move(self, at: int, buf: str, before: str) -> None:
        """Put the buffer at raw ``at``; ``before`` is the raw text just before it."""
        if self.spec:
            self.held = ["".join(self.held)[: at - self.held_start]]
            known = self.held_start + len(self.held[0])
            if known < at:
                self.held.append(before[len(before) - (at - known) :])
        if before:
            self.prev = before
        self.base = at
        self.buf = buf
        self.held_from = 0
        self.ws_end = NOWHERE
        self.moved = True

    def restore(self, save: Save) -> None:
        """The machine as it was at ``save``."""
        del self.spec[self.spec.index(save) :]
        del self.log[save.log :]
        self.regs = dict(save.regs)
        self.call = save.call.copy() if save.call is not None else None
        self.next_index = save.next_index
        self.said = save.said
        self.fresh = save.fresh
        self.join = save.join
        self.scanner = None
        if self.spec and self.spec[-1].draft_phase == 2:
            self.confirm()  # no call behind the closer of reasoning: the drafts were calls
        if not self.spec:
            self.flush()

    def cut(self, at: int) -> None:
        """The output ended at raw ``at``: a call or attempt that is open there stays unfinished."""
        named = bool(self.regs.get("name")) and self.state.open
        if self.call is None and not self.speculative() and not named:
            self.confirm()
            return
        self.unfinished = self.unfinished or not (self.speculative() and self.innermost().aside)
        if (self.call is not None and self.call.announced) or named:
            call = self.announce(at)
            if self.speculative():
                self.commit()
            broken = self.scanner is not None and self.scanner.lost
            self.note("E101" if broken else "E201", call.start, at)
            self.end_call("malformed" if broken else "incomplete", at)
        else:
            start = self.innermost().start if self.speculative() else self.call.start if self.call else at
            self.tail_start = start
            self.tail.append(self.raw(start, at)[:TAIL_LIMIT])
            if self.speculative():
                self.restore(self.innermost())
            self.call = None
            if self.unfinished:
                self.note("E202", start, at)
        self.scanner = None
        self.confirm()

    # ---- drafts -------------------------------------------------------------------------------------------

    def drafts_were_thought(self) -> None:
        """A call follows behind the closer: the candidates before it were drafts, all of them reasoning."""
        save = self.spec.pop()
        later = self.log[save.behind_log :]
        drafts = sum(isinstance(event, CallStart) for event in self.log[save.log : save.behind_log])
        del self.log[save.log :]
        fresh, join = self.fresh, self.join
        self.fresh, self.join = save.fresh, save.join
        later_trace = [span for span in self.trace or () if span[0] >= save.behind]
        self.releasing = True
        self.say(save.origin, self.raw(save.start, save.behind), save.start)
        self.releasing = False
        if self.trace is not None:
            self.trace += later_trace
        self.fresh, self.join = fresh, join
        self.log += [_renumbered(event, drafts) for event in later]
        if self.call is not None:
            self.call.index -= drafts
        self.next_index -= drafts
        if not self.spec:
            self.flush()


def _word_before(char: str) -> bool:
    return char.isalnum() or char in ("_", ".")


def unquote(text: str) -> str:
    """``text`` without one pair of quotes."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text


def run_length(buf: str, start: int, end: int, chars: str) -> int:
    """The length of the run of ``chars`` that begins at ``start``."""
    text = buf[start:end]
    return len(text) - len(text.lstrip(chars))


def tail_length(buf: str, start: int, end: int, chars: str) -> int:
    """The length of the run of ``chars`` that ends at ``end``."""
    text = buf[start:end]
    return len(text) - len(text.rstrip(chars))


def _renumbered(event: Event, less: int) -> Event:
    if not less or not hasattr(event, "index"):
        return event
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    fields["index"] -= less
    return type(event)(**fields)
