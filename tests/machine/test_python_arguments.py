"""``PythonArguments`` and ``PythonValue``: tables first, then properties against Python's own parser."""

from __future__ import annotations

import ast
import json
import pprint
import re
import unicodedata
import warnings
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from machine import scanning
from machine.scanning import every

from toolgrammar.machine.python_arguments import PythonArguments, PythonValue
from toolgrammar.machine.scanner import DONE, FLAW, MORE, Scanner

Result = tuple[str, int, int]  # text, status, position


def feed(scanner: Any, text: str, ends: list[int]) -> Result:
    """Scan ``text`` in pieces that end at ``ends``; Python's notation has no notes."""
    said, status, at, notes = scanning.feed(scanner, text, ends)
    assert not notes
    return said, status, at


def feed_trimmed(scanner: Any, text: str, ends: list[int]) -> Result:
    """The same, as a machine does it."""
    said, status, at, notes = scanning.feed_trimmed(scanner, text, ends)
    assert not notes
    return said, status, at


def whole(scanner: Scanner, text: str) -> Result:
    return feed(scanner, text, [len(text)])


def is_text(key: str) -> bool:
    return key.startswith("s")


VALUES = [
    # strings: quote styles, prefixes, escapes, joining
    (r"'it''s'", "its"),
    ("\"say 'hi'\"", "say 'hi'"),
    ("''", ""),
    ("''''''", ""),
    ("'''a'b''c'''", "a'b''c"),
    ('"""a"b""c\n"""', 'a"b""c\n'),
    ("'raw\nbreak\ttab'", "raw\nbreak\ttab"),
    (r"'\\ \' \" \a\b\f\n\r\t\v'", "\\ ' \" \a\b\f\n\r\t\v"),
    (r"'\101\0\7x\x41\u00e9\U0001f680'", "A\0\7xAé🚀"),
    (r"'\ud83d\ude80'", "🚀"),
    (r"'\ud83d' '\ude80'", "🚀"),
    (r"'\ud83dx'", "\ud83dx"),
    (r"'\N{BULLET}\N{no such name}'", "•\\N{no such name}"),
    (r"'\q \x4 \u12 \U00110000'", r"\q \x4 \u12 \U00110000"),
    ("'a\\\nb\\\r\nc'", "abc"),
    (r"r'\n\'' ", r"\n\'"),
    (r"R'\\'", r"\\"),
    (r"u'\n'", "\n"),
    ("f'a{{b}}c}'", "a{b}c}"),
    (r"rf'\n{{'", r"\n{"),
    ("'a' \"b\"\n'''c''' r'd'", "abcd"),
    # numbers and words
    ("12", 12),
    ("1_000", 1000),
    ("0x1F", 31),
    ("0o17", 15),
    ("0b101", 5),
    ("-0xff", -255),
    ("07", 7),
    ("00", 0),
    ("+3", 3),
    ("-3", -3),
    ("-0", 0),
    ("-0.0", -0.0),
    ("1.5", 1.5),
    (".5", 0.5),
    ("-.5", -0.5),
    ("-2.", -2.0),
    ("1e3", 1000.0),
    ("2.E+1", 20.0),
    ("123456789012345678901234567890", 123456789012345678901234567890),
    ("0x" + "f" * 40, int("f" * 40, 16)),
    ("True", True),
    ("true", True),
    ("False", False),
    ("false", False),
    ("None", None),
    ("null", None),
    # containers
    ("[]", []),
    ("()", []),
    ("{}", {}),
    ("[1, 'a', [2.5, None], ]", [1, "a", [2.5, None]]),
    ("(1)", 1),
    ("(1,)", [1]),
    ("(1, 2)", [1, 2]),
    ("((1, 2), ((3)))", [[1, 2], 3]),
    ("('long ' \n 'text')", "long text"),
    ("([1],)", [[1]]),
    ("{1}", [1]),
    ("{1, 'b', }", [1, "b"]),
    ("{'k': {'n': []}, \"m\": ()}", {"k": {"n": []}, "m": []}),
    ("{1: 2, True: 3, None: 4, 1.5: 5, -1: 6}", {"1": 2, "true": 3, "null": 4, "1.5": 5, "-1": 6}),
    ("{(1, 'a'): 2, ('b'): 3}", {'[1, "a"]': 2, "b": 3}),
    ("{(1, 2), (3,)}", [[1, 2], [3]]),
    ("{'a' 'b': 1, r'\\c': 2}", {"ab": 1, "\\c": 2}),
    ("{lat=1, Ort='x'}", {"lat": 1, "Ort": "x"}),
    ("{'a': 1, b=2}", {"a": 1, "b": 2}),
]

