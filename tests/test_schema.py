"""The typing of raw values: the table of ``qwen3-coder.md``, rows for every rule, hostile input, laws."""

from __future__ import annotations

import ast
import copy
import json
import pickle
import sys
import warnings
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolgrammar.errors import ToolsError as RootToolsError
from toolgrammar.schema import NO_SCHEMA, Plan, ToolsError, ToolTable, plan_of, quote
from toolgrammar.typing_rules import MAX_DEPTH

# --- the table of qwen3-coder.md, column "here"

STRING_OR_NULL = {"type": ["string", "null"]}
# What no schema may be, and what may stand in one.
JUNK: list[object] = [None, True, False, 3, "integer", [], {"type": 3}, {"type": None}, {"type": [None, 3]}]
JUNK_KEYWORDS: list[dict[str, object]] = [
    {"enum": 3},
    {"anyOf": {}},
    {"allOf": None},
    {"$ref": 3},
    {"oneOf": []},
    {"nullable": "yes"},
    {"enum": []},
]

TABLE: list[tuple[object, str, str]] = [
    ({"type": "integer"}, "5.0", "5"),
    ({"type": "integer"}, "abc", '"abc"'),
    ({"type": "integer"}, "[1]", '"[1]"'),
    ({"type": "integer"}, " 7 ", "7"),
    ({"type": "number"}, "5.0", "5.0"),
    ({"type": "number"}, "inf", '"inf"'),
    ({"type": "integer"}, "null", "null"),
    ({"type": "boolean"}, "null", "null"),
    ({"type": "array"}, "null", "null"),
    ({"type": "boolean"}, "TRUE", "true"),
    ({"type": "boolean"}, "1", '"1"'),
    ({"type": "boolean"}, "yes", '"yes"'),
    ({"type": "string"}, "", '""'),
    ({"type": "string"}, "null", '"null"'),
    (STRING_OR_NULL, "null", "null"),
    (STRING_OR_NULL, "None", "null"),
    ({"type": ["string", "integer"]}, "42", "42"),
    ({"anyOf": [{"type": "string"}, {"type": "object"}]}, '{"a":1}', '{"a":1}'),
    ({"anyOf": [{"type": "string"}, {"type": "array"}]}, "[1", '"[1"'),
    ({}, "42", "42"),
    ({}, "true", "true"),
    ({"enum": ["1", "2"]}, "1", '"1"'),
    ({"enum": [1, 2]}, "1", "1"),
    ({"enum": ["auto", 1, None]}, "1", "1"),
    ({"const": 3}, "3", "3"),
    ({"allOf": [{"type": "integer"}]}, "3", "3"),
    ({"items": {"type": "integer"}}, "[1]", "[1]"),
    ({"properties": {}}, "{}", "{}"),
    ({"type": "object"}, "", "{}"),
    ({"type": "array"}, "", "[]"),
    ({"type": "object"}, "{'a': 1}", '{"a": 1}'),
    ({"type": "array"}, "(1, 2)", "[1, 2]"),
    ({"type": "array", "items": {"type": "string"}}, "[1, true]", "[1, true]"),
    ({"type": "integer", "nullable": True}, "null", "null"),
]

