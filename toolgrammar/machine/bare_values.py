"""Bare text of a quoted-object notation as JSON: typed by the notation, with a say for the tool's schema.

    true false          booleans                      null None none nil      null
    -2  3.0  1e5        numbers, as written           anything else           a string, trimmed

The schema counts where it knows better (``formats/gemma4.md``, "Values"): a declared string keeps its
spelling (``0042``, ``null``), and a text that the notation does not type may fit a declared type (``True``).

    >>> types = BareTypes({"properties": {"code": {"type": "string"}}})
    >>> types.json("0042", types.member(types.root, "code")), types.json("42", None), types.json("nil", None)
    ('"0042"', '42', 'null')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from toolgrammar.machine.held_scanner import SPACE, Quiet
from toolgrammar.machine.json_writer import UNSAFE, escape_json
from toolgrammar.machine.safe_text import partial_pattern
from toolgrammar.schema_types import plan_of, standing_for
from toolgrammar.typing_rules import NO_SCHEMA, NULL, STRING, Plan

_NULLS: Final = frozenset(("null", "None", "none", "nil"))
_number: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch
_REFERRING: Final = frozenset(("$ref", "allOf", "anyOf", "oneOf"))
#: What may tell the types of a value beside ``type``.
_TELLING: Final = _REFERRING | {"enum", "const", "nullable"}
#: How many references and alternatives are followed for one child.
_MAX_STEPS: Final = 64

# What a match of the marker patterns found, by its last group; no group is a marker that may be cut.
STRUCTURE: Final = 1
QUOTE: Final = 2
END: Final = 3


@lru_cache(maxsize=64)
def _plan_of_type(name: str) -> Plan:
    """The plan of a schema whose ``type`` tells all."""
    return plan_of({"type": name})


class BareTypes:
    """The types one tool's schema declares. A cache over the schema: safe to share between copies."""

    __slots__ = ("_plans", "root")

    def __init__(self, root: object = None) -> None:
        #: The schema of the arguments.
        self.root: object = root
        # By the schema's identity, beside the schema itself: after unpickling the keys mean nothing.
        self._plans: dict[int, tuple[object, Plan]] = {}

    def member(self, schema: object, key: str) -> object:
        """The schema of an object's member, None if nothing is said."""
        if schema is None:
            return None
        if isinstance(schema, dict) and _REFERRING.isdisjoint(schema):
            declared = schema.get("properties")
            if isinstance(declared, dict) and key in declared:
                return declared[key]
        others: object = None
        for node in self._nodes(schema):
            properties = node.get("properties")
            if isinstance(properties, Mapping) and key in properties:
                return properties[key]
            if others is None and isinstance(node.get("additionalProperties"), Mapping):
                others = node["additionalProperties"]
        return others

    def items(self, schema: object) -> object:
        """The schema of an array's elements, None if nothing is said."""
        if schema is None:
            return None
        for node in self._nodes(schema):
            if isinstance(node.get("items"), Mapping):
                return node["items"]
        return None

    def json(self, text: str, schema: object) -> str:
        """The JSON of a bare ``text`` declared by ``schema``."""
        text = text.strip(SPACE)
        plan = NO_SCHEMA if schema is None else self._plan(schema)
        types = plan.types
        is_null = text in _NULLS
        if types & STRING or text in plan.strings:
            if is_null and types & NULL and text not in plan.strings:
                return "null"
            return plan.encode(text)
        if is_null:
            return "null"
        if text == "true" or text == "false" or _number(text) is not None:
            return text
        return plan.encode(text) if types else f'"{escape_json(text)}"'

    def _plan(self, schema: object) -> Plan:
        if isinstance(schema, dict) and _TELLING.isdisjoint(schema):
            name = schema.get("type")
            if isinstance(name, str):
                plan = _plan_of_type(name)
                if plan.types:
                    return plan
        known = self._plans.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        plan = plan_of(schema, self.root if isinstance(self.root, Mapping) else None)
        self._plans[id(schema)] = (schema, plan)
        return plan

    def _nodes(self, schema: object) -> list[Mapping[str, object]]:
        """``schema`` and what stands for it: references and alternatives."""
        if isinstance(schema, dict) and _REFERRING.isdisjoint(schema):
            return [schema]
        bases = (self.root,) if isinstance(self.root, Mapping) else ()
        return list(standing_for(schema, bases, _MAX_STEPS))


