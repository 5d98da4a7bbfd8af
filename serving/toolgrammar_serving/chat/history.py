"""A conversation as a template wants it, from one as clients send it. What the client sent is never changed.

Keys without a value are left out, reasoning is there under all its names, contents are text or lists of text
parts, arguments of old calls are objects where they are JSON objects and the template takes that, else the text
as it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from toolgrammar_serving.chat.traits import Traits
from toolgrammar_serving.errors import BadRequest

_REASONING: Final = ("reasoning_content", "reasoning", "thinking")
#: Where the text of a part is, by its type.
_PARTS: Final = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}


def messages_for(messages: Sequence[Any], traits: Traits) -> list[dict[str, Any]]:
    """``messages`` in the shapes of ``traits``. Raises ``BadRequest`` that names what is wrong."""
    if not messages:
        raise BadRequest("messages: at least one is needed", param="messages")
    return [_message(f"messages[{index}]", message, traits) for index, message in enumerate(messages)]


def _message(where: str, message: Any, traits: Traits) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise BadRequest(f"{where}: expected an object", param=where)
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise BadRequest(f"{where}.role: expected a role", param=f"{where}.role")
    found = {key: value for key, value in message.items() if value is not None}
    thoughts: list[str] = []
    if "content" in found:
        found["content"] = _content(f"{where}.content", found["content"], traits, thoughts)
    if found.get("tool_calls"):
        found["tool_calls"] = _calls(f"{where}.tool_calls", found["tool_calls"], traits)
        _silence(found, traits)
    elif "content" not in found:
        found["content"] = ""
    reasoning = next((found[key] for key in _REASONING if isinstance(found.get(key), str)), None)
    reasoning = reasoning if reasoning is not None else "\n".join(thoughts) or None
    if reasoning is not None:
        for key in _REASONING:
            found.setdefault(key, reasoning)
    if role == "developer" and not traits.developer:
        found["role"] = "system"
    return found


def _silence(message: dict[str, Any], traits: Traits) -> None:
    """A message with calls that says nothing else: as the template wants it."""
    if message.get("content") or ("content" in message and traits.empty):
        return
    message.pop("content", None)
    if traits.silent != "absent":
        message["content"] = None if traits.silent == "null" else ""


def _content(where: str, content: Any, traits: Traits, thoughts: list[str]) -> Any:
    """Text, or a list of text parts. Thinking among the parts goes to ``thoughts``."""
    if isinstance(content, str):
        return content if traits.text else [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise BadRequest(f"{where}: expected a text or a list of content parts", param=where)
    texts: list[str] = []
    for index, part in enumerate(content):
        kind, text = _part(f"{where}[{index}]", part)
        (thoughts if kind == "thinking" else texts).append(text)
    if traits.parts:
        return [{"type": "text", "text": text} for text in texts]
    return traits.joint.join(texts)


def _part(where: str, part: Any) -> tuple[str, str]:
    """The type of a content part, and its text."""
    if isinstance(part, str):
        return "text", part
    if not isinstance(part, dict):
        raise BadRequest(f"{where}: expected a content part", param=where)
    kind = part.get("type")
    key = _PARTS.get(kind) if isinstance(kind, str) else None
    if key is None:
        raise BadRequest(
            f"{where}: this model takes no content parts of type {kind!r}", param=where, code="unsupported_content"
        )
    text = part.get(key)
    if not isinstance(text, str):
        raise BadRequest(f"{where}.{key}: expected a text", param=f"{where}.{key}")
    return str(kind), text


def _calls(where: str, calls: Any, traits: Traits) -> list[dict[str, Any]]:
    if not isinstance(calls, list):
        raise BadRequest(f"{where}: expected a list", param=where)
    found = []
    for index, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadRequest(
                f"{where}[{index}].function.name: expected a name", param=f"{where}[{index}].function"
            )
        arguments = function.get("arguments")
        found.append({**call, "function": {**function, "arguments": arguments_for(arguments, traits.arguments)}})
    return found


def arguments_for(arguments: Any, shape: str = "object") -> Any:
    """Arguments of an old call: an object if they are one, else the text, whatever it is; "" is no arguments."""
    if shape == "text":
        return arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    if arguments is None or arguments == "":
        return {}
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments
