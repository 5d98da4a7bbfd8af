"""``ElementArguments``: tables of whole arguments as the format has them, then properties over a renderer."""

from __future__ import annotations

import json
import pickle
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from machine.scanning import every, feed, feed_trimmed, whole

from toolgrammar.machine.element_types import ElementTypes
from toolgrammar.machine.elements import ElementArguments
from toolgrammar.machine.scanner import DEPTH_LIMIT, DONE, FLAW, MORE

# Tables and properties write "~" for the prefix.
NS = "]<]minimax[>["
STOP = "[e~["
BREAKS = ("tool_call>", "/tool_call>", "invoke name=", "/invoke>")
END = "~</invoke>"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "n": {"type": ["string", "null"]},
        "i": {"type": "integer"},
        "f": {"type": "number"},
        "b": {"type": "boolean"},
        "e": {"enum": ["1", 2]},
        "z": {"type": "null"},
        "o": {
            "type": "object",
            "properties": {"s": {"type": "string"}, "o": {"$ref": "#/properties/o"}, "item": {"type": "string"}},
            "additionalProperties": {"type": "integer"},
        },
        "a": {"type": "array", "items": {"type": "string"}},
        "ints": {"type": "array", "items": {"type": "integer"}},
        "pair": {
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "integer"}],
            "items": {"type": "boolean"},
        },
        "old": {"type": "array", "items": [{"type": "string"}]},
        "any": {"type": ["array", "object"]},
        "u": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"s": {"type": "string"}}}]},
        "ref": {"$ref": "#/$defs/Tree"},
        "one": {"oneOf": [{"properties": {"k": {"type": "string"}}}, {"properties": {"k": {"type": "null"}}}]},
        "x": {},
    },
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "twigs": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            },
        }
    },
}  # fmt: skip


def scanner(schema: Any = SCHEMA, prefix: str = NS) -> ElementArguments:
    return ElementArguments(prefix, schema, (STOP,), BREAKS)


def closed(text: str) -> str:
    """The arguments as the machine ends them."""
    return text + "}" if text else "{}"