# fmt: off
RULES: list[tuple[object, str, str]] = [
    # string alone: verbatim, never re-typed, never trimmed
    *(({"type": "string"}, text, json.dumps(text))
        for text in ("0042", "true", "[1]", '"q"', " x \n", "None")),
    ({"type": "string", "enum": ["a", "b"]}, " a", '" a"'),
    # null
    *(({"type": "number"}, text, "null") for text in ("NULL", " none ", "None")),
    ({"type": ["string", "integer"]}, "null", '"null"'),
    ({"type": "null"}, "x", '"x"'),
    ({"type": ["string", "integer", "null"]}, "null", "null"),
    ({"enum": ["a", None]}, "None", "null"),
    ({"type": "string", "enum": ["a", None]}, "null", "null"),
    # integer
    *(({"type": "integer"}, text, want) for text, want in [("-6", "-6"), ("+6", "6"), ("-0", "-0"),
        ("007", "7"), ("-007", "-7"), ("000", "0"), ("5.", "5"), ("-5.00", "-5"), ("1e3", "1000"),
        ("1.5E+1", "15"), ("50e-1", "5"), ("5e-1", '"5e-1"'), ("5.5", '"5.5"'), ("1_000", '"1_000"'),
        ("0x10", '"0x10"'), ("١", '"١"'), (".", '"."'), ("1e99999", '"1e99999"'), ("true", '"true"'),
        ("", '""'), ("9007199254740993", "9007199254740993")]),
    # number
    *(({"type": "number"}, text, want) for text, want in [("3", "3"), ("3.10", "3.10"),
        ("-1E+5", "-1E+5"), ("+1.5", "1.5"), (".5", "0.5"), ("5.", "5.0"), ("-.5e3", "-0.5e3"),
        ("007.5", "7.5"), ("NaN", '"NaN"'), ("Infinity", '"Infinity"'), ("-inf", '"-inf"'),
        ("1e999", "1e999"), ("0.1000000000000000000001", "0.1000000000000000000001"), ("1,5", '"1,5"'),
        ("-", '"-"')]),
    ({"type": ["number", "integer"]}, "5.5", "5.5"),
    # where a string is admitted, only an undoubted number is one
    *(({"type": ["integer", "string"]}, text, want) for text, want in [("0042", '"0042"'), ("+6", "6"),
        ("5.0", "5"), ("1e3", '"1e3"'), ("-3", "-3"), (" 5", "5"), (" a ", '" a "')]),
    *(({"type": ["number", "string"]}, text, want) for text, want in [("0042", '"0042"'),
        (".5", '".5"'), ("1e3", "1e3"), ("7.50", "7.50")]),
    # boolean
    ({"type": "boolean"}, "False", "false"),
    ({"type": "boolean"}, "0", '"0"'),
    ({"type": ["boolean", "string"]}, "true", "true"),
    # containers: JSON as written, else Python
    ({"type": "object"}, ' {"a":1.50, "b" : [1e5]}\n', '{"a":1.50, "b" : [1e5]}'),
    ({"type": "object"}, "[1]", '"[1]"'),
    ({"type": "array"}, '{"a": 1}', '"{\\"a\\": 1}"'),
    ({"type": "array"}, "[NaN]", '"[NaN]"'),
    ({"type": "array"}, '["\n"]', '"[\\"\\n\\"]"'),
    ({"type": "array"}, '["\ud800"]', '["\\ud800"]'),
    ({"type": "array"}, "[1] [2]", '"[1] [2]"'),
    ({"type": "object"}, "{'a': None, 'b': (True, [False])}", '{"a": null, "b": [true, [false]]}'),
    (
        {"type": "object"},
        "{'it\\'s': \"x\\ty\\x41\\u00e9\\U0001f9e9\\d\\101\", }",
        '{"it\'s": "x\\tyAé🧩\\\\dA"}',
    ),
    ({"type": "object"}, "{1: 'a', None: 2, 1.5: 3}", '{"1": "a", "null": 2, "1.5": 3}'),
    (
        {"type": "array"},
        "[+1, -.5, 1e3, 00, 12345678901234567890123,]",
        "[1, -0.5, 1e3, 0, 12345678901234567890123]",
    ),
    ({"type": "array"}, "()", "[]"),
    ({"type": "array"}, "(1,)", "[1]"),
    *(({"type": ["array", "object"]}, text, json.dumps(text)) for text in ("(1)", "[1, 2", "{1, 2}",
        "{'a' 1}", "{'a': }", "[,]", "[1,,2]", "(,)", "{'a': 1]", "[1]]", "[b'x']", "[1j]", "[007]",
        "[0x1]", "[1_0]", "[nan]", "['a' 'b']", "{[1]: 2}", "{'a': 1, 'b'}", "['\\x4']",
        "['\\N{DASH}']", "[x]", "[...]", "[1: 2]", "{'a'}", "['a\nb']", "[1] + [2]", "{**{}}",
        "[true, None]", "['\\", "[Nonesuch]", "[1.2.3]", "['\\U99999999']")),
    ({"type": ["array", "string"]}, "(see below)", '"(see below)"'),
    # several types: the order is fixed, the schema's is not asked
    ({"oneOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}, "1.5", "1.5"),
    ({"type": ["string", "array", "number", "boolean", "null"]}, "[1]", "[1]"),
    # enum, const
    ({"enum": ["1", 1]}, "1", '"1"'),
    ({"enum": ["1", 2]}, " 1 ", '"1"'),
    ({"enum": ["true", True]}, "true", '"true"'),
    ({"enum": ["true", True]}, "True", "true"),
    ({"enum": ["null", None, 3]}, "null", '"null"'),
    ({"enum": [1, 2]}, "3", "3"),
    ({"enum": [1, 2]}, "x", '"x"'),
    ({"enum": [1.5]}, "1.50", "1.50"),
    ({"enum": [True, False]}, "false", "false"),
    ({"const": None}, "", "null"),
    ({"const": "7"}, "7", '"7"'),
    ({"enum": [{"a": 1}]}, '{"a": 1}', '{"a": 1}'),
    ({"type": ["string", "integer"], "enum": ["1", 2]}, "1", '"1"'),
    ({"type": ["string", "integer"], "enum": [1, 2]}, "1", "1"),
    ({"type": "integer", "enum": ["1"]}, "1", "1"),
    ({"anyOf": [{"enum": ["1"]}, {"type": "integer"}]}, "1", '"1"'),
    ({"anyOf": [{"enum": ["1"]}, {"type": "integer"}]}, "2", "2"),
    # side by side: intersected
    ({"allOf": [{"type": ["string", "integer"]}, {"type": "integer"}]}, "x ", '"x"'),
    ({"allOf": [{"type": "number"}, {"type": "integer"}]}, "5.0", "5"),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "5", '"5"'),
    ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "{}", "{}"),
    ({"type": "string", "anyOf": [{"format": "date"}, {"format": "time"}]}, "1", '"1"'),
    # nullable
    ({"type": "string", "nullable": True}, "null", "null"),
    ({"type": "string", "nullable": True}, "x", '"x"'),
    ({"nullable": True}, "5", "5"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "8", "8"),
    ({"anyOf": [{}, {"type": "null"}]}, "42", "42"),
    ({"anyOf": [{}, {"type": "null"}]}, "None", "null"),
    ({"anyOf": [True, {"type": "string"}]}, "42", "42"),
    ({"anyOf": [False, {"type": "string"}]}, "42", '"42"'),
    # references
    ({"$ref": "#/$defs/N"}, "3", "3"),
    ({"$ref": "#/$defs/S"}, "3", '"3"'),
    ({"$ref": "#/$defs/S", "nullable": True}, "null", "null"),
    ({"$ref": "#/$defs/S", "description": "d"}, "null", '"null"'),
    ({"$ref": "#/definitions/a~1b%20c/items/1"}, "3", '"3"'),
    ({"$ref": "#/$defs/Tree"}, '{"left": null}', '{"left": null}'),
    ({"$ref": "#/$defs/Cycle"}, "4", "4"),
    ({"$ref": "#/$defs/Ping"}, "4", "4"),
    ({"$ref": "#/nowhere"}, "4", "4"),
    ({"$ref": "https://example.org/x"}, "x", '"x"'),
    ({"$ref": "#"}, "{}", "{}"),
    ({"$ref": "#/$defs/Own", "$defs": {"Own": {"type": "string"}}}, "4", '"4"'),
    # misspelled types
    *(({"type": name}, "5", '"5"') for name in ("str", "text", "varchar", "char", "String", "STRING")),
    *(({"type": name}, "5.0", "5") for name in ("int", "int64", "uint8", "long", "short", "INTEGER")),
    *(({"type": name}, "5.0", "5.0") for name in ("num", "numeric", "float", "float32", "double")),
    ({"type": "bool"}, "True", "true"),
    *(({"type": name}, "{'a': 1}", '{"a": 1}') for name in ("dict", "dict[str, int]", "map")),
    *(({"type": name}, "(1, 2)", "[1, 2]") for name in ("arr", "list", "list[int]", "sequence")),
    ({"type": "any"}, "5", "5"),
    ({"type": ["str", "any"]}, "True", "true"),
    ({"type": "wibble"}, "5", "5"),
    # empty
    ({"type": ["string", "object"]}, "", '""'),
    ({"type": ["string", "null"]}, " ", '" "'),
    ({"type": "null"}, "", "null"),
    ({"type": ["integer", "null"]}, "", "null"),
    ({"type": ["object", "null"]}, "\n", "{}"),
    ({"type": ["array", "object"]}, "", "{}"),
    ({"type": ["array", "integer"]}, "", "[]"),
    ({"type": "boolean"}, " ", '""'),
    ({}, "", '""'),
    ({}, " ", '" "'),
    # no schema
    *(({}, text, text.strip())
        for text in ("-1.50", " 1e5 ", "true", "null", ' {"a": 1}', "[1,2]\n", "1E999")),
    *(({}, text, json.dumps(text)) for text in ("True", "None", "NULL", "+5", "007", "5.", '"q"',
        "{'a': 1}", "(1,)", " x ", "[1", "nan")),
    *((junk, "5", "5") for junk in JUNK),
    *(({"type": "integer", **junk}, "5", "5") for junk in JUNK_KEYWORDS),
]
# fmt: on

