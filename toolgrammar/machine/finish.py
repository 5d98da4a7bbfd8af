"""The second half of the compiler: live markers of text, arms of choices, ends of values.

When all states are built, every state that reads learns what may follow it. Hold-back comes from here: text is
held back only for the markers that may follow it, and no grammar says which.
"""

from __future__ import annotations

import itertools
import re

from toolgrammar import combinators as c
from toolgrammar.machine import checks
from toolgrammar.machine import program as p
from toolgrammar.machine.firsts import Firsts
from toolgrammar.machine.patterns import full_matcher, later, partial_matcher, pattern_of
from toolgrammar.machine.program import Arm, Program, State
from toolgrammar.machine.safe_text import Rests, SafeText


class Finisher(Firsts):
    """Works out what follows what."""

    def __init__(self, grammar: c.Grammar) -> None:
        super().__init__(grammar)
        self.tokens: tuple[str, ...] = ()
        self.states: list[State] = []
        self.end = State(p.END, "end")
        self.lost = State(p.TEXT, "end")
        #: The control tokens of the grammar's literals.
        self.controls: dict[str, None] = {}
        #: The texts a broken section ends in.
        self.rests: set[int] = set()

    def finish(self, starts: dict[str, State]) -> Program:
        for state in list(self.states):
            checks.check_empty_repeat(state)
        for state in self.states:
            if state.op == p.TEXT:
                self.finish_text(state)
        for state in self.states:
            if state.op in (p.ALT, p.DRAFTED):
                self.finish_choice(state)
            elif state.op in (p.FIELD, p.TYPED, p.VERBATIM):
                self.finish_value(state)
            elif state.op in (p.JSON, p.ENVELOPE, p.QUOTED, p.PYARGS):
                self.finish_json(state)
        for state in self.states:
            state.settled = self.is_settled(state)
            state.fallback = state.fallback or self.fallback(state)
        program = Program(self.grammar, tuple(self.states), starts, self.lost, self.tokens)
        program.controls = tuple(self.controls)
        return program

    def stop_arms(self, have: list[Arm], state: State, frame: str) -> list[Arm]:
        texts = {arm.text for arm in have}
        arms = []
        for text in self.grammar.stops:
            if text not in texts:
                arm = Arm(text, self.end, state.rule)
                arm.control = arm.stops = arm.whole = True
                arm.frame = frame
                arms.append(arm)
        return arms

    def finish_text(self, state: State) -> None:
        assert state.next is not None
        arms, default = self.first(state.next)
        if id(state) in self.rests:  # the section's own closers first
            default_text = self.text_behind(default)
            if default_text is not None:
                arms += self.first(default_text.next)[0] if default_text.next else []
            first: dict[str, Arm] = {}
            for arm in arms:
                first.setdefault(arm.text, arm)
            arms = [self.closer(text, state) for text in state.cases]
            arms += [arm for text, arm in first.items() if text not in state.cases]
        elif default is not None and not self.runs_out(default):
            raise checks.unmarked(state)
        arms += self.stop_arms(arms, state, "")
        texts = {arm.text for arm in arms}
        for text in self.grammar.skips:
            if text not in texts:
                arm = Arm(text, state, state.rule)
                arm.skip = arm.control = arm.whole = True
                arms.append(arm)
        if state.strip:
            for arm in arms:
                arm.frame = c.WHITE
        self.set_markers(state, arms)
        frames = "".join(arm.frame for arm in arms) + (c.WHITE if state.strip else "")
        state.frame = "".join(sorted(set(frames)))
        state.exact = max((arm.exact for arm in arms), key=len, default="")
        state.edge = "".join(sorted(set(state.frame + state.exact)))

    def closer(self, text: str, state: State) -> Arm:
        assert state.next is not None
        arm = Arm(text, state.next, state.rule)
        arm.control, arm.whole = self.is_control(text), self.is_whole(text)
        return arm

    def fallback(self, state: State) -> State | None:
        """Where text goes that was held from here and turned out to be text."""
        if state.op in (p.TEXT, p.DRAFTED):
            return state
        if state.op == p.ALT:
            return self.text_behind(state.default) if state.default is not None else state.rest
        return state.rest

    def is_settled(self, state: State | None) -> bool:
        """Whether a draft's candidate is complete here: nothing must follow."""
        for _ in range(64):
            if state is None:
                return False
            if state.op == p.DRAFTED:
                return True
            if state.op == p.ALT:
                state = state.default
            elif state.op in (p.CLOSED, p.ENDCALL) or (state.op == p.WS and not state.node.least):
                state = state.next
            else:
                return False
        return False

    def set_markers(self, state: State, arms: list[Arm]) -> None:
        """Group ``arms`` by marker and compile the search for them."""
        groups: dict[str, list[Arm]] = {}
        for arm in arms:
            groups.setdefault(arm.text, []).append(arm)
        for arm in arms:
            arm.seal()
        for group in groups.values():
            group[:] = checks.distinct(group, state)
        state.marks = SafeText(tuple(groups))
        state.cases = tuple(tuple(group) for group in groups.values())
        firsts = {text[0] for text in groups}
        state.clear = frozenset(firsts).isdisjoint
        state.guard = firsts.pop() if len(firsts) == 1 else ""

    def finish_choice(self, state: State) -> None:
        if state.op == p.DRAFTED:
            arms = self.first(state.options[0])[0]
            closers = self.first(state.options[1])[0]
            for arm in closers:
                arm.closes = True
            arms += closers
        else:
            arms, state.default = self.first(state)
        if state.op == p.DRAFTED or state.strip:
            for arm in arms:
                arm.frame = c.WHITE
        if state.default is None or state.op == p.DRAFTED:
            arms += self.stop_arms(arms, state, c.WHITE)
        self.attempts(state)
        for arm in arms:
            arm.seal()
        arms = checks.distinct(arms, state)
        state.arms = tuple(arms)
        state.texts = tuple(arm.text for arm in arms)
        state.rests = Rests(state.texts)
        if arms:
            state.full = later(lambda: full_matcher(arms, False), state, "full")
            state.full_eof = later(lambda: full_matcher(arms, True), state, "full_eof")
            state.partial = later(lambda: partial_matcher(arms), state, "partial")

    def finish_value(self, state: State) -> None:
        """A field or raw value ends where its successor begins."""
        assert state.next is not None
        arms, default = self.first(state.next)
        if default is not None and not (state.op == p.VERBATIM and self.runs_out(default)):
            if state.op != p.FIELD or state.chars is None:
                raise checks.unmarked(state)
            state.default = state.next
            return
        if state.op == p.FIELD:
            arms += self.breakers(arms, state)
        if state.op == p.TYPED:
            for arm in arms:
                arm.exact, arm.frame = state.node.trim, ""
            for option in state.options:
                arms += self.reopeners(option, arms[0].target)
        arms += self.stop_arms(arms, state, "")
        self.set_markers(state, arms)
        if state.op == p.FIELD and not state.node.offered:
            firsts = "[" + re.escape("".join(sorted({arm.text[0] for arm in arms}))) + "]"
            inside = f"|(?!{state.node.chars})." if state.node.chars else ""
            state.full = pattern_of(firsts + inside, "search", state, "full")
        if state.op == p.TYPED:
            assert state.marks is not None
            special = (
                {text[0] for text in state.marks.markers}
                | set(state.node.trim[-1:])
                | {"\n" if state.node.reopen else ""}
            )
            pattern = "[" + re.escape("".join(sorted(special))) + r'"\\\x00-\x1f\ud800-\udfff]'
            state.full = pattern_of(pattern, "search", state, "full")

    def breakers(self, have: list[Arm], state: State) -> list[Arm]:
        """Control tokens that cannot stand in a field: one shows that it was none."""
        allowed = {arm.text for arm in have} | set(state.node.holds)
        arms = []
        for text in state.node.holds:
            arm = Arm(text, state, state.rule)
            arm.skip = True
            arms.append(arm)
        for text in self.controls:
            if text not in allowed and not any(other.startswith(text) for other in allowed):
                arm = Arm(text, self.lost, state.rule)
                arm.breaks = True
                arms.append(arm)
        return arms

    def reopeners(self, option: State, target: State) -> list[Arm]:
        """Openers that end a value whose closer is missing: not consumed, the machine stands behind the value."""
        arms = self.first(option)[0]
        for arm in arms:
            behind = arm.target
            if behind.op == p.FIELD and behind.next is not None:
                arm.key_end = self.first(behind.next)[0][0].text
            arm.consume, arm.target, arm.effects = False, target, ()
        return arms

    def finish_json(self, state: State) -> None:
        """The end markers of a value that delimits itself: needed when it is broken."""
        assert state.next is not None
        arms, default = self.first(state.next)
        texts = [arm.text for arm in arms if self.marks(arm.text)]
        behind = self.text_behind(default)
        if not state.cases and behind is not None and behind.marks is not None:
            # No section to end: the next marker of the text behind it.
            texts += [text for text in behind.marks.markers if self.marks(text)]
        texts = list(dict.fromkeys((*state.cases, *texts, *self.grammar.stops)))
        state.marks = SafeText(tuple(texts)) if texts else None

    def attempts(self, state: State) -> None:
        """An attempt that nothing marks is tried first; its text goes to the way on behind it."""
        defaults = [default for option in state.options if (default := self.first(option)[1]) is not None]
        for attempt, other in itertools.pairwise(defaults):
            if attempt.op == p.SAVE:
                attempt.retry = other
