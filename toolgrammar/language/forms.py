"""The words of the language: what each one takes and the node it stands for.

A word that stands for something by itself (``content``, ``json``) is reserved as a name. The others, such as
``call(...)``, are words only with parentheses directly behind them, so that a rule may be named ``call``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolgrammar import combinators as c
from toolgrammar.errors import GrammarError, GrammarSyntaxError
from toolgrammar.language import tree as t
from toolgrammar.language.given import Elaborate, Given


@dataclass(frozen=True)
class Form:
    """A word: what it may be given, and how it is made."""

    make: Callable[[Given], c.Node]
    items: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    #: It means something without parentheses, and is reserved.
    bare: bool = True


# ---- how each is made --------------------------------------------------------------------------------------


def _white(chars: str = c.WHITE, least: int = 0) -> Callable[[Given], c.Node]:
    def make(given: Given) -> c.Node:
        made = c.Ws(
            given.option("chars", chars),
            given.number("least", least),
            canonical=_canonical(given),
        )
        if strange := set(made.canonical) - set(made.chars):
            raise _not_white(given, f"{min(strange)!r} in it")
        return made

    return make


def _canonical(given: Given) -> str:
    """The text to write for ``ws("\\n")``; a group where it should be is a blank forgotten."""
    item = given.items[0] if given.items else None
    if item is not None and not (isinstance(item, t.String | t.Word)):
        raise _not_white(given, "an expression")
    return given.literal(item)


def _not_white(given: Given, found: str) -> GrammarSyntaxError:
    return GrammarSyntaxError(
        f"'{given.word}(\"...\")' takes the white space to write here, found {found}",
        where=given.items[0].where,
        hint=f"for '{given.word}' followed by a group put a blank before '('",
    )


def _gap(given: Given) -> c.Node:
    exact, *canonical = [given.literal(item) for item in given.items]
    return c.Ws(exact=exact, canonical=canonical[0] if canonical else "")


def _text(given: Given) -> c.Node:
    return c.Text(given.word, given.one_of(c.Text, "strip"), "block" in given.flags)  # type: ignore[arg-type]


def _captured(given: Given) -> c.Node:
    register = given.word
    if register == "field":
        register = _register_item(given)
    return c.Field(
        register,
        given.char_class("chars"),
        quoted="quoted" in given.flags,
        offered="offered" in given.flags,
        empty="empty" in given.flags,
        unescape=given.one_of(c.Field, "unescape"),
        limit=given.number("limit", c.FIELD_LIMIT, least=1),
        holds=given.listed("holds", ()),
    )


def _register_item(given: Given) -> str:
    item = given.items[0]
    if isinstance(item, t.String) and len(item.spellings) == 1:
        return item.spellings[0]
    if isinstance(item, t.Word):
        return item.name
    raise GrammarSyntaxError(f"'{given.word}(...)' takes a name", where=item.where)


def _envelope(given: Given) -> c.Node:
    plain = c.Envelope()
    return c.Envelope(
        names=given.listed("names", plain.names),
        arguments=given.listed("arguments", plain.arguments),
        ids=given.listed("ids", plain.ids),
        wrappers=given.listed("wrappers", plain.wrappers),
        other=given.one_of(c.Envelope, "other"),
        allowed=given.listed("allowed", plain.allowed),
        type_value=given.option("type"),
        decide=given.one_of(c.Envelope, "decide"),
        tool_key="tool_key" in given.flags,
    )


def _typed(given: Given) -> c.Node:
    return c.Typed(trim=given.option("trim"), kind=given.register("kind"), reopen=_reopen(given))


def _reopen(given: Given) -> tuple[c.Node, ...]:
    value = given.options.get("reopen")
    if value is None:
        return ()
    if isinstance(value, t.Number | t.Regex):
        raise GrammarSyntaxError("'reopen' takes an expression", where=value.where)
    openers: list[c.Node] = []
    for arm in value.arms if isinstance(value, t.Alternatives) else (value,):
        made = given.elaborate(arm)
        openers.extend(made.arms if isinstance(made, c.Alt) else (made,))
    return tuple(openers)


def _draft(given: Given) -> c.Node:
    closer = given.options.get("closer")
    if closer is None or isinstance(closer, t.Number | t.Regex):
        raise GrammarSyntaxError(
            "'draft(...)' takes a closer, the end of reasoning",
            where=given.where,
            hint='as in draft(nl call, closer: "</think>")',
        )
    return c.Draft(given.item(), given.elaborate(closer))


def _attempt(given: Given) -> c.Node:
    return c.Attempt(
        given.item(),
        word="word" in given.flags,
        unsure="unsure" in given.flags,
        aside="aside" in given.flags,
        until=given.one_of(c.Attempt, "until"),
    )


def _let(given: Given) -> c.Node:
    if len(given.items) != 2:
        raise GrammarSyntaxError(
            "'let(...)' takes a register and a literal", where=given.where, hint='as in let(kind, "json")'
        )
    return c.Let(_register_item(given), given.literal(given.items[1]))


_FIELD: Mapping[str, Any] = {
    "flags": ("quoted", "offered", "empty"),
    "options": ("chars", "limit", "holds", "unescape"),
}
_WS: Mapping[str, Any] = {"items": ("white space",), "options": ("chars", "least")}
_ENVELOPE = ("names", "arguments", "ids", "wrappers", "other", "allowed", "type", "decide")

#: Words that the syntax itself uses.
SYNTAX = ("choose", "bol", "bow", "else", "when")
FORMS: Mapping[str, Form] = {
    "ws": Form(_white(), **_WS),
    "ws1": Form(_white(least=1), **_WS),
    "nl": Form(_white("\n"), **_WS),
    "blank": Form(_white(" \t"), **_WS),
    "gap": Form(_gap, items=("white space", "canonical white space"), bare=False),
    **{word: Form(_text, flags=("block",), options=("strip",)) for word in ("content", "reasoning")},
    "drop": Form(_text, options=("strip",)),
    **{word: Form(_captured, **_FIELD) for word in ("name", "key", "id", "kind")},
    "field": Form(_captured, items=("register",), bare=False, **_FIELD),
    "json": Form(lambda given: c.Json()),
    "envelope": Form(_envelope, flags=("tool_key",), options=_ENVELOPE),
    "typed": Form(_typed, options=("trim", "kind", "reopen")),
    "pyargs": Form(lambda given: c.PyArgs()),
    "quoted": Form(lambda given: c.Quoted(given.literal(given.items[0])), items=("quote",), bare=False),
    "elements": Form(lambda given: c.Elements(given.literal(given.items[0])), items=("prefix",), bare=False),
    "verbatim": Form(lambda given: c.Verbatim(_register_item(given)), items=("key",), bare=False),
    "let": Form(_let, items=("register", "literal"), bare=False),
    "call": Form(lambda given: c.Call(given.item()), items=("expression",), bare=False),
    "section": Form(lambda given: c.Section(given.item()), items=("expression",), bare=False),
    "attempt": Form(
        _attempt, items=("expression",), flags=("word", "unsure", "aside"), options=("until",), bare=False
    ),
    "draft": Form(_draft, items=("expression",), options=("closer",), bare=False),
}


def reserved(name: str, applied: bool) -> bool:
    """Whether a name is a word of the language, with or without parentheses behind it."""
    return (name in FORMS and (applied or FORMS[name].bare)) or name in SYNTAX


def build(word: t.Word | t.Apply, elaborate: Elaborate) -> c.Node:
    """The node of a word, its arguments checked against what it takes."""
    form = FORMS[word.name]
    arguments, options = (word.arguments, word.options) if isinstance(word, t.Apply) else ((), ())
    flags = [a for a in arguments if isinstance(a, t.Word) and a.name in form.flags and not a.quoted]
    items = tuple(a for a in arguments if a not in flags)
    _check(word, form, items, options)
    given = Given(
        word.name,
        word.where,
        items,
        frozenset(flag.name for flag in flags),
        {option.name: option.value for option in options},
        elaborate,
    )
    return form.make(given)


def _check(
    word: t.Word | t.Apply, form: Form, items: tuple[t.Expression, ...], options: tuple[t.Option, ...]
) -> None:
    takes = _takes(form)
    if len(items) > len(form.items):
        raise GrammarError(f"too many arguments for '{word.name}'", where=items[len(form.items)].where, hint=takes)
    if form.items and not form.bare and not items:
        raise GrammarError(f"'{word.name}(...)' needs its {form.items[0]}", where=word.where, hint=takes)
    for index, option in enumerate(options):
        if option.name not in form.options:
            raise GrammarError(f"'{word.name}' has no option '{option.name}'", where=option.where, hint=takes)
        if option.name in [other.name for other in options[:index]]:
            raise GrammarError(f"option '{option.name}' is given twice", where=option.where)


def _takes(form: Form) -> str:
    parts = [f"one {item}" for item in form.items] + list(form.flags) + [f"{name}:" for name in form.options]
    return f"it takes {', '.join(parts)}" if parts else "it takes nothing"
