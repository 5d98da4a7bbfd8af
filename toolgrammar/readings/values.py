"""The oracle's values: one object, one call object, Python keywords, a quoted object, a raw text.

Read with Python's own ``json`` and ``ast``; nothing of the machine's scanners.
"""

from __future__ import annotations

import ast
import io
import itertools
import json
import keyword as python_keywords
import re
import tokenize
from typing import Any

import parsy  # type: ignore[import-untyped, unused-ignore]

from toolgrammar import combinators as c
from toolgrammar.readings.parsing import primitive, steps
from toolgrammar.readings.turns import Called
from toolgrammar.schema import Plan

_DECODER = json.JSONDecoder()
_MASK = "masked_"
_WHITE = parsy.regex(r"[ \t\r\n]*")
_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}


def typed(plan: Plan, kind: str | None, text: str) -> Any:
    """A raw value: what the notation says of it, else the schema."""
    if kind is not None:
        return text if kind == "true" else json.loads(plan.encode_json(text))
    return json.loads(plan.encode(text))


@primitive
def _json(text: str, index: int) -> Any:
    try:
        value, end = _DECODER.raw_decode(text, index)
    except ValueError:
        return parsy.Result.failure(index, "JSON")
    return parsy.Result.success(end, value)


def _object(value: Any) -> parsy.Parser:
    """Arguments that are one object, or a JSON string of one; null is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return parsy.fail("a JSON object in a string")
    if value is None:
        return parsy.success({})
    return parsy.success(value) if isinstance(value, dict) else parsy.fail("an object")


def arguments() -> parsy.Parser:
    """One JSON object; nothing at all where the body ends at once."""
    return (_WHITE >> _json).bind(_object)


def envelope(node: c.Envelope, offered: frozenset[str]) -> parsy.Parser:
    """One JSON object that is a call, by the members of ``node``."""

    def call(value: Any) -> parsy.Parser:
        if not isinstance(value, dict):
            return parsy.fail("an object")
        if node.tool_key:
            (name, given), *more = [*value.items(), ("", None)]
            return (
                parsy.fail("one member")
                if len(more) != 1
                else _object(given).map(lambda found: Called(name, found))
            )
        known = {
            *node.names,
            *node.arguments,
            *node.ids,
            *node.wrappers,
            *node.allowed,
            "type" if node.type_value else "",
        }
        if node.other == "reject" and not value.keys() <= known:
            return parsy.fail("no other members")
        if node.type_value and value.get("type", node.type_value) != node.type_value:
            return parsy.fail(f"type {node.type_value!r}")
        inner: dict[str, Any] = next((value[key] for key in node.wrappers if isinstance(value.get(key), dict)), {})
        merged = {**inner, **value}
        name = next(
            (merged[key] for key in (*node.names, *node.wrappers) if isinstance(merged.get(key), str)), None
        )
        if name is None:
            return parsy.fail("a name")
        given = next((key for key in merged if key in node.arguments), None)
        if node.decide == "strong" and name not in offered and given is None:
            return parsy.fail("an offered name, or arguments")
        if node.decide == "weak" and (name not in offered or given is None):
            return parsy.fail("an offered name and arguments")
        if node.decide == "offered" and name not in offered:
            return parsy.fail("an offered name")
        id = next((merged[key] for key in node.ids if isinstance(merged.get(key), str)), None)
        return _object(None if given is None else merged[given]).map(lambda found: Called(name, found, id))

    return _json.bind(call)


# ---- Python ----------------------------------------------------------------------------------------------


def keywords() -> parsy.Parser:
    """Keyword arguments up to and with ``)``: the shortest text that Python itself takes for a call."""

    @primitive
    def run(text: str, index: int) -> Any:
        end = index
        while (end := text.find(")", end)) >= 0:
            end += 1
            try:
                return parsy.Result.success(end, _keywords(text[index:end]))
            except (SyntaxError, ValueError, KeyError, RecursionError, MemoryError):
                continue
        return parsy.Result.failure(index, "keyword arguments")

    return run


def _keywords(text: str) -> dict[str, Any]:
    tree = ast.parse("f(" + _no_keywords(text), mode="eval").body
    if not isinstance(tree, ast.Call) or tree.args:
        raise ValueError("not keywords only")
    found: dict[str, Any] = {}
    for keyword in tree.keywords:
        value = _literal(keyword.value)
        found.update(value if keyword.arg is None else {keyword.arg.removeprefix(_MASK): value})
    return found


def _no_keywords(text: str) -> str:
    """``text`` with Python's keywords masked where they stand before ``=``: to models they are names."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO("f(" + text).readline))
    except tokenize.TokenError as problem:
        raise ValueError("not Python") from problem
    masked = [
        (
            token.type,
            _MASK + token.string
            if python_keywords.iskeyword(token.string) and after.string == "="
            else token.string,
        )
        for token, after in itertools.pairwise(tokens)
    ]
    return tokenize.untokenize(masked)[2:].lstrip(" (")


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=word):
            return _WORDS[word]
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            pairs = [(key, value) for key, value in zip(keys, values, strict=True) if key is not None]
            return {_key(_literal(key)): _literal(value) for key, value in pairs}
        case ast.UnaryOp():
            return ast.literal_eval(node)
        case ast.Constant(value=str() as text):
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        case ast.Constant(value=value) if value is None or isinstance(value, (int, float)):
            return value
    raise ValueError("no literal")


def _key(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# ---- the quoted notation ---------------------------------------------------------------------------------


def quoted(quote: str) -> parsy.Parser:
    """An object with bare keys and strings between ``quote``."""
    string = parsy.string(quote) >> parsy.regex(f"(?:(?!{re.escape(quote)}).)*", re.S) << parsy.string(quote)
    comma = _WHITE >> parsy.string(",") << _WHITE
    bare = parsy.regex(r"[^,{}\[\]:()<]+").map(str.strip)

    def word(text: str) -> Any:
        if text.lower() in ("null", "none", "nil"):
            return None
        try:
            return json.loads(text)
        except ValueError:
            return text

    @steps("a value")
    def value() -> Any:
        return (yield string | record | array | bare.map(word))

    pair = parsy.seq((string | bare) << _WHITE << parsy.string(":") << _WHITE, value)
    record = parsy.string("{") >> _WHITE >> pair.sep_by(comma).map(dict) << _WHITE << parsy.string("}")
    array = parsy.string("[") >> _WHITE >> value.sep_by(comma) << _WHITE << parsy.string("]")
    return record
