"""Hypothesis strategies: turns of a format as text, with what they mean.

    @given(turns(registry.load("qwen3-coder")))
    def test_reads(turn):
        assert read(turn.text, turn.tools, turn.start) == turn.expected

What a turn means is known before it is written: parts are drawn, then rendered in a drawn style (spellings,
white space, ways on that templates do not take but models do), and ``expected`` is the fold of the parts. No
parser has a say. Texts are full of near-markers: markers cut short, with a letter changed, in other case; values
are of every JSON type, and their strings hold whole markers wherever the format lets them be data. What a format
cannot say is drawn tamer, and in the end left out.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from toolgrammar import combinators as c
from toolgrammar.readings.first import literals, nodes_of
from toolgrammar.readings.render import RenderError, write
from toolgrammar.readings.style import Style
from toolgrammar.readings.turns import Called, Part, Said, Turn, fold
from toolgrammar.schema import ToolTable

#: One tool per kind of name, one parameter per kind of type; ``extra`` and ``any`` are declared without one.
TOOLS: Sequence[Mapping[str, Any]] = (
    {"name": "lathe", "parameters": {"type": "object", "properties": {
        "code": {"type": "string"}, "rpm": {"type": "integer"}, "ratio": {"type": "number"},
        "on": {"type": "boolean"}, "stop": {"type": "null"}, "opts": {"type": "object"},
        "items": {"type": "array"},
        "note": {"type": ["string", "null"]}, "mode": {"enum": ["fast", "1", "null"]},
        "size": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "any": {},
    }}},
    {"name": "fs.read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
    {"name": "get-data_2", "parameters": {"type": "object", "properties": {"rows": {"type": "array"}}}},
    {"name": "go"},
)  # fmt: skip


@dataclass(frozen=True)
class Generated:
    """A turn as text, the state it starts in, its parts, and what it comes to."""

    text: str
    start: str
    parts: tuple[Part, ...]
    expected: Turn
    tools: Sequence[Mapping[str, Any]]


@st.composite
def turns(
    draw: st.DrawFn, grammar: c.Grammar, tools: Sequence[Mapping[str, Any]] | None = None, *, styled: bool = True
) -> Generated:
    """Turns of ``grammar`` that call ``tools`` (by default ``TOOLS``). ``styled``: also as no template writes."""
    tools = TOOLS if tools is None else tools
    table = ToolTable.of(tools)
    start = draw(st.sampled_from([name for name in grammar.starts if name != "section"]))
    parts = draw(_parts(grammar, table, start))
    style = Drawn(random.Random(draw(st.integers(0, 2**32)))) if styled else Style()
    for tamed in (
        parts,
        _tame(grammar, parts),
        _tame(grammar, [part for part in parts if isinstance(part, Called)]),
    ):
        try:
            text, said = write(grammar, tamed, table, start=start, style=style)
        except RenderError:
            continue
        return Generated(text, start, tuple(said), fold(grammar, said), tools)
    assume(False)
    raise AssertionError


# ---- parts -------------------------------------------------------------------------------------------------


@st.composite
def _parts(draw: st.DrawFn, grammar: c.Grammar, table: ToolTable, start: str) -> list[Part]:
    nodes = list(nodes_of(grammar))
    sinks = {node.sink for node in nodes if isinstance(node, c.Text)}
    calls = [0, 1, 1, 2] if any(isinstance(node, (c.Call, c.Envelope)) for node in nodes) else [0]
    text = texts(grammar)
    parts: list[Part] = []
    if start == "reasoning" or ("reasoning" in sinks and draw(st.booleans())):
        parts.append(Said("reasoning", draw(text)))
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.booleans()):
            parts.append(Said("content", draw(text)))
        parts += [draw(_call(grammar, table)) for _ in range(draw(st.sampled_from(calls)))]
    kept = parts[:1]
    for before, part in itertools.pairwise(parts):
        if isinstance(part, Called) or isinstance(before, Called) or before.sink != part.sink:
            kept.append(part)
    return kept


def near_markers(grammar: c.Grammar) -> list[str]:
    """Texts that are almost markers: cut short at either end, misspelled, in other case, torn apart."""
    found: set[str] = set()
    for marker in literals(grammar):
        half = len(marker) // 2
        found |= {
            marker[:-1],
            marker[1:],
            marker[:half],
            marker.upper(),
            marker.replace("_", " ").replace("▁", "_"),
        }
        found |= {marker[:half] + "x" + marker[half + 1 :], marker[:half] + " " + marker[half:], marker[0]}
    return sorted(found - set(literals(grammar)) - {""})


_HARD = [
    "<", "</", ">", "{", "}", "[", "]", '"', "'", "\\", "\n", "\n\n", " ", "\t", "é", "🦀", "｜", "|", "`",
    "\\n", "&lt;", "</think", "a", "Two words.", ": ", "=", "\u2028",
]  # fmt: skip


def texts(grammar: c.Grammar) -> st.SearchStrategy[str]:
    """Prose, scraps and near-markers, never a whole marker of two characters or more."""
    piece = st.one_of(st.text(max_size=4), st.sampled_from(_HARD), st.sampled_from(near_markers(grammar) or ["x"]))
    return (
        st.lists(piece, min_size=1, max_size=6)
        .map("".join)
        .map(lambda text: _clean(grammar, text))
        .filter(str.strip)
    )


def _strings(grammar: c.Grammar) -> st.SearchStrategy[str]:
    piece = st.one_of(
        st.text(max_size=4), st.sampled_from(_HARD), st.sampled_from(near_markers(grammar) or ["x"]),
        st.sampled_from(literals(grammar) or ["x"]), st.sampled_from(["null", "12", "true", "{}", '{"a": 1}']),
    )  # fmt: skip
    return st.lists(piece, max_size=5).map("".join)


def values(grammar: c.Grammar, kind: str = "") -> st.SearchStrategy[Any]:
    """JSON values of one type, or of any."""
    string = _strings(grammar)
    integer = st.integers(-9, 99) | st.integers(-(10**30), 10**30)
    number = integer | st.floats(allow_nan=False, allow_infinity=False)
    scalar = string | number | st.booleans() | st.none()
    nested = st.recursive(
        scalar,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(string, inner, max_size=3),
        max_leaves=6,
    )
    return {
        "string": string, "integer": integer, "number": number, "boolean": st.booleans(), "null": st.none(),
        "object": st.dictionaries(string, nested, max_size=3), "array": st.lists(nested, max_size=3),
    }.get(kind, nested)  # fmt: skip


@st.composite
def _call(draw: st.DrawFn, grammar: c.Grammar, table: ToolTable) -> Called:
    name = draw(st.sampled_from([*sorted(table.offered or ()), "elsewhere"]))
    schema: Any = (table.parameters(name) or {}).get("properties", {})
    keys = draw(st.lists(st.sampled_from([*schema, "extra", "from"]), unique=True, max_size=4))
    arguments = {key: draw(_argument(grammar, schema.get(key, {}))) for key in keys}
    id = draw(st.none() | st.from_regex(r"[A-Za-z0-9]{9}", fullmatch=True)) if _carries_ids(grammar) else None
    return Called(name, arguments, id)


def _argument(grammar: c.Grammar, schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema.get("anyOf", [schema])
    types = [kind for one in kinds for kind in _types(one)]
    return st.one_of([values(grammar, kind) for kind in types])


def _types(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type", "")
    return [kind] if isinstance(kind, str) else list(kind)


def _carries_ids(grammar: c.Grammar) -> bool:
    return any(
        (isinstance(node, c.Envelope) and bool(node.ids) and not node.tool_key)
        or (isinstance(node, c.Field) and node.register == "id")
        for node in nodes_of(grammar)
    )


# ---- taming ------------------------------------------------------------------------------------------------


def _clean(grammar: c.Grammar, text: str) -> str:
    """``text`` without a whole marker in it."""
    markers = [marker for marker in literals(grammar) if len(marker) > 1]
    while found := next((marker for marker in markers if marker in text), None):
        text = text.replace(found, found[0])
    return text


def _tame(grammar: c.Grammar, parts: Sequence[Part]) -> list[Part]:
    """``parts`` as every format can say them: no edges, no markers, no strings that look like something else."""
    tamed: list[Part] = []
    for part in parts:
        if isinstance(part, Said):
            tamed.append(
                Said(part.sink, "A" + _clean(grammar, "_" + part.text.strip() + "Z")[1:].replace("\n", " "))
            )
        else:
            arguments = {key: _tame_value(grammar, value) for key, value in part.arguments.items()}
            tamed.append(Called(part.name, arguments))
    return tamed


def _tame_value(grammar: c.Grammar, value: Any) -> Any:
    if isinstance(value, str):
        return value if value in ("fast", "1") else "S" + _clean(grammar, "_" + value.strip() + "Z")[1:]
    if isinstance(value, list):
        return [_tame_value(grammar, each) for each in value]
    if isinstance(value, Mapping):
        return {_tame_value(grammar, key): _tame_value(grammar, each) for key, each in value.items()}
    return value


# ---- style -------------------------------------------------------------------------------------------------


class Drawn(Style):
    """A style by chance: any spelling, any white space, any way on, JSON and Python spelled in several ways."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._stray = chance.choice((1, 1, 200, 3000))
        self._indent = chance.choice((None, None, 1, 2))
        self._ascii = chance.random() < 0.3
        self._tight = chance.random() < 0.3

    def cost(self, usual: int) -> int:
        return usual + self.chance.randrange(self._stray)

    def spelling(self, node: c.Lit) -> str:
        return self.chance.choice(node.spellings)

    def white(self, node: c.Ws) -> str | None:
        if self.chance.random() < 0.4 or node.canonical:
            return super().white(node)
        if node.exact:
            return self.chance.choice((node.exact, ""))
        return "".join(self.chance.choices(node.chars, k=node.least + self.chance.choice((0, 0, 1, 2, 3))))

    def json(self, value: Any) -> str:
        separators = (",", ":") if self._tight else None
        return json.dumps(
            value, ensure_ascii=self._ascii, allow_nan=False, indent=self._indent, separators=separators
        )

    def envelope(self, node: c.Envelope, name: str, arguments: Mapping[str, Any], id: str | None) -> str:
        if node.tool_key or self.chance.random() < 0.3:
            return super().envelope(node, name, arguments, id)
        given: Any = arguments
        if self.chance.random() < 0.2:
            given = json.dumps(arguments)
        members: dict[str, Any] = {self.chance.choice(node.names): name, self.chance.choice(node.arguments): given}
        if not arguments and node.decide == "begun" and self.chance.random() < 0.5:
            members = (
                {node.names[0]: name}
                if self.chance.random() < 0.5
                else {node.names[0]: name, node.arguments[0]: None}
            )
        if id is not None and node.ids:
            members[self.chance.choice(node.ids)] = id
        if node.type_value and self.chance.random() < 0.5:
            members["type"] = node.type_value
        if node.other == "ignore" and self.chance.random() < 0.3:
            members["note_of_mine"] = [{"name": "x"}, "}"]
        order = list(members.items())
        self.chance.shuffle(order)
        return self.json(dict(order))

    def python(self, value: Any) -> str:
        if isinstance(value, str) and self.chance.random() < 0.5:
            return repr(value)
        if (value is None or isinstance(value, bool)) and self.chance.random() < 0.3:
            return json.dumps(value)
        return super().python(value)
