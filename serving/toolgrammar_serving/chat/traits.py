"""What a chat template takes, found out by rendering small conversations and looking for what was put in.

Templates differ in what they expect: contents as text or as lists of parts, arguments of old calls as objects or
as text, no content beside calls as nothing, null or an empty text, a ``developer`` role or none. Reading a
template for that means guessing; rendering it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from toolgrammar_serving.errors import BadRequest

Render: TypeAlias = Callable[..., str]

_NEEDLE: Final = "qzNeedle"
_KEY: Final = "qzKey"
_NAME: Final = "qz_tool"


class Traits(msgspec.Struct, frozen=True):
    """Shapes that the template takes.

    ``arguments``: how old calls' arguments are given. ``silent``: what stands for the content of a message with
    calls and no content: "absent", None or "". ``empty``: an empty text does, too. ``calls``: old calls are
    written at all.
    """

    text: bool = True
    parts: bool = False
    developer: bool = True
    tools: bool = True
    calls: bool = True
    arguments: Literal["object", "text"] = "object"
    silent: Literal["absent", "null", "empty"] = "absent"
    empty: bool = True
    joint: str = "\n"


def tried(render: Render) -> Traits:
    """The traits of the template behind ``render``."""
    text = _said(render, [_user(_NEEDLE)])
    parts = _said(render, [_user([{"type": "text", "text": _NEEDLE}])])
    calls, arguments, silent = _calls(render)
    return Traits(
        text=text or not parts,
        parts=parts,
        developer=_said(render, [{"role": "developer", "content": _NEEDLE}, _user("a")]),
        tools=_tools(render),
        calls=calls,
        arguments=arguments,
        silent=silent,
        empty=_call_said(render, arguments, "empty"),
    )


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _said(render: Render, messages: list[dict[str, Any]]) -> bool:
    """Whether the needle is in the prompt, and nothing of Python beside it."""
    prompt = _rendered(render, messages)
    return _NEEDLE in prompt and "'text'" not in prompt and '"text"' not in prompt


def _tool() -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {_KEY: {"type": "string", "description": "d"}},
        "required": [_KEY],
    }
    return {"type": "function", "function": {"name": _NAME, "description": "d", "parameters": parameters}}


def _tools(render: Render) -> bool:
    return _NAME in _rendered(render, [_user("a")], tools=[_tool()])


def _calls(render: Render) -> tuple[bool, Literal["object", "text"], Literal["absent", "null", "empty"]]:
    for silent in ("absent", "null", "empty"):
        for shape in ("object", "text"):
            if _call_said(render, shape, silent):
                return True, shape, silent
    return False, "object", "empty"


def _call_said(render: Render, shape: str, silent: str) -> bool:
    arguments: Any = {_KEY: _NEEDLE} if shape == "object" else f'{{"{_KEY}": "{_NEEDLE}"}}'
    call = {"id": "call00001", "type": "function", "function": {"name": _NAME, "arguments": arguments}}
    message: dict[str, Any] = {"role": "assistant", "tool_calls": [call]}
    if silent != "absent":
        message["content"] = None if silent == "null" else ""
    result = {"role": "tool", "tool_call_id": "call00001", "name": _NAME, "content": "r"}
    prompt = _rendered(render, [_user("a"), message, result], tools=[_tool()])
    wrong = (f"'{_KEY}': '", f'\\"{_KEY}\\"', "None")
    return _NEEDLE in prompt and not any(text in prompt for text in wrong)


def _rendered(render: Render, messages: list[dict[str, Any]], **given: Any) -> str:
    """The prompt, empty if the template refuses."""
    try:
        return render(messages, **given)
    except BadRequest:
        return ""
