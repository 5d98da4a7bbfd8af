"""The steps over the values of a call: all its arguments at once, or one of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from toolgrammar import combinators as c
from toolgrammar.readings.constrain import notations
from toolgrammar.readings.constrain.fields import Fields
from toolgrammar.readings.constrain.formats import EMPTY, Const, Format, Free, either, opt, seq
from toolgrammar.readings.constrain.offer import Parameter, Tool, schema_format
from toolgrammar.readings.constrain.places import ANY, JsonId, JsonName, Place
from toolgrammar.schema import Plan, plan_of
from toolgrammar.typing_rules import STRING

Step = tuple[Format, Place]

#: White space inside a call object.
_BLANK: Final = c.Ws(canonical="")
_SPACE: Final = c.Ws(canonical=" ")


class Values(Fields):
    """Steps over values."""

    _envelopes: dict[int, Any]

    def complete(self, place: Place) -> bool:
        """Whether the call may end here."""
        tool = self.offer.targets.get(place.reg("name") or "")
        if tool is None or place.chosen:
            return False
        if place.written or tool.parameters is None:
            return True
        return not any(parameter.required for parameter in tool.parameters[place.member :])

    def envelope(self, node: c.Envelope) -> Any:
        """A call object as nodes: its members in the order that templates write them."""
        if id(node) not in self._envelopes:
            self._envelopes[id(node)] = (node, _envelope(node))
        return self._envelopes[id(node)][1]

    def value(self, place: Place, node: Any) -> list[Step]:
        """A value of the call."""
        tool = self.offer.targets.get(place.reg("name") or "")
        if tool is None or not place.in_call or place.written:
            return []
        if isinstance(node, c.Typed):
            return self.typed(place, node, tool)
        if place.chosen or place.member:
            return []
        said = self.whole(place, node, tool)
        if said is None or (place.need and not "{".startswith(place.need)):
            return []
        return [(said, replace(self.wrote(place), written=True))]

    def whole(self, place: Place, node: Any, tool: Tool) -> Format | None:
        """All arguments in one value; None if the notation cannot say them."""
        match node:
            case c.Json():
                # Where prose is still possible, a control token in a string would end the attempt.
                return schema_format(tool.schema, tuple(sorted(self.grammar.stops)) if place.word else ())
            case c.PyArgs():
                return notations.python_arguments(tool)
            case c.Quoted(quote):
                return notations.quoted_object(quote, tool)
            case c.Elements(prefix):
                return notations.elements(prefix, tool)
        keys = None if tool.parameters is None else [each.key for each in tool.parameters]
        if keys is not None and node.key not in keys:
            return None
        if any(each.required and each.key != node.key for each in tool.parameters or ()):
            return None
        return self.raw(place, ())

    def raw(self, place: Place, also: tuple[str, ...]) -> Free:
        """Text up to what follows."""
        ends = {marker.text for marker in self.first.of_chain(place.chain).markers}
        barred = {*ends, *also, *filter(str.strip, place.skipped), *self.controls, *self.grammar.stops}
        return Free(tuple(sorted(_shortest(barred - {""}))))

    # ---- one argument -------------------------------------------------------------------------------------

    def typed(self, place: Place, node: c.Typed, tool: Tool) -> list[Step]:
        """One raw value, of the parameter whose key was written."""
        if not place.chosen or place.reg("key") is None:
            return []
        kind = place.reg(node.kind) if node.kind else None
        if node.kind and kind is None:
            return []
        parameter = None if place.member == ANY or tool.parameters is None else tool.parameters[place.member]
        said = self._any_value(place, node, kind) if parameter is None else self._value(place, node, kind, parameter)
        if said is None:
            return []
        if place.need:
            if node.trim not in place.need:
                return []
            said = seq(Const(node.trim), said)
        regs = tuple(each for each in place.regs if each[0] not in ("key", node.kind))
        target = replace(
            self.wrote(place), chosen=False, in_loop=False, filled=(), regs=regs,
            member=0 if parameter is None else place.member + 1,
        )  # fmt: skip
        return [(said, target)]

    def _reopeners(self, node: c.Typed) -> tuple[str, ...]:
        return tuple(marker.text for opener in node.reopen for marker in self.first.of(opener).markers)

    def _any_value(self, place: Place, node: c.Typed, kind: str | None) -> Format:
        raw = self.raw(place, self._reopeners(node))
        return schema_format(True, raw.excludes) if kind == "false" else raw

    def _value(self, place: Place, node: c.Typed, kind: str | None, parameter: Parameter) -> Format | None:
        """A declared parameter's value. None if it cannot be of that kind."""
        plan = plan_of(parameter.schema)
        text = not plan.types or bool(plan.types & STRING)
        raw = self.raw(place, self._reopeners(node))
        if kind == "true":
            return _listed(parameter.schema, None) or raw if text else None
        if kind == "false":
            return None if plan.types == STRING else schema_format(parameter.schema, raw.excludes)
        framed = _listed(parameter.schema, plan)
        if framed is None:
            if text:
                return raw
            framed = schema_format(parameter.schema, raw.excludes)
        frame = opt(Const(node.trim)) if node.trim else EMPTY
        return seq(frame, framed, frame)


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
        if plan is None and not isinstance(member, str):
            continue
        if plan is None or json.loads(plan.encode(text)) == member:
            texts.append(Const(text))
    return either(*texts) if texts else None


def _shortest(texts: set[str]) -> set[str]:
    """``texts`` without those that hold another of them."""
    return {text for text in texts if not any(other != text and other in text for other in texts)}


def _envelope(node: c.Envelope) -> c.Node:
    """The members of a call object, in the order of templates: type, id, name, arguments, or the id last."""
    if node.tool_key:
        return c.Seq((c.Lit(("{",)), _BLANK, JsonName(), _BLANK, c.Lit((":",)), _SPACE, c.Json(), _BLANK, c.Lit(("}",))))
    comma = (_BLANK, c.Lit((",",)), _SPACE)

    def member(names: tuple[str, ...], value: Any) -> tuple[Any, ...]:
        return (c.Lit(tuple(json.dumps(name) for name in names)), _BLANK, c.Lit((":",)), _SPACE, value)

    items: list[Any] = [c.Lit(("{",)), _BLANK]
    if node.type_value:
        items.append(c.Opt(c.Seq((*member(("type",), c.Lit((json.dumps(node.type_value),))), *comma))))
    both = (*member(node.names, JsonName()), *comma, *member(node.arguments, c.Json()))
    id = member(node.ids, JsonId())
    if node.ids:
        items.append(c.Opt(c.Seq((*id, *comma))))
    items += both
    if node.ids:
        items.append(c.Opt(c.Seq((*comma, *id))))
    return c.Seq((*items, _BLANK, c.Lit(("}",))))

