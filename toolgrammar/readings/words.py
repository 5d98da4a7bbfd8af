"""What stands for what in the rules as people read them: a word in upper case for each leaf that is no literal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolgrammar import combinators as c
from toolgrammar.language.writer import literal

_ANYTHING = "(?s:.*)"
_TEXTS = {
    "content": ("CONTENT", "text of the answer"),
    "reasoning": ("REASONING", "text of the thought"),
    "drop": ("DROPPED", "text that is read and not shown"),
}
_REGISTERS = {"name": "the tool's name", "key": "a parameter's name", "id": "the call's id"}


def word(node: Any) -> tuple[str, str]:
    """The word for a leaf, and what it means. ``Let`` and ``Choose`` have conditions instead (``guard``)."""
    match node:
        case c.Ws():
            return "SPACE", "white space that may not be missing"
        case c.Text(sink):
            return _TEXTS[sink]
        case c.Field(register):
            means = _REGISTERS.get(register, f"a short text, here the {register}")
            if node.offered:
                return f"OFFERED_{register.upper()}", f"{means}; it must be offered in the request"
            return register.upper(), means
        case c.Json():
            return "JSON", "one JSON object: the arguments"
        case c.Envelope():
            return "CALL_OBJECT", _envelope(node)
        case c.Typed(kind=kind):
            how = f", a string if `{kind}` says so" if kind else ", typed by the tool's schema"
            return "VALUE", f"the raw value of the parameter{how}"
        case c.PyArgs():
            return "PYTHON_ARGUMENTS", "Python keyword arguments and the closing parenthesis"
        case c.Quoted(quote):
            return "QUOTED_OBJECT", f"an object with bare keys, its strings between two {_code(quote)}"
        case c.Elements(prefix):
            return "ELEMENTS", f"elements that nest, {_code(prefix + '<KEY>')} to {_code(prefix + '</KEY>')}"
        case c.Verbatim(key):
            return "VERBATIM", f"text as it stands, as the argument `{key}`"
        case c.Let(register, value):
            return f"{register} := {literal(value)}", ""
    raise TypeError(f"{node!r} is no leaf")


def guard(register: str, arm: c.Arm) -> str:
    """The condition of an arm."""
    when = f" {arm.when}" if arm.when else ""
    return (
        f"{register} = anything else{when}" if arm.pattern == _ANYTHING else f"{register} = /{arm.pattern}/{when}"
    )


def _envelope(node: c.Envelope) -> str:
    if node.tool_key:
        return "a JSON object that is a call: one member, the tool's name with the arguments"
    members = [
        _either(node.names),
        _either(node.arguments),
        *([_either(node.ids) + " (perhaps)"] if node.ids else []),
    ]
    return f"a JSON object that is a call: {', '.join(members)}"


def _either(texts: Iterable[str]) -> str:
    return " or ".join(f"`{text}`" for text in texts)


def _code(text: str) -> str:
    return f"`{literal(text)[1:-1]}`"