ARGUMENTS = [
    (")", "{}"),
    (" \n)", "{}"),
    ("zone='nave', level=3)", '{"zone": "nave", "level": 3}'),
    ("zone = 'nave' ,\n level = 3 ,\n)", '{"zone": "nave", "level": 3}'),
    ("from='a', class=1, 作物='麦')", '{"from": "a", "class": 1, "作物": "麦"}'),
    ("a=1, a=2)", '{"a": 1, "a": 2}'),
    ("**{'a': 1, 'b': 'x'}, c=2)", '{"a": 1, "b": "x", "c": 2}'),
    ("c=2, **{'a': 1}, **{}, ** {'b': 3,},)", '{"c": 2, "a": 1, "b": 3}'),
    ("**{}, **{}, a=1)", '{"a": 1}'),
    ("**{})", "{}"),
    ("t=(1), u=('a' 'b'), v=('a',))", '{"t": 1, "u": "ab", "v": ["a"]}'),
    ("t=\"a[0] = f(x), g(y)] # 'quoted'\")", '{"t": "a[0] = f(x), g(y)] # \'quoted\'"}'),
    ("t=r'C:\\x')", r'{"t": "C:\\x"}'),
    # unquoted strings, where the schema says string
    ("sa=Oslo, b=1)", '{"sa": "Oslo", "b": 1}'),
    ("sa=New York (NY, USA) )", '{"sa": "New York (NY, USA)"}'),
    (
        'sa=07:40, sb=/tmp/x, sc=it\'s "so")',
        r'{"sa": "07:40", "sb": "/tmp/x", "sc": "it' + r"'s \"so\"" + '"}',
    ),
    ("sa=5, sb=None, sc='x', sd=[1])", '{"sa": 5, "sb": null, "sc": "x", "sd": [1]}'),
]

FLAWS = [
    # input, text, what is left
    ("zone='nave', 3), scan()]", '{"zone": "nave"', ", 3), scan()]"),
    ("zone='nave' , 3)", '{"zone": "nave"', ", 3)"),
    ("3)", "", "3)"),
    ("'x')", "", "'x')"),
    ("x)", "", "x)"),
    ("x, y=1)", "", "x, y=1)"),
    (",)", "", ",)"),
    ("*a)", "", "*a)"),
    ("**a)", "{", "**a)"),
    ("a=1, **b)", '{"a": 1', ", **b)"),
    ("level=</function_calls>", '{"level": ', "</function_calls>"),
    ("level=)", '{"level": ', ")"),
    ("level=,", '{"level": ', ","),
    ("city=Oslo)", '{"city": ', "Oslo)"),
    ("sa=Oslo</x>", '{"sa": ', "Oslo</x>"),
    ("sa=Oslo])", '{"sa": ', "Oslo])"),
    ("a=b'x')", '{"a": ', "b'x')"),
    ("sa=b'x')", '{"sa": ', "b'x')"),
    ("a='x' b'y')", '{"a": "x"', "b'y')"),
    ("a='x' y)", '{"a": "x"', "y)"),
    ("a='x'</end>", '{"a": "x"', "</end>"),
    ("a=f'n {x}')", '{"a": "n ', "{x}')"),
    ("a=1 - 2)", '{"a": ', "1 - 2)"),
    ("a=1j)", '{"a": ', "1j)"),
    ("a=1.2.3)", '{"a": ', "1.2.3)"),
    ("a=0x)", '{"a": ', "0x)"),
    ("a=[1, 2 3])", '{"a": [1', ", 2 3])"),
    ("a=[1,, 2])", '{"a": [1', ",, 2])"),
    ("a=[,])", '{"a": [', ",])"),
    ("a=[x])", '{"a": [', "x])"),
    ("a=[1})", '{"a": [', "1})"),
    ("a=[[]})", '{"a": [[]', "})"),
    ("a={'k': 1, 2})", '{"a": {"k": 1', ", 2})"),
    ("a={'k': 1, [2]: 3})", '{"a": {"k": 1', ", [2]: 3})"),
    ("a={'k' 1})", '{"a": ', "{'k' 1})"),
    ("a={[1]})", '{"a": ', "{[1]})"),
    ("a={x: 1})", '{"a": ', "{x: 1})"),
    ("a={1, x})", '{"a": [1', ", x})"),
    ("a=('x' y))", '{"a": ', "('x' y))"),
    ("**{1})", "{", "1})"),
    ("b=0, **{'a': 1, 2})", '{"b": 0, "a": 1', ", 2})"),
    ("a=0x" + "1" * 5000 + ")", '{"a": ', "0x" + "1" * 5000 + ")"),
    ("k" * 5000 + "=1)", "", "k" * 5000 + "=1)"),
    ("a={'" + "k" * 5000 + "': 1})", '{"a": ', "{'" + "k" * 5000 + "': 1})"),
    ("sa=x" + "y" * 5000 + ")", '{"sa": ', "x" + "y" * 5000 + ")"),
]

