"""The tools of one request, and for each of their parameters the plan by which its raw value is typed.

    >>> table = ToolTable.of([{"name": "lathe", "parameters": {"properties": {"rpm": {"type": "integer"}}}}])
    >>> table.plan("lathe", "rpm").encode("12"), table.plan("lathe", "note").encode("slow")
    ('12', '"slow"')

Three modules: this one finds the schema of a parameter (``shared/formats/qwen3-coder.md``, V6),
``schema_types`` the types that a schema admits, ``typing_rules`` the value that a text is among those types.

What a tool's schema contains is never an error here; how tools are given is (``ToolsError``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from toolgrammar.errors import ToolsError
from toolgrammar.schema_types import JsonObject, plan_of, standing_for
from toolgrammar.typing_rules import NO_SCHEMA, Plan, quote

__all__ = ["NO_SCHEMA", "Plan", "ToolTable", "ToolsError", "plan_of", "quote"]

_SCHEMA_KEYS: Final = ("parameters", "input_schema", "inputSchema")
_SHAPES: Final = (
    '{"type": "function", "function": {"name": …, "parameters": …}} or {"name": …} with "parameters", '
    '"input_schema" or "inputSchema"'
)


class ToolTable:
    """The tools offered in one request. To be treated as immutable: copies are the table itself.

    The schemas are kept by reference and must not change afterwards. Plans are made when first asked for and
    kept, at most one for each declared parameter and one more for each tool. Safe to share between threads.
    """

    __slots__ = ("_parameters", "_plans", "offered")

    def __init__(self, parameters: dict[str, dict[str, object] | None] | None) -> None:
        #: The names of the tools; None when no list was given, so that every name is as good as another.
        self.offered: frozenset[str] | None = None if parameters is None else frozenset(parameters)
        self._parameters: dict[str, dict[str, object] | None] = parameters or {}
        self._plans: dict[tuple[str, str | None], Plan] = {}

    @classmethod
    def of(cls, tools: Sequence[JsonObject] | None) -> ToolTable:
        """The table of ``tools`` in OpenAI's, Anthropic's, MCP's or bare notation, mixed as you like.

        Of several tools with one name the first stands. Raises ``ToolsError``.
        """
        if tools is None:
            return cls(None)
        given: object = tools
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
            raise ToolsError(
                f"tools: expected a list of tool definitions or None, found {_kind(given)}. "
                "Pass the request's list of tools; a single tool goes into a list of one."
            )
        table: dict[str, dict[str, object] | None] = {}
        for index, tool in enumerate(given):
            name, parameters = _read_tool(f"tools[{index}]", tool)
            table.setdefault(name, parameters)
        return cls(table)

    def known(self, name: str) -> bool:
        """Whether a call of ``name`` is one of an offered tool; always so when no list was given."""
        return self.offered is None or name in self.offered

    def parameters(self, tool: str) -> dict[str, object] | None:
        """The schema of the tool's arguments; None if the tool has none or was not offered."""
        return self._parameters.get(tool)

    def declared(self, tool: str, key: str) -> bool:
        """Whether the tool's schema names the parameter ``key`` among its properties."""
        return bool(self._declarations(tool, key))

    def plan(self, tool: str, key: str) -> Plan:
        """How ``key`` is typed: as declared, else by ``additionalProperties``, else without a schema."""
        return self._plans.get((tool, key)) or self._make_plan(tool, key)

    def _make_plan(self, tool: str, key: str) -> Plan:
        root = self._parameters.get(tool)
        if root is None:
            return NO_SCHEMA
        schemas = self._declarations(tool, key)
        # All undeclared keys share one cell: the keys that a model invents cannot fill the memory.
        cell = (tool, key if schemas else None)
        plan = self._plans.get(cell)
        if plan is None:
            if not schemas:
                others = [node.get("additionalProperties") for node in standing_for(root, (root,))]
                schemas = [schema for schema in others if isinstance(schema, Mapping)]
            plan = plan_of(schemas[0] if len(schemas) == 1 else {"anyOf": schemas}, root)
            self._plans[cell] = plan
        return plan

    def _declarations(self, tool: str, key: str) -> list[object]:
        """The schemas of ``key``: the root's own, else those of every schema that stands for the root."""
        root = self._parameters.get(tool)
        if root is None:
            return []
        found: list[object] = []
        for node in standing_for(root, (root,)):
            properties = node.get("properties")
            if isinstance(properties, Mapping) and key in properties:
                found.append(properties[key])
                if node is root:
                    break
        return found

    def __copy__(self) -> ToolTable:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> ToolTable:
        return self

    def __repr__(self) -> str:
        return "ToolTable(None)" if self.offered is None else f"ToolTable({', '.join(sorted(self.offered))})"


def _read_tool(where: str, tool: object) -> tuple[str, dict[str, object] | None]:
    """Name and parameter schema of one definition."""
    if isinstance(tool, Mapping) and "function" in tool:
        where, tool = f"{where}.function", tool["function"]
    if not isinstance(tool, Mapping):
        raise ToolsError(f"{where}: expected an object, found {_kind(tool)}. Give each tool as {_SHAPES}.")
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        found = _kind(name) if "name" in tool else "none"
        raise ToolsError(
            f'{where}: expected a "name" that is a non-empty string, found {found}. '
            f"Name the tool, in one of these shapes: {_SHAPES}."
        )
    for key in _SCHEMA_KEYS:
        parameters = tool.get(key)
        if parameters is None:
            continue
        if not isinstance(parameters, Mapping):
            raise ToolsError(
                f"{where}.{key}: expected a JSON Schema object for tool {quote(name)}, found "
                f'{_kind(parameters)}. Give {{"type": "object", "properties": …}} itself, not its text; '
                f'leave "{key}" out if the tool takes no arguments.'
            )
        return name, parameters if isinstance(parameters, dict) else dict(parameters)
    return name, None


def _kind(value: object) -> str:
    """What a value is, in the words of JSON where it has one."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, (list, tuple)) else f"a Python {type(value).__name__}"
