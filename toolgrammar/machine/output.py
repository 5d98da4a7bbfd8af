"""The machine's outgoing side: events, calls, and the log of what is not certain yet."""

from __future__ import annotations

import os
import re
from typing import Any, Final

from toolgrammar.diagnostics import CODES
from toolgrammar.events import (
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    Diagnostic,
    Event,
    Reasoning,
    Status,
)
from toolgrammar.machine import program as p
from toolgrammar.machine.program import Program, State
from toolgrammar.machine.speculation import CALL, DRAFT, CallState, Save
from toolgrammar.schema import ToolTable, quote

_NOT_WHITE: Final = re.compile(r"[^ \t\r\n]").search
_ALNUM: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


class Output:
    """What was said so far and what is still held. The base of ``Session``."""

    def __init__(self, program: Program, tools: ToolTable, repair: bool) -> None:
        self.program = program
        self.tools = tools
        self.repair = repair
        #: Raw characters consumed before the current buffer.
        self.base = 0
        self.sink: list[Event] = []
        self.out: list[Event] = []
        self.log: list[Event] = []
        self.spec: list[Save] = []
        #: Bit per sink: something was said there.
        self.said = 0
        #: The current stretch of text has shown nothing but white space.
        self.fresh = True
        #: The next text of this stretch is joined to an earlier one with a line feed.
        self.join = False
        self.regs: dict[str, str] = {}
        self.call: CallState | None = None
        self.next_index = 0
        self.unfinished = False
        #: What took which characters, as (start, end, rule, action, chunk); None: nobody asks.
        self.trace: list[tuple[int, int, str, str, int]] | None = None
        self.chunk = 0
        self.releasing = False

    # ---- text ---------------------------------------------------------------------------------------------

    def enter(self, state: State) -> None:
        """A new stretch of text begins."""
        self.fresh = True
        self.join = state.block and bool(self.said >> state.sink & 1)

    def say(self, state: State, text: str, at: int) -> bool:
        """Give out ``text`` (raw, from ``at``) in the state's channel. False: only white space, still held."""
        if not text:
            return True
        if self.fresh:
            match = _NOT_WHITE(text)
            if match is None:
                return False
            if state.strip == 1 or (state.strip == 2 and not self.said >> state.sink & 1):
                skipped = match.start()
                text = text[skipped:]
                at += skipped
            self.fresh = False
        self.write(state, text, at)
        return True

    def write(self, state: State, text: str, at: int) -> None:
        """Emit ``text`` as it is."""
        sink = state.sink
        end = at + len(text)
        if at < 0:  # what the prompt left undecided is none of the output
            text, at = text[-at:], 0
            if not text:
                return
        if self.trace is not None:
            self.log_span(at, end, state.rule, "release" if self.releasing else "emit")
        if sink == p.DROP:
            return
        self.said |= 1 << sink
        if self.join:
            text = "\n" + text
            self.join = False
        self.sink.append(Content(text, at, end) if sink == p.CONTENT else Reasoning(text, at, end))

    def log_span(self, start: int, end: int, rule: str, action: str) -> None:
        """Add to the trace, in place of what it says of these characters."""
        assert self.trace is not None
        if start < end:
            while self.trace and self.trace[-1][0] >= start:
                self.trace.pop()
            self.trace.append((start, end, rule, action, self.chunk))

    def note(self, code: str, start: int, end: int, detail: str = "") -> None:
        """Add a diagnostic."""
        message = CODES[code] + (f": {detail}" if detail else "")
        self.sink.append(Diagnostic(code, message, max(start, 0), max(end, 0)))

    def remark(self, code: str, start: int, end: int) -> None:
        """Add a diagnostic about the open call: told just before its end, wherever the input was cut."""
        if self.call is None:
            self.note(code, start, end)
        else:
            self.call.remarks = (*self.call.remarks, (code, start, end))

    # ---- calls --------------------------------------------------------------------------------------------

    def begin_call(self, at: int) -> None:
        """A call begins at ``at``; nobody is told yet."""
        self.call = CallState(self.next_index, at)

    def announce(self, at: int) -> CallState:
        """The call is certain: tell its name, and commit what was held for it."""
        call = self.call
        if call is None:
            call = self.call = CallState(self.next_index, self.spec[-1].start if self.spec else at)
        if call.announced:
            return call
        call.announced = True
        regs = self.regs
        call.name = call.name or regs.get("name", "")
        call.id = regs.get("id", "") or call.id or self.new_id()
        self.next_index = call.index + 1
        start = max(call.start, 0)
        self.sink.append(CallStart(call.index, call.id, call.name, start, start))
        if self.spec and self.spec[-1].kind != DRAFT:
            until = self.innermost().until
            if until == "announced" or (until == "offered" and call.name in (self.tools.offered or ())):
                self.commit()
        return call

    def innermost(self) -> Save:
        """The savepoint that decides the open attempt: the outermost one above a draft."""
        spec = self.spec
        if spec[0].kind != DRAFT:
            return spec[0]
        i = len(spec) - 1
        while i > 0 and self.spec[i - 1].kind != DRAFT:
            i -= 1
        return self.spec[i]

    def arguments(self, text: str, start: int, end: int) -> None:
        """Pass on argument text read from raw ``start`` to ``end``; announces the call if need be."""
        call = self.call
        if call is None or not call.announced:
            call = self.announce(start)
        call.passed = True
        self.sink.append(CallArguments(call.index, text, max(start, 0), max(end, 0)))

    def begin_member(self, key: str, opened: str, at: int) -> None:
        """The next member of arguments put together here; ``opened`` is the quote of a string value."""
        call = self.call if self.call is not None else self.announce(at)
        lead = ", " if call.members else "{"
        call.members += 1
        call.given |= {key}
        self.arguments(f"{lead}{quote(key)}: {opened}", at, at)

    def end_call(self, status: Status, at: int) -> None:
        """The call is over at ``at``."""
        call = self.call
        if call is None or not call.announced:
            call = self.announce(at)
        if call.broken:
            status = "malformed"
        if status == "complete":
            if call.members:
                self.arguments("}", at, at)
            elif not call.passed:
                self.arguments("{}", at, at)
        if "key" in self.regs and status == "complete":
            self.remark("W213", at, at)
        for code, start, end in call.remarks:
            self.note(code, start, end)
        if not self.tools.known(call.name):
            self.note("E301", call.start, at, repr(call.name))
        self.sink.append(
            CallEnd(
                call.index, self.regs.get("id", "") or call.id, status, max(call.start, 0), max(at, call.start, 0)
            )
        )
        self.call = None
        self.regs = {}

    def new_id(self) -> str:
        """A call id of the format's shape, never derived from the text."""
        if self.program.grammar.ids == "alnum9":
            number = int.from_bytes(os.urandom(12))
            return "".join(_ALNUM[number // 62**place % 62] for place in range(9))
        return "call_" + os.urandom(12).hex()

    # ---- speculation --------------------------------------------------------------------------------------

    def save(self, kind: int, node: Any, at: int, origin: State) -> None:
        """Open a savepoint at raw position ``at``."""
        save = Save(kind, node, at, origin)
        save.log = len(self.log)
        if self.regs:
            save.regs = self.regs.copy()
        if self.call is not None:
            save.call = self.call.copy()
        save.next_index = self.next_index
        save.said = self.said
        save.fresh = self.fresh
        save.join = self.join
        self.spec.append(save)
        self.sink = self.log

    def commit(self) -> None:
        """What was held above the last draft is certain."""
        spec = self.spec
        while spec and spec[-1].kind != DRAFT:
            spec.pop()
        if not spec:
            self.flush()
        elif spec[-1].draft_phase == 2:
            self.drafts_were_thought()

    def flush(self) -> None:
        """Nothing is held any more: hand the log out."""
        if self.log:
            self.out += self.log
            self.log = []
        self.sink = self.out

    def confirm(self) -> None:
        """The drafts of the open candidate were calls."""
        if self.spec and self.spec[-1].kind == DRAFT:
            self.spec.pop()
            if not self.spec:
                self.flush()

    def drafts_were_thought(self) -> None:
        """A call follows behind the closer of reasoning: what stood before it was thought."""
        raise NotImplementedError

    def speculative(self) -> bool:
        """Whether an attempt is open that a flaw would take back."""
        return bool(self.spec) and self.spec[-1].kind != DRAFT

    def holds_call(self) -> bool:
        """Whether the innermost savepoint is one that a call opened by itself."""
        return bool(self.spec) and self.spec[-1].kind == CALL
