"""The values of a call: scanners for those that delimit themselves, raw text typed by schema, verbatim text."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from toolgrammar.combinators import WHITE
from toolgrammar.machine import program as p
from toolgrammar.machine.program import RUN_LIMIT, Arm, Program, State
from toolgrammar.machine.reading import Reading, run_length
from toolgrammar.machine.scanner import DONE, FLAW, Scanner
from toolgrammar.schema import ToolTable, quote

# Phases of a raw value.
_TRIM: Final = 1
STRING_PHASE: Final = 2
COLLECT_PHASE: Final = 3


@cache
def scanner_of(op: int) -> Any:
    """The class that reads the values of a step; None if they need none. A grammar has one or two of them, so
    each is imported when a grammar that needs it is compiled."""
    if op == p.JSON:
        from toolgrammar.machine.json_value import JsonArguments

        return JsonArguments
    if op == p.ENVELOPE:
        from toolgrammar.machine.envelope import EnvelopeScanner

        return EnvelopeScanner
    if op == p.PYARGS:
        from toolgrammar.machine.python_arguments import PythonArguments

        return PythonArguments
    if op == p.QUOTED:
        from toolgrammar.machine.quoted_object import QuotedObject

        return QuotedObject
    if op == p.ELEMENTS:
        from toolgrammar.machine.elements import ElementArguments

        return ElementArguments
    return None


class StringKeys:
    """Which parameters of a tool are strings and nothing else."""

    __slots__ = ("name", "tools")

    def __init__(self, tools: ToolTable, name: str) -> None:
        self.tools = tools
        self.name = name

    def __call__(self, key: str) -> bool:
        return self.tools.declared(self.name, key) and self.tools.plan(self.name, key).only_string


class Values(Reading):
    """Reads the values of calls."""

    def __init__(self, program: Program, tools: ToolTable, repair: bool, start: State) -> None:
        super().__init__(program, tools, repair, start)
        #: How far the scanner in ``direct`` read the buffer that is to be read now; -1: nothing of it.
        self.scanned = -1
        #: The scanner that can take the next delta by itself.
        self.direct: Scanner | None = None
        #: The pieces of a raw value that cannot be given out before it is closed; None for a string.
        self.collected: list[str] | None = None
        self.encode: Any = None

    # ---- values with a scanner ----------------------------------------------------------------------------

    def scan(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """A value that knows its own end."""
        if self.phase == 0:
            self.phase = 1
            self.scanner = self.new_scanner(state)
        scanner: Any = self.scanner  # of the kind that belongs to the state's step
        end: int
        if self.scanned < 0:
            end = scanner.scan(buf, pos, n, eof)
        else:  # its inner scanner was asked directly
            end, self.scanned = self.scanned, -1
            if self.direct is not scanner and state.op == p.ENVELOPE:
                end = scanner.resume(buf, end, n, eof)
        if self.trace is not None and end > pos:
            self.log_span(self.base + pos, self.base + end, state.rule, "emit")
        call = self.call
        if call is None or not call.announced:
            self.progress(state.op, scanner, end)
        elif (eof or scanner.status == DONE) and state.op == p.ENVELOPE:
            self.progress(state.op, scanner, end)  # an id may have come last
        if scanner.text:
            self.arguments(scanner.text, self.base + pos, self.base + end)
        if scanner.notes:
            for code, start, stop in scanner.notes:
                self.remark(code, self.base + start, self.base + stop)
            scanner.notes = []
        if scanner.status == FLAW:
            return self.flaw(end)
        if scanner.status == DONE:
            if scanner.malformed:
                call = self.announce(self.base + end)
                call.broken = True
                self.remark("E101" if scanner.is_object else "E102", call.start, self.base + end)
            if state.op == p.ELEMENTS and self.call is not None and self.call.passed:
                self.call.members += 1  # the last brace is written when the call ends
            self.scanner = None
            assert state.next is not None
            self.state, self.phase = state.next, 0
        else:
            self.wait = True
        return end

    def progress(self, op: int, scanner: Any, end: int) -> None:
        """Tell the name and id of a call, and announce it, as soon as the scanner is certain."""
        if op == p.ENVELOPE:
            if scanner.name:
                self.regs["name"] = scanner.name
            certain = scanner.announced
            known = scanner.early_id if certain and not (self.call and self.call.announced) else scanner.id
            if known:
                self.regs["id"] = known
        else:
            certain = op == p.PYARGS and scanner.confirmed and scanner.status != FLAW
        if certain and (self.call is None or not self.call.announced):
            self.announce(self.base + end)
            if op == p.ENVELOPE and scanner.id:
                self.regs["id"] = scanner.id  # it came with the same input, but behind the announcement

    def new_scanner(self, state: State) -> Scanner:
        """The scanner of a value state."""
        op, node = state.op, state.node
        made: Any = scanner_of(op)
        scanner: Scanner
        if op == p.JSON:
            scanner = made(state.marks, self.repair)
        elif op == p.ENVELOPE:
            if state.full is None:
                from toolgrammar.machine.envelope_spec import EnvelopeSpec

                state.full = EnvelopeSpec(
                    names=node.names, arguments=node.arguments, ids=node.ids, wrappers=node.wrappers,
                    other=node.other, allowed=node.allowed, type_value=node.type_value, decide=node.decide,
                    tool_key=node.tool_key,
                )  # fmt: skip
            scanner = made(state.full, state.marks, self.repair, self.tools.offered)
        elif op == p.PYARGS:
            scanner = made(StringKeys(self.tools, self.call_name()))
        elif op == p.ELEMENTS:
            parameters = self.tools.parameters(self.call_name())
            scanner = made(node.prefix, parameters, self.program.grammar.stops, state.texts)
        else:
            schema = self.tools.parameters(self.call_name())
            scanner = made(node.quote, state.marks, schema, self.program.breaks_of(state, node.quote))
        return scanner

    # ---- raw values ---------------------------------------------------------------------------------------

    def typed(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """A raw value: a string leaves as it comes, anything else when it is closed."""
        node = state.node
        if self.phase == 0:
            self.open_value(state, pos)
        if self.phase == _TRIM:
            if n == pos and not eof:
                self.wait = True
                return pos
            if buf.startswith(node.trim, pos):
                if self.trace is not None:
                    self.log_span(self.base + pos, self.base + pos + len(node.trim), state.rule, "skip")
                pos += len(node.trim)
            self.phase = STRING_PHASE if self.collected is None else COLLECT_PHASE
        marks = state.marks
        assert marks is not None
        i = marks.find(buf, pos, n)  # at the end of the stream a closer cut in half is no argument text either
        which = marks.which
        arm: Arm | None = None
        self.wait = True
        if which >= 0:
            arm, i = self.value_end(state, buf, i, which, n, eof)
        elif i < n:
            self.may_go_on(marks.rests, buf[i:n])
        trim = node.trim
        j = i
        if trim and i > pos and buf.startswith(trim, i - len(trim)) and i - len(trim) >= pos:
            j = i - len(trim)
        elif arm is not None and not arm.consume and j > pos and buf[j - 1] == "\n":
            j -= 1  # the line feed that makes the line start goes with the tag
        elif arm is None and node.reopen and j > pos and buf[j - 1] == "\n":
            j -= 1
        if j > pos:
            self.value_text(buf[pos:j], pos, j)
        if arm is None:
            return j
        if not arm.stops:
            self.close_value(i)
        return self.take(arm, state, j, i)

    def value_end(self, state: State, buf: str, i: int, which: int, n: int, eof: bool) -> tuple[Arm | None, int]:
        """Beginning with the marker ``which`` at ``i``: the first that ends the raw value, and where; without
        one, up to where the text is safe."""
        marks = state.marks
        assert marks is not None
        while True:
            arm = self.pick(state.cases[which], buf, i, n, eof)
            if arm is not None and arm.stops:
                # An end-of-turn token in a raw value is data if text follows it.
                after = i + len(arm.text)
                if after + run_length(buf, after, n, WHITE) < n:
                    arm = None
                elif not eof:
                    self.wait = True
                    return None, i
            if arm is not None or self.wait:
                return arm, i
            if eof and self.unconfirmed(state, which, buf, i, n):
                self.wait = True
                return None, i
            i = marks.find(buf, i + 1, n)
            which = marks.which
            if which < 0:
                self.wait = True
                if i < n:
                    self.may_go_on(marks.rests, buf[i:n])
                return None, i

    def unconfirmed(self, state: State, which: int, buf: str, i: int, n: int) -> bool:
        """At the end of the stream: a marker of which nobody knows any more whether it ended the value."""
        for arm in state.cases[which]:
            if arm.line_start and not (buf[i - 1] if i > 0 else self.prev).endswith("\n"):
                continue
            rest = buf[i + len(arm.text) : n]
            if arm.key_end and arm.key_end not in rest and len(rest) < RUN_LIMIT:
                return True
            rest = rest.strip(WHITE)
            if arm.peek and (not rest or any(text.startswith(rest) for text in arm.peek)):
                return True
        return False

    def open_value(self, state: State, pos: int) -> None:
        """A parameter's value begins: decide by notation and schema how it is written."""
        node = state.node
        key = self.regs.get("key", "")
        kind = self.regs.get(node.kind, "") if node.kind else ""
        plan = self.tools.plan(self.call_name(), key)
        string = kind == "true" if kind else plan.only_string
        self.collected = None if string else []
        self.encode = plan.encode_json if kind else plan.encode
        self.phase = _TRIM if node.trim else STRING_PHASE if string else COLLECT_PHASE
        self.begin_member(key, '"' if string else "", self.base + pos)

    def value_text(self, text: str, pos: int, end: int) -> None:
        """A piece of the value."""
        if self.trace is not None:
            self.log_span(self.base + pos, self.base + end, self.state.rule, "emit")
        if self.collected is None:
            self.arguments(quote(text)[1:-1], self.base + pos, self.base + end)
        else:
            self.collected.append(text)

    def close_value(self, pos: int) -> None:
        """The value is over: close the string, or write the typed value."""
        at = self.base + pos
        if self.collected is None:
            self.arguments('"', at, at)
        else:
            self.arguments(self.encode("".join(self.collected)), at, at)
            self.collected = None
        self.regs.pop("key", None)
        kind = self.state.node.kind
        if kind:
            self.regs.pop(kind, None)

    def verbatim(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """Text as the one string argument of the call."""
        if self.phase == 0:
            self.phase = 1
            self.begin_member(state.node.key, '"', self.base + pos)
        marks = state.marks
        assert marks is not None
        closed = any(not arm.stops for arms in state.cases for arm in arms)
        i = marks.find(buf, pos, n, eof and not closed)
        which = marks.which
        at = self.base + i
        if i > pos:
            self.arguments(quote(buf[pos:i])[1:-1], self.base + pos, at)
        if which < 0 and (closed or not eof):
            self.wait = True  # at the end of the stream, too: what has a closer ends nowhere else
            return i
        self.arguments('"', at, at)
        if which < 0:
            assert state.next is not None
            self.state, self.phase = state.next, 0
            return i
        arm = state.cases[which][0]
        if arm.stops:
            self.end_call("complete", at)
        return self.take(arm, state, i, i)
