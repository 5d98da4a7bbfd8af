"""Arguments in notations that are no JSON, by the tool's schema: Python keywords and quoted objects.

Each becomes a small EBNF grammar of its own (``elements`` is a third). Types, ``properties`` with ``required``,
``items``, ``enum``, ``const``, references and unions count; ranges, patterns and lengths do not. Properties stand
in the order of the schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from toolgrammar.readings.constrain.formats import Rules
from toolgrammar.readings.constrain.offer import Tool
from toolgrammar.schema_types import plan_of, resolve
from toolgrammar.typing_rules import ARRAY, BOOLEAN, INTEGER, NULL, NUMBER, OBJECT, STRING

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*")
_SPACE: Final = '" "?'

_DIGITS: Final = '"-"? ("0" | [1-9] [0-9]{0,17})'
_HEX: Final = '("u" ([0-9a-cefA-CEF] [0-9a-fA-F] | [dD] [0-7]) [0-9a-fA-F]{2})'


def python_arguments(tool: Tool) -> Rules:
    """Keyword arguments up to and with ``)``."""
    return _Python(tool).arguments()


def quoted_object(quote: str, tool: Tool) -> Rules:
    """An object with bare keys, its strings between ``quote``."""
    return _Quoted(tool, quote).arguments()


class Notation:
    """Writes the rules of one tool's arguments. Subclasses say how values are spelled."""

    words: tuple[str, str, str] = ("true", "false", "null")
    #: What the names of rules begin with.
    mark = ""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.root: Mapping[str, Any] = tool.schema
        self.rules: dict[str, str] = {}
        self._known: dict[int, str] = {}
        self._kept: list[Any] = []

    def rule(self, body: str, name: str = "") -> str:
        """A rule with ``body``; its name."""
        for known, other in self.rules.items():
            if other == body and (not name or known == self.mark + name):
                return known
        name = self.mark + (name or f"r{len(self.rules)}")
        self.rules[name] = body
        return name

    def done(self, body: str) -> Rules:
        """The grammar that begins with ``body``."""
        lines = [f"root ::= {body}", *(f"{name} ::= {text}" for name, text in self.rules.items())]
        return Rules("\n".join(lines) + "\n")

    # ---- values -------------------------------------------------------------------------------------------

    def value(self, schema: Any) -> str:
        """The rule of a value by ``schema``."""
        if isinstance(schema, Mapping) and "$ref" in schema:
            schema = resolve(schema["$ref"], (self.root,))
        if not isinstance(schema, Mapping) or not schema:
            return self.any()
        if id(schema) in self._known:
            return self._known[id(schema)]
        self._kept.append(schema)
        name = self._known[id(schema)] = f"{self.mark}v{len(self._known)}"
        self.rules[name] = '""'
        self.rules[name] = self.body(schema)
        return name

    def body(self, schema: Mapping[str, Any]) -> str:
        """What ``schema`` admits."""
        members = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(members, list) and members:
            return " | ".join(literal(self.spelled(member)) for member in members)
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list) and schema[word]:
                return " | ".join(self.value(each) for each in schema[word])
        if isinstance(schema.get("allOf"), list) and len(schema["allOf"]) == 1:
            return self.value(schema["allOf"][0])
        types = plan_of(schema, self.root).types
        return " | ".join(self.of_types(schema, types)) if types else self.any()

    def of_types(self, schema: Mapping[str, Any], types: int) -> list[str]:
        """One alternative for each type."""
        found = [self.string()] if types & STRING else []
        if types & (INTEGER | NUMBER):
            found.append(self.number() if types & NUMBER else self.rule(_DIGITS, "integer"))
        if types & BOOLEAN:
            found += [literal(self.words[0]), literal(self.words[1])]
        if types & NULL:
            found.append(literal(self.words[2]))
        if types & ARRAY:
            found.append(self.array(self.value(schema["items"]) if "items" in schema else self.any()))
        if types & OBJECT:
            properties = schema.get("properties")
            if isinstance(properties, Mapping):
                found.append(self.record(properties, required_of(schema)))
            else:
                others = schema.get("additionalProperties")
                found.append(self.mapping(self.value(others) if isinstance(others, Mapping) else self.any()))
        return found

    def any(self) -> str:
        """A value of any type."""
        name = self.mark + "any"
        if name not in self.rules:
            self.rules[name] = '""'
            self.rules[name] = " | ".join(self.of_types({}, STRING | NUMBER | BOOLEAN | NULL | ARRAY | OBJECT))
        return name

    def number(self) -> str:
        return self.rule(_DIGITS + ' ("." [0-9]{1,17})? ([eE] [+-]? [0-9]{1,2})?', "number")

    def array(self, item: str) -> str:
        return f'"[" ({item} ("," {_SPACE} {item})*)? "]"'

    def mapping(self, value: str) -> str:
        """An object with any keys."""
        pair = self.rule(f"{self.key()} {self.colon()} {value}")
        return f'"{{" ({pair} ("," {_SPACE} {pair})*)? "}}"'

    def record(self, properties: Mapping[str, Any], required: set[str]) -> str:
        """An object with these keys."""
        pairs = [
            (f"{literal(self.spelled_key(key))} {self.colon()} {self.value(schema)}", key in required)
            for key, schema in properties.items()
        ]
        return f'"{{" {self.listed(pairs)} "}}"'

    def listed(self, pairs: Sequence[tuple[str, bool]]) -> str:
        """``pairs`` in order, each with whether it must be there, commas between them."""
        begun, first = '""', '""'
        for pair, needed in reversed(pairs):
            here = self.rule(pair)
            more = f'"," {_SPACE} {here}'
            first = self.rule(f"{here} {begun}" + ("" if needed else f" | {first}"))
            begun = self.rule(f"{more} {begun}" if needed else f"({more})? {begun}")
        return first

    # ---- spelling -----------------------------------------------------------------------------------------

    def arguments(self) -> Rules:
        raise NotImplementedError

    def string(self) -> str:
        escape = rf'"\\" (["\\/nrtbf] | {_HEX})'
        return self.rule(rf'"\"" ([^"\\\x00-\x1f] | {escape})* "\""', "string")

    def key(self) -> str:
        return self.string()

    def colon(self) -> str:
        return f'":" {_SPACE}'

    def spelled(self, value: Any) -> str:
        """A value as the notation writes it."""
        return json.dumps(value, ensure_ascii=False)

    def spelled_key(self, key: str) -> str:
        return self.spelled(key)


