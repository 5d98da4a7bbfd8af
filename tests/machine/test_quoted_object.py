"""``QuotedObject``: tables of whole objects in both notations, then properties over a small renderer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from machine.scanning import every, feed, feed_trimmed, whole

from toolgrammar.machine.quoted_object import QuotedObject
from toolgrammar.machine.safe_text import SafeText
from toolgrammar.machine.scanner import DONE, FLAW, MORE

Q = '<|"|>'
ENDS = SafeText(("<tool_call|>",))
BREAKS = SafeText(("<|tool_call>",))
SCHEMA = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "n": {"type": ["string", "null"]},
        "m": {"type": "string", "nullable": True},
        "i": {"type": "integer"},
        "u": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "b": {"type": "boolean"},
        "e": {"enum": ["1", 2]},
        "x": {},
        "list": {"type": "array", "items": {"type": "string"}},
        "o": {
            "type": "object",
            "properties": {"s": {"type": "string"}},
            "additionalProperties": {"type": "integer"},
        },
        "r": {"$ref": "#/$defs/Code"},
    },
    "$defs": {"Code": {"type": "string"}},
}


def gemma(schema: Any = None) -> QuotedObject:
    return QuotedObject(Q, ENDS, schema, BREAKS)


WHOLE = [
    ("{}", "{}"),
    ("{ \n}", "{}"),
    (f"{{hive:{Q}North 3{Q},frames:8}}", '{"hive": "North 3", "frames": 8}'),
    (
        f"{{frames:-2,hive:{Q}Ö/4{Q},mood:null,notes:[{Q}calm{Q},{Q}a, b{Q}],queen_seen:true,"
        f"site:{{label:{Q}east{Q},lat:59.5,row:0}},weight_kg:31.75}}",
        '{"frames": -2, "hive": "Ö/4", "mood": null, "notes": ["calm", "a, b"], "queen_seen": true, '
        '"site": {"label": "east", "lat": 59.5, "row": 0}, "weight_kg": 31.75}',
    ),
    (
        f"{{composer:{Q}a{{b}}, c:[d] \"e\" 'f' \\n\ng <h>{Q},opus:{Q}{Q}}}",
        '{"composer": "a{b}, c:[d] \\"e\\" \'f\' \\\\n\\ng <h>", "opus": ""}',
    ),
    (f"{{a:{Q}<tool_call|><|tool_call>{Q}}}", '{"a": "<tool_call|><|tool_call>"}'),
    (f"{{a:{Q}<|{Q}}}", '{"a": "<|"}'),
    (
        f"{{level:42,on:true,off:false,hint:none,a:None,b:nil,c:null,s:{Q}42{Q}}}",
        '{"level": 42, "on": true, "off": false, "hint": null, "a": null, "b": null, "c": null, "s": "42"}',
    ),
    (
        "{a:1e3,b:3.0,c:-0.5E-2,d:0042,e:+5,f:.5}",
        '{"a": 1e3, "b": 3.0, "c": -0.5E-2, "d": "0042", "e": "+5", "f": ".5"}',
    ),
    ("{a:" + "9" * 5000 + "}", '{"a": ' + "9" * 5000 + "}"),
    (
        "{a: some text ,b:12:30,c:x=y,d:<b>(x),e:True}",
        '{"a": "some text", "b": "12:30", "c": "x=y", "d": "<b>(x)", "e": "True"}',
    ),
    ("{\n a : 1 ,\n b : [ 1 , { c : 2 } ] \n}", '{"a": 1, "b": [1, {"c": 2}]}'),
    ("{a:1,b:[1,2,],c:{d:1,},}", '{"a": 1, "b": [1, 2], "c": {"d": 1}}'),
    ("{a:[],b:{},c:[[],[{}]]}", '{"a": [], "b": {}, "c": [[], [{}]]}'),
    (f"{{{Q}a:b{Q}:1,{Q} c {Q} :{{{Q}}}{Q}:2}}}}", '{"a:b": 1, " c ": {"}": 2}}'),
    (f"{{{Q}<tool_call|>{Q}:1}}", '{"<tool_call|>": 1}'),
    ('{a"b:c"d}', '{"a\\"b": "c\\"d"}'),
    ("{two words:1,a-b.c:2,天気:3}", '{"two words": 1, "a-b.c": 2, "天気": 3}'),
    ("{a:1,a:2}", '{"a": 1, "a": 2}'),
    # parentheses
    ("()", "{}"),
    (f"(a=1, b:{Q}x{Q} , c = [x), 2], d={{e=f)}},)", '{"a": 1, "b": "x", "c": ["x)", 2], "d": {"e": "f)"}}'),
    ("(a:some text)", '{"a": "some text"}'),
]

CLOSED_BY_MARKER = [
    ("{a:1<tool_call|>", '{"a": 1}'),
    ("{a:1 , <tool_call|>", '{"a": 1}'),
    ("{<tool_call|>", "{}"),
    (f"{{a:{Q}x{Q}\n<tool_call|>", '{"a": "x"}'),
    ("{a:[1]<tool_call|>", '{"a": [1]}'),
    ("(a=text<tool_call|>", '{"a": "text"}'),
]

FLAWS = [
    # input, text, what is left
    ("[1]", "", "[1]"),
    (f"{{zone:{Q}nave{Q},level:<tool_call|>", '{"zone": "nave", "level": ', "<tool_call|>"),
    ("{a:,b:1}", '{"a": ', ",b:1}"),
    ("{a:}", '{"a": ', "}"),
    ("{a:1,,b:2}", '{"a": 1', ",,b:2}"),
    ("{,}", "{", ",}"),
    ("{:1}", "{", ":1}"),
    ("{a:1,b}", '{"a": 1', ",b}"),
    ("{a:1, b{c:1}}", '{"a": 1', ", b{c:1}}"),
    (f"{{a:{Q}x{Q} y,b:1}}", '{"a": "x"', "y,b:1}"),
    (f"{{a:{Q}x{Q}{Q}y{Q}}}", '{"a": "x"', f"{Q}y{Q}}}"),
    (f"{{a:x{Q}y{Q}}}", '{"a": ', f"x{Q}y{Q}}}"),
    ("{a:x[1]}", '{"a": ', "x[1]}"),
    ("{a:1]", '{"a": ', "1]"),
    ("{a:[1}", '{"a": [', "1}"),
    ("{a:[1,2}", '{"a": [1', ",2}"),
    ("{a:[,1]}", '{"a": [', ",1]}"),
    ("{a:{b:1]", '{"a": {"b": ', "1]"),
    ("{a:{b:1<tool_call|>", '{"a": {"b": 1', "<tool_call|>"),
    ("{a:[1,<tool_call|>", '{"a": [1', ",<tool_call|>"),
    ("{a:1,b<tool_call|>", '{"a": 1', ",b<tool_call|>"),
    ("{a:1<|tool_call>", '{"a": 1', "<|tool_call>"),
    (f"{{{Q}a{Q} 1}}", "{", f"{Q}a{Q} 1}}"),
    ("{a=1}", "{", "a=1}"),
    ("(a=)", '{"a": ', ")"),
    ("(a=1}", '{"a": ', "1}"),
    ("{" + "k" * 5000 + ":1}", "{", "k" * 5000 + ":1}"),
    (f"{{a:1,{Q}{'k' * 5000}{Q}:1}}", '{"a": 1', f",{Q}{'k' * 5000}{Q}:1}}"),
]

CUT = [
    ("", ""),
    ("{", "{"),
    ("{fra", "{"),
    ("{frames", "{"),
    ("{frames:", '{"frames": '),
    ("{frames:8", '{"frames": '),
    ("{frames:8,", '{"frames": 8'),
    ("{frames:8,hi", '{"frames": 8'),
    (f'{{frames:8,hive:{Q}North "A" si', '{"frames": 8, "hive": "North \\"A\\" si'),
    (f"{{hive:{Q}North<|", '{"hive": "North'),
    ("{hive:<|", '{"hive": '),
    ("{a:[1", '{"a": ['),
    ("{a:[1,", '{"a": [1'),
    ("{a:[1,[", '{"a": [1, ['),
    (f"{{{Q}a", "{"),
    (f"{{{Q}a{Q}", "{"),
    ("{a:1 <tool", '{"a": '),
    (f"{{a:{Q}x{Q}<tool", '{"a": "x"'),
]

TYPED = [
    ("s:0042", '"0042"'),
    ("s:true", '"true"'),
    ("s:null", '"null"'),
    ("n:null", "null"),
    ("n:None", "null"),
    ("n:nil", "null"),
    ("n:42", '"42"'),
    ("m:null", "null"),
    ("m:0042", '"0042"'),
    ("i:5", "5"),
    ("i:5.0", "5.0"),
    ("i:some", '"some"'),
    (f"i:{Q}2{Q}", '"2"'),
    ("u:42", "42"),
    ("u:0042", '"0042"'),
    ("b:true", "true"),
    ("b:True", "true"),
    ("e:1", '"1"'),
    ("e:2", "2"),
    ("x:0042", '"0042"'),
    ("x:42", "42"),
    ("list:[1,two]", '["1", "two"]'),
    ("o:{s:1,t:1,u:x}", '{"s": "1", "t": 1, "u": "x"}'),
    ("r:0042", '"0042"'),
    ("y:{s:1}", '{"s": 1}'),
]


@pytest.mark.parametrize(("source", "text"), WHOLE)
@pytest.mark.parametrize("quote", [Q, "<escape>", '"""', "'"])
def test_whole(source: str, text: str, quote: str) -> None:
    if quote[0] in source.replace(Q, "") and quote not in (Q, "<escape>"):
        return  # data here, a delimiter there
    source = source.replace(Q, quote)
    assert whole(QuotedObject(quote, ENDS), source + "}x") == (text, DONE, len(source), [])
    json.loads(text, parse_int=str)


