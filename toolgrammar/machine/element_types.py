"""The schemas of nested values: what a tool's schema declares for an object's member and an array's element.

    member   ``properties[KEY]``, else ``additionalProperties``
    item     ``prefixItems[i]``, else ``items``; where ``items`` is a list, it stands for ``prefixItems``

What a schema says itself counts first. Else all say it that stand for the schema, by ``$ref``, ``allOf``,
``anyOf`` and ``oneOf``: any of them may be meant.

    >>> types = ElementTypes({"$ref": "#/$defs/Tree", "$defs": {"Tree": {"properties": {"up": {"$ref": "#"}}}}})
    >>> types.member(types.member(types.root, "up"), "up"), types.member(types.root, "down")
    ({'$ref': '#'}, None)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolgrammar.schema_types import JsonObject, branches_of, plan_of, standing_for
from toolgrammar.typing_rules import NO_SCHEMA, Plan


class ElementTypes:
    """The types one tool's schema declares. A cache over the schema: safe to share between copies.

    Its size depends on the schema alone, whatever keys a model invents.
    """

    __slots__ = ("_nodes", "_plans", "_unions", "root")

    def __init__(self, root: object = None) -> None:
        #: The schema of the arguments.
        self.root: object = root
        # By a schema's identity, beside the schema itself: after unpickling the keys mean nothing.
        self._plans: dict[int, tuple[object, Plan]] = {}
        self._nodes: dict[int, tuple[object, list[JsonObject]]] = {}
        self._unions: dict[tuple[int, ...], tuple[list[object], object]] = {}

    def member(self, schema: object, key: str) -> object:
        """The schema of an object's member, None if nothing is said."""
        nodes = self._standing_for(schema)
        found: list[object] = []
        for node in nodes:
            properties = node.get("properties")
            if isinstance(properties, Mapping) and key in properties:
                found.append(properties[key])
                if node is nodes[0]:
                    break
        if not found:
            others = [node.get("additionalProperties") for node in nodes]
            found = [other for other in others if isinstance(other, Mapping)]
        return self._any_of(found)

    def item(self, schema: object, index: int) -> object:
        """The schema of an array's element, None if nothing is said."""
        nodes = self._standing_for(schema)
        found: list[object] = []
        for node in nodes:
            first: Sequence[object] = branches_of(node, "prefixItems") or branches_of(node, "items")
            if index < len(first):
                found.append(first[index])
            elif isinstance(node.get("items"), Mapping):
                found.append(node["items"])
            if found and node is nodes[0]:
                break
        return self._any_of(found)

    def plan(self, schema: object) -> Plan:
        """How a value declared by ``schema`` is typed."""
        if schema is None:
            return NO_SCHEMA
        known = self._plans.get(id(schema))
        if known is None or known[0] is not schema:
            root = self.root if isinstance(self.root, Mapping) else None
            known = self._plans[id(schema)] = (schema, plan_of(schema, root))
        return known[1]

    def _any_of(self, schemas: list[object]) -> object:
        """One schema for several; the same one for the same several, so that there are only so many."""
        if len(schemas) < 2:
            return schemas[0] if schemas else None
        cell = tuple(map(id, schemas))
        known = self._unions.get(cell)
        if known is None or any(a is not b for a, b in zip(known[0], schemas, strict=True)):
            known = self._unions[cell] = (schemas, {"anyOf": schemas})
        return known[1]

    def _standing_for(self, schema: object) -> list[JsonObject]:
        """``schema`` and the schemas that, together or in turn, stand for it."""
        if not isinstance(schema, Mapping):
            return []
        known = self._nodes.get(id(schema))
        if known is None or known[0] is not schema:
            known = self._nodes[id(schema)] = (schema, self._read(schema))
        return known[1]

    def _read(self, schema: JsonObject) -> list[JsonObject]:
        bases = tuple(base for base in (self.root, schema) if isinstance(base, Mapping))
        return list(standing_for(schema, bases))
