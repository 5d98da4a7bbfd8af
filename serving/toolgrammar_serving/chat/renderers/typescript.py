"""Functions as TypeScript declarations, the way harmony tells a model of its tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

#: Levels of objects that are written out; what lies deeper is ``object``.
_DEEPEST = 16


def declaration(function: Mapping[str, Any]) -> str:
    """``type NAME = (_: {...}) => any;`` behind the description as a comment."""
    lines = _comment(function.get("description"))
    parameters = function.get("parameters")
    name = function["name"]
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if isinstance(parameters, Mapping) and isinstance(properties, Mapping) and properties:
        lines.append(f"type {name} = (_: {_object(parameters, '', 0)}) => any;")
    else:
        lines.append(f"type {name} = () => any;")
    return "\n".join(lines)


def _comment(text: Any, indent: str = "") -> list[str]:
    return [f"{indent}// {line}" for line in text.splitlines()] if isinstance(text, str) else []


def _object(schema: Mapping[str, Any], indent: str, depth: int) -> str:
    required = schema.get("required")
    required = required if isinstance(required, Sequence) else ()
    lines = ["{"]
    for name, value in schema["properties"].items():
        field = value if isinstance(value, Mapping) else {}
        lines += _comment(field.get("description"), indent)
        mark = "" if name in required else "?"
        default = f" // default: {_default(field)}" if "default" in field else ""
        lines.append(f"{indent}{name}{mark}: {_type(field, indent, depth)},{default}")
    return "\n".join([*lines, f"{indent}}}"])


def _default(field: Mapping[str, Any]) -> str:
    value = field["default"]
    if "enum" in field and isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _type(schema: Any, indent: str, depth: int) -> str:
    """The type of a value."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return "any"
    for union in ("oneOf", "anyOf"):
        if isinstance(schema.get(union), list) and schema[union]:
            return " | ".join(dict.fromkeys([_type(each, indent, depth + 1) for each in schema[union]]))
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    found = [_plain(schema, each, indent, depth) for each in kinds]
    if schema.get("nullable") is True:
        found.append("null")
    return " | ".join(dict.fromkeys(found)) or "any"


def _plain(schema: Mapping[str, Any], kind: Any, indent: str, depth: int) -> str:
    enum = schema.get("enum")
    if isinstance(enum, list) and enum and kind in ("string", None):
        return " | ".join([json.dumps(each, ensure_ascii=False) for each in enum])
    if kind in ("number", "integer"):
        return "number"
    if kind in ("string", "boolean", "null"):
        return str(kind)
    if kind == "array":
        inner = _type(schema["items"], indent, depth + 1) if "items" in schema else "any"
        return f"Array<{inner}>" if " | " in inner else f"{inner}[]"
    if kind == "object":
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties:
            return _object(schema, indent + "    ", depth + 1)
        return "object"
    return "any"
