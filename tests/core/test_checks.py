"""Definition-time checks: a grammar that cannot work is refused, each mistake with its own error and message."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolgrammar import Parser, errors
from toolgrammar import combinators as c
from toolgrammar.language import read_grammar
from toolgrammar.machine.compile import compile_grammar

UNMARKED = """\
{what} is followed by something that does not begin with a literal (in rule 'turn')
  hint: let a literal, or the end of the turn, follow"""
EMPTY = """\
the repeated item can be empty (in rule 'turn')
  hint: let the item begin with a marker, or drop the repeat"""
TWICE = """\
two ways to go on begin with '<a>': in {one!r} and in {other!r} (in rule 'turn')
  hint: factor the common marker out, or let '&' tell them apart"""
RECURSION = """\
rule 'turn' refers to itself other than at its end (in rule {rule!r})
  hint: only a reference at the very end of a rule may go back to it"""
REPEATS = """\
/{pattern}/ repeats a repeat and could back-track without bound (in rule 'turn')
  hint: use one repeat of a character class"""
BACK = "/{pattern}/ refers back to a group (in rule 'turn')"
CLASS = """\
/{pattern}/ is not one character class (in rule 'turn')
  hint: write a class such as /[^\\s<>]/"""
OUTSIDE = "a value stands outside call(...) (in rule 'turn')"
NESTED = "a call stands inside a call (in rule 'turn')"
IN_INNER = "a call stands inside a call (in rule 'inner')"
CLOSER = "the closer of a draft must begin with a literal (in rule 'turn')"
NAMELESS = """\
a call has a 'key' but nothing gives it a name (in rule {rule!r})
  hint: read it with 'name', or set it with let(name, "...")"""
PEEK = "what '&' looks for must begin with a literal (in rule 'turn')"

#: Name of the error, rules, whole message. ``turn`` is where content starts.
MISTAKES = [
    # Free text, and everything else that ends where its successor begins, needs a successor that shows.
    ("UnmarkedTextError", 'turn : content name "x"', UNMARKED.format(what="text")),
    ("UnmarkedTextError", "turn : content reasoning", UNMARKED.format(what="text")),
    ("UnmarkedTextError", "turn : content+ \"x\"", UNMARKED.format(what="text")),
    ("UnmarkedTextError", 'turn : content ("x" drop)? name ">"', UNMARKED.format(what="text")),
    ("UnmarkedTextError", 'turn : content choose kind { /a/ -> "x" }', UNMARKED.format(what="text")),
    ("UnmarkedTextError", 'turn : content "<" name content', UNMARKED.format(what="a field")),
    ("UnmarkedTextError", 'turn : content "<" name ws content', UNMARKED.format(what="a field")),
    ("UnmarkedTextError", 'turn : content "<" name key ">"', UNMARKED.format(what="a field")),
    ("UnmarkedTextError", 'turn : content "<" name', UNMARKED.format(what="a field")),
    ("UnmarkedTextError", 'turn : content call("<" name ":" key ">" typed content)',
     UNMARKED.format(what="a value")),
    ("UnmarkedTextError", 'turn : content call("<" name ":" key ">" typed)', UNMARKED.format(what="a value")),
    ("UnmarkedTextError", 'turn : content call("<" verbatim(code) name ">")', UNMARKED.format(what="a value")),
    # A repeat must read something each time.
    ("EmptyRepeatError", "turn : ws*", EMPTY),
    ("EmptyRepeatError", 'turn : content ("a"?)* "b"', EMPTY),
    ("EmptyRepeatError", 'turn : ("a"*)*', EMPTY),
    ("EmptyRepeatError", 'turn : ws+ "b"', EMPTY),
    ("EmptyRepeatError", 'turn : "x" call(ws)* "y"', EMPTY),
    ("EmptyRepeatError", 'turn : may* "b"\nmay : "a"?', EMPTY),
    ("EmptyRepeatError", 'turn : (nl gap("\\n"))* "b"', EMPTY),
    ("EmptyRepeatError", 'turn : (let(kind, "x"))* "y"', EMPTY),
    ("EmptyRepeatError", 'turn : "x" (name(empty, chars: /[a-z]/))* "y"', EMPTY),
    ("EmptyRepeatError", 'turn : "x" (choose kind { /b/ -> "c" ; else -> () })* "y"', EMPTY),
    # What goes on how must be decided by what stands there.
    ("AmbiguityError", 'turn : content ("<a>" "x" | "<a>" "y")', TWICE.format(one="turn", other="turn")),
    ("AmbiguityError", 'turn : content (a | b)\na : "<a>" "x"\nb : "<a>" "y"', TWICE.format(one="a", other="b")),
    ("AmbiguityError", 'turn : content ("<a>" name ">")? "<a>"', TWICE.format(one="turn", other="turn")),
    ("AmbiguityError", 'turn : content ("<a>" name ">")* "<a>"', TWICE.format(one="turn", other="turn")),
    ("AmbiguityError", 'turn : content (call("<a>" name ":" json) | call("<a>" json))',
     TWICE.format(one="turn", other="turn")),
    ("AmbiguityError", 'turn : content (attempt("<a>" envelope) | attempt("<a>" "x"))',
     TWICE.format(one="turn", other="turn")),
    # Recursion is a loop only at the end of a rule.
    ("UnboundedRecursionError", 'turn : turn "a" | "b"', RECURSION.format(rule="turn")),
    ("UnboundedRecursionError", 'turn : "(" turn ")" | "x"', RECURSION.format(rule="turn")),
    ("UnboundedRecursionError", 'turn : "a" b\nb : "b" turn "c" | "d"', RECURSION.format(rule="b")),
    # Patterns of choose: matched against text of the model, so they must not back-track without bound.
    ("BadPatternError", "turn : choose kind { /(?:a+)+/ -> () }", REPEATS.format(pattern="(?:a+)+")),
    ("BadPatternError", "turn : choose kind { /(a*)*b/ -> () }", REPEATS.format(pattern="(a*)*b")),
    ("BadPatternError", "turn : choose kind { /(?:x|a+){2,}/ -> () }", REPEATS.format(pattern="(?:x|a+){2,}")),
    ("BadPatternError", "turn : choose kind { /(?:a{1,3})+/ -> () }", REPEATS.format(pattern="(?:a{1,3})+")),
    ("BadPatternError", "turn : choose kind { /(?:a|a)*b/ -> () }", REPEATS.format(pattern="(?:a|a)*b")),
    ("BadPatternError", "turn : choose kind { /(?=(a+)+b).*/ -> () }", REPEATS.format(pattern="(?=(a+)+b).*")),
    ("BadPatternError", "turn : choose kind { /(?!(a+)+b).*/ -> () }", REPEATS.format(pattern="(?!(a+)+b).*")),
    ("BadPatternError", "turn : choose kind { /(?:,[^b]*)+/ -> () }", REPEATS.format(pattern="(?:,[^b]*)+")),
    ("BadPatternError", "turn : choose kind { /(?:,a*|,b)+/ -> () }", REPEATS.format(pattern="(?:,a*|,b)+")),
    ("BadPatternError", r"turn : choose kind { /(a)\1/ -> () }", BACK.format(pattern=r"(a)\1")),
    ("BadPatternError", "turn : choose kind { /(?P<q>a)(?P=q)/ -> () }", BACK.format(pattern="(?P<q>a)(?P=q)")),
    ("BadPatternError", "turn : choose kind { /(a)?(?(1)b|c)/ -> () }", BACK.format(pattern="(a)?(?(1)b|c)")),
    # The characters of a field are one class.
    ("BadPatternError", 'turn : name(chars: /[a-z]+/) ">"', CLASS.format(pattern="[a-z]+")),
    ("BadPatternError", 'turn : name(chars: /ab/) ">"', CLASS.format(pattern="ab")),
    ("BadPatternError", 'turn : name(chars: /([a-z])/) ">"', CLASS.format(pattern="([a-z])")),
    ("BadPatternError", 'turn : name(chars: /^/) ">"', CLASS.format(pattern="^")),
    # Values belong to a call.
    ("MisplacedNodeError", 'turn : content "<" name ">" json', OUTSIDE),
    ("MisplacedNodeError", 'turn : content "<" key ">" typed ">"', OUTSIDE),
    ("MisplacedNodeError", 'turn : content "<" name "(" pyargs', OUTSIDE),
    ("MisplacedNodeError", 'turn : content "<" name quoted("|")', OUTSIDE),
    ("MisplacedNodeError", 'turn : content "<" verbatim(code) ">"', OUTSIDE),
    ("MisplacedNodeError", 'turn : content call("<" name ">" json) json', OUTSIDE),
    # A call has a name.
    ("GrammarError", 'turn : content call("<" key ">" typed "</>")', NAMELESS.format(rule="turn")),
    ("GrammarError", 'turn : content call("<" arg)\narg : key ">" typed "</>" ("<" arg)?',
     NAMELESS.format(rule="turn")),
    ("GrammarError", 'turn : content (call("<" key ">" typed "</>") | call("[" name "]" json))',
     NAMELESS.format(rule="turn")),
    # Calls do not nest.
    ("MisplacedNodeError", 'turn : content call("<" call("x" name ">" json) ">")', NESTED),
    ("MisplacedNodeError", 'turn : content call("<" name ">" inner)\ninner : "x" call(json)', IN_INNER),
    # '&' looks for something that shows, and so does a draft for the end of reasoning.
    ("MisplacedNodeError", 'turn : reasoning draft("<c>", closer: content)', CLOSER),
    ("MisplacedNodeError", 'turn : reasoning draft("<c>", closer: ws name ">")', CLOSER),
    ("MisplacedNodeError", 'turn : content "<a>" &(content)', PEEK),
    ("MisplacedNodeError", 'turn : content "<a>" &(name)', PEEK),
    ("MisplacedNodeError", 'turn : content "<a>" &(ws)', PEEK),
    ("MisplacedNodeError", 'turn : content "<a>" &("x"?) "b"', PEEK),
    ("MisplacedNodeError", "turn : &(())", PEEK),
]  # fmt: skip


def grammar(rules: str) -> c.Grammar:
    return read_grammar(f"@start content = turn\n{rules}\n")


@pytest.mark.parametrize(("kind", "rules", "message"), MISTAKES)
def test_message(kind: str, rules: str, message: str) -> None:
    with pytest.raises(errors.GrammarError) as caught:
        compile_grammar(grammar(rules))
    assert type(caught.value) is getattr(errors, kind)
    assert str(caught.value) == message


#: What the language refuses itself, built from nodes here: kind, turn, message.
NODES = [
    ("GrammarError", c.lit(""), "an empty literal would match everywhere (in rule 'turn')"),
    ("GrammarError", c.lit(), "an empty literal would match everywhere (in rule 'turn')"),
    ("GrammarError", c.seq(c.content, c.lit("a", "")), "an empty literal would match everywhere (in rule 'turn')"),
    ("GrammarError", c.Call(c.seq(c.Field("name"), c.lit(":"), c.Elements(""))),
     "elements need a prefix in front of their tags (in rule 'turn')"),
    ("GrammarError", c.seq(c.lit("<"), c.Field("name", limit=0), c.lit(">")),
     "a field of at most 0 characters holds nothing (in rule 'turn')"),
    ("UnknownRuleError", c.seq(c.content, c.opt(c.Ref("call"))), "no rule named 'call' (in rule 'turn')"),
    ("BadPatternError", c.Field("name", chars="[a"),
     "/[a/ is not a regular expression: unterminated character set at position 0 (in rule 'turn')"),
    ("BadPatternError", c.Choose("kind", (c.Arm("(x", c.content),)),
     "/(x/ is not a regular expression: missing ), unterminated subpattern at position 0 (in rule 'turn')"),
    ("BadPatternError", c.Choose("kind", (c.Arm("*", c.content),)),
     "/*/ is not a regular expression: nothing to repeat at position 0 (in rule 'turn')"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "turn", "message"), NODES)
def test_message_for_nodes(kind: str, turn: c.Node, message: str) -> None:
    with pytest.raises(errors.GrammarError) as caught:
        compile_grammar(c.Grammar("mine", {"turn": turn}, {"content": "turn"}))
    assert type(caught.value) is getattr(errors, kind)
    assert str(caught.value) == message


def test_content_must_start_somewhere() -> None:
    with pytest.raises(errors.GrammarError) as caught:
        compile_grammar(c.Grammar("mine", {"turn": c.content}, {"reasoning": "turn"}))
    assert type(caught.value) is errors.GrammarError
    assert str(caught.value) == (
        "grammar 'mine' does not say where content starts\n  hint: add '@start content = RULE'"
    )


def test_a_start_needs_its_rule() -> None:
    with pytest.raises(errors.UnknownRuleError) as caught:
        compile_grammar(c.Grammar("mine", {"turn": c.content}, {"content": "turn", "reasoning": "thought"}))
    assert str(caught.value) == "no rule named 'thought' (in rule 'thought')"


def test_every_error_of_a_grammar_is_provoked() -> None:
    kinds = {kind for kind, *_ in (*MISTAKES, *NODES)}
    theirs = {"GrammarSyntaxError"}  # tests/language/test_mistakes.py
    assert kinds | theirs == {
        name for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, errors.GrammarError)
    }  # fmt: skip


#: Each is a neighbour of a mistake above, and right.
RIGHT = [
    'turn : content "<" name ">" content',
    "turn : content ws",
    'turn : content ("x" drop)?',
    'turn : content call("<" name ":" key ">" typed "</>")',
    'turn : content call("<" arg)\narg : key ">" let(name, "run") typed "</>"',
    'turn : content "<" name ":" call(key ">" typed "</>")',
    'turn : "<" key ">" choose key { /(?P<name>\\w+)/ -> call(key ">" typed "</>") }',
    'turn : "<" kind ">" choose kind { /a/ when sole -> call(key ">" typed "</>") ; else -> () }',
    'turn : content call("<" verbatim(code))',
    'turn : content "<" name(chars: /[a-z]/) content',
    'turn : (ws "a")* "b"',
    'turn : content "<a>" ("x" | "y")',
    'turn : content ("<a>" &("x") "x" | "<a>" &("y") "y")',
    'turn : content (bol "<a>" "x" | "<a>" "y")',
    'turn : content ("<a>" turn)?',
    "turn : choose kind { /a+b+/ -> () }",
    "turn : choose kind { /(?:a{3})+/ -> () }",
    "turn : choose kind { /(?:,[^,]*)+/ -> () }",
    r"turn : choose kind { /\w+(?:\.\w+){0,16}/ -> () }",
    'turn : "x" (name(chars: /[a-z]/) ",")* "y"',
    'turn : ("a" let(kind, "x"))* "b"',
    'turn : content (call("<a>" name ":" json) | call("<b>" json))',
    'turn : reasoning draft("<c>", closer: nl "</t>" nl)',
    'turn : content "<a>" &(ws "<b>") "x"',
    'turn : content "<" name ">" call(json)',
]


@pytest.mark.parametrize("rules", RIGHT)
def test_what_is_right_compiles(rules: str) -> None:
    compile_grammar(grammar(rules))


def test_an_error_of_a_file_shows_its_place(tmp_path: Path) -> None:
    file = tmp_path / "mine.tg"
    file.write_text("@start content = turn\n\nturn : content reasoning\n", encoding="utf-8")
    with pytest.raises(errors.UnmarkedTextError) as caught:
        Parser(grammar=file)
    assert (
        str(caught.value)
        == f"""\
text is followed by something that does not begin with a literal (in rule 'turn')
  {file}:3:1
    turn : content reasoning
    ^
  hint: let a literal, or the end of the turn, follow"""
    )


# ---- known faults: each turns into a failure of this file when it is mended -----------------------------------


#: Error that is expected, rules, what happens instead.
FAULTS = [
    ("AmbiguityError", 'turn : content ("<a>" "b" | gap("-") "<a>" "c")', "'x-<a>c': second arm never read"),
    ("AmbiguityError", 'turn : "x" (name ">" | key "<")', "'xa<': second arm never read"),
]


@pytest.mark.xfail(strict=True, raises=pytest.fail.Exception, reason="no such check yet")
@pytest.mark.parametrize(("kind", "rules", "instead"), FAULTS)
def test_mistakes_that_are_not_seen(kind: str, rules: str, instead: str) -> None:
    with pytest.raises(getattr(errors, kind)):
        compile_grammar(grammar(rules))