ROOT: dict[str, object] = {
    "type": "object",
    "$defs": {
        "N": {"type": "integer"},
        "S": {"type": "string"},
        "Tree": {"properties": {"left": {"$ref": "#/$defs/Tree"}}},
        "Cycle": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Cycle"}]},
        "Ping": {"$ref": "#/$defs/Pong"},
        "Pong": {"$ref": "#/$defs/Ping"},
    },
    "definitions": {"a/b c": {"items": [{"type": "integer"}, {"type": "string"}]}},
}


@pytest.mark.parametrize(("schema", "text", "want"), TABLE + RULES)
def test_typing(schema: object, text: str, want: str) -> None:
    tool = {"name": "f", "parameters": {**ROOT, "properties": {"p": schema}}}
    assert ToolTable.of([tool]).plan("f", "p").encode(text) == want


JSON_ROWS = [
    ("7", "7"),
    (" 1.50 ", "1.50"),
    ("true", "true"),
    ("True", "true"),
    ("False", "false"),
    (" None", "null"),
    ("null", "null"),
    ("[1, 2]", "[1, 2]"),
    ('{"a":1}\n', '{"a":1}'),
    ('"x"', '"x"'),
    (" very dim ", '"very dim"'),
    ("", '""'),
    (" ", '""'),
    ("{'a': 1}", "\"{'a': 1}\""),
    ("NONE", '"NONE"'),
    ('"x', '"\\"x"'),
    ("NaN", '"NaN"'),
    ("[1", '"[1"'),
    ("+5", '"+5"'),
]


