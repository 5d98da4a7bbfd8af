"""The tools of a request: their table for the parser, made once for equal tools, and what a choice leaves of
them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from toolgrammar.errors import ToolsError
from toolgrammar.schema import ToolTable
from toolgrammar_serving.chat.requests import ToolChoice
from toolgrammar_serving.errors import BadRequest

#: Sets of tools remembered, and characters of their JSON in all.
_KEPT: Final = 128
_KEPT_CHARACTERS: Final = 16 << 20
#: Things remembered of one set.
_MADE: Final = 64


class ToolSet(msgspec.Struct, eq=False):
    """Tools as they were first given, never changed; ``made``: what other modules worked out from them, by key."""

    tools: list[dict[str, Any]]
    table: ToolTable
    names: tuple[str, ...]
    strict: bool
    size: int
    made: dict[Any, Any] = {}

    def parameters(self, name: str) -> dict[str, Any]:
        """The schema of a tool's arguments; an object of anything if it has none."""
        return self.table.parameters(name) or {"type": "object"}

    async def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What ``make`` makes, in a thread, the first time; the same from then on, and for all who wait for it."""
        found = self.made.get(key)
        if found is None:
            if len(self.made) >= _MADE:
                self.made.clear()
            found = self.made[key] = asyncio.get_running_loop().run_in_executor(None, make)
            found.add_done_callback(lambda done: self._settle(key, done))
        # Shielded: who goes away does not end it for the others.
        return await asyncio.shield(found) if isinstance(found, asyncio.Future) else found

    def _settle(self, key: Any, done: asyncio.Future[Any]) -> None:
        if done.cancelled() or done.exception() is not None:
            self.made.pop(key, None)
        else:
            self.made[key] = done.result()

    def narrowed(self, names: tuple[str, ...]) -> ToolTable:
        """The table of some of the tools."""
        key = ("table", names)
        if key not in self.made:
            self.made[key] = ToolTable({name: self.table.parameters(name) for name in names})
        table: ToolTable = self.made[key]
        return table


class ToolSets:
    """The sets seen last: an agent sends the same tools with every turn."""

    def __init__(self) -> None:
        self._sets: OrderedDict[bytes, ToolSet] = OrderedDict()
        self._size = 0

    def of(self, tools: Sequence[Any] | None) -> ToolSet:
        """The set of ``tools``; the same one for equal tools. Raises ``BadRequest`` for what are no tools."""
        try:
            key = msgspec.json.encode(tools or [])
        except (TypeError, ValueError, RecursionError):
            raise BadRequest("tools: expected JSON", param="tools") from None
        found = self._sets.get(key)
        if found is not None:
            self._sets.move_to_end(key)
            return found
        found = self._sets[key] = _read(key)
        self._size += found.size
        while len(self._sets) > _KEPT or (self._size > _KEPT_CHARACTERS and len(self._sets) > 1):
            self._size -= self._sets.popitem(last=False)[1].size
        return found


def _read(key: bytes) -> ToolSet:
    """Decoded anew: nobody else can change it."""
    tools = msgspec.json.decode(key)
    try:
        table = ToolTable.of(tools)
    except ToolsError as error:
        raise BadRequest(str(error), param="tools") from None
    assert table.offered is not None
    names = tuple(dict.fromkeys(_function(tool)["name"] for tool in tools))
    strict = any(_function(tool).get("strict") is True for tool in tools)
    return ToolSet(tools, table, names, strict, len(key))


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    function: dict[str, Any] = tool.get("function", tool)
    return function


def checked(choice: ToolChoice, tools: ToolSet) -> ToolChoice:
    """``choice``, possible with ``tools``; raises ``BadRequest`` if it is not."""
    if choice.mode == "named" and len(choice.names or ()) != 1:
        raise BadRequest("tool_choice: exactly one function is to be named", param="tool_choice")
    for name in choice.names or ():
        if name not in tools.names:
            raise BadRequest(f"tool_choice: no tool is called {name!r}", param="tool_choice")
    if choice.mode == "required" and not (tools.names if choice.names is None else choice.names):
        raise BadRequest("tool_choice: a call is required, but there are no tools", param="tool_choice")
    return choice