CUT = [
    ("", ""),
    ("lev", ""),
    ("level", ""),
    ("level=", '{"level": '),
    ("level=3", '{"level": '),
    ("level=3 ", '{"level": '),
    ("level=3, zone", '{"level": 3'),
    ("level=3, **", '{"level": 3'),
    ("**", "{"),
    ("a='", '{"a": "'),
    ("a='x", '{"a": "x'),
    ("a='x'", '{"a": "x'),
    ("a='x' ", '{"a": "x'),
    ("a='x' r", '{"a": "x'),
    ("a='x\\", '{"a": "x'),
    ("a='x\\u00", '{"a": "x'),
    ("a='x\\ud83d", '{"a": "x'),
    ("a='x\\ud83d\\ude", '{"a": "x'),
    ("a='x\\1", '{"a": "x'),
    ("a='''x''", '{"a": "x'),
    ("a=[1, 2", '{"a": [1'),
    ("a=[1, 'x", '{"a": [1, "x'),
    ("a=[1, [", '{"a": [1, ['),
    ("a={", '{"a": '),
    ("a={'k'", '{"a": '),
    ("a={'k':", '{"a": {"k": '),
    ("a={'k': 'v', 'l'", '{"a": {"k": "v"'),
    ("a=(", '{"a": '),
    ("a=('x'", '{"a": '),
    ("a=('x',", '{"a": ["x"'),
    ("a=f'x{", '{"a": "x'),
    ("sa=Oslo", '{"sa": '),
    ("a=Tr", '{"a": '),
]


@pytest.mark.parametrize(("source", "value"), VALUES)
def test_values(source: str, value: Any) -> None:
    text, status, pos = whole(PythonValue(), source + " ]")
    assert (status, json.loads(text)) == (DONE, value)
    assert type(json.loads(text)) is type(value)
    assert pos == len(source.rstrip())
    assert whole(PythonArguments(), f"v={source})") == (f'{{"v": {text}}}', DONE, len(source) + 3)


@pytest.mark.parametrize(("source", "text"), ARGUMENTS)
def test_arguments(source: str, text: str) -> None:
    scanner = PythonArguments(is_text)
    assert whole(scanner, source + ", more") == (text, DONE, len(source))
    assert scanner.confirmed
    json.loads(text)


@pytest.mark.parametrize(("source", "text", "rest"), FLAWS)
def test_flaws(source: str, text: str, rest: str) -> None:
    out, status, pos = whole(PythonArguments(is_text), source)
    assert (out, status, source[pos:]) == (text, FLAW, rest)


@pytest.mark.parametrize(("source", "text"), CUT)
def test_cut_input_shows_what_is_sound(source: str, text: str) -> None:
    out, status, _ = whole(PythonArguments(is_text), source)
    assert (out, status) == (text, MORE)


@pytest.mark.parametrize(
    ("source", "confirmed"),
    [
        ("", False),
        ("a", False),
        ("a ", False),
        ("a=", True),
        (")", True),
        ("*", False),
        ("**", True),
        ("1", False),
    ],
)
def test_confirmed(source: str, confirmed: bool) -> None:
    scanner = PythonArguments()
    whole(scanner, source)
    assert scanner.confirmed is confirmed


def test_a_value_ends_right_behind_its_last_character() -> None:
    for source, rest in [("'x'  ,", "  ,"), ("{'a': 1} 'b'", " 'b'"), ("5]", "]"), ("'a' 'b' c", " c")]:
        _, status, pos = whole(PythonValue(), source)
        assert (status, source[pos:]) == (DONE, rest)


def test_copies_are_independent() -> None:
    scanner = PythonArguments()
    first = "a={(1"
    pos = scanner.scan(first, 0, len(first), False)
    twin = scanner.copy()
    for each, rest, text in [(scanner, "): 2})", '{"1": 2}}'), (twin, ", 2)})", "[[1, 2]]}")]:
        assert each.scan(first + rest, pos, len(first + rest), True) == len(first + rest)
        assert each.text == text


