"""Definition-time checks: mistakes in a grammar that would otherwise show as mysteries on model output."""

from __future__ import annotations

import re._parser as sre  # type: ignore[import-not-found]
import warnings
from collections.abc import Iterator
from typing import Any

from toolgrammar import combinators as c
from toolgrammar.errors import (
    AmbiguityError,
    BadPatternError,
    EmptyRepeatError,
    GrammarError,
    MisplacedNodeError,
    UnknownRuleError,
    UnmarkedTextError,
)
from toolgrammar.machine import program as p
from toolgrammar.machine.program import Arm, State


def check_rules(grammar: c.Grammar) -> None:
    """Names, patterns and literals of a grammar, before it is compiled."""
    if "content" not in grammar.starts:
        raise GrammarError(
            f"grammar {grammar.name!r} does not say where content starts", hint="add '@start content = RULE'"
        )
    for rule, node in grammar.rules.items():
        for inner in walk(node):
            if isinstance(inner, c.Ref) and inner.rule not in grammar.rules:
                raise UnknownRuleError(f"no rule named {inner.rule!r}", rule=rule)
            if isinstance(inner, c.Lit) and (not inner.spellings or not all(inner.spellings)):
                raise GrammarError("an empty literal would match everywhere", rule=rule)
            if isinstance(inner, c.Elements) and not inner.prefix:
                raise GrammarError("elements need a prefix in front of their tags", rule=rule)
            if isinstance(inner, c.Field) and inner.limit < 1:
                raise GrammarError(f"a field of at most {inner.limit} characters holds nothing", rule=rule)
            if isinstance(inner, c.Field) and inner.chars:
                check_class(inner.chars, rule)
            if isinstance(inner, c.Choose):
                for arm in inner.arms:
                    check_pattern(arm.pattern, rule)
    _check_names(grammar)


def _check_names(grammar: c.Grammar) -> None:
    """A call with parameters gets its name in it, or from what stands outside of calls."""
    if any(_names(node) for rule in grammar.rules.values() for node in walk(rule, into_calls=False)):
        return
    for rule, node in grammar.rules.items():
        for call in walk(node):
            body = list(_reached(grammar, call)) if isinstance(call, c.Call) else []
            if any(_reads_key(inner) for inner in body) and not any(map(_names, body)):
                raise GrammarError(
                    "a call has a 'key' but nothing gives it a name", rule=rule,
                    hint="read it with 'name', or set it with let(name, \"...\")",
                )  # fmt: skip


def _reached(grammar: c.Grammar, node: Any) -> Iterator[Any]:
    """``node``, every node inside it, and those of the rules it refers to."""
    waiting, seen = [node], set[str]()
    while waiting:
        for inner in walk(waiting.pop()):
            yield inner
            if isinstance(inner, c.Ref) and inner.rule in grammar.rules and inner.rule not in seen:
                seen.add(inner.rule)
                waiting.append(grammar.rules[inner.rule])


def _reads_key(node: Any) -> bool:
    return isinstance(node, c.Field) and node.register == "key"


def _names(node: Any) -> bool:
    """Whether ``node`` sets the name of a call."""
    match node:
        case c.Field("name") | c.Let("name") | c.Envelope():
            return True
        case c.Choose(_, arms):
            return any("(?P<name>" in arm.pattern or arm.when in ("sole", "mangled") for arm in arms)
    return False


def walk(node: Any, into_calls: bool = True) -> Iterator[Any]:
    """``node`` and every node inside it, without those inside calls if so asked."""
    yield node
    if into_calls or not isinstance(node, c.Call):
        for child in c.children(node):
            yield from walk(child, into_calls)


def tags(grammar: c.Grammar, opener: str) -> tuple[str, ...]:
    """What stands behind ``opener`` in the grammar's own literals."""
    inner = (each for node in grammar.rules.values() for each in walk(node) if isinstance(each, c.Lit))
    texts = (text for each in inner for text in each.spellings if text.startswith(opener) and text != opener)
    return tuple(dict.fromkeys(text[len(opener) :] for text in texts))