PAGE = [
    # no schema
    ("", "{}"),
    (" \n", "{}"),
    ("~<k>v~</k>", '{"k": "v"}'),
    ("\n~<k>v~</k>\n ~<l>w~</l>\n", '{"k": "v", "l": "w"}'),
    ("~<k>42~</k>~<l>true~</l>~<m>null~</m>~<p>-1.5e3~</p>", '{"k": 42, "l": true, "m": null, "p": -1.5e3}'),
    ('~<k> {"a":[1]} ~</k>', '{"k": {"a":[1]}}'),
    ('~<k> "q" ~</k>~<l>0042~</l>', '{"k": " \\"q\\" ", "l": "0042"}'),
    ("~<k>~</k>", '{"k": ""}'),
    ("~<k>\n~</k>", '{"k": "\\n"}'),
    ("~<k>~<a>1~</a>~<b>x~</b>~</k>", '{"k": {"a": 1, "b": "x"}}'),
    ("~<k>\n ~<a>1~</a>\n~</k>", '{"k": {"a": 1}}'),
    ("~<k>~<item>1~</item>~<item>x~</item>~</k>", '{"k": [1, "x"]}'),
    ("~<k>~<item>~<item>1~</item>~</item>~<item>~<a>1~</a>~</item>~</k>", '{"k": [[1], {"a": 1}]}'),
    ("~<k>~<a>1~</a>~<item>2~</item>~</k>", '{"k": {"a": 1, "item": 2}}'),
    ("~<k>~<item>1~</item>~<a>2~</a>~</k>", '{"k": [1, 2]}'),
    ("~<k>~<item>~</item>~</k>", '{"k": [""]}'),
    ("~<item>1~</item>", '{"item": 1}'),
    ("~<k>1~</k>~<k>2~</k>", '{"k": 1, "k": 2}'),
    ("~<a b>1~</a b>~<\"ö/\\>2~</\"ö/\\>", '{"a b": 1, "\\"ö/\\\\": 2}'),
    ("~ \t<k>1~ </k>~<l>~ <a>2~ </a>~</l>", '{"k": 1, "l": {"a": 2}}'),
    # declared scalars
    ("~<s>~</s>~<s> 0042\n~</s>~<s>null~</s>", '{"s": "", "s": " 0042\\n", "s": "null"}'),
    ('~<s>"ö" \\ \x01~</s>', '{"s": "\\"ö\\" \\\\ \\u0001"}'),
    ("~<s><b>~ ~<b>~</b>~</S>~</invoke>~<s>x~</s>", '{"s": "<b>~ ~<b>~</b>~</S>~</invoke>~<s>x"}'),
    ("~<s>~<~<~</~~</s>", '{"s": "~<~<~</~"}'),
    ("~<n>null~</n>~<n>x~<b>~</b>~</n>~<n>~</n>", '{"n": null, "n": "x~<b>~</b>", "n": ""}'),
    ("~<i> 5.0 ~</i>~<i>abc~</i>~<i>null~</i>~<i>~</i>", '{"i": 5, "i": "abc", "i": null, "i": ""}'),
    ("~<f>0.5~</f>~<b>True~</b>~<z>~</z>", '{"f": 0.5, "b": true, "z": null}'),
    ("~<e>1~</e>~<e>2~</e>", '{"e": "1", "e": 2}'),
    ("~<k> ~ < 5~<> ~</k>", '{"k": " ~ < 5~<> "}'),
    ("~<i>~<a>1~</a>~</i>~<i>~<item>1~</item>~</i>", '{"i": {"a": 1}, "i": [1]}'),
    # declared objects and arrays
    ("~<o>~</o>~<a>~</a>~<a>\n~</a>~<any>~</any>", '{"o": {}, "a": [], "a": [], "any": {}}'),
    ("~<o>~<s>00420~</s>~<other>7~</other>~</o>", '{"o": {"s": "00420", "other": 7}}'),
    ("~<o>~<o>~<o>~<s>~<s>x~</s>~</o>~</o>~</o>", '{"o": {"o": {"o": {"s": "~<s>x"}}}}'),
    ("~<o>~<item>1~</item>~</o>", '{"o": {"item": "1"}}'),
    ("~<a>~<item>1~</item>~<item>~</item>~</a>", '{"a": ["1", ""]}'),
    ("~<a>~<name>1~</name>~<name>2~</name>~</a>", '{"a": ["1", "2"]}'),
    ("~<ints>\n~<item>4~</item>\n~<item>-5~</item>\n~</ints>", '{"ints": [4, -5]}'),
    ("~<pair>~<item>1~</item>~<item>1~</item>~<item>true~</item>~</pair>", '{"pair": ["1", 1, true]}'),
    ("~<old>~<item>1~</item>~<item>1~</item>~</old>", '{"old": ["1", 1]}'),
    ("~<any>~<item>1~</item>~</any>~<any>~<k>1~</k>~</any>", '{"any": [1], "any": {"k": 1}}'),
    ("~<u>42~</u>~<u>~<s>42~</s>~</u>", '{"u": "42", "u": {"s": "42"}}'),
    ('~<o>{"s": 1}~</o>~<a>[1, "x"]~</a>~<a>(1, None)~</a>', '{"o": {"s": 1}, "a": [1, "x"], "a": [1, null]}'),
    ("~<o>x~</o>~<a> x ~</a>", '{"o": "x", "a": "x"}'),
    (
        "~<ref>~<name>1~</name>~<twigs>~<item>~<name>2~</name>~</item>~<item>~<twigs>~</twigs>~</item>~</twigs>~</ref>",
        '{"ref": {"name": "1", "twigs": [{"name": "2"}, {"twigs": []}]}}',
    ),
    ("~<one>~<k>null~</k>~<k>5~</k>~</one>", '{"one": {"k": null, "k": "5"}}'),
    # the page's
    (
        "~<user_id>8~</user_id>~<ship>~<city>Bremen~</city>~</ship>",
        '{"user_id": 8, "ship": {"city": "Bremen"}}',
    ),
    # a prefix that begins no tag, and an end-of-turn token with text behind it
    ("~<k>a ~ b ~~</k>", '{"k": "a ~ b ~"}'),
    ("~<s>a[e~[b[e~[ \n~</s>~<k>[e~[1~</k>", '{"s": "a[e~[b[e~[ \\n", "k": "[e~[1"}'),
]  # fmt: skip

