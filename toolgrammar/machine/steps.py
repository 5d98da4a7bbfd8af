"""The steps that read text, markers, white space and fields. One method per kind of state.

A step gets the buffer, reads what it can from ``pos`` on, and returns the position it came to. It puts the
machine into another state, or sets ``wait``: nothing more can be decided before more input comes.
"""

from __future__ import annotations

import re
from typing import Final

from toolgrammar.combinators import WHITE, Field
from toolgrammar.machine import program as p
from toolgrammar.machine.program import RUN_LIMIT, Arm, State
from toolgrammar.machine.reading import run_length, tail_length, unquote
from toolgrammar.machine.values import Values

#: White space at the start of a stretch that may be held to see whether text follows.
FRESH_LIMIT: Final = 4096


class Steps(Values):
    """Reads everything but values."""

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
                    self.may_go_on(marks.rests, buf[i:n])
                break
            arm = self.pick(state.cases[which], buf, i, n, eof)
            if arm is not None:
                if arm.skip:
                    self.say(state, buf[pos:i], self.base + pos)
                    self.note("W215", self.base + i, self.base + i + len(arm.text), arm.text)
                    pos = at = i + len(arm.text)
                    continue
                j = self.frame_start(arm, buf, pos, i)
                if not self.say(state, buf[pos:j], self.base + pos):
                    j = pos  # white space only: framing, unless the marker turns out to be text
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
            match = (state.full_eof if eof else state.full)(buf, pos, n)
            if match is not None:
                i = match.start(match.lastindex)
                arm = state.arms[match.lastindex - 1]
                if not arm.plain:
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
            undecided = not eof or state.default is None or (state.open and pos < n)
            if eof and state.op == p.DRAFTED and not buf[pos:n].strip(WHITE):
                undecided = False
            if undecided and state.partial(buf, pos, n) is not None:
                self.wait = True
                if pos < n:
                    self.may_go_on(state.rests, buf[pos:n].lstrip(WHITE))
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
        assert state.next is not None
        if end == n and not node.exact and (not eof or (state.open and not state.next.open)):
            self.wait = True
            return end
        if node.least and self.phase == 0:
            return self.flaw(pos)
        self.state, self.phase = state.next, 0
        return end

    # ---- fields and what they decide ----------------------------------------------------------------------

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
            i = marks.find(buf, i, end)
            self.wait = True
            if marks.which < 0:
                break
            arm = self.pick(state.cases[marks.which], buf, i, n, eof)
            if arm is not None and arm.skip:
                i += len(arm.text)  # a token that may stand in the field
                arm = None
            elif arm is None:
                if self.wait:
                    break
                i += 1
        text = buf[pos:i].strip(WHITE)
        if not self.fits_field(state, buf, pos, i, text, arm is not None):
            self.wait = False
            return self.flaw(pos)
        if arm is not None and arm.breaks:
            return self.flaw(i if self.speculative() else pos)
        if i - pos > node.limit:
            self.wait = False
            return self.flaw(pos, "W212")
        if arm is None:
            if eof and text and state.chars is not None and state.chars(buf, i - 1, i).end() < i:
                self.regs[node.register] = captured(text, node)
                if node.register == "name" and self.call is None:
                    self.begin_call(self.base + pos)  # white space ended the name: a call begins
                    return n
            return pos
        if not arm.stops:
            if node.register == "key" and "key" in self.regs:
                self.remark("W213", self.base + pos, self.base + pos)
            self.regs[node.register] = captured(text, node)
        if self.trace is not None:
            self.log_span(self.base + pos, self.base + i, f"{state.rule}.{node.register}", "skip")
        return self.take(arm, state, i, i)

    def class_field(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """A field that ends where its class of characters ends."""
        node = state.node
        end: int = state.chars(buf, pos, n).end()
        if end == n and n - pos <= node.limit:
            self.wait = True  # at the end of the stream, too: it may be cut
            return pos
        if (end == pos and not node.empty) or end - pos > node.limit:
            return self.flaw(pos)
        if not self.fits_field(state, buf, pos, end, buf[pos:end], True):
            return self.flaw(pos)
        self.regs[node.register] = captured(buf[pos:end], node)
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
        if node.offered:
            offered = self.tools.offered or frozenset()
            return text in offered if whole else any(name.startswith(unquote(text)) for name in offered)
        return True

    def choose(self, state: State, buf: str, pos: int, n: int, eof: bool) -> int:
        """Branch by a register."""
        text = self.regs.get(state.node.register, "")
        for fullmatch, when, target in state.cases:
            match = fullmatch(text)
            if match is None:
                continue
            found = {name: value for name, value in match.groupdict().items() if value is not None}
            if when and not self.allowed(when, text, found):
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


def captured(text: str, node: Field) -> str:
    """The text of a field as it counts."""
    if node.quoted:
        text = unquote(text)
    return text.replace("&quot;", '"').replace("&amp;", "&") if node.unescape else text
