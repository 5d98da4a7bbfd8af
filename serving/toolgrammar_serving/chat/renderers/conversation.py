"""What the renderers share: a conversation in a plain shape, and the questions all of them ask of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolgrammar_serving.chat.history import messages_for
from toolgrammar_serving.chat.requests import ChatRequest
from toolgrammar_serving.chat.traits import Traits
from toolgrammar_serving.errors import BadRequest

_ROLES = ("system", "developer", "user", "assistant", "tool")


class OldCall(msgspec.Struct):
    """A call in the history. ``arguments``: an object, or the text that is none."""

    id: str
    name: str
    arguments: Any


class Turn(msgspec.Struct):
    """A message. ``role``: system (developer, too), user, assistant or tool. ``call``: of a tool's result, its
    call."""

    role: str
    text: str
    reasoning: str = ""
    calls: list[OldCall] = []
    call: OldCall | None = None


def turns_of(request: ChatRequest, joint: str = "\n") -> list[Turn]:
    """The messages of ``request``; text parts are joined with ``joint``. Raises ``BadRequest``."""
    turns: list[Turn] = []
    calls: dict[str, OldCall] = {}
    for index, message in enumerate(messages_for(request.messages, Traits(developer=False, joint=joint))):
        role = message["role"]
        if role not in _ROLES:
            raise BadRequest(f"messages[{index}].role: {role!r} is no role of this model", param="messages")
        turn = Turn(role, message.get("content") or "", message.get("reasoning_content") or "")
        if role == "assistant":
            turn.calls = [_old_call(call) for call in message.get("tool_calls") or ()]
            calls |= {call.id: call for call in turn.calls}
        elif role == "tool":
            turn.call = calls.get(str(message.get("tool_call_id")))
        turns.append(turn)
    return turns


def _old_call(call: Mapping[str, Any]) -> OldCall:
    function = call["function"]
    return OldCall(str(call.get("id")), function["name"], function["arguments"])


def functions_of(tools: Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """The functions themselves."""
    return [tool.get("function", tool) for tool in tools or ()]


def thinks(variables: Mapping[str, Any], default: bool) -> bool:
    """Whether thinking is switched on, under either name."""
    for name in ("thinking", "enable_thinking"):
        if variables.get(name) is not None:
            return bool(variables[name])
    return default


def in_call_order(results: Sequence[Turn], calls: Sequence[OldCall]) -> list[Turn]:
    """Results in the order of the calls that they answer; those of none stay in front."""
    places = {call.id: place for place, call in enumerate(calls)}
    return sorted(results, key=lambda turn: places.get(turn.call.id, -1) if turn.call is not None else -1)