@pytest.mark.parametrize(("text", "want"), JSON_ROWS)
@pytest.mark.parametrize("plan", [NO_SCHEMA, plan_of({"type": "string"}), plan_of({"type": "integer"})])
def test_encode_json_does_not_ask_the_schema(plan: Plan, text: str, want: str) -> None:
    assert plan.encode_json(text) == want


@pytest.mark.parametrize(
    ("schema", "only"),
    [
        ({"type": "string"}, True),
        ({"type": ["string"]}, True),
        ({"enum": ["a", "b"]}, True),
        ({"anyOf": [{"type": "string"}, {"const": "x"}]}, True),
        ({"$ref": "#/$defs/S"}, True),
        ({"type": "string", "nullable": True}, False),
        ({"enum": ["a", None]}, False),
        ({"anyOf": [{"type": "string"}, {}]}, False),
        ({}, False),
        ({"type": "integer"}, False),
    ],
)
def test_only_string(schema: object, only: bool) -> None:
    assert plan_of(schema, ROOT).only_string is only


# --- the table of tools

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
SHAPES: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "f", "parameters": SCHEMA}},
    {"type": "function", "name": "f", "parameters": SCHEMA},
    {"name": "f", "parameters": SCHEMA},
    {"name": "f", "input_schema": SCHEMA},
    {"name": "f", "inputSchema": SCHEMA},
]


@pytest.mark.parametrize("tool", SHAPES)
def test_shapes(tool: dict[str, Any]) -> None:
    table = ToolTable.of((tool,))
    assert table.offered == frozenset({"f"})
    assert table.parameters("f") == SCHEMA
    assert table.plan("f", "n").encode("7") == "7"