@pytest.mark.parametrize(("source", "text"), CLOSED_BY_MARKER)
def test_end_marker_closes_the_outermost_bracket(source: str, text: str) -> None:
    at = source.index("<tool_call|>")
    assert whole(gemma(), source) == (text, DONE, at, ["W214"])
    assert feed(gemma(), source, every(1, source)) == (text, DONE, at, ["W214"])


def test_the_note_spans_the_marker() -> None:
    scanner = gemma()
    scanner.scan("{a:1 <tool_call|>.", 0, 18, False)
    assert scanner.notes == [("W214", 5, 17)]


@pytest.mark.parametrize(("source", "text", "rest"), FLAWS)
def test_flaws(source: str, text: str, rest: str) -> None:
    out, status, pos, _ = whole(gemma(), source)
    assert (out, status, source[pos:]) == (text, FLAW, rest)


@pytest.mark.parametrize(("source", "text"), CUT)
def test_cut_input_shows_what_is_sound(source: str, text: str) -> None:
    out, status, _, _ = whole(gemma(), source)
    assert (out, status) == (text, MORE)


@pytest.mark.parametrize(("source", "text"), TYPED)
def test_schema_types_bare_text(source: str, text: str) -> None:
    key = source.split(":")[0]
    assert whole(gemma(SCHEMA), f"{{{source}}}")[0] == f'{{"{key}": {text}}}'


