"""Arguments as elements that nest, by the tool's schema, as an EBNF grammar."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from toolgrammar.readings.constrain.formats import Rules
from toolgrammar.readings.constrain.notations import Notation, literal, required_of, until
from toolgrammar.readings.constrain.offer import Tool
from toolgrammar.schema_types import plan_of, resolve
from toolgrammar.typing_rules import ARRAY, OBJECT, STRING


def elements(prefix: str, tool: Tool) -> Rules:
    """Elements behind ``prefix``, one for each parameter."""
    return _Elements(tool, prefix).arguments()


class _Json(Notation):
    """JSON that stands in another notation."""

    mark = "j"


class _Elements(Notation):
    """The rule of a value ends with the prefix of its closer.

    As elements are written and read, what a reference or a union decides is JSON.
    """

    def __init__(self, tool: Tool, prefix: str) -> None:
        super().__init__(tool)
        self.prefix = prefix
        self.json = _Json(tool)

    def done(self, body: str) -> Rules:
        self.rules.update(self.json.rules)
        return super().done(body)

    def arguments(self) -> Rules:
        parameters = self.tool.parameters
        if parameters is None:
            text = until(self, self.prefix)
            return self.done(" ".join(self.element(key, text) + "?" for key in self.tool.keys) or '""')
        return self.done(self.children([(each.key, each.declared, each.required) for each in parameters]))

    def children(self, members: Sequence[tuple[str, Any, bool]]) -> str:
        """One element for each member."""
        return (
            " ".join(
                self.element(key, self.value(schema)) + ("" if needed else "?") for key, schema, needed in members
            )
            or '""'
        )

    def element(self, key: str, value: str) -> str:
        return self.rule(f"{literal(f'{self.prefix}<{key}>')} {value} {literal(f'</{key}>')}")

    def value(self, schema: Any) -> str:
        if isinstance(schema, Mapping) and "$ref" in schema:
            whole = resolve(schema["$ref"], (self.root,))
            types = plan_of(whole, self.root).types
            text = not types or types & STRING
            return until(self, self.prefix) if text else f"{self.json.value(whole)} {literal(self.prefix)}"
        return super().value(schema)

    def any(self) -> str:
        return until(self, self.prefix)

    def body(self, schema: Mapping[str, Any]) -> str:
        end = literal(self.prefix)
        members = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(members, list) and members:
            texts = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in members]
            return " | ".join(literal(text + self.prefix) for text in texts)
        types = plan_of(schema, self.root).types
        if not types or types & STRING:
            return until(self, self.prefix)
        if any(word in schema for word in ("anyOf", "oneOf", "allOf")):
            return f"{self.json.value(schema)} {end}"
        ways = [f"{way} {end}" for way in self.json.of_types({}, types & ~(ARRAY | OBJECT))]
        properties, items = schema.get("properties"), schema.get("items")
        if types & ARRAY:
            if isinstance(items, Mapping) and items:
                ways += [f"{self.element('item', self.value(items))}+ {end}", f'"[]" {end}']
            else:
                ways += [f"{way} {end}" for way in self.json.of_types(schema, ARRAY)]
        if types & OBJECT:
            if isinstance(properties, Mapping):
                needed = required_of(schema)
                inner = self.children([(key, each, key in needed) for key, each in properties.items()])
                ways.append(f"{inner} {end}")
            else:
                ways += [f"{way} {end}" for way in self.json.of_types(schema, OBJECT)]
        return " | ".join(ways)
