"""Writing a grammar and reading it back gives the same grammar."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from language.cases import DATA

from toolgrammar import combinators as c
from toolgrammar.language import files, read_grammar, read_grammar_file, write_grammar

FILES = [*sorted(DATA.glob("*.tg")), *sorted(files.grammars_folder().glob("*.tg"))]


def again(grammar: c.Grammar) -> c.Grammar:
    return read_grammar(write_grammar(grammar), file=f"{grammar.name}.tg")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files(path: Path) -> None:
    grammar = read_grammar_file(path)
    assert again(grammar) == grammar
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(grammar), type=c.Grammar) == grammar


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
WHITES = st.text(c.WHITE, max_size=2)
WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
NAMES = WORDS | st.sampled_from(
    ["ws", "call", "else", "choose", "a-b", "begin<call>", "über", "quoted", "1 2", "name"]
)
SPELLINGS = st.lists(TEXTS, min_size=1, max_size=3, unique=True).map(tuple)
LITS = st.builds(c.Lit, SPELLINGS, line_start=...) | st.builds(c.Lit, SPELLINGS, word_start=...)
LISTS = st.lists(TEXTS, max_size=3, unique=True).map(tuple)
CHARS = st.sampled_from(["", r"[a-z]", r"[^\s<>]", r"[/\]]", r"\w"])
PATTERNS = st.sampled_from(["(?s:.*)", "a", r"(?P<name>\w+)/(?P<id>\d+)", r"a\\b", "a b", "[/]"])


LEAVES = st.one_of(
    LITS,
    st.builds(c.Ws, st.sampled_from([c.WHITE, "\n", " \t", " \n"]), st.integers(0, 3)),
    st.builds(c.Ws, canonical=WHITES),
    st.builds(c.Ws, exact=TEXTS, canonical=TEXTS),
    st.builds(c.Text, st.sampled_from(["content", "reasoning"]), strip=..., block=...),
    st.builds(c.Text, st.just("drop"), strip=...),
    st.builds(
        c.Field,
        NAMES,
        CHARS,
        quoted=...,
        offered=...,
        empty=...,
        unescape=...,
        holds=LISTS,
        limit=st.integers(1, 600),
    ),
    st.sampled_from([c.Json(), c.PyArgs(), c.Seq(())]),
    st.builds(
        c.Envelope,
        LISTS.filter(bool),
        LISTS,
        LISTS,
        LISTS,
        allowed=LISTS,
        other=...,
        type_value=st.just("") | TEXTS,
        decide=...,
        tool_key=...,
    ),
    st.builds(c.Quoted, TEXTS),
    st.builds(c.Elements, TEXTS),
    st.builds(c.Verbatim, NAMES),
    st.builds(c.Let, NAMES, TEXTS),
)


def nodes(inner: st.SearchStrategy[c.Node]) -> st.SearchStrategy[c.Node]:
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        some.map(lambda items: c.seq(*items)),
        some.map(alternatives),
        st.builds(c.Many, inner, st.integers(0, 1)),
        st.builds(c.Opt, inner),
        st.builds(c.Peek, inner),
        st.builds(c.Typed, st.just("") | TEXTS, st.just("") | WORDS, some.map(reopen)),
        st.builds(c.Call, inner),
        st.builds(c.Section, inner),
        st.builds(c.Attempt, inner, word=..., unsure=..., aside=..., until=...),
        st.builds(c.Draft, inner, inner),
        st.builds(
            c.Choose,
            NAMES,
            st.lists(st.builds(c.Arm, PATTERNS, inner, when=...), min_size=1, max_size=3).map(tuple),
        ),
    )


def alternatives(arms: list[c.Node]) -> c.Node:
    """As the language has it: plain literals alone are one literal."""
    flat = [each for arm in arms for each in (arm.arms if isinstance(arm, c.Alt) else (arm,))]
    if all(isinstance(arm, c.Lit) and not (arm.line_start or arm.word_start) for arm in flat):
        return flat[0]
    return c.alt(*flat)


def reopen(openers: list[c.Node]) -> tuple[c.Node, ...]:
    return tuple(each for opener in openers for each in (opener.arms if isinstance(opener, c.Alt) else (opener,)))


NODES = st.recursive(LEAVES, nodes, max_leaves=8)


@st.composite
def grammars(draw: st.DrawFn) -> c.Grammar:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    rules = {name: c.seq(draw(NODES), *map(c.Ref, names[index + 1 :])) for index, name in enumerate(names)}
    words = st.lists(WORDS, max_size=2).map(tuple)
    return c.Grammar(
        name="drawn",
        rules=rules,
        starts={"content": names[0], **draw(st.dictionaries(st.just("reasoning"), st.sampled_from(names)))},
        stops=draw(LISTS),
        tokens=draw(LISTS),
        skips=draw(LISTS),
        joined=draw(st.sampled_from([(), ("reasoning",), ("content", "reasoning")])),
        anchors=draw(LISTS),
        names=draw(words),
        models=tuple(map(str.lower, draw(words))),
        title=draw(st.just("") | TEXTS),
        ids=draw(st.sampled_from(["call", "alnum9"])),
        facts=draw(
            st.sampled_from([{}, {"note": ("one # 1", "`two`")}, {"detect": ('template "a" and not "b"',)}])
        ),
    )


@given(grammars())
def test_drawn_grammars(grammar: c.Grammar) -> None:
    assert again(grammar) == grammar