def check_class(pattern: str, rule: str) -> None:
    """A field's ``chars`` is exactly one character class."""
    parsed = _parse(pattern, rule)
    if len(parsed) != 1 or str(parsed[0][0]) not in ("IN", "NOT_LITERAL", "LITERAL", "ANY", "CATEGORY"):
        raise BadPatternError(
            f"/{pattern}/ is not one character class", rule=rule, hint=r"write a class such as /[^\s<>]/"
        )


def check_pattern(pattern: str, rule: str) -> None:
    """A choose pattern is valid, and no text can make it back-track without bound.

    A repeat of something that itself varies in length, or that has alternatives, can match one text in many
    ways. It is let through only if every round begins with a character that nothing else in it can match.
    """
    for item in _parse(pattern, rule):
        _check_repeats(item, pattern, rule)


def _parse(pattern: str, rule: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return sre.parse(pattern)
    except Exception as error:
        raise BadPatternError(f"/{pattern}/ is not a regular expression: {error}", rule=rule) from None


def _check_repeats(item: Any, pattern: str, rule: str) -> None:
    name = str(item[0])
    if name in ("GROUPREF", "GROUPREF_EXISTS"):
        raise BadPatternError(f"/{pattern}/ refers back to a group", rule=rule)
    if name in _REPEATS and int(item[1][1]) > 1 and _varies(item[1][2]) and not _separated(item[1][2]):
        raise BadPatternError(
            f"/{pattern}/ repeats a repeat and could back-track without bound", rule=rule,
            hint="use one repeat of a character class",
        )  # fmt: skip
    for inner in _inside(item):
        _check_repeats(inner, pattern, rule)


_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_CHARACTERS = ("LITERAL", "NOT_LITERAL", "IN", "ANY")


def _inside(item: Any) -> Iterator[Any]:
    """The items directly inside one of a parsed pattern."""
    name, argument = str(item[0]), item[1]
    if name in _REPEATS:
        yield from argument[2]
    elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
        yield from argument[-1]
    elif name == "ATOMIC_GROUP":
        yield from argument
    elif name == "BRANCH":
        for branch in argument[1]:
            yield from branch


def _varies(body: Any) -> bool:
    """Whether one text can be matched by ``body`` in several ways or lengths."""
    return any(
        str(item[0]) == "BRANCH"
        or (str(item[0]) in _REPEATS and item[1][0] != item[1][1])
        or _varies(_inside(item))
        for item in body
    )


def _separated(body: Any) -> bool:
    """Whether every round begins with a character that nothing else in it can match."""
    items = list(body)
    if not items or str(items[0][0]) != "LITERAL":
        return False
    first = chr(items[0][1])
    rest = list(items[1:])
    while rest:
        item = rest.pop()
        name = str(item[0])
        if name in _CHARACTERS and _matches(item, first):
            return False
        if name not in _CHARACTERS and name not in _REPEATS and name not in ("AT", "SUBPATTERN"):
            return False
        rest.extend(_inside(item))
    return True


def _matches(item: Any, char: str) -> bool:
    """Whether a one-character item of a parsed pattern matches ``char``."""
    name, argument = str(item[0]), item[1]
    if name == "LITERAL":
        return bool(argument == ord(char))
    if name == "NOT_LITERAL":
        return bool(argument != ord(char))
    if name == "ANY":
        return True
    found = any(_in_class(part, char) for part in argument if str(part[0]) != "NEGATE")
    return found != (str(argument[0][0]) == "NEGATE")


def _in_class(part: Any, char: str) -> bool:
    name, argument = str(part[0]), part[1]
    if name == "LITERAL":
        return bool(argument == ord(char))
    if name == "RANGE":
        return bool(argument[0] <= ord(char) <= argument[1])
    kind = str(argument).removeprefix("CATEGORY_")
    within = {"DIGIT": char.isdigit(), "SPACE": char.isspace(), "WORD": char.isalnum() or char == "_"}
    return within[kind.removeprefix("NOT_")] != kind.startswith("NOT_")


def check_empty_repeat(state: State) -> None:
    """A loop whose item can be passed without reading anything would never end."""
    if state.op != p.ALT or len(state.options) < 2:
        return
    item = state.options[0]
    if _reaches(item, state, set()):
        raise EmptyRepeatError(
            "the repeated item can be empty", rule=state.rule,
            hint="let the item begin with a marker, or drop the repeat",
        )  # fmt: skip


def _reaches(state: State | None, goal: State, seen: set[int]) -> bool:
    """Whether ``goal`` can be reached from ``state`` without reading anything."""
    if state is None or id(state) in seen:
        return False
    if state is goal:
        return True
    seen.add(id(state))
    if state.op == p.ALT and not state.arms:
        return any(_reaches(option, goal, seen) for option in state.options)
    if state.op == p.WS and not state.node.least:
        return _reaches(state.next, goal, seen)
    if state.op == p.FIELD and state.node.empty:
        return _reaches(state.next, goal, seen)
    if state.op == p.CHOOSE:
        return any(_reaches(target, goal, seen) for _, _, target in state.cases)
    if state.op in (p.SAVE, p.CLOSED, p.CALL, p.ENDCALL, p.DRAFT, p.CONFIRM, p.LET):
        return _reaches(state.next, goal, seen)
    return False


def distinct(arms: list[Arm], state: State) -> list[Arm]:
    """``arms`` without repetitions; two different ways on behind the same marker are a mistake."""
    kept: list[Arm] = []
    for arm in arms:
        twin = next((k for k in kept if _same(k, arm)), None)
        if twin is None:
            kept.append(arm)
        elif twin.target is arm.target and twin.consume == arm.consume:
            twin.frame = max(twin.frame, arm.frame, key=len)
        elif arm.consume and twin.consume and not twin.stops and not arm.stops:
            raise AmbiguityError(
                f"two ways to go on begin with {arm.text!r}: in {twin.rule!r} and in {arm.rule!r}",
                rule=state.rule, hint="factor the common marker out, or let '&' tell them apart",
            )  # fmt: skip
    return kept


def _same(a: Arm, b: Arm) -> bool:
    return (
        a.text == b.text and a.peek == b.peek and a.line_start == b.line_start and a.word_start == b.word_start
        and a.exact == b.exact and a.least == b.least and a.key_end == b.key_end
    )  # fmt: skip


def unmarked(state: State) -> UnmarkedTextError:
    """The error for text whose end cannot be recognised."""
    what = "text" if state.op == p.TEXT else "a field" if state.op == p.FIELD else "a value"
    return UnmarkedTextError(
        f"{what} is followed by something that does not begin with a literal", rule=state.rule,
        hint="let a literal, or the end of the turn, follow",
    )  # fmt: skip


def misplaced(message: str, rule: str) -> MisplacedNodeError:
    """The error for a node in the wrong place."""
    return MisplacedNodeError(message, rule=rule)


def last_literals(grammar: c.Grammar, node: Any, seen: frozenset[str] = frozenset()) -> list[str]:
    """The literals that may end ``node``."""
    return _last(grammar, node, seen)[0]


def _last(grammar: c.Grammar, node: Any, seen: frozenset[str]) -> tuple[list[str], bool]:
    """``(literals, may be empty)``."""
    match node:
        case c.Lit(spellings):
            return list(spellings), False
        case c.Seq(items):
            out: list[str] = []
            for item in reversed(items):
                texts, empty = _last(grammar, item, seen)
                out += texts
                if not empty:
                    return out, False
            return out, True
        case c.Alt(arms):
            parts = [_last(grammar, arm, seen) for arm in arms]
            return [t for texts, _ in parts for t in texts], any(empty for _, empty in parts)
        case c.Choose(_, arms):
            ways = [_last(grammar, arm.item, seen) for arm in arms]
            return [t for texts, _ in ways for t in texts], any(empty for _, empty in ways)
        case c.Opt(item) | c.Many(item):
            return _last(grammar, item, seen)[0], True
        case c.Call(item) | c.Section(item) | c.Attempt(item):
            return _last(grammar, item, seen)
        case c.Ref(rule):
            if rule in seen or rule not in grammar.rules:
                return [], False
            return _last(grammar, grammar.rules[rule], seen | {rule})
        case c.Ws() | c.Peek() | c.Text() | c.Let():
            return [], True
    return [], False
