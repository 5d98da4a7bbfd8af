"""From nodes to states: the compiler.

Nodes are built back to front, each with the state that follows it (its continuation). A rule is built once
per continuation, so a rule that refers to itself at its end becomes a loop. ``first`` then works out what
every state may begin with: the live markers of text, the arms of a choice. What a text is followed by
decides what is held back; no grammar says it.
"""

from __future__ import annotations

import itertools
import re
from typing import Any, NamedTuple

from toolgrammar import combinators as c
from toolgrammar.errors import GrammarError, UnboundedRecursionError, UnknownRuleError
from toolgrammar.machine import checks
from toolgrammar.machine import program as p
from toolgrammar.machine.patterns import full_matcher, later, partial_matcher
from toolgrammar.machine.program import Arm, Program, State
from toolgrammar.machine.safe_text import Rests, SafeText

#: How often one rule may be open inside itself before its recursion counts as unbounded.
_DEPTH = 12
_CONTROL = re.compile(r"<[|｜][^<>]*[|｜]>|<[|｜][^<>]*>|<[^<>]*[|｜]>")


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
    if tokens:
        from toolgrammar.machine.tokens import sentinels, with_sentinels

        grammar = with_sentinels(grammar, tokens)
    builder = _Builder(grammar, tokens)
    builder.sentinels = frozenset(sentinels(tokens).values()) if tokens else frozenset()
    starts = {state: builder.start(rule) for state, rule in grammar.starts.items()}
    return builder.finish(starts)


class _Builder:
    def __init__(self, grammar: c.Grammar, tokens: tuple[str, ...]) -> None:
        self.grammar = grammar
        self.tokens = tokens
        self.sentinels: frozenset[str] = frozenset()
        self.states: list[State] = []
        self.memo: dict[tuple[Any, ...], State] = {}
        self.active: list[str] = []
        self.end = self.new(p.END, _Scope("end"))
        #: The control tokens of the grammar's literals.
        self.controls: dict[str, None] = {}
        #: The texts a broken section ends in.
        self.rests: set[int] = set()
        self.lost = self.new(p.TEXT, _Scope("end"), c.content, self.end)

    # ---- building -----------------------------------------------------------------------------------------

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
                    (_pattern(arm.pattern, "fullmatch"), arm.when, self.build(arm.item, k, scope))
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

    def attempts(self, state: State) -> None:
        """An attempt that nothing marks is tried first; its text goes to the way on behind it."""
        defaults = [default for option in state.options if (default := self.first(option)[1]) is not None]
        for attempt, other in itertools.pairwise(defaults):
            if attempt.op == p.SAVE:
                attempt.retry = other

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
        frame, texts = self.lookahead(c.Peek(item), scope)
        arms = []
        for text in texts:
            arm = Arm(text, k, scope.rule)
            arm.consume = False
            arm.frame = frame
            arms.append(arm)
        state.arms = tuple(arms)
        return state

    def lookahead(self, peek: c.Peek, scope: _Scope) -> tuple[str, tuple[str, ...]]:
        """The white space and the texts a ``Peek`` asks for."""
        state = self.build(peek.item, self.end, scope)
        arms, default = self.first(state)
        if default is not None or not arms:
            raise checks.misplaced("what '&' looks for must begin with a literal", scope.rule)
        return max((arm.frame for arm in arms), key=len), tuple(dict.fromkeys(arm.text for arm in arms))

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
            state.chars = later(lambda: re.compile(f"(?:{node.chars})*").match, state, "chars")
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

    def marks(self, text: str) -> bool:
        """Whether a literal is a marker by itself: more than a character, or a special token's sentinel."""
        return len(text) > 1 or text in self.sentinels

    def is_control(self, text: str) -> bool:
        """Whether a marker is, or contains, a control token (reading convention 3)."""
        return bool(_CONTROL.search(text)) or any(token in text for token in self.grammar.tokens)

    def is_whole(self, text: str) -> bool:
        """Whether a marker is control tokens and nothing else, or a whole tag that begins with one."""
        return self.is_control(text) and (text in self.grammar.tokens or text.endswith((">", "]")))

    # ---- what a state begins with -------------------------------------------------------------------------

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

    # ---- finishing ----------------------------------------------------------------------------------------

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
            state.full = later(lambda: full_matcher(arms), state, "full")
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
            state.full = _pattern(firsts + inside, "search", state, "full")
        if state.op == p.TYPED:
            assert state.marks is not None
            special = (
                {text[0] for text in state.marks.markers}
                | set(state.node.trim[-1:])
                | {"\n" if state.node.reopen else ""}
            )
            pattern = "[" + re.escape("".join(sorted(special))) + r'"\\\x00-\x1f]'
            state.full = _pattern(pattern, "search", state, "full")

    def breakers(self, have: list[Arm], state: State) -> list[Arm]:
        """Control tokens that cannot stand in a field: one shows that it was none."""
        allowed = {arm.text for arm in have}
        arms = []
        for text in self.controls:
            if text in state.node.holds:
                arm = Arm(text, state, state.rule)
                arm.skip = True
                arms.append(arm)
            elif text not in allowed and not any(other.startswith(text) for other in allowed):
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


def _pattern(pattern: str, method: str, state: State | None = None, slot: str = "") -> Any:
    """A method of the pattern, compiled ``later``; its dot is any character."""
    return later(lambda: getattr(re.compile(pattern, re.S), method), state, slot)


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