@pytest.mark.parametrize("schema", [7, "x", [], {"properties": 3}, {"properties": {"a": 5}}, {"$ref": "#"}, True])
def test_no_schema_is_an_error(schema: Any) -> None:
    assert whole(gemma(schema), "{a:{b:[1,x]}}")[0] == '{"a": {"b": [1, "x"]}}'


# Properties. The alphabet holds what the notation is made of.

MARKS = r"""{ } [ ] ( ) : = , a b: 1 true null key: s: <| < |> \ " é <tool_call|> <tool <|tool_call>"""
JUNK = st.lists(
    st.sampled_from([" ", "\n", "x y", Q, Q, *MARKS.split()]),
    max_size=30,
).map(lambda pieces: "{" + "".join(pieces))


@given(JUNK, st.data())
@example(f"{{s:1,x:{Q}a<|b{Q},{Q}k{Q}:[none, 12 ,<b>],o:{{s:x}} <tool_call|>", None)
def test_any_cut_gives_the_same(source: str, data: Any) -> None:
    for text in (source, "(" + source[1:]):
        expected = whole(gemma(SCHEMA), text)
        if data is not None:
            ends = [*sorted(data.draw(st.sets(st.integers(0, len(text))))), len(text)]
            assert feed(gemma(SCHEMA), text, ends) == expected
            assert feed_trimmed(gemma(SCHEMA), text, ends) == expected
        for step in (1, 4):
            assert feed(gemma(SCHEMA), text, every(step, text)) == expected
            assert feed_trimmed(gemma(SCHEMA), text, every(step, text)) == expected