LOOSE = [
    # text beside children, notes
    ("~<k>x~<a>1~</a>~</k>", '{"k": {"a": 1, "$text": "x"}}', 1),
    ("~<k>\n x ~<a>1~</a> \n~<b>2~</b>\ny\n~</k>", '{"k": {"a": 1, "b": 2, "$text": "\\n x \\ny\\n"}}', 2),
    ("~<k>x~<item>1~</item>~</k>", '{"k": [1, {"$text": "x"}]}', 1),
    ("~<o>~<s>1~</s>~ <\n~</o>", '{"o": {"s": "1", "$text": "~ <\\n"}}', 1),
    ("~<o>~<o>~<s>1~</s>in~</o>out~</o>", '{"o": {"o": {"s": "1", "$text": "in"}, "$text": "out"}}', 2),
]

FLAWS = [
    # input, text, what is left
    ("x", "", "x"),
    ("\n x ~<k>1~</k>", "", "x ~<k>1~</k>"),
    ("~x", "", "~x"),
    ("~<>1~</>", "", "~<>1~</>"),
    ("~< k>1~</ k>", "", "~< k>1~</ k>"),
    ("~<" + "k" * 513 + ">", "", "~<" + "k" * 513 + ">"),
    ("~<tool_call>", "", "~<tool_call>"),
    ("~<k>1~</k> and ~<l>2~</l>", '{"k": 1', "and ~<l>2~</l>"),
    ('~<s>x~</s>\n~<invoke name="b">', '{"s": "x"', '~<invoke name="b">'),
    ("~<k>1~</l>", '{"k": ', "~</l>"),
    ("~<k>1~</invoke>", '{"k": ', "~</invoke>"),
    ("~<o>~<i>1~</o>", '{"o": {"i": ', "~</o>"),
    ("~<o>~<s>x~</s>~</invoke>", '{"o": {"s": "x"', "~</invoke>"),
    ("~<a>~<item>x~</item>~<item>", '{"a": ["x", "', ""),
    ("~<ints>~<item>1~</item>~<item>2~</ints>", '{"ints": [1', "~</ints>"),
    ("~<ints>~<item>1~</item>~<item>~</ints>", '{"ints": [1', "~</ints>"),
    ("~<ints>~<item>1~</item>~</item>", '{"ints": [1', "~</item>"),
]

CUT = [
    ("~", ""),
    ("~<", ""),
    ("~<k", ""),
    ("~<k>", '{"k": '),
    ("~<k>12", '{"k": '),
    ("~<k>12~</k", '{"k": '),
    ("~<k>12~</k>", '{"k": 12'),
    ("~<k>12~</k>~<l", '{"k": 12'),
    ("~<s>", '{"s": "'),
    ("~<s>so fa", '{"s": "so fa'),
    ("~<s>so fa~", '{"s": "so fa'),
    ("~<s>so fa~<", '{"s": "so fa'),
    ("~<s>so fa~</", '{"s": "so fa'),
    ("~<s>so fa~</s", '{"s": "so fa'),
    ("~<s>so fa~</s>", '{"s": "so fa"'),
    ("~<s>so fa~<s", '{"s": "so fa~<s'),
    ("~<s>so fa[e~[", '{"s": "so fa'),
    ("~<s>so fa[e~[ \n", '{"s": "so fa'),
    ("~<k>1[e~[", '{"k": '),
    ("~<o>", '{"o": '),
    ("~<o>~<s", '{"o": '),
    ("~<user_id>8~</user_id>~<o>~<s>Bre", '{"user_id": 8, "o": {"s": "Bre'),
    ("~<ints>~<item>", '{"ints": ['),
    ("~<ints>~<item>1~</item>~<item>2", '{"ints": [1'),
    ("~<a>~<item>1~</item>~<item>2", '{"a": ["1", "2'),
    ("~<k>x~<a>1~</a>y", '{"k": {"a": 1'),
]


