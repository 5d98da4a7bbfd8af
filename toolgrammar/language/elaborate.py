"""A book of rules to a ``Grammar``: names resolved, parameters substituted, headers put in their fields.

Rules are elaborated on demand from the start states, so a grammar holds what it can reach and nothing else.
Each distinct application ``begin(call)`` becomes one rule ``begin<call>``.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolgrammar import combinators as c
from toolgrammar.errors import GrammarError, UnknownRuleError, Where
from toolgrammar.language import forms
from toolgrammar.language import headers as head
from toolgrammar.language import tree as t
from toolgrammar.language.detect import parse_detect
from toolgrammar.language.files import Book
from toolgrammar.language.given import choices, pattern
from toolgrammar.language.pages import Source

STATES = ("content", "reasoning", "section")
#: Instances of one rule inside each other before its arguments are taken to grow for ever.
DEPTH = 16
#: Characters of an instance's arguments that are shown in its name.
SHOWN = 48


def elaborate(book: Book) -> Source:
    """The grammar of a book."""
    rules = _Rules(book)
    starts = {state: rules.start(start) for state, start in book.starts.items()}
    if "content" not in starts:
        raise GrammarError(
            "no '@start content': where does the model's turn begin?",
            where=book.top,
            hint="as in '@start content = turn'",
        )
    for name in sorted(book.own, key=lambda name: book.rules[name].where.line):
        if name not in rules.used:
            raise GrammarError(
                f"rule '{name}' is never used", where=book.rules[name].where, hint=_near_rule(name, book)
            )
    return Source(_grammar(book, rules.nodes, starts), rules.where, book.files)


def _near_rule(name: str, book: Book) -> str:
    """The rule from elsewhere that an unused rule may have been meant to replace."""
    from difflib import get_close_matches

    near = get_close_matches(name, book.rules.keys() - book.own, 1)
    return f"was it meant to replace '{near[0]}'?" if near else ""


class _Rules:
    """The rules reached so far."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.nodes: dict[str, c.Node] = {}
        self.where: dict[str, Where] = {}
        self.used: set[str] = set()
        self._names: dict[tuple[str, tuple[c.Node, ...]], str] = {}
        self._inside: list[str] = []

    def start(self, start: t.Start) -> str:
        """The rule that a start state begins with."""
        if start.state not in STATES:
            raise head.fail(f"no start state '{start.state}'", start.state_where, f"one of {', '.join(STATES)}")
        assert start.item is not None
        name = f"start_{start.state}"
        node = _Body(self, name, {}).make(start.item)
        if isinstance(node, c.Ref):
            return node.rule
        if name in self.nodes or name in self.book.rules:
            raise GrammarError(f"'{name}' is the name of this expression; a rule has it too", where=start.where)
        self.nodes[name] = node
        self.where[name] = start.where
        return name

    def instance(self, word: t.Word | t.Apply, arguments: tuple[c.Node, ...], asking: str) -> c.Ref:
        """The rule named by ``word``, for these arguments."""
        rule = self.book.rules[word.name]
        if len(arguments) != len(rule.parameters):
            raise GrammarError(_arity(rule, len(arguments)), rule=asking, where=word.where)
        key = (word.name, arguments)
        if key not in self._names:
            if self._inside.count(word.name) >= DEPTH:
                raise GrammarError(
                    f"the arguments of '{word.name}' keep growing",
                    rule=asking,
                    where=word.where,
                    hint="a rule may apply itself only to arguments it has met before",
                )
            self._define(key, rule)
        return c.Ref(self._names[key])

    def _define(self, key: tuple[str, tuple[c.Node, ...]], rule: t.Rule) -> None:
        name = self._names[key] = self._mangled(*key)
        self.used.add(rule.name)
        self.nodes[name] = c.Seq(())
        self.where[name] = rule.where
        self._inside.append(rule.name)
        body = _Body(self, rule.name, dict(zip(rule.parameters, key[1], strict=True)))
        self.nodes[name] = body.make(rule.body)
        self._inside.pop()

    def _mangled(self, name: str, arguments: tuple[c.Node, ...]) -> str:
        if not arguments:
            return name
        from toolgrammar.language.writer import write_inline

        shown = ", ".join(map(write_inline, arguments)).replace("`", "")
        if len(shown) > SHOWN:
            shown = shown[: SHOWN - 1] + "…"
        mangled, number = f"{name}<{shown}>", 1
        while mangled in self.nodes:
            number += 1
            mangled = f"{name}<{shown}>{number}"
        return mangled


