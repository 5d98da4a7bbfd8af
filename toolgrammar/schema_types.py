"""The types that a schema admits, as a ``Plan``.

Source of the rules: ``shared/formats/qwen3-coder.md``, "Value typing", under ``shared/formats/README.md``,
rule 13.

    type, a name or a list            common misspellings included; order means nothing
    enum, const                       the types of the members; members that are strings are kept
    anyOf, oneOf                      the union of the branches
    $ref                              what it points to, inside the tool's schema or else the property's own
    items, prefixItems                array, where nothing else tells a type
    properties, additionalProperties  object, where nothing else tells a type
    nullable: true, a null member     null, besides

Keywords that stand side by side must all hold, and so must the branches of ``allOf``: their types are
intersected. If that leaves nothing, the first stands, ``type`` before all others. What cannot be understood
says nothing, and a schema that says nothing admits everything. A reference back to a schema being read adds
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from toolgrammar.typing_rules import (
    ALL,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NO_SCHEMA,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Plan,
)

JsonObject: TypeAlias = Mapping[str, object]
Found: TypeAlias = tuple[int, frozenset[str]]  # admitted types, listed strings

MAX_STEPS: Final = 2_000
MAX_DEPTH: Final = 64

_UNSAID: Final = 128  # nothing is said about the type; 0, in contrast, is a reference back
_NO_STRINGS: Final[frozenset[str]] = frozenset()

_TYPES: Final[dict[str, int]] = {
    **dict.fromkeys(("string", "str", "text", "varchar", "char"), STRING),
    **dict.fromkeys(("integer", "long", "short"), INTEGER),
    **dict.fromkeys(("number", "double"), NUMBER),
    **dict.fromkeys(("boolean", "bool"), BOOLEAN),
    **dict.fromkeys(("object", "map"), OBJECT),
    **dict.fromkeys(("array", "arr", "sequence"), ARRAY),
    "null": NULL,
    "any": ALL,
}
_PREFIXES: Final[dict[str, int]] = {
    "int": INTEGER, "uint": INTEGER, "num": NUMBER, "float": NUMBER, "dict": OBJECT, "list": ARRAY,
}  # fmt: skip


def plan_of(schema: object, root: JsonObject | None = None) -> Plan:
    """The plan of a value declared by ``schema``, whose references point into ``root`` (else into itself).

    Never raises; schemas that are cyclic, absurdly deep or no schemas at all admit what is left of them.
    """
    bases = tuple(base for base in (root, schema) if isinstance(base, Mapping))
    types, strings = _Reader(bases).read(schema, frozenset())
    return NO_SCHEMA if types in (0, _UNSAID) else Plan(types, strings)


def standing_for(schema: object, bases: tuple[JsonObject, ...], most: int = MAX_STEPS) -> Iterator[JsonObject]:
    """``schema`` and the schemas that, together or in turn, stand for it: references into ``bases``, alternatives.

    Each once; after ``most`` of them no further ones are looked for. None for what is no schema.
    """
    waiting: list[object] = [schema]
    seen: set[int] = set()
    for node in waiting:
        if not isinstance(node, Mapping) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if len(waiting) < most:
            if "$ref" in node:
                waiting.append(resolve(node["$ref"], bases))
            for keyword in ("allOf", "anyOf", "oneOf"):
                waiting.extend(branches_of(node, keyword))


class _Reader:
    """Reads one schema in a bounded number of steps."""

    __slots__ = ("_bases", "_steps")

    def __init__(self, bases: tuple[JsonObject, ...]) -> None:
        self._bases = bases
        self._steps = MAX_STEPS

    def read(self, schema: object, path: frozenset[int]) -> Found:
        """Types and listed strings of ``schema``; ``path`` are the ids of the schemas around it."""
        self._steps -= 1
        if schema is False:
            return 0, _NO_STRINGS
        if not isinstance(schema, Mapping) or self._steps < 0 or len(path) > MAX_DEPTH:
            return _UNSAID, _NO_STRINGS
        if id(schema) in path:
            return 0, _NO_STRINGS
        path |= {id(schema)}

        members = _members(schema)
        found: list[Found] = [(_declared(schema.get("type")), _NO_STRINGS)]
        if "$ref" in schema:
            found.append(self.read(resolve(schema["$ref"], self._bases), path))
        if members:
            listed = frozenset(member for member in members if isinstance(member, str))
            found.append((_either([_type_of(member) for member in members]), listed))
        found += [self.read(branch, path) for branch in branches_of(schema, "allOf")]
        for keyword in ("anyOf", "oneOf"):
            branches = [self.read(branch, path) for branch in branches_of(schema, keyword)]
            if branches:
                found.append((_either([types for types, _ in branches]), _all_strings(branches)))

        types = _UNSAID
        for each, _ in found:
            types = _both(types, each)
        if types in (0, _UNSAID):
            types = _implied(schema) or types
        if types != _UNSAID and (schema.get("nullable") is True or None in members):
            types |= NULL
        return types, _all_strings(found) if types & STRING else _NO_STRINGS


def _all_strings(found: Sequence[Found]) -> frozenset[str]:
    return _NO_STRINGS.union(*(strings for _, strings in found))


def _both(one: int, other: int) -> int:
    """What both admit; if that is nothing, what the first admits. What says nothing counts for nothing."""
    if one == _UNSAID or other == 0:
        return other if one == _UNSAID else one
    if other == _UNSAID or one == 0:
        return one if other == _UNSAID else other
    common = one & other
    if (one & NUMBER and other & INTEGER) or (one & INTEGER and other & NUMBER):
        common |= INTEGER
    return common or one


def _either(sets: Sequence[int]) -> int:
    """What any of them admits: everything if one says nothing, unless none says anything."""
    known = {each for each in sets if each}
    if _UNSAID in known:
        return ALL if len(known) > 1 else _UNSAID
    union = 0
    for each in known:
        union |= each
    return union


def _declared(names: object) -> int:
    """The types that ``type`` names."""
    if isinstance(names, str):
        types = _named(names)
        return _UNSAID if types in (0, ALL) else types
    types = 0
    if isinstance(names, (list, tuple)):
        for name in names:
            types |= _named(name) if isinstance(name, str) else 0
    return types or _UNSAID


def _named(name: str) -> int:
    name = name.strip().lower()
    if name in _TYPES:
        return _TYPES[name]
    return next((types for prefix, types in _PREFIXES.items() if name.startswith(prefix)), 0)


def _implied(schema: JsonObject) -> int:
    types = ARRAY if "items" in schema or "prefixItems" in schema else 0
    return types | OBJECT if "properties" in schema or "additionalProperties" in schema else types


def _members(schema: JsonObject) -> list[object]:
    """The values that ``enum`` and ``const`` list."""
    members = list(branches_of(schema, "enum"))
    return [*members, schema["const"]] if "const" in schema else members


def _type_of(value: object) -> int:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return INTEGER
    if isinstance(value, float):
        return NUMBER
    if isinstance(value, str):
        return STRING
    return OBJECT if isinstance(value, Mapping) else ARRAY if isinstance(value, (list, tuple)) else 0


def branches_of(schema: JsonObject, keyword: str) -> Sequence[object]:
    """The list under ``keyword``, empty if there is none."""
    branches = schema.get(keyword)
    return branches if isinstance(branches, (list, tuple)) else ()


def resolve(reference: object, bases: tuple[JsonObject, ...]) -> object:
    """What a local reference points to in the first of ``bases`` that has it; None if there is no such."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    from urllib.parse import unquote  # few schemas refer to anything

    steps = [unquote(step).replace("~1", "/").replace("~0", "~") for step in reference.split("/")[1:]]
    for base in bases:
        node: object = base
        for step in steps:
            if isinstance(node, Mapping) and step in node:
                node = node[step]
            elif isinstance(node, (list, tuple)) and _is_index(step) and int(step) < len(node):
                node = node[int(step)]
            else:
                break
        else:
            return node
    return None


def _is_index(step: str) -> bool:
    return len(step) <= 6 and step.isascii() and step.isdigit()
