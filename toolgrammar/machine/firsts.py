"""What a state may begin with: FIRST sets over the graph of states.

``first(state)`` gives the markers that may stand where the machine is in ``state``, each as an arm that says where
it leads, which framing it takes with it and which effects (a savepoint, a call's begin) it has; and where the
machine goes if none of them stands there.
"""

from __future__ import annotations

import re
from typing import Final

from toolgrammar import combinators as c
from toolgrammar.machine import program as p
from toolgrammar.machine.program import Arm, State

#: What looks like a control token (reading convention 3); formats declare others with ``@tokens``.
_CONTROL: Final = re.compile(r"<[|｜][^<>]*[|｜]>|<[|｜][^<>]*>|<[^<>]*[|｜]>")


class Firsts:
    """Questions about states that have been built. Base of the compiler."""

    def __init__(self, grammar: c.Grammar) -> None:
        self.grammar = grammar
        #: Stand-ins of special tokens, see ``machine.tokens``.
        self.sentinels: frozenset[str] = frozenset()

    def first(self, state: State, seen: frozenset[int] = frozenset()) -> tuple[list[Arm], State | None]:
        """The markers ``state`` may begin with, and where to go if none stands there (None: nowhere)."""
        if id(state) in seen:
            return [], None
        seen |= {id(state)}
        op = state.op
        if op == p.ALT:
            arms = [arm.copy() for arm in state.arms]
            default: State | None = None
            for option in state.options:
                more, other = self.first(option, seen)
                arms += more
                default = default or other
            return arms, default
        if op == p.WS:
            assert state.next is not None
            arms, default = self.first(state.next, seen)
            return [_framed(arm, state.node) for arm in arms], state if default is not None else None
        if op in (p.SAVE, p.CLOSED, p.CALL, p.ENDCALL, p.DRAFT, p.CONFIRM):
            assert state.next is not None
            arms, default = self.first(state.next, seen)
            for arm in arms:
                arm.effects = (state, *arm.effects)
            return arms, state if default is not None else None
        if op in (p.ENVELOPE, p.QUOTED):
            return [_standing(text, state) for text in ("{" if op == p.ENVELOPE else "{(")], None
        return [], state

    def runs_out(self, state: State) -> bool:
        """Whether ``state`` reaches the end of the turn without reading anything."""
        while state.op in (p.CLOSED, p.ENDCALL, p.CONFIRM, p.WS):
            assert state.next is not None
            state = state.next
            if state.op == p.ALT:
                default = self.first(state)[1]
                if default is None:
                    return False
                state = default
        return state.op == p.END

    def text_behind(self, state: State | None) -> State | None:
        """The text that ``state`` leads to without reading anything."""
        for _ in range(64):
            if state is None or state.op == p.TEXT:
                return state
            if state.op == p.ALT:
                state = self.first(state)[1]
            elif state.op in (p.CLOSED, p.ENDCALL, p.CONFIRM, p.WS):
                state = state.next
            else:
                return None
        return None

    def fallback(self, state: State) -> State | None:
        """Where text goes that was held from here and turned out to be text."""
        if state.op in (p.TEXT, p.DRAFTED):
            return state
        if state.op == p.ALT:
            return self.text_behind(state.default) if state.default is not None else state.rest
        return state.rest

    # ---- what kind of marker a literal is ------------------------------------------------------------------

    def marks(self, text: str) -> bool:
        """Whether a literal is a marker by itself: more than a character, or a special token's sentinel."""
        return len(text) > 1 or text in self.sentinels

    def is_control(self, text: str) -> bool:
        """Whether a marker is, or contains, a control token (reading convention 3)."""
        return bool(_CONTROL.search(text)) or any(token in text for token in self.grammar.tokens)

    def is_whole(self, text: str) -> bool:
        """Whether a marker is control tokens and nothing else, or a whole tag that begins with one."""
        return self.is_control(text) and (text in self.grammar.tokens or text.endswith((">", "]")))


def _framed(arm: Arm, node: c.Ws) -> Arm:
    if node.exact:
        arm.exact = node.exact
    elif not arm.exact:
        arm.frame = "".join(dict.fromkeys(arm.frame + node.chars))
        arm.least = max(arm.least, node.least)
    return arm


def _standing(text: str, state: State) -> Arm:
    """An arm that recognises a value by its first character without consuming it."""
    arm = Arm(text, state, state.rule)
    arm.consume = False
    return arm
