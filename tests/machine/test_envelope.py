"""``EnvelopeScanner``: when an object is a call, what leaves then, and that no cut changes any of it."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrammar.machine.envelope import EnvelopeScanner, EnvelopeSpec
from toolgrammar.machine.safe_text import SafeText
from toolgrammar.machine.scanner import DONE, FLAW, MORE

ENDS = SafeText(("</x>",))
TOOLS = frozenset(("weld", "cut"))

HERMES = EnvelopeSpec(ids=("id",), wrappers=("function",))
LLAMA: dict[str, str | tuple[str, ...]] = {
    "wrappers": ("function",), "other": "reject", "allowed": ("id", "description"), "type_value": "function",
}  # fmt: skip
STRONG = EnvelopeSpec(**LLAMA, decide="strong")  # type: ignore[arg-type]
WEAK = EnvelopeSpec(**LLAMA, decide="weak")  # type: ignore[arg-type]
FENCED = EnvelopeSpec(ids=("id",), wrappers=("function",), other="reject", type_value="function", decide="offered")
COHERE = EnvelopeSpec(names=("tool_name",), arguments=("parameters",), ids=("tool_call_id",))
APERTUS = EnvelopeSpec(tool_key=True)
SPECS = [HERMES, STRONG, WEAK, FENCED, COHERE, APERTUS]


class Result:
    """What a scanner said of an input, positions counted in the joined input."""

    def __init__(
        self,
        pieces: list[str],
        spec: EnvelopeSpec,
        *,
        repair: bool = True,
        ends: SafeText | None = ENDS,
        offered: frozenset[str] | None = TOOLS,
        bypass: bool = False,
    ) -> None:
        scanner = EnvelopeScanner(spec, ends, repair, offered)
        self.text, self.notes, self.end = "", [], 0
        buf = ""
        for number, piece in enumerate(pieces, 1):
            if bypass and scanner.in_string and not buf and not any(c in '"\\' or c < " " for c in piece):
                assert scanner.announced
                self.text += piece
                self.end += len(piece)
                continue
            buf += piece
            pos = scanner.scan(buf, 0, len(buf), number == len(pieces))
            assert 0 <= pos <= len(buf)
            assert scanner.announced or not (scanner.text or scanner.malformed)
            self.text += scanner.text
            self.notes += [(code, a + self.end, b + self.end) for code, a, b in scanner.notes]
            scanner.notes.clear()
            buf, self.end = buf[pos:], self.end + pos
            if scanner.status != MORE:
                break
        self.name, self.id = scanner.name, scanner.id
        self.status, self.announced, self.malformed = scanner.status, scanner.announced, scanner.malformed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"Result({vars(self)})"

    def codes(self) -> list[str]:
        return [code for code, _, _ in self.notes]


def both(text: str, spec: EnvelopeSpec, **options: object) -> Result:
    """The result, the same whole and character by character."""
    whole = Result([text], spec, **options)  # type: ignore[arg-type]
    assert Result([*text], spec, **options) == whole  # type: ignore[arg-type]
    return whole


# -- calls -------------------------------------------------------------------------------------------

CALLS = [
    (HERMES, '{"name": "weld", "arguments": {"n": 2}}', "weld", '{"n": 2}', ""),
    (HERMES, '{"arguments": {"n": 2}, "name": "weld"}', "weld", '{"n": 2}', ""),
    (HERMES, '{"arguments": {"name": "x"}, "name": "weld"}', "weld", '{"name": "x"}', ""),
    (HERMES, '{"name":"weld","parameters":{"n":2}}', "weld", '{"n":2}', ""),
    (HERMES, '{"name": "weld"}', "weld", "{}", ""),
    (HERMES, '{"name": "weld", "arguments": null}', "weld", "{}", ""),
    (HERMES, '{"arguments": null, "name": "weld"}', "weld", "{}", ""),
    (HERMES, '{"name": "weld", "arguments": "{\\"n\\": 2}"}', "weld", '{"n": 2}', ""),
    (HERMES, '{"n": [1, {"name": "x"}], "name": "w\\u00e9ld", "arguments": {}}', "wéld", "{}", ""),
    (HERMES, '{"n\\u0061me": "weld", "arguments": {}}', "weld", "{}", ""),
    (
        HERMES,
        '{"name": "weld", "arguments": {"a": 1}, "parameters": {"b": 2}, "x": "}"}',
        "weld",
        '{"a": 1}',
        "",
    ),
    (HERMES, '{"name": "weld", "name": "cut", "arguments": {}}', "weld", "{}", ""),
    (HERMES, '{"name": "other", "arguments": {}, "id": "c\\n1"}', "other", "{}", "c\n1"),
    (HERMES, '{"id": "c1", "arguments": {"a": "b"}, "name": "weld"}', "weld", '{"a": "b"}', "c1"),
    (HERMES, '{"id": 7, "name": "weld", "x": null, "y": -1.5}', "weld", "{}", ""),
    (
        HERMES,
        '{"type": "function", "function": {"name": "weld", "arguments": {"n": 1}}, "id": "z"}',
        "weld",
        '{"n": 1}',
        "z",
    ),
    (HERMES, '{"function": "weld", "arguments": {"n": 1}}', "weld", '{"n": 1}', ""),
    (HERMES, '{"function": {"arguments": {"n": 1}}, "name": "weld"}', "weld", '{"n": 1}', ""),
    (HERMES, ' {\n "name" : "weld" ,\n "arguments" : {"s": "a</x>b"}\n}', "weld", '{"s": "a</x>b"}', ""),
    (COHERE, '{"tool_name": "weld", "parameters": {"n": 1}, "tool_call_id": "3"}', "weld", '{"n": 1}', "3"),
    (STRONG, '{"name": "other", "parameters": {}}', "other", "{}", ""),
    (STRONG, '{"name": "weld"}', "weld", "{}", ""),
    (
        STRONG,
        '{"type": "function", "name": "weld", "description": "d", "parameters": {}, "new": [1]}',
        "weld",
        "{}",
        "",
    ),
    (STRONG, '{"parameters": {"a": 1}, "name": "other"}', "other", '{"a": 1}', ""),
    (WEAK, '{"name": "weld", "parameters": {"a": 1}}', "weld", '{"a": 1}', ""),
    (WEAK, '{"parameters": {"a": 1}, "name": "weld"}', "weld", '{"a": 1}', ""),
    (FENCED, '{"name": "weld", "arguments": {"a": 1}, "id": "k"}', "weld", '{"a": 1}', "k"),
    (FENCED, '{"type": "function", "name": "weld", "id": "k"}', "weld", "{}", "k"),
    (FENCED, '{"type": "function", "function": {"name": "weld", "arguments": {}}}', "weld", "{}", ""),
    (APERTUS, '{"weld": {"n": 2}}', "weld", '{"n": 2}', ""),
    (APERTUS, '{"weld": null}', "weld", "{}", ""),
    (APERTUS, '{"weld": }', "weld", "{}", ""),
    (APERTUS, '{"name": {"arguments": 1}}', "name", '{"arguments": 1}', ""),
]


@pytest.mark.parametrize(("spec", "text", "name", "arguments", "ident"), CALLS)
@pytest.mark.parametrize("repair", [True, False])
def test_calls(spec: EnvelopeSpec, text: str, name: str, arguments: str, ident: str, repair: bool) -> None:
    result = both(text + "\n", spec, repair=repair)
    assert (result.name, result.text, result.id) == (name, arguments, ident)
    assert (result.status, result.announced, result.malformed, result.end) == (DONE, True, False, len(text))


REPAIRED = [
    (HERMES, "{'name': 'weld', 'arguments': {'n': 2,}}", "weld", '{"n": 2}', ["W202"] * 4 + ["W201"]),
    (
        HERMES, "{'arguments': {'n': True}, 'name' : 'o\\'f' , }", "o'f", '{"n": true}',
        ["W202", "W202", "W203", "W202", "W202", "W201"],
    ),
    (HERMES, "{'id': 'it's', 'x': 'a\"}', 'name': 'weld'}", "weld", "{}", ["W202"] * 6),
    (HERMES, '{"name": "we\\ld", "arguments": {},}', "we\\ld", "{}", ["W205", "W201"]),
    (APERTUS, "{'weld': {'n': 2},}", "weld", '{"n": 2}', ["W202"] * 2 + ["W201"]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "text", "name", "arguments", "noted"), REPAIRED)
def test_almost_json_is_repaired(
    spec: EnvelopeSpec, text: str, name: str, arguments: str, noted: list[str]
) -> None:
    result = both(text, spec)
    assert (result.name, result.text, result.status, result.malformed) == (name, arguments, DONE, False)
    assert result.codes() == noted
    assert both(text, spec, repair=False).malformed or both(text, spec, repair=False).status == FLAW


# -- no calls ----------------------------------------------------------------------------------------

#: The mark ^ stands where the token begins that does not fit.
NO_CALLS = [
    (HERMES, '^x"name": "weld"}'),
    (HERMES, '{ ^name: "weld"}'),
    (HERMES, "{^}"),
    (HERMES, '{"title": "x"^}'),
    (HERMES, '{"name": ^5, "arguments": {}}'),
    (HERMES, '{"name": ^{"x": 1}}'),
    (HERMES, '{"name": ^"", "arguments": {}}'),
    (HERMES, '{"name": "weld" ^"arguments": {}}'),
    (HERMES, '{"name": "weld", ^arguments: {}}'),
    (HERMES, '{"name"^, "weld"}'),
    (HERMES, '{"name": "weld", "x": ^}'),
    (HERMES, '{"name": "weld"^</x>'),
    (HERMES, '{"arguments": {"n": ^}, "name": "weld"}'),
    (HERMES, '{"arguments": {"n": 1 ^"m": 2}, "name": "weld"}'),
    (HERMES, '{"arguments": ^nothing, "name": "weld"}'),
    (HERMES, '{"x": [1, ^</x>'),
    (STRONG, '{"name": "Ada Lind", ^"born": 1990}'),
    (STRONG, '{"name": "Ada Lind"^}'),
    (STRONG, '{"type": ^"object", "name": "weld"}'),
    (STRONG, '{"parameters": {}^}'),
    (WEAK, '{"name": ^"other", "parameters": {}}'),
    (WEAK, '{"name": "weld"^}'),
    (WEAK, '{"parameters": {"a": 1}, "name": ^"other"}'),
    (FENCED, '{"name": ^"other"}'),
    (FENCED, '{"name": "weld", ^"description": "d"}'),
    (FENCED, '{"function": ^["weld"]}'),
    (APERTUS, '{"weld"^}'),
    (APERTUS, '{"weld": ^'),
]


@pytest.mark.parametrize(("spec", "marked"), NO_CALLS)
def test_what_does_not_fit_before_the_announcement(spec: EnvelopeSpec, marked: str) -> None:
    at, text = marked.index("^"), marked.replace("^", "")
    result = both(text + " ", spec)
    if text.endswith(": "):
        assert (result.status, result.announced, result.name) == (MORE, False, "weld")
        return
    assert (result.status, result.end, result.text, result.announced) == (FLAW, at, "", False)


def test_without_tools_only_the_shape_can_tell() -> None:
    for spec, status in ((HERMES, DONE), (STRONG, DONE), (WEAK, FLAW), (FENCED, FLAW)):
        assert both('{"name": "weld", "parameters": {}}', spec, offered=None).status == status


def test_with_repairs_off_single_quotes_are_no_call() -> None:
    result = both("{'name': 'weld'}", HERMES, repair=False)
    assert (result.status, result.end) == (FLAW, 1)


def test_names_and_keys_are_limited() -> None:
    for text, at in (
        ('{"name": "%s"}' % ("n" * 1025), 9),
        ('{"%s": 1, "name": "weld"}' % ("k" * 4097), 1),
        ("{'name': '%s'}" % ("n" * 1025), 9),
    ):
        whole = Result([text], HERMES)
        assert (whole.status, whole.end, whole.codes()[-1]) == (FLAW, at, "W212")
        assert Result([*text], HERMES) == whole
        assert Result([text[:-3]], HERMES).end == at
    long = json.dumps({"k" * 4096: 1, "name": "n" * 1024})
    assert both(long, HERMES).status == DONE


# -- the announcement --------------------------------------------------------------------------------

#: The mark ^ stands behind the character with which the call is announced.
ANNOUNCED = [
    (HERMES, '{"name": "weld", "arguments": {^"n": 2}}'),
    (HERMES, '{"name": "weld", "arguments": n^ull}'),
    (HERMES, '{"arguments": {"n": 2}, "name": "weld"^}'),
    (HERMES, '{"name": "weld"}^'),
    (STRONG, '{"name": "weld"^, "parameters": {}}'),
    (STRONG, '{"name": "other", "parameters":^ {}}'),
    (STRONG, '{"parameters": {}, "name": "other"^}'),
    (WEAK, '{"name": "weld", "parameters":^ {}}'),
    (FENCED, '{"name": "weld", "arguments":^ {}}'),
    (FENCED, '{"name": "weld", "id": "7"}^'),
    (APERTUS, '{"weld": {^}}'),
]


@pytest.mark.parametrize(("spec", "marked"), ANNOUNCED)
def test_when_a_call_is_announced(spec: EnvelopeSpec, marked: str) -> None:
    at, text = marked.index("^"), marked.replace("^", "")
    announced = [end for end in range(len(text) + 1) if Result([text[:end]], spec).announced]
    assert announced == list(range(at, len(text) + 1))


CUT = [
    ('{"name": "we', "", "", False),
    ('{"name": "weld"', "weld", "", False),
    ('{"name": "weld", "argu', "weld", "", False),
    ('{"name": "weld", "arguments": ', "weld", "", False),
    ('{"name": "weld", "arguments": {"s": "half', "weld", '{"s": "half', True),
    ('{"name": "weld", "arguments": {"s": 12', "weld", '{"s": ', True),
    ('{"name": "weld", "arguments": {}', "weld", "{}", True),
    ('{"arguments": {"s": "half', "", "", False),
    ("{'name': 'weld'", "weld", "", False),
    ("{", "", "", False),
    ("", "", "", False),
]


@pytest.mark.parametrize(("text", "name", "arguments", "announced"), CUT)
def test_a_cut_call(text: str, name: str, arguments: str, announced: bool) -> None:
    result = both(text, HERMES)
    assert (result.name, result.text, result.announced, result.status) == (name, arguments, announced, MORE)


MALFORMED = [
    ('{"name": "weld", "arguments": {"n": "4" "m": 2}}\n', '{"n": "4" "m": 2}}\n'),
    ('{"name": "weld", "arguments": {"n": }}\n', '{"n": }}\n'),
    ('{"name": "weld", "arguments": {"n": 1', '{"n": 1'),
    ('{"name": "weld", "arguments": {"n": 1}', '{"n": 1}'),
    ('{"name": "weld", "arguments": {"n": 1}; "x": "</x>", }', '{"n": 1}'),
    ('{"name": "weld", "arguments": {"n": 1}, x}', '{"n": 1}'),
    ('{"name": "weld", "arguments": print(1)}', "print(1)}"),
    ('{"name": "weld", "arguments": [1, 2', "[1, 2"),
    ('{"arguments": [1, 2], "name": "weld" oops ', "[1, 2]"),
    ('{"name": "weld", "arguments": ', "{}"),
]


@pytest.mark.parametrize(("text", "arguments"), MALFORMED)
def test_a_flaw_behind_the_announcement(text: str, arguments: str) -> None:
    result = both(text + "</x>", HERMES)
    assert (result.name, result.text, result.malformed) == ("weld", arguments, True)
    assert (result.status, result.end) == (DONE, len(text))


@pytest.mark.parametrize("value", ["[1, 2]", "42", '"words"', "true"])
def test_arguments_that_are_no_object_do_not_end_the_call(value: str) -> None:
    for text in (
        '{"name": "weld", "arguments": %s, "id": "7"}',
        '{"id": "7", "arguments": %s, "name": "weld"}',
    ):
        result = both(text % value, HERMES)
        assert (result.text, result.malformed, result.status, result.id) == (value, True, DONE, "7")


def test_plain_text_may_pass_only_once_the_call_is_announced() -> None:
    text = '{"arguments": {"s": "long text"}, "name": "weld"}'
    assert Result([*text], HERMES, bypass=True) == Result([text], HERMES)
    text = '{"name": "weld", "arguments": {"s": "long text"}}'
    assert Result([*text], HERMES, bypass=True) == Result([text], HERMES)


def test_a_copy_goes_its_own_way() -> None:
    text = (
        '{"id": "7", "x": [{"y": "a',
        '"}], "arguments": {"a": "b", "k',
        '": 1, "c": [1,',
        '2]}, "name": "we',
        'ld"}',
    )
    for n in range(len(text)):
        scanner = EnvelopeScanner(HERMES, ENDS, True, TOOLS)
        rest = ""
        for piece in text[: n + 1]:
            buf = rest + piece
            rest = buf[scanner.scan(buf, 0, len(buf), False) :]
        rest += "".join(text[n + 1 :])
        results = []
        for twin in (scanner.copy(), pickle.loads(pickle.dumps(scanner)), scanner):
            end = twin.scan(rest, 0, len(rest), True)
            results.append((twin.text, twin.status, twin.name, twin.id, end))
        assert results == [results[0]] * 3
        assert n == len(text) - 1 or results[0][:4] == ('{"a": "b", "k": 1, "c": [1,2]}', DONE, "weld", "7")


# -- properties --------------------------------------------------------------------------------------

members = st.sampled_from(
    [
        '"name": "weld"',
        '"name": "other"',
        '"arguments": {"a": [1, "x"]}',
        '"parameters": {"b": "c\\n"}',
        '"id": "7"',
        "'name': 'cut'",
        "'arguments': {'a': 'it's', 'b': None,}",
        '"arguments": null',
        '"arguments": "{\\"a\\": 1}"',
        '"type": "function"',
        '"type": "object"',
        '"function": {"name": "weld", "arguments": {}}',
        '"x": [1, "]"]',
        '"weld": {"a": "b"}',
        '"arguments": [1, 2]',
        '"arguments": {"a" 1}',
        '"name": 5',
        "junk",
        '"arguments": 7',
    ]
)
bodies = st.lists(members, max_size=5).map(lambda parts: "{" + ", ".join(parts) + "}</x>")
shards = st.sampled_from(
    ["", '"', "'", "{", "}", ",", ":", "\\", "</x>", "</", "\n", "\x00", "\ud800", "null", "[", "]"]
)
cuts = st.lists(st.integers(0, 10**6), max_size=10)


def cut(text: str, at: list[int]) -> list[str]:
    bounds = [0, *sorted({n % (len(text) + 1) for n in at}), len(text)]
    return [text[a:b] for a, b in pairwise(bounds)]


@given(bodies, shards, st.integers(0, 200), st.integers(0, 4), cuts, st.sampled_from(SPECS), st.booleans())
def test_no_cut_changes_anything(
    body: str, shard: str, at: int, lost: int, bounds: list[int], spec: EnvelopeSpec, repair: bool
) -> None:
    text = body[: at % len(body)] + shard + body[at % len(body) + lost :]
    whole = Result([text], spec, repair=repair)
    assert Result(cut(text, bounds), spec, repair=repair) == whole
    assert Result(cut(text, bounds), spec, repair=repair, bypass=True) == whole
    assert Result([*text, ""], spec, repair=repair, ends=None) == Result([text], spec, repair=repair, ends=None)


@given(bodies, st.sampled_from(SPECS))
def test_the_output_of_a_beginning_begins_the_output(body: str, spec: EnvelopeSpec) -> None:
    if "it's" in body:  # rule 12 lets the end of the input end a single-quoted string
        return
    full = Result([body], spec, ends=None)
    for end in range(len(body)):
        part = Result([body[:end]], spec, ends=None)
        assert full.text.startswith(part.text)
        assert full.name == part.name or not part.name
        assert full.announced or not part.announced


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
foreign = st.dictionaries(
    st.text().filter(lambda key: key not in ("name", "arguments", "parameters", "id", "function")),
    values,
    max_size=3,
)


@given(
    st.text(min_size=1, max_size=20),
    st.dictionaries(st.text(), values, max_size=4),
    foreign,
    st.randoms(),
    st.booleans(),
    cuts,
)
def test_json_calls_pass_byte_for_byte(
    name: str,
    arguments: dict[str, object],
    others: dict[str, object],
    rng: Random,
    ascii_only: bool,
    bounds: list[int],
) -> None:
    items = [("name", name), ("arguments", arguments), *others.items()]
    rng.shuffle(items)
    text = json.dumps(dict(items), ensure_ascii=ascii_only, indent=rng.choice([None, 1]))
    result = Result(cut(text, bounds), HERMES)
    assert (result.name, result.status, result.malformed, result.notes) == (name, DONE, False, [])
    assert result.text in text
    assert json.loads(result.text) == arguments


# -- hostile inputs ----------------------------------------------------------------------------------

HOSTILE = ["{", "[", '"', "\\", ",", "'", '{"name":', '{"function":', '"a":1,', '"a', "\n", "</", ':"', "1"]


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize(
    "head",
    [
        "",
        "{",
        '{"',
        "{'",
        '{"name": "',
        '{"name": "weld", "arguments": ',
        '{"x": ',
        '{"name": "weld", "arguments": {} x',
    ],
)
def test_hostile_text_stays_bounded(unit: str, head: str) -> None:
    text = head + unit * (100_000 // len(unit))
    scanner = EnvelopeScanner(HERMES, ENDS, True, TOOLS)
    buf, looked_at = "", 0
    for i in range(0, len(text), 4):
        buf += text[i : i + 4]
        buf = buf[scanner.scan(buf, 0, len(buf), False) :]
        scanner.notes.clear()
        looked_at += len(buf)
        assert len(buf) <= 4200
        if scanner.status != MORE:
            break
    assert looked_at <= 4200 * 1100
    Result([text], HERMES)


def test_deep_wrappers_need_no_recursion() -> None:
    text = '{"function":' * 50_000 + '{"name": "weld"' + "}" * 50_001
    result = Result([text], HERMES)
    assert (result.name, result.text, result.status, result.end) == ("weld", "{}", DONE, len(text))
