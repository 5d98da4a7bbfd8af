"""The tools of a request as a constraint sees them: which may be called, and with what."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from toolgrammar.errors import ToolsError
from toolgrammar.readings.constrain.formats import Schema
from toolgrammar.schema import ToolTable

_ANY_OBJECT: Final[Mapping[str, Any]] = {"type": "object"}
_COMBINED: Final = ("$ref", "anyOf", "oneOf", "allOf", "enum", "const")


class Parameter(msgspec.Struct, frozen=True):
    """A declared parameter. ``declared`` is its schema as it stands, ``schema`` is the same complete in itself."""

    key: str
    schema: Any
    declared: Any
    required: bool


class Tool(msgspec.Struct, frozen=True):
    """A tool that may be called. ``parameters`` is None where any arguments are good; ``keys``: the declared."""

    name: str
    schema: Mapping[str, Any]
    parameters: tuple[Parameter, ...] | None
    keys: tuple[str, ...] = ()


class Offer:
    """The tools of a request. ``targets``: those that may be called, by name.

    ``strict``: whose schemas count, None for those that say so themselves. Raises ``ToolsError`` for a name
    that is not offered.
    """

    def __init__(
        self, tools: Sequence[Mapping[str, Any]], names: Collection[str] | None, strict: bool | None
    ) -> None:
        self.table = ToolTable.of(tools)
        self.names = self.table.offered or frozenset()
        unknown = sorted(set(names or ()) - self.names)
        if unknown:
            raise ToolsError(f"names: {unknown[0]!r} is not among the tools: {', '.join(sorted(self.names))}")
        self.targets: dict[str, Tool] = {}
        for tool in tools:
            inner = tool.get("function", tool)
            name = inner["name"]
            if name not in self.targets and (names is None or name in names):
                told = inner.get("strict", tool.get("strict")) is True
                self.targets[name] = self._tool(name, told if strict is None else strict)

    def _tool(self, name: str, strict: bool) -> Tool:
        root = self.table.parameters(name)
        properties = root.get("properties") if root is not None else None
        keys = tuple(properties) if isinstance(properties, Mapping) else ()
        if not strict or root is None:
            return Tool(name, _ANY_OBJECT, None, keys)
        if not isinstance(properties, Mapping):
            closed = root.get("additionalProperties") is False or (root.get("type") == "object" and len(root) == 1)
            return Tool(name, _object(root), () if closed else None)
        required = root.get("required")
        needed = set(required) if isinstance(required, list) else set()
        parameters = tuple(
            Parameter(key, standing_alone(schema, root), schema, key in needed)
            for key, schema in properties.items()
        )
        return Tool(name, _object(root), parameters, keys)


def _object(root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the arguments, which are an object even where it does not say so."""
    if "type" in root or any(word in root for word in _COMBINED):
        return root
    return {"type": "object", **root}


def standing_alone(schema: Any, root: Mapping[str, Any]) -> Any:
    """``schema``, a part of ``root``, as a schema of its own: what it refers to comes with it."""
    if not _refers(schema):
        return schema
    whole = _moved(root)
    part = _moved(schema)
    return {**part, "$defs": {"root": whole}}


def _refers(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        return "$ref" in schema or any(map(_refers, schema.values()))
    return isinstance(schema, list) and any(map(_refers, schema))


def _moved(schema: Any) -> Any:
    """``schema`` with its references pointing below ``#/$defs/root``."""
    if isinstance(schema, list):
        return [_moved(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {word: _moved(each) for word, each in schema.items()}
    ref = found.get("$ref")
    if isinstance(ref, str) and (ref == "#" or ref.startswith("#/")):
        found["$ref"] = "#/$defs/root" + ref[1:]
    return found


def schema_format(schema: Any, excludes: tuple[str, ...] = ()) -> Schema:
    """JSON by ``schema``, in whose strings none of ``excludes`` stands."""
    return Schema(schema, json.dumps(schema, default=str), excludes)
