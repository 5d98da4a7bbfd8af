"""Rules on messages and tools: their shape is checked here, their meaning is the chat layer's.

Written as plain loops over the decoded JSON, for conversations are long and the chat layer wants them as they
came.
"""

from __future__ import annotations

from typing import Any, Final

from toolgrammar_serving.errors import BadRequest
from toolgrammar_serving.server.config import Limits

#: Parts of a message that are text, by the member that has it.
TEXT_PARTS: Final = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}


def _wrong(message: str, param: str, code: str = "invalid_value") -> BadRequest:
    return BadRequest(f"{param}: {message}", param=param, code=code)


def check_messages(messages: list[dict[str, Any]], limits: Limits) -> None:
    """Errors: BadRequest naming the member."""
    if len(messages) > limits.messages:
        raise _wrong(f"at most {limits.messages} messages are taken", "messages", "limit_exceeded")
    for i, message in enumerate(messages):
        role = message.get("role")
        if not isinstance(role, str) or not role:
            raise _wrong("a message needs a role", f"messages[{i}].role")
        content = message.get("content")
        if content is not None and not isinstance(content, str):
            _check_parts(content, f"messages[{i}].content")
        calls = message.get("tool_calls")
        if calls is not None:
            _check_calls(calls, f"messages[{i}].tool_calls")


def _check_parts(content: Any, param: str) -> None:
    if not isinstance(content, list):
        raise _wrong("must be a text or a list of parts", param)
    for j, part in enumerate(content):
        if isinstance(part, str):
            continue
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            raise _wrong("a part must be an object with a type", f"{param}[{j}]")
        member = TEXT_PARTS.get(kind)
        if member is None:
            raise _wrong(f"parts of type '{kind[:64]}' are not supported", f"{param}[{j}]", "unsupported_content")
        if not isinstance(part.get(member), str):
            raise _wrong("must be a text", f"{param}[{j}].{member}")


def _check_calls(calls: Any, param: str) -> None:
    if not isinstance(calls, list):
        raise _wrong("must be a list", param)
    for j, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise _wrong("a call needs a function", f"{param}[{j}].function")
        if not isinstance(function.get("name"), str) or not function["name"]:
            raise _wrong("a call needs the name of its function", f"{param}[{j}].function.name")


def check_tools(tools: list[dict[str, Any]], limits: Limits) -> list[str]:
    """The names of the tools, in order. Errors: BadRequest naming the member."""
    if len(tools) > limits.tools:
        raise _wrong(f"at most {limits.tools} tools are taken", "tools", "limit_exceeded")
    names: list[str] = []
    for i, tool in enumerate(tools):
        if tool.get("type", "function") != "function":
            raise _wrong("only tools of type 'function' are supported", f"tools[{i}].type", "unsupported_tool")
        function = tool.get("function")
        if not isinstance(function, dict):
            raise _wrong("a tool needs a function", f"tools[{i}].function")
        name = function.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= limits.id_chars:
            raise _wrong(f"must be a text of 1 to {limits.id_chars} characters", f"tools[{i}].function.name")
        if not isinstance(function.get("parameters", {}), dict | bool | None):
            raise _wrong("must be a JSON schema", f"tools[{i}].function.parameters")
        names.append(name)
    return names