class Notation:
    """The compiled patterns of one notation: where text ends that stands outside delimiters. Immutable."""

    __slots__ = (
        "_made_of",
        "bare",
        "bare_in_parentheses",
        "cut_quote",
        "delimiter",
        "firsts",
        "key",
        "marker",
        "member",
        "name",
        "name_in_parentheses",
        "quiet",
        "quote",
        "special",
    )

    def __init__(self, quote: str, ends: tuple[str, ...], breaks: tuple[str, ...]) -> None:
        self._made_of: tuple[str, tuple[str, ...], tuple[str, ...]] = (quote, ends, breaks)
        groups = "|".join(f"({_alternatives(markers)})" for markers in ((quote,), ends, breaks))
        cut = "|".join(partial_pattern(marker) for marker in (quote, *ends, *breaks) if len(marker) > 1)
        markers = f"{groups}|(?:{cut or '(?!)'})\\Z"
        #: ``()`` keeps the numbers of the groups where no structure is looked for.
        self.marker: Callable[..., Any] = re.compile("((?!))|" + markers).match
        self.name: Callable[..., Any] = re.compile(r"([:,{}\[\]])|" + markers).search
        self.name_in_parentheses: Callable[..., Any] = re.compile(r"([:=,{}\[\])])|" + markers).search
        self.bare: Callable[..., Any] = re.compile(r"([,{}\[\]])|" + markers).search
        self.bare_in_parentheses: Callable[..., Any] = re.compile(r"([,{}\[\])])|" + markers).search
        self.delimiter: str = quote
        quote_cut = f"{partial_pattern(quote)}\\Z" if len(quote) > 1 else "(?!)"
        self.quote: Callable[..., Any] = re.compile(f"({re.escape(quote)})|{quote_cut}").search
        self.cut_quote: Callable[..., Any] = re.compile(quote_cut).search
        self.special: Callable[..., Any] = re.compile(f"[{re.escape(quote[0])}{UNSAFE}]").search
        #: The first characters of the markers.
        self.firsts: str = "".join(sorted({marker[0] for marker in (quote, *ends, *breaks)}))
        #: The common key with its colon, and the same behind a comma. No marker may begin in it.
        word = r"([^\W\d]\w*+)[ \t\r\n]*+:" if re.search(r"[\w\s]", self.firsts) is None else "((?!))"
        self.key: Callable[..., Any] = re.compile(word).match
        self.member: Callable[..., Any] = re.compile(r",[ \t\r\n]*+" + word).match
        stops = re.escape("".join(sorted({*self.firsts, *",{}[])"})))
        in_name = re.compile(f"[{stops}:=]").search
        in_text = re.compile(f"[{stops}]").search
        begin = re.compile(rf"[{stops}:=\s]").search
        #: By state of ``quoted_object``: what is no part of a bare text, nor begins one.
        self.quiet: tuple[Quiet, ...] = (
            None, None, begin, in_name, self.special, None, begin, begin, in_text, None, None,
        )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        return (notation_of, self._made_of)


def _alternatives(markers: Sequence[str]) -> str:
    return "|".join(re.escape(marker) for marker in sorted(markers, key=len, reverse=True)) or "(?!)"


@lru_cache(maxsize=64)
def notation_of(quote: str, ends: tuple[str, ...], breaks: tuple[str, ...]) -> Notation:
    return Notation(quote, ends, breaks)
