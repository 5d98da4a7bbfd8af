"""From nodes to states: the compiler.

Nodes are built back to front, each with the state that follows it (its continuation). A rule is built once per
continuation, so a rule that refers to itself at its end becomes a loop. Then ``finish`` works out, with the FIRST
sets of ``firsts``, what may follow every state.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from toolgrammar import combinators as c
from toolgrammar.errors import GrammarError, UnboundedRecursionError, UnknownRuleError
from toolgrammar.machine import checks
from toolgrammar.machine import program as p
from toolgrammar.machine.finish import Finisher
from toolgrammar.machine.patterns import later, pattern_of
from toolgrammar.machine.program import Arm, Program, State

#: How often one rule may be open inside itself before its recursion counts as unbounded.
_DEPTH = 12


class _Scope(NamedTuple):
    """Where a node stands."""

    rule: str
    open: bool = False
    rest: State | None = None
    in_call: bool = False
    closers: tuple[str, ...] = ()


def compile_grammar(grammar: c.Grammar, tokens: tuple[str, ...] = ()) -> Program:
    """Compile ``grammar``. ``tokens``: special tokens that come as sentinels, see ``machine.tokens``.

    Raises a ``GrammarError`` for every mistake that would otherwise show only on model output.
    """
    checks.check_rules(grammar)
    source = grammar
    if tokens:
        from toolgrammar.machine.tokens import sentinels, with_sentinels

        grammar = with_sentinels(grammar, tokens)
    builder = _Builder(grammar, tokens)
    builder.sentinels = frozenset(sentinels(tokens).values()) if tokens else frozenset()
    starts = {state: builder.start(rule) for state, rule in grammar.starts.items()}
    program = builder.finish(starts)
    program.source = source
    return program


class _Builder(Finisher):
    """Builds the states of nodes, one method per kind of node."""

    def __init__(self, grammar: c.Grammar, tokens: tuple[str, ...]) -> None:
        super().__init__(grammar)
        self.tokens = tokens
        self.memo: dict[tuple[Any, ...], State] = {}
        self.active: list[str] = []
        self.end = self.new(p.END, _Scope("end"))
        self.lost = self.new(p.TEXT, _Scope("end"), c.content, self.end)

    def new(self, op: int, scope: _Scope, node: Any = None, following: State | None = None) -> State:
        state = State(op, scope.rule)
        state.node = node
        state.next = following
        state.open = scope.open
        state.rest = scope.rest
        self.states.append(state)
        return state

    def start(self, rule: str) -> State:
        return self.build(c.Ref(rule), self.end, _Scope(rule))

    def build(self, node: Any, k: State, scope: _Scope) -> State:
        """The state that reads ``node`` and goes on at ``k``."""
        match node:
            case c.Seq(items):
                return self.sequence(items, k, scope)
            case c.Alt(arms):
                return self.choice(tuple(self.build(arm, k, scope) for arm in arms), scope)
            case c.Opt(item):
                return self.choice((self.build(item, k, scope), k), scope)
            case c.Many():
                return self.repeat(node, k, scope)
            case c.Ref(rule):
                return self.rule(rule, k, scope)
            case c.Lit():
                return self.literal(node, None, k, scope)
            case c.Peek(item):
                return self.peek(item, k, scope)
            case (
                c.Ws()
                | c.Text()
                | c.Field()
                | c.Json()
                | c.Typed()
                | c.PyArgs()
                | c.Quoted()
                | c.Elements()
                | c.Verbatim()
                | c.Let()
            ):
                return self.leaf(node, k, scope)
            case c.Envelope():
                return self.envelope(node, k, scope)
            case c.Choose():
                state = self.new(p.CHOOSE, scope, node, k)
                state.cases = tuple(
                    (pattern_of(arm.pattern, "fullmatch"), arm.when, self.build(arm.item, k, scope))
                    for arm in node.arms
                )
                return state
            case c.Call(item):
                return self.call(item, k, scope)
            case c.Section(item) | c.Attempt(item):
                return self.section(node, item, k, scope)
            case c.Draft():
                return self.draft(node, k, scope)
        raise GrammarError(f"no such node: {node!r}", rule=scope.rule)

    def sequence(self, items: tuple[Any, ...], k: State, scope: _Scope) -> State:
        i = len(items)
        while i:
            i -= 1
            item = items[i]
            marker = self.resolved(items[i - 1]) if i and isinstance(item, c.Peek) else None
            if isinstance(marker, c.Lit):
                i -= 1
                k = self.literal(marker, item, k, scope)
            else:
                k = self.build(item, k, scope)
        return k

    def resolved(self, node: Any) -> Any:
        """``node``, or what the rule it names is."""
        for _ in range(_DEPTH):
            if not isinstance(node, c.Ref) or node.rule not in self.grammar.rules:
                break
            node = self.grammar.rules[node.rule]
        return node

    def rule(self, name: str, k: State, scope: _Scope) -> State:
        if name not in self.grammar.rules:
            raise UnknownRuleError(f"no rule named {name!r}", rule=scope.rule)
        key = (name, id(k), scope.open, id(scope.rest), scope.in_call)
        if key in self.memo:
            return self.memo[key]
        if self.active.count(name) > _DEPTH:
            raise UnboundedRecursionError(
                f"rule {name!r} refers to itself other than at its end", rule=scope.rule,
                hint="only a reference at the very end of a rule may go back to it",
            )  # fmt: skip
        entry = self.new(p.ALT, scope)
        self.memo[key] = entry
        self.active.append(name)
        body = self.build(self.grammar.rules[name], k, scope._replace(rule=name))
        self.active.pop()
        entry.open = body.open  # a rule that is a section is one from its first character on
        entry.options = (body,)
        return entry

    def choice(self, options: tuple[State, ...], scope: _Scope) -> State:
        state = self.new(p.ALT, scope)
        state.options = options
        return state

    def repeat(self, node: c.Many, k: State, scope: _Scope) -> State:
        loop = self.new(p.ALT, scope)
        item = self.build(node.item, loop, scope)
        loop.options = (item, k)
        entry = loop
        for _ in range(node.least):
            entry = self.build(node.item, entry, scope)
        return entry

    def literal(self, node: c.Lit, peek: c.Peek | None, k: State, scope: _Scope) -> State:
        state = self.new(p.ALT, scope, node)
        arms = []
        for text in node.spellings:
            arm = Arm(text, k, scope.rule)
            arm.control = self.is_control(text)
            arm.whole = self.is_whole(text)
            if arm.control and text not in self.grammar.stops:
                self.controls[text] = None
            arm.line_start, arm.word_start = node.line_start, node.word_start
            if peek is not None:
                arm.peek_frame, arm.peek = self.lookahead(peek, scope)
            arms.append(arm)
        state.arms = tuple(arms)
        return state

    def peek(self, item: Any, k: State, scope: _Scope) -> State:
        state = self.new(p.ALT, scope, c.Peek(item))
        arms = []
        for seen in self.openers(item, scope):
            arm = Arm(seen.text, k, scope.rule)
            arm.consume = False
            arm.frame, arm.line_start, arm.word_start = seen.frame, seen.line_start, seen.word_start
            arms.append(arm)
        state.arms = tuple(arms)
        return state

    def lookahead(self, peek: c.Peek, scope: _Scope) -> tuple[str, tuple[str, ...]]:
        """The white space and the texts a ``Peek`` behind a literal asks for."""
        arms = self.openers(peek.item, scope)
        return max((arm.frame for arm in arms), key=len), tuple(dict.fromkeys(arm.text for arm in arms))

    def openers(self, item: Any, scope: _Scope) -> list[Arm]:
        """The markers ``item``, which is only looked for, may begin with."""
        arms, default = self.first(self.build(item, self.end, scope))
        if default is not None or not arms:
            raise checks.misplaced("what '&' looks for must begin with a literal", scope.rule)
        return arms

    def leaf(self, node: Any, k: State, scope: _Scope) -> State:
        ops: dict[Any, int] = {
            c.Ws: p.WS, c.Text: p.TEXT, c.Field: p.FIELD, c.Json: p.JSON, c.Typed: p.TYPED,
            c.PyArgs: p.PYARGS, c.Quoted: p.QUOTED, c.Elements: p.ELEMENTS, c.Verbatim: p.VERBATIM, c.Let: p.LET,
        }  # fmt: skip
        op = ops[type(node)]
        if op in (p.JSON, p.TYPED, p.PYARGS, p.QUOTED, p.ELEMENTS, p.VERBATIM) and not scope.in_call:
            raise checks.misplaced("a value stands outside call(...)", scope.rule)
        state = self.new(op, scope, node, k)
        if op == p.TEXT:
            state.sink = {"content": p.CONTENT, "reasoning": p.REASONING, "drop": p.DROP}[node.sink]
            state.block = node.block or node.sink in self.grammar.joined
            state.strip = {"none": 0, "all": 1, "first": 2}[node.strip]
        if op == p.FIELD and node.chars:
            # A sentinel is no character of any class.
            but = f"(?![{re.escape(''.join(sorted(self.sentinels)))}])" if self.sentinels else ""
            state.chars = later(lambda: re.compile(f"(?:{but}{node.chars})*").match, state, "chars")
        if op == p.TYPED:
            state.options = tuple(self.build(item, self.end, scope) for item in node.reopen)
        if op in (p.JSON, p.QUOTED):
            state.cases = scope.closers
        if op == p.ELEMENTS:
            state.texts = checks.tags(self.grammar, f"{node.prefix}<")
        return state

    def envelope(self, node: c.Envelope, k: State, scope: _Scope) -> State:
        if not scope.in_call:
            return self.call(node, k, scope)
        state = self.new(p.ENVELOPE, scope, node, k)
        state.cases = scope.closers
        return state

    def call(self, item: Any, k: State, scope: _Scope) -> State:
        if scope.in_call:
            raise checks.misplaced("a call stands inside a call", scope.rule)
        ended = self.new(p.ENDCALL, scope, None, k)
        body = self.build(item, ended, scope._replace(in_call=True, open=True))
        return self.new(p.CALL, scope, None, body)

    def section(self, node: Any, item: Any, k: State, scope: _Scope) -> State:
        closers = tuple(t for t in checks.last_literals(self.grammar, item) if self.marks(t))
        aside = isinstance(node, c.Attempt) and node.aside
        inner = scope._replace(open=scope.open or not aside, closers=closers, rest=self.rest(closers, k, scope))
        closed = self.new(p.CLOSED, scope, node, k)
        body = self.build(item, closed, inner)
        if isinstance(node, c.Section):
            return body
        return self.new(p.SAVE, inner, node, body)

    def rest(self, closers: tuple[str, ...], k: State, scope: _Scope) -> State:
        """Where the rest of a section goes after a flaw: content up to the section's end."""
        state = self.new(p.TEXT, scope._replace(open=bool(closers)), c.content, k)
        state.cases = closers
        self.rests.add(id(state))
        return state

    def draft(self, node: c.Draft, k: State, scope: _Scope) -> State:
        drafted = self.new(p.DRAFTED, scope, node)
        item = self.build(node.item, drafted, scope._replace(open=False))
        confirm = self.new(p.CONFIRM, scope, node, k)
        behind = self.choice((self.build(node.item, k, scope), confirm), scope)
        behind.strip = 1
        closer = self.build(node.closer, behind, scope)
        drafted.options = (item, closer)
        drafted.next = k
        draft = self.new(p.DRAFT, scope, node, item)
        draft.texts = tuple(arm.text for arm in self.first(closer)[0])
        if not draft.texts:
            raise checks.misplaced("the closer of a draft must begin with a literal", scope.rule)
        return draft