def test_lookups() -> None:
    table = ToolTable.of([*SHAPES[:1], {"name": "bare"}, {"name": "f", "parameters": {}}])
    assert table.offered == frozenset({"f", "bare"})
    assert (table.known("f"), table.known("g")) == (True, False)
    assert (table.declared("f", "n"), table.declared("f", "m"), table.declared("g", "n")) == (
        True,
        False,
        False,
    )
    assert (table.parameters("bare"), table.parameters("g")) == (None, None)
    assert table.plan("f", "n") is table.plan("f", "n")
    assert table.plan("f", "m") == table.plan("bare", "n") == table.plan("g", "n") == NO_SCHEMA


def test_no_list_is_not_an_empty_list() -> None:
    none, empty = ToolTable.of(None), ToolTable.of([])
    assert (none.offered, none.known("f")) == (None, True)
    assert (empty.offered, empty.known("f")) == (frozenset(), False)
    assert none.plan("f", "n") == empty.plan("f", "n") == NO_SCHEMA


def test_additional_properties_type_the_undeclared() -> None:
    def plan(**parameters: object) -> Plan:
        return ToolTable.of([{"name": "f", "parameters": {**ROOT, **parameters}}]).plan("f", "x")

    assert plan(additionalProperties={"type": "string"}).encode("5") == '"5"'
    assert plan(additionalProperties={"$ref": "#/$defs/S"}).only_string
    assert plan(additionalProperties=False) == plan(additionalProperties=True) == NO_SCHEMA
    assert plan(properties={"x": {"type": "integer"}}, additionalProperties={"type": "string"}).encode("5") == "5"


def test_properties_behind_a_reference_or_in_branches() -> None:
    number, text = {"properties": {"x": {"type": "integer"}}}, {"properties": {"x": {"type": "string"}}}
    for parameters in ({"$ref": "#/$defs/A", "$defs": {"A": number}}, {"allOf": [{}, number]}):
        table = ToolTable.of([{"name": "f", "parameters": parameters}])
        assert table.declared("f", "x")
        assert table.plan("f", "x").encode("5.0") == "5"
    union = ToolTable.of([{"name": "f", "parameters": {"oneOf": [number, text]}}]).plan("f", "x")
    assert (union.encode("5"), union.encode("five")) == ("5", '"five"')


def test_undeclared_keys_do_not_fill_memory() -> None:
    table = ToolTable.of(SHAPES[:1])
    for index in range(100):
        table.plan("f", f"k{index}")
        table.plan(f"g{index}", "n")
    assert len(table._plans) == 1


@pytest.mark.parametrize(
    ("tools", "where"),
    [
        ("f", "tools:"),
        ({"name": "f"}, "tools:"),
        (3, "tools:"),
        ([SHAPES[0], "f"], "tools[1]:"),
        ([None], "tools[0]:"),
        ([{}], "tools[0]:"),
        ([{"name": 3}], "tools[0]:"),
        ([{"name": ""}], "tools[0]:"),
        ([{"type": "function", "function": "f"}], "tools[0].function:"),
        ([{"type": "function", "function": {}}], "tools[0].function:"),
        ([{"name": "f", "parameters": "{}"}], "tools[0].parameters:"),
        ([{"name": "f", "input_schema": [1]}], "tools[0].input_schema:"),
    ],
)
def test_malformed_tools(tools: Any, where: str) -> None:
    with pytest.raises(ToolsError) as caught:
        ToolTable.of(tools)
    assert str(caught.value).startswith(where + " expected ")
    assert ", found " in str(caught.value)
    assert ToolsError is RootToolsError


