"""The tools of a request put into the holes of a constraint."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any

from toolgrammar import combinators as c
from toolgrammar.readings.constrain import elements, notations
from toolgrammar.readings.constrain.fields import ANY_NAME
from toolgrammar.readings.constrain.formats import (
    EMPTY,
    NEVER,
    Const,
    Each,
    Format,
    Free,
    Hole,
    Members,
    Or,
    Repeat,
    Run,
    Seq,
    either,
    opt,
    seq,
    star,
)  # fmt: skip
from toolgrammar.readings.constrain.offer import Offer, Parameter, Tool, schema_format
from toolgrammar.readings.headers import take
from toolgrammar.schema import Plan, plan_of
from toolgrammar.typing_rules import STRING

#: A key of arguments that may be any.
_ANY_KEY = Run("A-Za-z0-9_", 1, 64)


class Filling:
    """Fills the holes. ``like``: the name that stands for a tool's, see ``walk``."""

    def __init__(self, offer: Offer, like: Mapping[str, str]) -> None:
        self.offer = offer
        self.tools: dict[str, list[Tool]] = {}
        for name, tool in offer.targets.items():
            self.tools.setdefault(like[name], []).append(tool)
        self._known: dict[tuple[Format, str], Format] = {}
        self._whole: dict[tuple[int, str, tuple[str, ...]], Format] = {}
        self._values: dict[tuple[int, Hole], Format] = {}

    def fill(self, item: Format, tool: Tool | None = None) -> Format:
        """``item`` without holes, for the tool if one is settled."""
        if not isinstance(item, Seq | Or | Repeat | Each | Members | Hole):
            return item
        # By value: what stands in several places is filled once.
        key = (item, tool.name if tool is not None else "")
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._filled(item, tool)
        return known

    def _filled(self, item: Format, tool: Tool | None) -> Format:
        match item:
            case Seq(items):
                return seq(*(self.fill(each, tool) for each in items))
            case Or(items):
                return either(*(self.fill(each, tool) for each in items))
            case Repeat(inner, kind):
                found = self.fill(inner, tool)
                if kind == "+":
                    return NEVER if found == NEVER else Repeat(found, "+") if found != EMPTY else EMPTY
                return opt(found) if kind == "?" else star(found)
            case Each(inner, like):
                return either(*(self.fill(inner, each) for each in self.tools.get(like, ())))
            case Members(inner):
                assert tool is not None
                return self._members(inner, tool)
            case Hole():
                assert tool is not None
                return self._hole(item, tool)
        return item

    def _members(self, item: Format, tool: Tool) -> Format:
        """All parameters in order."""
        if tool.parameters is None:
            return star(self._member(item, None))
        parts = []
        for parameter in tool.parameters:
            said = self._member(item, parameter)
            parts.append(said if parameter.required else opt(said))
        return seq(*parts)

    def _member(self, item: Format, parameter: Parameter | None) -> Format:
        """A parameter's key and value; any of them if it is None."""
        match item:
            case Seq(items):
                return seq(*(self._member(each, parameter) for each in items))
            case Or(items):
                return either(*(self._member(each, parameter) for each in items))
            case Repeat(inner, kind):
                found = self._member(inner, parameter)
                return opt(found) if kind == "?" else star(found) if kind == "*" else seq(found, star(found))
            case Hole("key"):
                return _ANY_KEY if parameter is None else _field(item, parameter.key)
            case Hole("value") if parameter is None:
                free = Free(item.excludes)
                return seq(Const(item.lead), schema_format(True, item.excludes) if item.kind == "false" else free)
            case Hole("value"):
                assert parameter is not None
                key = (id(parameter), item)
                if key not in self._values:
                    self._values[key] = seq(Const(item.lead), _value(item, parameter))
                return self._values[key]
        return item

    def _hole(self, hole: Hole, tool: Tool) -> Format:
        match hole.what:
            case "name":
                return self._name(hole, tool)
            case "nothing":
                needed = tool.parameters is not None and any(each.required for each in tool.parameters)
                return NEVER if needed else EMPTY
            case "only":
                return _only(hole, tool)
        # Notations hold on to the schema, not to the place: what was written once is taken again.
        key = (id(hole.node), tool.name, hole.excludes)
        if key not in self._whole:
            self._whole[key] = _whole(hole, tool)
        return self._whole[key]

    def _name(self, hole: Hole, tool: Tool) -> Format:
        """The tool's name; NEVER if it cannot stand there, or would be taken for something else."""
        if hole.check:
            choices, template, arms = hole.check
            said = template.replace(ANY_NAME, tool.name)
            for choice, arm in zip(choices, arms, strict=True):
                taken = take(choice, said, self.offer.names)
                if (None if taken is None else taken[0]) != arm:
                    return NEVER
                if taken is not None and taken[1].get("name", tool.name) != tool.name:
                    return NEVER
            return Const(tool.name)
        if isinstance(hole.node, c.Field):
            return _field(hole, tool.name)
        return Const(json.dumps(tool.name, ensure_ascii=False))


def fits(node: c.Field, text: str, barred: tuple[str, ...]) -> bool:
    """Whether a name or key can stand in the field."""
    return (
        text == text.strip()
        and bool(text or node.empty)
        and len(text) <= node.limit
        and (not node.chars or bool(re.fullmatch(f"(?:{node.chars})*", text)))
        and not (node.quoted and len(text) > 1 and text[0] == text[-1] and text[0] in "\"'")
        and not any(each in text for each in barred)
    )


def _field(hole: Hole, text: str) -> Format:
    if not fits(hole.node, text, hole.excludes):
        return NEVER
    return Const(html.escape(text) if hole.node.unescape else text)


def _whole(hole: Hole, tool: Tool) -> Format:
    """All arguments in one value."""
    match hole.node:
        case c.PyArgs():
            return notations.python_arguments(tool)
        case c.Quoted(quote):
            return notations.quoted_object(quote, tool)
        case c.Elements(prefix):
            return elements.elements(prefix, tool)
    return schema_format(tool.schema, hole.excludes)


def _only(hole: Hole, tool: Tool) -> Format:
    """One text as the only argument."""
    if tool.parameters is not None:
        known = {each.key: each for each in tool.parameters}
        if hole.kind not in known or any(each.required and each.key != hole.kind for each in tool.parameters):
            return NEVER
    return Free(hole.excludes)


def _value(hole: Hole, parameter: Parameter) -> Format:
    """A declared parameter's value; NEVER if it cannot be of that kind."""
    plan = plan_of(parameter.schema)
    text = not plan.types or bool(plan.types & STRING)
    if hole.kind == "true":
        return _listed(parameter.schema, None) or (Free(hole.excludes) if text else NEVER)
    by_schema = schema_format(parameter.schema, hole.excludes)
    if hole.kind == "false":
        return NEVER if plan.only_string else by_schema
    said = _listed(parameter.schema, plan)
    if said is None and text:
        return Free(hole.excludes)
    trim = opt(Const(hole.node.trim)) if hole.node.trim else EMPTY
    return seq(trim, said or by_schema, trim)


def _listed(schema: Any, plan: Plan | None) -> Format | None:
    """The values that ``enum`` or ``const`` list, as they are written raw; None if the schema lists none."""
    if not isinstance(schema, Mapping):
        return None
    members = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if not isinstance(members, list):
        return None
    texts = []
    for member in members:
        text = member if isinstance(member, str) else json.dumps(member, ensure_ascii=False)
        if isinstance(member, str) if plan is None else json.loads(plan.encode(text)) == member:
            texts.append(Const(text))
    return either(*texts) if texts else None
