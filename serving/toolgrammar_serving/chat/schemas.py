"""JSON schemas moved into other schemas, without changing the ones that were given."""

from __future__ import annotations

from typing import Any, Final

#: Below these keys stands data, not schemas.
_DATA: Final = frozenset({"const", "enum", "default", "examples"})


def referable(schema: Any, name: str) -> Any:
    """``schema`` as it must read under ``#/$defs/name``: references to its own parts follow it there."""
    pointer = name.replace("~", "~0").replace("/", "~1")
    return _moved(schema, f"#/$defs/{pointer}")


def _moved(node: Any, place: str) -> Any:
    if isinstance(node, dict):
        found = {}
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
                found[key] = place + value[1:]
            else:
                found[key] = value if key in _DATA else _moved(value, place)
        return found
    if isinstance(node, list):
        return [_moved(item, place) for item in node]
    return node


def depth(node: Any) -> int:
    """How many levels of objects and lists stand inside each other."""
    levels, stage = 0, [node]
    while stage:
        stage = [
            inner
            for outer in stage
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        levels += 1
    return levels
