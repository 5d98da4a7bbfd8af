"""Arguments as elements that nest, ``PREFIX<KEY>...PREFIX</KEY>``, written for the renderer.

A declared string is its text up to its own closer. Anything else with children is an object, or an array where the
schema says so or, if it says nothing, where the children are ``item``; without children its text is typed by its
schema. The schema of a child: ``properties``, else ``additionalProperties``; ``items`` in an array. References and
unions are not followed here: what they decide is written as JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from toolgrammar.readings.raw import Unwritable
from toolgrammar.readings.style import Style
from toolgrammar.schema import NO_SCHEMA, Plan, plan_of
from toolgrammar.testing import same_value

#: An element's name.
KEY: Final = re.compile(r"[^\s<>/\"'\]\[]+")


def write_elements(style: Style, prefix: str, arguments: Mapping[str, Any], root: Any) -> str:
    """``arguments`` as elements. Raises ``Unwritable``."""
    schema = root if isinstance(root, Mapping) else {}
    return "".join(
        _element(style, prefix, key, value, child_schema(schema, key), schema) for key, value in arguments.items()
    )


def _element(style: Style, prefix: str, key: str, value: Any, schema: Any, root: Any) -> str:
    if not KEY.fullmatch(key):
        raise Unwritable(f"{key!r} is no element's name")
    return f"{prefix}<{key}>{_body(style, prefix, key, value, schema, root)}{prefix}</{key}>"


def _body(style: Style, prefix: str, key: str, value: Any, schema: Any, root: Any) -> str:
    plain = (
        isinstance(schema, Mapping) and "$ref" not in schema and not {"anyOf", "oneOf", "allOf"} & schema.keys()
    )
    kind = schema.get("type") if plain else None
    if value and isinstance(value, list) and (kind == "array" or schema is None):
        items = (schema or {}).get("items")
        return "".join(_element(style, prefix, "item", each, items, root) for each in value)
    children = kind == "object" or (schema is None and isinstance(value, Mapping) and "item" not in value)
    if value and children and isinstance(value, Mapping) and all(map(KEY.fullmatch, value)):
        return "".join(
            _element(style, prefix, name, each, child_schema(schema, name), root) for name, each in value.items()
        )
    text = value if isinstance(value, str) else style.json(value)
    plan = typing_plan(schema, root)
    ends = f"{prefix}</{key}>" if plan.only_string else prefix
    if (text + ends).find(ends) < len(text):
        raise Unwritable(f"{key!r} holds {ends!r}")
    if not same_value(json.loads(plan.encode(text)), value):
        raise Unwritable(f"{key!r} would be read as {plan.encode(text)[:60]}: the tool's schema decides its type")
    return text


def child_schema(schema: Any, key: str) -> Any:
    """The schema of the child ``key`` of an object with this ``schema``, None if it says nothing."""
    if not isinstance(schema, Mapping):
        return None
    found = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
    return found if isinstance(found, Mapping) else None


def typing_plan(schema: Any, root: Any) -> Plan:
    """How an element's text becomes a value; ``root`` has the definitions."""
    return plan_of(schema, root) if isinstance(schema, Mapping) else NO_SCHEMA