@given(JUNK)
def test_every_prefix_gives_a_prefix(source: str) -> None:
    text = whole(gemma(), source)[0]
    for end in range(len(source)):
        assert text.startswith(whole(gemma(), source[:end])[0])


@given(st.text())
def test_anything_may_come(source: str) -> None:
    for text in (source, "{" + source, "{a:" + source, f"{{a:{Q}" + source):
        whole(gemma(SCHEMA), text)


def render(value: Any, quote: str) -> str:
    """The notation of ``value``; keys are quoted where they must be."""
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, dict):
        plain = {key: key.isalnum() or key == "_" for key in value}
        pairs = [f"{key if plain[key] else render(key, quote)}:{render(value[key], quote)}" for key in value]
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(render(item, quote) for item in value) + "]"
    return "None" if value is None else json.dumps(value)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.text('<|">escap{}:,\\', max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def contains(value: Any, quote: str) -> bool:
    """Whether a string holds the delimiter, or joins one with the delimiter behind it."""
    if isinstance(value, str):
        return quote in value or f"{value}{quote}".find(quote) != len(value)
    if isinstance(value, dict):
        return any(contains(key, quote) or contains(item, quote) for key, item in value.items())
    return isinstance(value, list) and any(contains(item, quote) for item in value)


@given(st.dictionaries(TEXTS, JSON, max_size=5), st.sampled_from([Q, "<escape>"]), st.integers(1, 7))
def test_rendered_values_come_back(value: dict[str, Any], quote: str, step: int) -> None:
    if contains(value, quote):
        return
    source = render(value, quote)
    text, status, pos, codes = feed(QuotedObject(quote, ENDS), source, every(step, source))
    assert (status, pos, codes) == (DONE, len(source), [])
    assert json.loads(text) == value
    assert text == json.dumps(value, ensure_ascii=False)


SIZE = 100_000
HOSTILE = [
    *("{a:" + char * SIZE for char in "([{<|\"' x19,:"),
    *(f"{{a:{Q}" + char * SIZE for char in "([{<|\"' x\\"),
    *("{a:" + pair * (SIZE // len(pair)) for pair in ('<|"', "[<", "{a:", "[1,", "<tool_call", Q)),
    *(f"{{a:{Q}" + pair * (SIZE // len(pair)) for pair in ('<|"', '<|"|', "<tool_call|>")),
    "{" + "k" * SIZE,
    "{k" + " " * SIZE,
    f"{{{Q}" + "k" * SIZE,
    "{" + "a:1," * (SIZE // 4),
    "{s:" + "[" * SIZE + "]" * SIZE + "}",
]


@pytest.mark.parametrize("source", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_input_in_small_pieces_ends(source: str) -> None:
    expected = whole(gemma(SCHEMA), source)
    assert feed(gemma(SCHEMA), source, every(4, source)) == expected
