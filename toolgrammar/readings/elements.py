"""Arguments as elements that nest, ``PREFIX<KEY>...PREFIX</KEY>``: written and read, for renderer and oracle.

A declared string is its text up to its own closer. Anything else with children is an object, or an array where the
schema says so or, if it says nothing, where the children are ``item``; without children its text is typed by its
schema. The schema of a child: ``properties``, else ``additionalProperties``; ``items`` in an array. References and
unions are not followed here: what they decide is written as JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import parsy  # type: ignore[import-untyped, unused-ignore]

from toolgrammar.readings.parsing import steps
from toolgrammar.readings.raw import Unwritable
from toolgrammar.readings.style import Style
from toolgrammar.schema import NO_SCHEMA, Plan, plan_of
from toolgrammar.testing import same_value

_KEY = re.compile(r"[^\s<>/\"'\]\[]+")


def write_elements(style: Style, prefix: str, arguments: Mapping[str, Any], root: Any) -> str:
    """``arguments`` as elements. Raises ``Unwritable``."""
    schema = root if isinstance(root, Mapping) else {}
    return "".join(
        _element(style, prefix, key, value, _child(schema, key), schema) for key, value in arguments.items()
    )


def _element(style: Style, prefix: str, key: str, value: Any, schema: Any, root: Any) -> str:
    if not _KEY.fullmatch(key):
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
    if value and children and isinstance(value, Mapping) and all(map(_KEY.fullmatch, value)):
        return "".join(
            _element(style, prefix, name, each, _child(schema, name), root) for name, each in value.items()
        )
    text = value if isinstance(value, str) else style.json(value)
    plan = _plan(schema, root)
    ends = f"{prefix}</{key}>" if plan.only_string else prefix
    if (text + ends).find(ends) < len(text):
        raise Unwritable(f"{key!r} holds {ends!r}")
    if not same_value(json.loads(plan.encode(text)), value):
        raise Unwritable(f"{key!r} would be read as {plan.encode(text)[:60]}: the tool's schema decides its type")
    return text


def _child(schema: Any, key: str) -> Any:
    if not isinstance(schema, Mapping):
        return None
    found = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
    return found if isinstance(found, Mapping) else None


def _plan(schema: Any, root: Any) -> Plan:
    return plan_of(schema, root) if isinstance(schema, Mapping) else NO_SCHEMA


# ---- reading -----------------------------------------------------------------------------------------------


def read_elements(prefix: str, root: Any) -> parsy.Parser:
    """A parser of all elements up to one that only closes."""
    schema = root if isinstance(root, Mapping) else {}
    white = parsy.regex(r"\s*")
    opener = white >> parsy.string(prefix) >> parsy.regex(r"[ \t]*<") >> parsy.regex(_KEY) << parsy.string(">")

    def element(parent: Any, array: bool) -> parsy.Parser:
        @steps("an element")
        def read() -> Any:
            key = yield opener
            found = parent.get("items") if array and isinstance(parent, Mapping) else _child(parent, key)
            value = yield body(key, found if isinstance(found, Mapping) else None)
            yield parsy.string(f"{prefix}</{key}>")
            return key, value

        return read

    def body(key: str, schema: Any) -> parsy.Parser:
        plan = _plan(schema, root)
        closer = f"{prefix}</{key}>" if plan.only_string else prefix
        text = parsy.regex(f"(?:(?!{re.escape(closer)}).)*", re.S)
        if plan.only_string:
            return text
        kind = (schema or {}).get("type")
        listed = (element(schema, True).at_least(1) << white).map(lambda found: [value for _, value in found])
        record = element(schema, False).at_least(1).map(dict) << white
        if kind == "array" or schema is None:
            items = parsy.peek(
                opener.bind(lambda key: parsy.success(key) if key == "item" else parsy.fail("an item"))
            )
            record = (listed if kind == "array" else items >> listed) | record
        return record | text.map(lambda found: json.loads(plan.encode(found)))

    return element(schema, False).many().map(dict) << white
