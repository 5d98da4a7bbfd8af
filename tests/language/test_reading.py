"""What each construct reads as."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from language.cases import DATA
from msgspec import structs

from toolgrammar import combinators as c
from toolgrammar.combinators import alt, content, lit, many, nl, opt, seq, ws
from toolgrammar.errors import GrammarError, GrammarSyntaxError
from toolgrammar.language import (
    folder_loader,
    read_grammar,
    read_grammar_file,
    read_source_file,
    write_grammar,
)

A, B = lit("a"), lit("b")

EXPRESSIONS: list[tuple[str, c.Node]] = [
    # literals
    ('"a"', A),
    (r'"\n\t\r\"\\\u00e9｜"', lit('\n\t\r"\\é｜')),
    ('"# no comment" # comment', lit("# no comment")),
    ('"a" | "b"', lit("a", "b")),
    ('("a" | "b") | "a"', lit("a", "b")),
    ('bol "a"', lit("a", line_start=True)),
    ('bol ("a" | "b")', lit("a", "b", line_start=True)),
    ('bol("a")', lit("a", line_start=True)),
    ('bol "a" | "b"', alt(lit("a", line_start=True), B)),
    ('bow "a"', c.Lit(("a",), word_start=True)),
    ('bow ("a" | "b")', c.Lit(("a", "b"), word_start=True)),
    ('bow "a" | "b"', alt(c.Lit(("a",), word_start=True), B)),
    # structure
    ('"a" "b"', seq(A, B)),
    ('("a" "b") ("a" ("b"))', seq(A, B, A, B)),
    ('"a" | json | "b"', alt(A, c.Json(), B)),
    ('"a" | (json | ("b"))', alt(A, c.Json(), B)),
    ('"a" "b" | json', alt(seq(A, B), c.Json())),
    ('"a"? "b"* "a"+', seq(opt(A), many(B), many(A, least=1))),
    ('("a" "b")*', many(A, B)),
    ('("a"?)*', many(opt(A))),
    ('&("a" | "b")', c.Peek(lit("a", "b"))),
    ('"a" &"b"', seq(A, c.Peek(B))),
    ("()", c.Seq(())),
    ('"a" () "b"', seq(A, B)),
    # white space
    ("ws", ws),
    ("ws1", c.Ws(least=1)),
    ("nl", nl),
    ("blank", c.Ws(chars=" \t")),
    (r'ws("\n")', c.Ws(canonical="\n")),
    (r'nl("\n\n")', c.Ws(chars="\n", canonical="\n\n")),
    (r'ws(chars: " \n", least: 2)', c.Ws(chars=" \n", least=2)),
    (r'gap("\n\n")', c.Ws(exact="\n\n")),
    (r'gap("\n\n", "\n")', c.Ws(exact="\n\n", canonical="\n")),
    ('ws ("a" | "b")', seq(ws, lit("a", "b"))),
    # text and fields
    ("content reasoning drop", seq(content, c.Text("reasoning"), c.Text("drop"))),
    ("content(strip: first)", c.Text("content", "first")),
    ("reasoning(strip: none)", c.Text("reasoning")),
    ("content(block)", c.Text("content", block=True)),
    ("reasoning(strip: all, block)", c.Text("reasoning", "all", True)),
    ("name key id kind", seq(*map(c.Field, ("name", "key", "id", "kind")))),
    (r"name(chars: /[^\s<\/>]/, offered)", c.Field("name", chars=r"[^\s</>]", offered=True)),
    ("field(role, quoted, empty, limit: 9)", c.Field("role", quoted=True, empty=True, limit=9)),
    ('field("a b")', c.Field("a b")),
    ("name(unescape: xml)", c.Field("name", unescape="xml")),
    # values
    ("json", c.Json()),
    ("pyargs", c.PyArgs()),
    (r'quoted("<|\"|>")', c.Quoted('<|"|>')),
    ('elements("~")', c.Elements("~")),
    ("verbatim(code)", c.Verbatim("code")),
    ('verbatim("code")', c.Verbatim("code")),
    ("envelope", c.Envelope()),
    ('envelope(names: "name" | "tool")', c.Envelope(names=("name", "tool"))),
    ("envelope(wrappers: (), tool_key)", c.Envelope(wrappers=(), tool_key=True)),
    ('envelope(type: "function", other: reject)', c.Envelope(type_value="function", other="reject")),
    ('envelope(allowed: "a", decide: weak)', c.Envelope(allowed=("a",), decide="weak")),
    ("typed", c.Typed()),
    (r'typed(trim: "\n", kind: kind)', c.Typed("\n", "kind")),
    ('typed(reopen: "a" | "b")', c.Typed(reopen=(A, B))),
    ('typed(reopen: ("a" | "b"))', c.Typed(reopen=(lit("a", "b"),))),
    ('typed(reopen: "a" ws | bol "b")', c.Typed(reopen=(seq(A, ws), lit("b", line_start=True)))),
    # calls
    ("call(name json)", c.call(c.Field("name"), c.Json())),
    ('section("a")', c.section(A)),
    ('attempt("a" "b")', c.attempt(A, B)),
    ('attempt("a", word, until: offered)', c.Attempt(A, word=True, until="offered")),
    ('attempt("a", aside)', c.Attempt(A, aside=True)),
    ('attempt("a", unsure)', c.Attempt(A, unsure=True)),
    ('let(kind, "json")', c.Let("kind", "json")),
    ('key(holds: "x" | "y")', c.Field("key", holds=("x", "y"))),
    ('attempt("a", until: closed)', c.Attempt(A, until="closed")),
    ('draft("a", closer: "b" | "a")', c.Draft(A, lit("b", "a"))),
    # choose
    ('choose kind { /a\\/b/ -> "a" }', c.Choose("kind", (c.Arm("a/b", A),))),
    (
        'choose name { /x/ when offered -> "a" | json ; /y/ when sole -> "a" "b"\n  else -> () }',
        c.Choose(
            "name",
            (
                c.Arm("x", alt(A, c.Json()), "offered"),
                c.Arm("y", seq(A, B), "sole"),
                c.Arm("(?s:.*)", c.Seq(())),
            ),
        ),
    ),
]


@pytest.mark.parametrize(("text", "node"), EXPRESSIONS)
def test_expression(text: str, node: c.Node) -> None:
    assert read_grammar(f"turn : {text}\n@start content = turn").rules == {"turn": node}


@pytest.mark.parametrize(("text", "node"), EXPRESSIONS)
def test_expression_in_place_of_a_parameter(text: str, node: c.Node) -> None:
    grammar = read_grammar(f"pass(x) : x\n@start content = pass({text.split(' #')[0]})")
    assert [*grammar.rules.values()] == [node]


def test_rules_and_their_names() -> None:
    grammar = read_grammar(
        """
        # indented comments are fine