# Properties. The alphabet holds what the notation is made of.

MARKS = r"""a= s= key= ' " ''' \ \u d83d \N{ BULLET} ( ) [ ] { } : **{ {{ None 12 0x r' f' b"""
JUNK = st.text("""abfrRuxN ,=:*()[]{}'"\\\n0123.+-_eé<""", max_size=60) | st.lists(
    st.sampled_from([" ", ", ", *MARKS.split()]),
    max_size=25,
).map("".join)


@given(JUNK, st.data())
@example("a=('x', {(1, 'b'): [0x1f, 'q\\ud83d\\ude80\\q']}, f'{{'), **{'k': None}, s=New York)", None)
def test_any_cut_gives_the_same(source: str, data: Any) -> None:
    for make in (lambda: PythonArguments(is_text), PythonValue):
        expected = whole(make(), source)
        if data is not None:
            ends = [*sorted(data.draw(st.sets(st.integers(0, len(source))))), len(source)]
            assert feed(make(), source, ends) == expected
            assert feed_trimmed(make(), source, ends) == expected
        for step in (1, 4):
            assert feed(make(), source, every(step, source)) == expected
            assert feed_trimmed(make(), source, every(step, source)) == expected


@given(JUNK)
def test_every_prefix_gives_a_prefix(source: str) -> None:
    text, status, pos = whole(PythonArguments(is_text), source)
    assert not text.endswith(", ") or status == MORE or text.count('"') % 2
    for end in range(len(source)):
        out, _, consumed = whole(PythonArguments(is_text), source[:end])
        assert text.startswith(out)
        assert consumed <= max(pos, 0) or status == MORE


def oracle(node: ast.expr) -> Any:
    """The JSON value of a Python expression, in source order."""
    match node:
        case ast.Constant(str() as value):  # two surrogates are one character
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        case ast.Constant(value):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return -value
        case ast.UnaryOp(ast.UAdd(), ast.Constant(int() | float() as value)):
            return value
        case ast.List(elements) | ast.Tuple(elements) | ast.Set(elements):
            return [oracle(element) for element in elements]
        case ast.JoinedStr(parts):
            return "".join(oracle(part) for part in parts)
        case ast.Dict(keys, values):
            pairs = [(oracle(key), oracle(value)) for key, value in zip(keys, values, strict=True) if key]
            return {k if isinstance(k, str) else key_text(k): v for k, v in pairs}
    raise AssertionError(ast.dump(node))


def key_text(key: Any) -> str:
    """The JSON text of a key that is no string: no lone surrogate leaves unescaped."""
    return re.sub("[\ud800-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", json.dumps(key, ensure_ascii=False))