class _Body:
    """The expressions of one instance."""

    def __init__(self, rules: _Rules, rule: str, parameters: Mapping[str, c.Node]) -> None:
        self.rules = rules
        self.rule = rule
        self.parameters = parameters

    def make(self, expression: t.Expression) -> c.Node:
        """The node of an expression."""
        match expression:
            case t.String(spellings, _, line_start, word_start):
                return c.Lit(spellings, line_start, word_start)
            case t.Word() | t.Apply():
                return self._named(expression)
            case t.Group(item):
                return c.Seq(()) if item is None else self.make(item)
            case t.Sequence(items):
                return c.seq(*map(self.make, items))
            case t.Alternatives(arms):
                return _alternatives([self.make(arm) for arm in arms])
            case t.Repeat(item, "?"):
                return c.Opt(self.make(item))
            case t.Repeat(item, quantifier):
                return c.Many(self.make(item), int(quantifier == "+"))
            case t.PeekAt(item):
                return c.Peek(self.make(item))
            case t.ChooseBy(register, arms):
                return c.Choose(register, tuple(map(self._arm, arms)))

    def _arm(self, arm: t.ChooseArm) -> c.Arm:
        conditions = choices(c.Arm, "when")[1:]
        if arm.when and arm.when not in conditions:
            raise head.fail(f"no condition '{arm.when}'", arm.when_where, f"one of {', '.join(conditions)}")
        return c.Arm(pattern(arm.pattern, arm.where), self.make(arm.item), arm.when)  # type: ignore[arg-type]

    def _named(self, word: t.Word | t.Apply) -> c.Node:
        applied = isinstance(word, t.Apply)
        if word.name in self.parameters and not word.quoted:
            if isinstance(word, t.Apply) and not forms.reserved(word.name, applied):
                raise GrammarError(f"parameter '{word.name}' takes no arguments", rule=self.rule, where=word.where)
            if not applied:
                return self.parameters[word.name]
        if not word.quoted and forms.reserved(word.name, applied):
            return forms.build(word, self.make)
        if word.name not in self.rules.book.rules:
            raise self._unknown(word)
        if isinstance(word, t.Apply) and word.options:
            option = word.options[0]
            raise GrammarError(f"rule '{word.name}' has no options", rule=self.rule, where=option.where)
        arguments = tuple(map(self.make, word.arguments)) if isinstance(word, t.Apply) else ()
        return self.rules.instance(word, arguments, self.rule)

    def _unknown(self, word: t.Word | t.Apply) -> GrammarError:
        from difflib import get_close_matches

        if word.name in forms.FORMS:
            hint = f"'{word.name}' is written with parentheses directly behind it"
        else:
            words = (form for form in forms.FORMS if forms.reserved(form, isinstance(word, t.Apply)))
            known = [*self.rules.book.rules, *self.parameters, *words, "choose", "bol", "bow"]
            near = get_close_matches(word.name, known, 3)
            hint = f"did you mean {' or '.join(near)}?" if near else "define it here or @import a file that does"
        return UnknownRuleError(f"no rule or word '{word.name}'", rule=self.rule, where=word.where, hint=hint)


def _alternatives(arms: list[c.Node]) -> c.Node:
    """Plain literals alone are one literal of several spellings."""
    if all(isinstance(arm, c.Lit) and not (arm.line_start or arm.word_start) for arm in arms):
        spellings = [spelling for arm in arms if isinstance(arm, c.Lit) for spelling in arm.spellings]
        return c.Lit(tuple(dict.fromkeys(spellings)))
    return c.alt(*arms)


def _arity(rule: t.Rule, given: int) -> str:
    count = len(rule.parameters)
    takes = "no argument" if not count else f"{count} argument{'s' * (count > 1)} ({', '.join(rule.parameters)})"
    return f"rule '{rule.name}' takes {takes}, {given} given"


def _grammar(book: Book, rules: dict[str, c.Node], starts: dict[str, str]) -> c.Grammar:
    def every(word: str, read: str = "literals", among: tuple[str, ...] = ()) -> tuple[str, ...]:
        lines = book.headers.get(word, ())
        return tuple(
            text
            for line in lines
            for text in (head.literals(line) if read == "literals" else head.words(line, among))
        )

    ids = every("ids", "words", head.IDS)
    mend = every("mend", "words", head.MENDED)
    titles = [head.title(line) for line in book.headers.get("title", ())]
    for line in book.headers.get("detect", ()):
        parse_detect(line)
    for line in book.headers.get("rank", ()):
        head.number(line)
    return c.Grammar(
        name=book.name,
        rules=rules,
        starts=starts,
        joined=every("join", "words", head.SINKS),
        names=every("names", "words"),
        models=tuple(model.lower() for model in every("models", "words")),
        title=titles[0] if titles else "",
        ids=ids[0] if ids else "call",
        mend=mend[0] if mend else "",
        facts={
            word: tuple(line.body for line in lines)
            for word, lines in book.headers.items()
            if word in head.FACTS or word not in head.STRUCTURED
        },
        **{field: every(word) for word, field in head.LITERALS.items()},
    )