def with_prefix(text: str, prefix: str) -> str:
    """A table's text with ``prefix`` for its "~", which stands in the end-of-turn token for itself."""
    return text.replace(STOP, "\0").replace("~", prefix).replace("\0", STOP)


@pytest.mark.parametrize("prefix", [NS, "~", "#:"])
@pytest.mark.parametrize(("source", "text"), PAGE)
def test_page(source: str, text: str, prefix: str) -> None:
    source = with_prefix(source, prefix)
    text = text.replace(STOP, "\0").replace("~", json.dumps(prefix)[1:-1]).replace("\0", STOP)
    for schema in (SCHEMA, {"$ref": "#/$defs/All", "$defs": {**SCHEMA["$defs"], "All": SCHEMA}, **SCHEMA}):
        out, status, pos, codes = whole(scanner(schema, prefix), source + with_prefix(END, prefix))
        assert (closed(out), status, pos, codes) == (text, DONE, len(source), [])
    json.loads(text)


@pytest.mark.parametrize(("source", "text", "notes"), LOOSE)
def test_text_beside_children(source: str, text: str, notes: int) -> None:
    out, status, pos, codes = whole(scanner(prefix="~"), source + END)
    assert (closed(out), status, pos, codes) == (text, DONE, len(source), ["W216"] * notes)


@pytest.mark.parametrize(("source", "text", "rest"), FLAWS)
def test_flaws(source: str, text: str, rest: str) -> None:
    out, status, pos, _ = whole(scanner(prefix="~"), source)
    assert (out, status, source[pos:]) == (text, FLAW if rest else MORE, rest)


@pytest.mark.parametrize(("source", "text"), CUT)
def test_cut_input_shows_what_is_sound(source: str, text: str) -> None:
    out, status, _, _ = whole(scanner(prefix="~"), source)
    assert (out, status) == (text, MORE)


@pytest.mark.parametrize("source", ["[e~[", "~<k>1~</k>\n[e~[", "~<o>~<s>x~</s>[e~["])
def test_end_of_turn_between_tags(source: str) -> None:
    out, status, pos, _ = whole(scanner(prefix="~"), source)
    assert (status, source[pos:]) == (DONE, STOP)
    assert not out.endswith("}")


@pytest.mark.parametrize(
    "schema", [None, 7, "x", [], {"properties": 3}, {"properties": {"a": 5}}, {"$ref": "#"}, True, {"items": 5}]
)
def test_no_schema_is_an_error(schema: Any) -> None:
    text = whole(scanner(schema, "~"), "~<a>~<b>~<item>1~</item>~</b>~</a>" + END)[0]
    assert closed(text) == '{"a": {"b": [1]}}'