@start content = begin(call, "<end>")
@start reasoning = reasoning begin(call, "<end>")

begin(x, end) : content (x
    end begin(x, end))?
call : `odd rule`
`odd rule` : json
""",
        file="some/where/mine.tg",
    )
    assert grammar.name == "mine"
    assert grammar.starts == {"content": 'begin<call, "<end>">', "reasoning": "start_reasoning"}
    again = c.Ref('begin<call, "<end>">')
    assert grammar.rules == {
        'begin<call, "<end>">': seq(content, opt(c.Ref("call"), lit("<end>"), again)),
        "call": c.Ref("odd rule"),
        "odd rule": c.Json(),
        "start_reasoning": seq(c.Text("reasoning"), again),
    }


def test_a_parameter_hides_a_rule_and_backquotes_do_not_mean_it() -> None:
    grammar = read_grammar('@start content = one(json)\none(two) : two `two`\ntwo : "2"')
    assert grammar.rules["one<json>"] == seq(c.Json(), c.Ref("two"))


def test_headers() -> None:
    grammar = read_grammar_file(DATA / "kinds.tg")
    assert grammar.title == "Every construct"
    assert grammar.names == ("all-kinds", "All_Kinds_2")
    assert grammar.models == ("kinds", "kinds-large")
    assert grammar.stops == ("<|end|>", "<|eot|>")
    assert grammar.tokens == ("[CALL]",)
    assert grammar.skips == ("<s>", "<|pad|>")
    assert grammar.joined == ("reasoning", "content")
    assert grammar.anchors == ("<|assistant|>\n",)
    assert grammar.ids == "alnum9"
    assert grammar.mend == "line-feeds"
    assert grammar.facts == {
        "detect": ('template "[CALL]" and "[ARGS]" and not vocab "[NAME]"', 'arch kinds* and vocab "[CALL]"'),
        "rank": ("3",),
        "template": ("assistant turns are {{ content }} # kept",),
        "x-mine": ("kept too # all of it",),
        "note": ("one # two three",),
    }


def test_every_field_of_every_node_is_in_the_sample() -> None:
    """A new field of the algebra has to get its notation."""
    plain = {
        (kind.__name__, field.name): field.default
        for kind in [*get_args(c.Node), c.Grammar, c.Arm]
        for field in structs.fields(kind)
    }
    grammar = read_grammar_file(DATA / "kinds.tg")
    waiting: list[Any] = [grammar, *grammar.rules.values()]
    while waiting:
        node = waiting.pop()
        for field in type(node).__struct_fields__:
            if getattr(node, field) != plain.get((type(node).__name__, field)):
                plain.pop((type(node).__name__, field), None)
        waiting.extend(c.children(node))
        if isinstance(node, c.Choose):
            waiting.extend(node.arms)
    assert not plain


def test_like_states_only_the_difference() -> None:
    base = read_grammar_file(DATA / "tagged.tg")
    loose = read_grammar_file(DATA / "tagged-loose.tg")
    assert (loose.name, loose.title) == ("tagged-loose", "Tagged JSON calls, closers optional")
    assert (loose.names, loose.models) == (("loose_tags",), ())
    assert (loose.stops, loose.tokens) == (("<|done|>",), base.tokens)
    assert (loose.joined, loose.ids, loose.anchors) == (base.joined, base.ids, base.anchors)
    assert loose.facts == {}
    assert loose.starts == {"content": "begin<call>"}
    assert loose.rules["calls"] == base.rules["calls"]
    assert loose.rules["call"] != base.rules["call"]


def test_sources() -> None:
    source = read_source_file(DATA / "tagged.tg")
    assert source.files == (str(DATA / "tagged.tg"), str(DATA / "families" / "think.tg"))
    assert set(source.where) == set(source.grammar.rules)
    where = source.where["begin<call>"]
    assert (Path(where.file).name, where.line, where.column) == ("think.tg", 2, 1)
    assert where.text.startswith("begin(call)")


def test_imports(tmp_path: Path) -> None:
    """Beside the importing file first, then in the folders; one file twice is one file."""
    (tmp_path / "shelf" / "families").mkdir(parents=True)
    (tmp_path / "own").mkdir()
    (tmp_path / "shelf" / "families" / "deep.tg").write_text("deep : content\n")
    (tmp_path / "shelf" / "families" / "wide.tg").write_text('@import deep\nwide : "wide" deep\n')
    (tmp_path / "shelf" / "format.tg").write_text(
        '@import families/deep families/wide\n@stop "other"\n@start content = format\nformat : wide deep\n'
    )
    (tmp_path / "own" / "mine.tg").write_text(
        '\ufeff@import format\n@start content = format\ndeep : "own"\n', encoding="utf-8", newline="\r\n"
    )
    load = folder_loader(tmp_path / "shelf")
    grammar = read_grammar_file(tmp_path / "own" / "mine.tg", loader=load)
    assert grammar.stops == ()
    assert grammar.rules == {
        "format": seq(c.Ref("wide"), c.Ref("deep")),
        "wide": seq(lit("wide"), c.Ref("deep")),
        "deep": lit("own"),
    }


def test_long_arguments_have_short_distinct_names() -> None:
    long = "x" * 80
    grammar = read_grammar(f'@start content = p("{long}a") p("{long}b")\np(x) : x')
    assert sorted(map(len, grammar.rules)) == [13, 51, 52]
    assert {node for name, node in grammar.rules.items() if name[0] == "p"} == {
        lit(long + "a"),
        lit(long + "b"),
    }


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "odd.tg"
    path.write_bytes(b"turn : \xff")
    with pytest.raises(GrammarSyntaxError, match="byte 7 is not UTF-8"):
        read_grammar_file(path)


def test_a_misspelled_replacement_is_not_silent() -> None:
    with pytest.raises(GrammarError) as caught:
        read_grammar("@like tagged\ncal : json\n", file=str(DATA / "x.tg"))
    assert caught.value.message == "rule 'cal' is never used"
    assert caught.value.hint == "was it meant to replace 'call'?"


def test_what_the_language_cannot_say() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        write_grammar(c.Grammar("x", {"turn": many(A, least=2)}, {"content": "turn"}))
    with pytest.raises(ValueError, match="start of a line and of a word"):
        write_grammar(c.Grammar("x", {"turn": c.Lit(("a",), True, True)}, {"content": "turn"}))