def read_by_python(source: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unknown escapes
        value = oracle(ast.parse(source, mode="eval").body)
    return json.loads(json.dumps(value))  # joins surrogates


def check_against_python(source: str) -> None:
    expected = read_by_python(source)
    text, status, pos = whole(PythonValue(), source + " ]")
    assert (status, pos) == (DONE, len(source))
    assert json.loads(text) == expected
    arguments = f"value={source}, other=[{source}])"
    text, status, pos = feed(PythonArguments(), arguments, every(3, arguments))
    assert (status, pos) == (DONE, len(arguments))
    assert json.loads(text) == {"value": expected, "other": [expected]}


TEXTS = st.text(max_size=30) | st.text("ab'\"\\\n\t{}é🚀 \ud83d\ude80", max_size=20)
HASHABLE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
KEYS = HASHABLE | st.tuples(HASHABLE, HASHABLE)
PYTHON = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.sets(HASHABLE | st.tuples(HASHABLE), min_size=1, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(PYTHON)
def test_repr_comes_back(value: Any) -> None:
    check_against_python(repr(value))


@given(PYTHON, st.integers(1, 60), st.integers(1, 4))
def test_pretty_printed_values_come_back(value: Any, width: int, indent: int) -> None:
    source = pprint.pformat(value, width=width, indent=indent)
    if "\r" not in source:
        check_against_python(source)


ESCAPES = r"""a é 🚀 " ' # ( ] \\ \' \" \n \x41 \101 \0 \u00e9 \ud83d \ude80 \U0001f680 \N{BULLET} \q"""
PIECES = st.sampled_from([" ", "\\\n", *ESCAPES.split()])


@st.composite
def string_literals(draw: Any) -> str:
    quote = draw(st.sampled_from(["'", '"', "'''", '"""']))
    prefix = draw(st.sampled_from(["", "u", "r", "R", "f", "rf", "Fr"]))
    raw = "r" in prefix.lower()
    pieces = draw(st.lists(PIECES, max_size=8))
    if raw:
        pieces = [piece for piece in pieces if "\n" not in piece or len(quote) == 3]
    body = "".join(piece for piece in pieces if piece != quote[0])
    if "f" in prefix.lower():
        body = body.replace("{", "{{").replace("}", "}}") if raw else body.replace("\\N{BULLET}", "{{}}")
    return f"{prefix}{quote}{body}{quote}"


@given(st.lists(string_literals(), min_size=1, max_size=3), st.sampled_from(["", " ", "\n  "]))
def test_string_literals_read_as_python_reads_them(literals: list[str], between: str) -> None:
    source = f"[{between.join(literals)}]"
    try:
        read_by_python(source)
    except SyntaxError:
        return
    check_against_python(source)


NUMBERS = st.from_regex(
    r"[+-]?(0[xX][0-9a-fA-F]{1,20}|0[oO][0-7]{1,9}|0[bB][01]{1,9}|[1-9][0-9_]{0,30}|[0-9]{1,9}\.[0-9]{0,5}"
    r"([eE][+-]?[0-9]{1,2})?|\.[0-9]{1,5}|[1-9][0-9]{0,5}[eE][+-]?[0-9]{1,2})",
    fullmatch=True,
)


@given(NUMBERS)
def test_numbers_read_as_python_reads_them(source: str) -> None:
    try:
        read_by_python(source)
    except SyntaxError:  # 1__0
        return
    check_against_python(source)


@pytest.mark.parametrize("size", [4300, 5000, 100_000])
def test_integers_of_any_size_are_exact(size: int) -> None:
    digits = "9" * size
    assert whole(PythonValue(), f"+{digits} ") == (digits, DONE, size + 1)


def test_a_long_hexadecimal_number_is_exact() -> None:
    text, status, _ = whole(PythonValue(), "0x1" + "0" * 4000 + " ")
    value = 0
    for start in range(0, len(text), 1000):
        piece = text[start : start + 1000]
        value = value * 10 ** len(piece) + int(piece)
    assert (status, value) == (DONE, 16**4000)


def test_every_named_character_may_be_escaped() -> None:
    for name in ("BULLET", "LATIN SMALL LETTER E WITH ACUTE", "QUOTATION MARK", "LINE FEED", "HYPHEN-MINUS"):
        source = f"'\\N{{{name}}}']"
        text, status, _ = feed(PythonValue(), source, every(1, source))
        assert (status, json.loads(text)) == (DONE, unicodedata.lookup(name))


SIZE = 100_000
HOSTILE = [
    *(f"a={char * SIZE}" for char in "([{'\"\\<- 9x_."),
    *(f"a='{char * SIZE}" for char in "([{'\"\\<- 9x"),
    *(f"a={pair * (SIZE // len(pair))}" for pair in ("[(", "[1,", "''", "' '", "'a'b'", "{'a':", "(1,(", "[{1:")),
    *(f"a='{pair * (SIZE // len(pair))}" for pair in ("\\u", "\\N{", "\\1", "\\ud83d", "\\'", "''", "\\\r")),
    *(f"a='''{pair * (SIZE // len(pair))}" for pair in ("''\\", "' ", "\\'")),
    *(f"a=f'{pair * (SIZE // len(pair))}" for pair in ("{{", "}", "}}a")),
    *(f"a={{'{pair * (SIZE // len(pair))}" for pair in ("k", "\\'", "\\N{")),
    "a" * SIZE,
    "a" + " " * SIZE,
    "a=" + "1" + " " * SIZE,
    "s=" + "x y (" * (SIZE // 5),
    "a=1," + "**{}," * (SIZE // 5),
    "a=" + "(" * SIZE + "1" + ")" * SIZE + ")",
    "a=" + "[" * SIZE + "]" * SIZE + ")",
    "a=" + "{1:" * SIZE + "1" + "}" * SIZE + ")",
]


@pytest.mark.parametrize("source", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_input_in_small_pieces_ends(source: str) -> None:
    expected = whole(PythonArguments(is_text), source)
    assert feed(PythonArguments(is_text), source, every(4, source)) == expected
