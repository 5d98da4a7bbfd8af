"""Constraints as values: of wanted content, of forced calls, in the words of structural tags."""

from __future__ import annotations

import logging
import re
import warnings
from typing import Any, Final, Literal

import msgspec

from toolgrammar.combinators import Grammar
from toolgrammar.errors import ToolsError
from toolgrammar_serving.chat.requests import ResponseFormat, ToolChoice
from toolgrammar_serving.chat.schemas import depth, referable
from toolgrammar_serving.chat.tools import ToolSet
from toolgrammar_serving.errors import BadRequest
from toolgrammar_serving.text import StructuredOutputs

log: Final = logging.getLogger(__name__)

_KINDS: Final = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
_OPTIONS: Final = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")
_OWN: Final = "structured_outputs"
#: What Python says of a regular expression that no dialect takes; longer ones are the engine's to read.
_WRONG_REGEX: Final = ("missing ), unterminated subpattern", "unbalanced parenthesis", "nothing to repeat")
_REGEX_CHARS: Final = 10_000
#: Levels of a schema.
_DEEPEST: Final = 100


def content_outputs(wanted: ResponseFormat, own: dict[str, Any] | None) -> StructuredOutputs | None:
    """What a request, of whichever kind, says about its content; ``own``, the engine's fields, win.

    Raises ``BadRequest`` for all that is wrong whatever engine there is.
    """
    if own is not None:
        return _own(own)
    if wanted.kind == "json_object":
        return StructuredOutputs(json_object=True)
    if wanted.kind == "json_schema":
        return StructuredOutputs(json=_schema(wanted.schema, "response_format"))
    if wanted.kind == "structural_tag":
        return StructuredOutputs(structural_tag=_tag(wanted.tag, "response_format"))
    return None


def _own(own: dict[str, Any]) -> StructuredOutputs:
    fields = {name: value for name, value in own.items() if value is not None and not name.startswith("_")}
    unknown = set(fields) - {*_KINDS, *_OPTIONS}
    given = [kind for kind in _KINDS if fields.get(kind) not in (None, False)]
    if unknown or len(given) != 1:
        what = f"there is no {min(unknown)!r}" if unknown else f"exactly one of {', '.join(_KINDS)} is to be given"
        raise _bad(what, _OWN)
    try:
        found = msgspec.convert(fields, StructuredOutputs)
    except msgspec.ValidationError as error:
        raise _bad(str(error), _OWN) from None
    if found.json is not None:
        found.json = _schema(found.json, _OWN)
    if found.structural_tag is not None:
        _tag(found.structural_tag, _OWN)
    if found.choice is not None and not found.choice:
        raise _bad("choice has nothing to choose from", _OWN)
    if found.grammar is not None and not found.grammar.strip():
        raise _bad("the grammar is empty", _OWN)
    if found.regex is not None:
        _check_regex(found.regex)
    return found


def _bad(what: str, param: str) -> BadRequest:
    return BadRequest(f"{param}: {what}", param=param, code="invalid_value")


def _check_regex(pattern: str) -> None:
    """Refuse what is wrong in every dialect; engines know forms that Python does not."""
    if len(pattern) > _REGEX_CHARS:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as error:
        if error.msg.startswith(_WRONG_REGEX):
            raise _bad(f"the regex cannot be read: {error}", _OWN) from None
    except (RecursionError, OverflowError):
        pass


def _schema(schema: Any, param: str) -> Any:
    """A JSON schema, decoded."""
    if isinstance(schema, str):
        try:
            schema = msgspec.json.decode(schema)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise _bad("the schema is no JSON", param) from None
    if not isinstance(schema, dict | bool):
        raise _bad("a JSON schema, which is an object, is missing", param)
    if depth(schema) > _DEEPEST:
        raise _bad(f"the schema is nested more than {_DEEPEST} levels deep", param)
    return schema


def _tag(tag: str | None, param: str) -> str:
    try:
        value = msgspec.json.decode(tag or "")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = None
    if not isinstance(value, dict) or tag is None:
        raise _bad("a structural tag, as a JSON object, is missing", param)
    return tag


def content_format(content: StructuredOutputs) -> dict[str, Any]:
    """The same as a format inside a structural tag."""
    if content.json is not None:
        return {"type": "json_schema", "json_schema": content.json}
    if content.regex is not None:
        return {"type": "regex", "pattern": content.regex}
    if content.choice is not None:
        return {"type": "or", "elements": [{"type": "const_string", "value": each} for each in content.choice]}
    if content.grammar is not None:
        return {"type": "grammar", "grammar": content.grammar}
    return {"type": "json_schema", "json_schema": {"type": "object"}}


def either(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """One of two formats."""
    return {"type": "or", "elements": [one, other]}


def calls_tag(
    grammar: Grammar,
    tools: ToolSet,
    choice: Literal["auto", "required", "named"],
    names: tuple[str, ...] | None,
    parallel: bool,
    start: Literal["content", "reasoning", "section"] | None,
    strict: bool | None,
) -> dict[str, Any] | None:
    """Calls in the format's own notation, None if it has none. ``start``: reasoning in front of them included,
    from what is open on; None: what stands behind reasoning. ``strict``: all tools are, or those that say so."""
    # Imported when it is needed: most servers never write a constraint.
    from toolgrammar.readings.constrain.graph import TooManyPlaces
    from toolgrammar.readings.structural_tag import structural_tag

    try:
        return structural_tag(
            grammar,
            tools.tools,
            choice=choice,
            names=names,
            parallel=parallel,
            strict=strict,
            reasoning=start is not None and "reasoning" in grammar.starts,
            start=start or "content",
        )
    except ToolsError as error:
        raise BadRequest(str(error), param="tools") from None
    except TooManyPlaces:
        log.warning("calls in format %s cannot be enforced", grammar.name)
        return None


def calls_value(
    tools: ToolSet, choice: ToolChoice, parallel: bool, reads: frozenset[Literal["bare", "list"]]
) -> dict[str, Any]:
    """Forced calls as JSON, in a form that is ``read``: arguments alone, a list of calls, or one call."""
    names = choice.names or tools.names
    if choice.mode == "named" and "bare" in reads:
        return {"type": "json_schema", "json_schema": tools.parameters(names[0])}
    schema: dict[str, Any] = {"anyOf": [_call(name) for name in names]}
    if "list" in reads and choice.mode != "named":
        schema = {"type": "array", "items": schema, "minItems": 1} | ({} if parallel else {"maxItems": 1})
    schema["$defs"] = {name: referable(tools.parameters(name), name) for name in names}
    return {"type": "json_schema", "json_schema": schema}


def _call(name: str) -> dict[str, Any]:
    pointer = name.replace("~", "~0").replace("/", "~1")
    properties = {"name": {"const": name}, "parameters": {"$ref": f"#/$defs/{pointer}"}}
    required = ["name", "parameters"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