def test_copies() -> None:
    table = ToolTable.of(SHAPES[:1])
    table.plan("f", "n")
    for again in (copy.copy(table), copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
        assert again.offered == table.offered
        assert again.plan("f", "n") == table.plan("f", "n")
    assert repr(table) == "ToolTable(f)"
    plan = plan_of({"enum": ["a", 1]})
    assert pickle.loads(pickle.dumps(plan)) == copy.deepcopy(plan) == plan
    assert hash(plan) == hash(plan_of({"enum": ["a", 1]}))


# --- hostile input

EVERY_PLAN = [NO_SCHEMA, *(Plan(types) for types in range(1, 128)), plan_of({"enum": ["a", 1, [2]]})]
MEGA = 1_000_000
HOSTILE = [
    "\ud800",
    "\udc00x\ud83d",
    "[\ud800]",
    "\0",
    "[\0]",
    "\ufeff[1]",
    "1" * MEGA,
    "-" + "9" * MEGA + ".0",
    "1" * MEGA + "x",
    "[" + "7" * MEGA + "]",
    "[" * 100_000,
    "[" * 100_000 + "]" * 100_000,
    "{" * 100_000,
    "(" * 100_000,
    '{"a":' * 100_000,
    "{'a':" * 100_000,
    "[" + "-" * 100_000 + "1]",
    "[" + '"\\' * MEGA,
    "['" + "\\" * MEGA,
    '["' + '\\"' * MEGA,
    "{" + " " * MEGA,
    "[" * 300 + '\\"' * MEGA,
    "[" * 300 + '"\\' * MEGA,
    "1e" + "9" * MEGA,
    "0" * MEGA,
    " " * MEGA,
    "[" + "1," * 300_000 + "1]",
    "[" + "'\\x'," * 100_000 + "]",
]


@pytest.mark.parametrize("text", HOSTILE, ids=[f"hostile{index}" for index in range(len(HOSTILE))])
def test_hostile_texts(text: str) -> None:
    for plan in (NO_SCHEMA, *(Plan(types) for types in (1, 2, 4, 6, 8, 16, 32, 48, 63, 64, 127))):
        for encode in (plan.encode, plan.encode_json):
            valid(encode(text))  # what is not linear takes hours here


def test_integers_are_exact_at_any_length() -> None:
    digits = "123456789" * 10_000
    assert plan_of({"type": "integer"}).encode(f"+{digits}") == digits
    assert plan_of({"type": "array"}).encode(f"({digits},)") == f"[{digits}]"


@pytest.mark.parametrize("opener", ["[", "("])
def test_depth_is_a_limit_of_ours(opener: str) -> None:
    """The answer does not depend on how deep the caller stands."""
    closer = {"[": "]", "(": ",)"}[opener]
    plan = plan_of({"type": "array"})

    def nested(depth: int) -> str:
        return plan.encode(opener * depth + ("()" if opener == "(" else "1") + closer * depth)

    limit = MAX_DEPTH - (opener == "(")
    assert nested(limit)[0] == "["
    assert nested(limit + 1)[0] == '"'

    def lower(frames: int) -> str:
        return lower(frames - 1) if frames else nested(limit)

    assert lower(sys.getrecursionlimit() // 2) == nested(limit)
    many = json.dumps([[]] * (MAX_DEPTH * 2) + ["[" * MAX_DEPTH])
    assert plan.encode(many) == many


def test_hostile_schemas() -> None:
    loop: dict[str, Any] = {"properties": {"a": {}}}
    loop["anyOf"] = [loop, loop, {"type": "integer"}]
    loop["allOf"] = [loop]
    assert plan_of(loop).encode("5") == "5"
    assert ToolTable.of([{"name": "f", "parameters": loop}]).declared("f", "a")

    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(100_000):
        deep = {"allOf": [deep]}
    assert plan_of(deep) == NO_SCHEMA

    wide: dict[str, Any] = {"$defs": {"d0": {"type": "integer"}}, "$ref": "#/$defs/d60"}
    for index in range(60):
        wide["$defs"][f"d{index + 1}"] = {"anyOf": [{"$ref": f"#/$defs/d{index}"}] * 3}
    valid(plan_of(wide).encode("5"))
    valid(plan_of({"anyOf": [{"const": str(index)} for index in range(5_000)]}).encode("5"))
    while deep:  # unwound here: its destructor would recurse
        deep = deep.get("allOf", [{}])[0]


# --- properties


def exact(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return pairs


def valid(text: str) -> Any:
    """The value of ``text``, which must be JSON for a strict reader and fit for UTF-8."""

    def refuse(_: str) -> None:
        raise AssertionError("NaN or Infinity")

    text.encode()
    return json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=refuse, object_pairs_hook=exact).decode(
        text
    )


texts = st.one_of(
    st.text(st.characters(codec=None), max_size=40),
    st.text(st.sampled_from("[]{}()\"'\\:, \n0123456789.eE+-truefalsnNoTF\ud83d\ude00"), max_size=30),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
names = st.sampled_from(
    [
        "null",
        "integer",
        "number",
        "boolean",
        "object",
        "array",
        "string",
        "str",
        "int",
        "any",
        "dict",
        "x",
        "",
    ]
)
junk = json_values | names | st.lists(names, max_size=3)


def object_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    listed = st.lists(inner, max_size=3) | junk
    fields: dict[str, st.SearchStrategy[Any]] = {
        "type": names | st.lists(names, max_size=3) | junk,
        "enum": st.lists(json_values, max_size=3) | junk,
        "const": json_values,
        "anyOf": listed,
        "oneOf": listed,
        "allOf": listed,
        "nullable": st.booleans() | junk,
        "items": inner,
        "properties": junk,
        "additionalProperties": inner,
        "$defs": st.dictionaries(st.sampled_from("ab"), inner) | junk,
        "$ref": st.sampled_from(
            ["#", "#/$defs/a", "#/$defs/b", "#/anyOf/0", "#/properties/p", "#a", "x", "#/%zz/~2"]
        )
        | junk,
    }
    return st.fixed_dictionaries({}, optional=fields)


schemas = st.recursive(junk, object_of, max_leaves=6)


@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
@given(schemas, st.dictionaries(st.sampled_from(["$defs", "properties", "anyOf"]), schemas), texts)
def test_encode_never_raises_and_gives_json(schema: Any, root: dict[str, Any], text: str) -> None:
    parameters = {**root, "properties": {"p": schema}, "additionalProperties": schema}
    table = ToolTable.of([{"name": "f", "parameters": parameters}])
    for plan in (table.plan("f", "p"), table.plan("f", "other"), plan_of(schema)):
        valid(plan.encode(text))
        valid(plan.encode_json(text))
        if plan.only_string:
            assert json.loads(plan.encode(text)) == paired(text)
    ToolTable.of([{"name": "f", "parameters": root}]).plan("f", "p")


def paired(text: str) -> str:
    """Two halves of one character that stand together are that character, as in any JSON."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@settings(max_examples=300)
@given(texts, st.sampled_from(EVERY_PLAN))
def test_every_set_of_types(text: str, plan: Plan) -> None:
    value = valid(plan.encode(text))
    if plan.only_string:
        assert value == paired(text)
    elif isinstance(value, str) and plan.encode(text)[0] == '"':
        assert value in (paired(text), paired(text.strip()))


TYPE_OF = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


@given(json_values, st.booleans())
def test_a_rendered_value_comes_back(value: Any, ascii_only: bool) -> None:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=ascii_only)
    got = plan_of({"type": TYPE_OF[type(value)]}).encode(text)
    assert json.loads(got) == value
    assert type(json.loads(got)) is type(value)
    if not isinstance(value, str):
        assert got == text == NO_SCHEMA.encode(text) == NO_SCHEMA.encode_json(text)


@given(json_values.filter(lambda value: isinstance(value, (list, dict))))
def test_a_python_container_comes_back(value: Any) -> None:
    got = plan_of({"type": ["object", "array"]}).encode(repr(value))
    assert json.loads(got) == value
    if got != repr(value):
        assert got == json.dumps(value, ensure_ascii=False)


@settings(max_examples=500)
@given(
    st.text(st.sampled_from("[](){}'\"\\,: 01.eTrueNonx+-"), min_size=1, max_size=14),
    st.sampled_from(["[]", "()", "{}"]),
)
def test_python_literals_are_read_as_python_reads_them(middle: str, brackets: str) -> None:
    text = brackets[0] + middle + brackets[1]
    got = plan_of({"type": ["object", "array"]}).encode(text)
    if got[0] == '"' or got == text:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert json.loads(got) == json.loads(json.dumps(ast.literal_eval(text)))


@given(st.text(), st.integers(0, 20))
def test_quoted_pieces_join(text: str, cut: int) -> None:
    assert quote(text[:cut])[:-1] + quote(text[cut:])[1:] == quote(text)
    assert msgspec.json.decode(quote(text)) == text
    assert quote(text) == json.dumps(text, ensure_ascii=False)