class _Python(Notation):
    words = ("True", "False", "None")

    def arguments(self) -> Rules:
        parameters = self.tool.parameters
        if parameters is None:
            pair = self.rule(f'[A-Za-z_] [A-Za-z0-9_]{{0,63}} "=" {self.any()}')
            return self.done(f'({pair} ("," {_SPACE} {pair})*)? ")"')
        pairs = []
        for each in parameters:
            value = self.value(each.declared)
            if _IDENTIFIER.fullmatch(each.key):
                said = f'{literal(each.key)} "=" {value}'
            else:
                said = f'"**{{" {literal(self.spelled(each.key))} ": " {value} "}}"'
            pairs.append((said, each.required))
        return self.done(f'{self.listed(pairs)} ")"')

    def string(self) -> str:
        escape = rf'"\\" (["\\nrtbf] | "\'" | {_HEX})'
        return self.rule(
            rf'"\"" ([^"\\\r\n\x00] | {escape})* "\"" | "\'" ([^\'\\\r\n\x00] | {escape})* "\'"', "string"
        )

    def spelled(self, value: Any) -> str:
        if value is None or isinstance(value, bool):
            return repr(value)
        if isinstance(value, list):
            return "[" + ", ".join(map(self.spelled, value)) + "]"
        if isinstance(value, Mapping):
            members = (f"{self.spelled(key)}: {self.spelled(each)}" for key, each in value.items())
            return "{" + ", ".join(members) + "}"
        return json.dumps(value, ensure_ascii=False)


class _Quoted(Notation):
    def __init__(self, tool: Tool, quote: str) -> None:
        super().__init__(tool)
        self.quote = quote

    def arguments(self) -> Rules:
        parameters = self.tool.parameters
        if parameters is None:
            return self.done(self.mapping(self.any()))
        required = {each.key for each in parameters if each.required}
        return self.done(self.record({each.key: each.declared for each in parameters}, required))

    def string(self) -> str:
        return self.rule(f"{literal(self.quote)} {until(self, self.quote)}", "string")

    def key(self) -> str:
        return self.rule("[A-Za-z_] [A-Za-z0-9_]{0,63}", "key")

    def colon(self) -> str:
        return '":"'

    def spelled(self, value: Any) -> str:
        if isinstance(value, str):
            return self.quote + value + self.quote
        if isinstance(value, list):
            return "[" + ",".join(map(self.spelled, value)) + "]"
        if isinstance(value, Mapping):
            members = (f"{self.spelled_key(key)}:{self.spelled(each)}" for key, each in value.items())
            return "{" + ",".join(members) + "}"
        return json.dumps(value)

    def spelled_key(self, key: str) -> str:
        return key if _BARE.fullmatch(key) else self.quote + key + self.quote


def literal(text: str) -> str:
    """``text`` in an EBNF grammar."""
    return json.dumps(text, ensure_ascii=False)


def until(rules: Notation, end: str) -> str:
    """The rule of any text up to and with the first ``end``."""
    names = [f"until{number}" for number in range(len(end))]
    for number, name in enumerate(names):
        ways, others = [], ""
        for char in dict.fromkeys(end):
            seen = end[:number] + char
            length = next(size for size in range(min(len(seen), len(end)), -1, -1) if seen.endswith(end[:size]))
            ways.append(literal(char) + (f" {names[length]}" if length < len(end) else ""))
            others += char
        ways.append(f"[^{_class(others)}] {names[0]}")
        rules.rules[name] = " | ".join(ways)
    return names[0]


def _class(chars: str) -> str:
    return "".join("\\" + char if char in "\\]^-" else char for char in chars)


def required_of(schema: Mapping[str, Any]) -> set[str]:
    required = schema.get("required")
    return set(required) if isinstance(required, list) else set()
