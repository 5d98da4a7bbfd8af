"""The ``tool_choice`` and ``response_format`` members in all their spellings."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from toolgrammar_serving.chat import ResponseFormat, ToolChoice
from toolgrammar_serving.server.body import refuse

_CHOICE: Final = "tool_choice"


def read_tool_choice(value: str | dict[str, Any] | None, names: list[str]) -> ToolChoice:
    """``names``: of the tools offered. Absent: auto. Errors: BadRequest, also for a tool that was not offered."""
    if value is None:
        return ToolChoice()
    if isinstance(value, str):
        if value not in ("none", "auto", "required"):
            raise refuse("tool_choice must be none, auto, required, or an object.", _CHOICE)
        if value == "required" and not names:
            raise refuse("tool_choice 'required' needs tools.", _CHOICE)
        return ToolChoice(value)  # type: ignore[arg-type]
    kind = value.get("type")
    if kind == "function":
        return ToolChoice("named", (_offered(_name(value), names),))
    if kind == "allowed_tools":
        return _allowed(value, names)
    raise refuse("tool_choice.type must be 'function' or 'allowed_tools'.", "tool_choice.type")


def _name(value: Any) -> Any:
    """The name in ``{"function": {"name": …}}``, or, as other APIs have it, ``{"name": …}``."""
    if not isinstance(value, dict):
        return None
    function = value.get("function", value)
    return function.get("name") if isinstance(function, dict) else None


def _offered(name: Any, names: list[str]) -> str:
    if not isinstance(name, str):
        raise refuse("tool_choice must name a function.", "tool_choice.function.name")
    if name not in names:
        raise refuse(
            f"tool_choice names '{name[:64]}', which is not among the tools.", "tool_choice.function.name"
        )
    return name


def _allowed(value: dict[str, Any], names: list[str]) -> ToolChoice:
    inner = value.get("allowed_tools", value)
    if not isinstance(inner, dict) or not isinstance(inner.get("tools"), list) or not inner["tools"]:
        raise refuse("allowed_tools needs a list of tools.", "tool_choice.allowed_tools.tools")
    mode: Literal["auto", "required"] = inner.get("mode", "auto")
    if mode not in ("auto", "required"):
        raise refuse("The mode of allowed_tools must be auto or required.", "tool_choice.allowed_tools.mode")
    return ToolChoice(mode, tuple(_offered(_name(tool), names) for tool in inner["tools"]))


def read_response_format(value: dict[str, Any] | None) -> ResponseFormat:
    """Errors: BadRequest."""
    kind = "text" if value is None else value.get("type")
    if value is None or kind == "text":
        return ResponseFormat()
    if kind == "json_object":
        return ResponseFormat("json_object")
    if kind == "json_schema":
        inner = value.get("json_schema")
        schema = inner.get("schema") if isinstance(inner, dict) else None
        if not isinstance(schema, dict | bool):
            raise refuse("response_format.json_schema needs a schema.", "response_format.json_schema.schema")
        return ResponseFormat("json_schema", schema=schema)
    if kind == "structural_tag":
        return ResponseFormat("structural_tag", tag=msgspec.json.encode(value).decode())
    raise refuse(
        "response_format.type must be text, json_object, json_schema or structural_tag.", "response_format.type"
    )