def test_types_do_not_grow_with_the_input() -> None:
    loop: dict[str, Any] = {
        "anyOf": [{"properties": {"x": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}]
    }
    loop["anyOf"].append({"properties": {"x": {"anyOf": [{"$ref": "#"}]}}})
    types = ElementTypes(loop)
    schema: object = loop
    sizes = set()
    for n in range(200):
        schema = types.member(schema, "x" if n % 2 else f"k{n}")
        types.plan(schema)
        sizes.add((len(types._nodes), len(types._plans), len(types._unions)))
    assert len(sizes) < 10


# Properties. The alphabet holds what the notation is made of.

KEYS = ["s", "n", "i", "o", "a", "ints", "u", "x", "k", "item", "item"]
TAGS = [f"~{slash}{key}>" for key in KEYS for slash in ("<", "</", "<")]
JUNK = st.lists(
    st.sampled_from(
        [*TAGS, *TAGS, "~", "~ <", "<", ">", "/", "]", "[", "[e~[", "[e", " ", "\n", "1", "x y", '"', "é"]
    ),
    max_size=30,
).map("".join)


@given(JUNK, st.data())
@example("~<s>a~<~</~</s>~<o>~<s>[e~[ ~</s>x~</o>~<k>~<item>1~</item>~<item>~</item>~</k> ~</invoke>", None)
def test_any_cut_gives_the_same(source: str, data: Any) -> None:
    for prefix in ("~", NS):
        text = with_prefix(source, prefix)
        expected = whole(scanner(prefix=prefix), text)
        if data is not None:
            ends = [*sorted(data.draw(st.sets(st.integers(0, len(text))))), len(text)]
            assert feed(scanner(prefix=prefix), text, ends) == expected
            assert feed_trimmed(scanner(prefix=prefix), text, ends) == expected
        for step in (1, 4):
            assert feed(scanner(prefix=prefix), text, every(step, text)) == expected
            assert feed_trimmed(scanner(prefix=prefix), text, every(step, text)) == expected


@given(JUNK)
def test_every_prefix_gives_a_sound_prefix(source: str) -> None:
    text = whole(scanner(prefix="~"), source)[0]
    for end in range(len(source)):
        part = whole(scanner(prefix="~"), source[:end])[0]
        assert text.startswith(part)
        assert not part.endswith((", ", "\\"))


@given(st.text())
def test_anything_may_come(source: str) -> None:
    for text in (source, "~<" + source, "~<k>" + source, "~<s>" + source, "~<o>~<s>x~</s>" + source):
        whole(scanner(prefix="~"), text)


@given(JUNK)
def test_little_is_held(source: str) -> None:
    for text in (source, "~<s>" + source, "~<k>" + source):
        text = with_prefix(text, NS)
        one = scanner()
        pos = 0
        for end in range(1, len(text) + 1):
            pos = one.scan(text, pos, end, False)
            if one.status != MORE:
                break
            assert not text[pos:end] or text[pos] in "]["


def render(key: str, value: Any) -> str:
    """An element as the format's template writes it, "~" for the prefix."""
    if isinstance(value, dict):
        inner = "".join(render(name, item) for name, item in value.items() if item is not None)
    elif isinstance(value, list):
        inner = "".join(render("item", item) for item in value)
    else:
        inner = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return f"~<{key}>{inner}~</{key}>"


def schema_of(value: Any) -> dict[str, Any]:
    """The schema of exactly this shape."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: schema_of(item) for key, item in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "prefixItems": [schema_of(item) for item in value]}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": kinds[type(value)]}


CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters=">~")
NAMES = st.text(CHARACTERS, min_size=1, max_size=8).filter(
    lambda name: name[0] not in "/< \t\r\n"
) | st.sampled_from(["item", "a", "$text"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.text("~</>item:\\[e", max_size=12)
SCALARS = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS


def nested(names: st.SearchStrategy[str], scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    inner = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
        max_leaves=12,
    )
    return st.dictionaries(names, inner, max_size=5)


def breaks_out(value: Any, key: str = "") -> bool:
    """Whether a string holds its own closer, or joins one with the closer behind it."""
    if isinstance(value, dict):
        return any(breaks_out(item, name) for name, item in value.items())
    if isinstance(value, list):
        return any(breaks_out(item, "item") for item in value)
    closer = f"~</{key}>"
    found = re.search(f"~[ \t]*</{re.escape(key)}>", f"{value}{closer}")
    return isinstance(value, str) and (found is None or found.start() != len(value))


@given(nested(NAMES, SCALARS), st.integers(1, 7))
@example({"a": [[], {}, "", [{"item": [0.1, -2, True, "~<item>"]}]], "item": {"item": "[e~["}}, 1)
def test_rendered_values_come_back(value: dict[str, Any], step: int) -> None:
    if breaks_out(value):
        return
    source = "".join(render(key, item) for key, item in value.items()) + END
    text, status, pos, codes = feed(scanner(schema_of(value), "~"), source, every(step, source))
    assert (status, pos, codes) == (DONE, len(source) - len(END), [])
    assert json.loads(closed(text)) == value
    assert closed(text) == json.dumps(value, ensure_ascii=False)


WORDS = st.text(st.characters(categories=["L"]), min_size=1, max_size=8).filter(
    lambda word: word not in ("item", "true", "false", "null")
)


def plain(value: Any, own: bool = False) -> bool:
    """Whether a value tells its own kind: no empty containers, no member called ``item``."""
    if isinstance(value, dict):
        return (own or bool(value)) and all(map(plain, value.values()))
    return not isinstance(value, list) or (bool(value) and all(map(plain, value)))


@given(nested(WORDS, st.booleans() | st.integers() | WORDS), st.integers(1, 7))
def test_rendered_values_come_back_without_a_schema(value: dict[str, Any], step: int) -> None:
    if not plain(value, own=True):
        return
    source = "".join(render(key, item) for key, item in value.items()) + END
    text, status, pos, codes = feed(scanner(None, "~"), source, every(step, source))
    assert (status, pos, codes) == (DONE, len(source) - len(END), [])
    assert closed(text) == json.dumps(value, ensure_ascii=False)


SIZE = 100_000
DEEP = "".join(f"~<{key}>" for key in ["o", "x"] * (SIZE // 2)) + "1"
HOSTILE = [
    *(opener + char * SIZE for opener in ("~<k>", "~<s>", "~<n>", "~<o>~<s>x~</s>") for char in '~<>/[] x"\n'),
    *(
        opener + pair * (SIZE // len(pair))
        for opener in ("~<k>", "~<s>", "~<n>")
        for pair in (
            "~<",
            "~</",
            "~</s",
            "[e~[",
            "[e~[ ",
            "~ ",
            "~<item>",
            "~<item>1~</item>",
            "~<s>",
            "x~<b>1~</b>",
        )
    ),
    "~<k>[e~[" + " " * SIZE,
    "~" + " " * SIZE + "<k>",
    "~<" + "k" * SIZE,
    "~<k>1~</k>" * (SIZE // 10),
    "~<a>" + "~<item>x~</item>" * (SIZE // 16),
    "".join(f"~<k{n}>1~</k{n}>" for n in range(SIZE // 10)),
    DEEP,
    DEEP + "".join(f"~</{key}>" for key in ["x", "o"] * (SIZE // 2)) + END,
    "~<ref>" + "~<twigs>~<item>" * (SIZE // 2) + "~<name>1",
]


@pytest.mark.parametrize("source", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_input_in_small_pieces_ends(source: str) -> None:
    expected = whole(scanner(prefix="~"), source)
    assert feed(scanner(prefix="~"), source, every(4, source)) == expected


def test_depth() -> None:
    deep = "".join(f"~<{key}>" for key in ["o", "x"] * (DEPTH_LIMIT // 2 - 1)) + "1"
    levels = DEPTH_LIMIT // 2 - 1
    text, status, _, _ = whole(scanner(prefix="~"), deep + "~</x>~</o>" * levels + END)
    assert status == DONE
    assert closed(text) == '{"o": {"x": ' * levels + "1" + "}" * (2 * levels)
    text, status, _, _ = whole(scanner(prefix="~"), HOSTILE[-2])
    assert status == FLAW  # deeper than any decoder reads
    assert text == '{"o": {"x": ' * (DEPTH_LIMIT // 2)
    one = scanner(prefix="~")
    one.scan(deep, 0, len(deep), False)
    two = pickle.loads(pickle.dumps(one.copy()))
    for each in (one, two):
        assert each.scan("~</x>", 0, 5, True) == 5
        assert each.text == "1"
