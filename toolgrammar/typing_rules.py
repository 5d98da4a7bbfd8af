"""Typing of raw values: which JSON value an undelimited text is, given the types its schema admits.

Source of the rules: ``shared/formats/qwen3-coder.md``, "Value typing (shared by all raw-text formats)" and
V4, under ``shared/formats/README.md``, rules 11 and 13. On the trimmed text, the first hit wins:

    string alone            the text, verbatim         ``null`` -> "null", `` 1`` -> " 1"
    a listed string         that member                enum ["1", 2]: ``1`` -> "1"
    empty                   "" if string is admitted; else {} or [], null, "": the first that is
    null, None (any case)   null, if null is admitted or string is not
    integer                 ``-6``, ``+6`` -> 6, ``5.0`` -> 5, any length
    number                  ``5.0`` -> 5.0; never Infinity or NaN
    boolean                 ``TRUE`` -> true
    object, array           JSON as the model wrote it, else a Python literal: ``{'a': None}``, ``(1, 2)``
    else                    the text as a string, verbatim if string is admitted, otherwise trimmed

Where string is admitted, only an undoubted spelling is a number: not ``0042``, nor ``.5``, nor ``1e3`` for an
integer. Where it is not, those are read too. Without a schema: a JSON number, ``true``, ``false``, ``null``,
object or array as written, else the text verbatim.

Nothing here raises, whatever the text; all of it is linear in the text. Numbers are never converted, only
respelled. Containers nested deeper than ``MAX_DEPTH`` do not fit, whatever the depth of the caller's stack.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Final, NoReturn

import msgspec

NULL: Final = 1
INTEGER: Final = 2
NUMBER: Final = 4
BOOLEAN: Final = 8
OBJECT: Final = 16
ARRAY: Final = 32
STRING: Final = 64
ALL: Final = 127

MAX_DEPTH: Final = 200

_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PLAIN_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.0+)?")
_LOOSE_NUMBER: Final = re.compile(r"([+-]?)(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]+)?")
_ESCAPED: Final = {
    **dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)),
    **{"\\": "\\", "'": "'", '"': '"', "\n": ""},
}
_PYTHON_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_CLOSER: Final = {"{": "}", "[": "]", "(": ")"}


# Patterns that few values need are compiled with the first that does.


@cache
def _surrogate() -> re.Pattern[str]:
    return re.compile("[\ud800-\udfff]")


@cache
def _string_or_bracket() -> re.Pattern[str]:
    return re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)


@cache
def _python_token() -> re.Pattern[str]:
    return re.compile(
        r"""[\x20\t\r\n\f]*
        (?: (?P<mark> [][(){}:,])
        |   (?P<word> True | False | None) (?!\w)
        |   (?P<string> '[^'\\\r\n]*(?:\\[^\r][^'\\\r\n]*)*' | "[^"\\\r\n]*(?:\\[^\r][^"\\\r\n]*)*")
        |   (?P<number> [+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?) (?![\w.])
        )""",
        re.VERBOSE,
    )


@cache
def _python_escape() -> re.Pattern[str]:
    return re.compile(
        r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(00(?:10|0[0-9a-fA-F])[0-9a-fA-F]{4})|(.))",
        re.DOTALL,
    )


def _refuse(_: str) -> NoReturn:
    raise ValueError("not JSON")


_dumps: Final = json.JSONEncoder(ensure_ascii=False).encode
# The numbers stay text: no limit on their digits, no loss.
_validate: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse).decode


class Plan(msgspec.Struct, frozen=True):
    """How the raw value of one parameter becomes JSON. Immutable, hashable, picklable.

    ``types`` is a set of the bits ``NULL`` to ``STRING``, 0 when there is no schema; ``strings`` are the
    members of ``enum`` and ``const`` that are strings.
    """

    types: int = 0
    strings: frozenset[str] = frozenset()

    @property
    def only_string(self) -> bool:
        """Whether the value is its text, whatever it is: it may stream before its end is seen."""
        return self.types == STRING

    def encode(self, text: str) -> str:
        """``text`` as JSON text. Never raises; the result is one valid JSON value and fit for UTF-8."""
        types = self.types
        if types == STRING:
            return quote(text)
        trimmed = text.strip()
        if not types:
            found = _untyped(trimmed)
        elif self.strings and (text in self.strings or trimmed in self.strings):
            return quote(text if text in self.strings else trimmed)
        elif not trimmed:
            found = _empty(types)
        else:
            found = _typed(types, trimmed)
        if found is not None:
            return found
        return quote(text if types & STRING or not types else trimmed)

    def encode_json(self, text: str) -> str:
        """``text`` where the format itself says that it is no string, as DSML's ``string="false"`` does.

        JSON as written, trimmed; ``True``, ``False``, ``None`` respelled; anything else trimmed, as a string.
        The schema has no say, and the guarantees are those of ``encode``.
        """
        trimmed = text.strip()
        if trimmed in _PYTHON_WORDS:
            return _PYTHON_WORDS[trimmed]
        found = _untyped(trimmed)
        if found is None and trimmed[:1] == '"':
            found = _json(trimmed)
        return quote(trimmed) if found is None else found


NO_SCHEMA: Final = Plan()


def quote(text: str) -> str:
    """``text`` as a JSON string in the style of ``json.dumps(…, ensure_ascii=False)``, surrogates escaped.

    Works code point by code point: the pieces of a cut text, quoted and joined, are the whole, quoted.
    """
    return _escape_surrogates(_dumps(text))


def _escape_surrogates(jsontext: str) -> str:
    """The same JSON in a form that UTF-8 can carry."""
    if jsontext.isascii():
        return jsontext
    return _surrogate().sub(_spelled, jsontext)


def _spelled(found: re.Match[str]) -> str:
    """A lone surrogate as a JSON escape. The private ones, which stand for special tokens (``machine.tokens``),
    are spelled as no model does, so that they are told from what it wrote."""
    code = f"{ord(found[0]):04x}"
    return f"\\uDb{code[2:]}" if "db80" <= code <= "dbff" else f"\\u{code}"


def _empty(types: int) -> str | None:
    """The value of an empty body, None if it is a string."""
    if types & STRING:
        return None
    if types & OBJECT:
        return "{}"
    if types & ARRAY:
        return "[]"
    return "null" if types & NULL else None


def _typed(types: int, text: str) -> str | None:
    """The first of ``types`` but string that the trimmed ``text`` fits, as JSON; None if it fits none."""
    if len(text) <= 5:
        word = text.lower()
        if word in ("null", "none") and (types & NULL or not types & STRING):
            return "null"
        if types & BOOLEAN and word in ("true", "false"):
            return word
    loose = not types & STRING
    if types & INTEGER and (loose or _PLAIN_INTEGER.fullmatch(text)):
        found = _integer(text)
        if found is not None:
            return found
    if types & NUMBER:
        found = _number(text, loose)
        if found is not None:
            return found
    kind = OBJECT if text[0] == "{" else ARRAY if text[0] in "[(" else 0
    if not types & kind:
        return None
    found = _json(text) if text[0] != "(" else None
    return _python_container(text) if found is None else found


def _untyped(text: str) -> str | None:
    """The trimmed ``text`` if it is JSON and not a string."""
    if text in ("true", "false", "null") or _JSON_NUMBER.fullmatch(text):
        return text
    return _json(text) if text[:1] in ("{", "[") else None


def _json(text: str) -> str | None:
    """``text`` itself if it is one JSON value that is not nested too deeply."""
    if text.count("[") + text.count("{") > MAX_DEPTH and _too_deep(text):
        return None
    try:
        _validate(text)
    except (ValueError, RecursionError, MemoryError):
        return None
    return _escape_surrogates(text)


def _too_deep(text: str) -> bool:
    depth = 0
    for found in _string_or_bracket().finditer(text):
        mark = found[0]
        if mark in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif mark in "]}":
            depth -= 1
    return False


def _integer(text: str) -> str | None:
    """An integer's JSON text, also for ``5.0`` and ``1e3``; None if ``text`` is no integral number."""
    found = _LOOSE_NUMBER.fullmatch(text)
    if found is None:
        return None
    sign, whole, fraction, power = found.groups("")
    if len(power) > 5:
        return None  # more zeros than anyone asks for
    point = max(len(whole) + int(power[1:] or 0), 0)
    digits = whole + fraction
    if digits[point:].strip("0"):
        return None
    return sign.replace("+", "") + (digits[:point].ljust(point, "0").lstrip("0") or "0")


def _number(text: str, loose: bool) -> str | None:
    """A number as written if that is JSON; else, if ``loose``, the nearest JSON (``+.5`` 0.5, ``5.`` 5.0)."""
    if _JSON_NUMBER.fullmatch(text):
        return text
    found = _LOOSE_NUMBER.fullmatch(text) if loose else None
    if found is None:
        return None
    sign, whole, fraction, power = found.groups()
    dotted = "" if fraction is None else "." + (fraction or "0")
    return f"{sign.replace('+', '')}{whole.lstrip('0') or '0'}{dotted}{power or ''}"


def _python_container(text: str) -> str | None:
    """A dict, list or tuple display as JSON; None if ``text`` is not exactly one.

    Reads strings, numbers, True, False, None and containers of them, nothing else. Numbers keep their digits.
    """
    out: list[str] = []
    stack: list[str] = []  # the closers that are due, innermost last
    commas: list[int] = []  # how many each of them has had
    before = ""  # what came last in the innermost container: its opener, ",", ":", "key" or "value"
    position, end = 0, len(text)
    token = _python_token().match
    while position < end:
        found = token(text, position)
        if found is None:
            return None
        position = found.end()
        mark = found["mark"]
        if mark is None or mark in "{[(":
            is_key = bool(stack) and stack[-1] == "}" and before != ":"
            if before in ("value", "key") or (is_key and mark):
                return None
        if mark is None:
            scalar = _python_scalar(found)
            if scalar is None:
                return None
            out.append(quote(scalar) if is_key and scalar[0] != '"' else scalar)
            before = "key" if is_key else "value"
        elif mark in "{[(":
            if len(stack) == MAX_DEPTH:
                return None
            stack.append(_CLOSER[mark])
            commas.append(0)
            out.append("{" if mark == "{" else "[")
            before = mark
        elif mark == ":":
            if before != "key":
                return None
            out.append(": ")
            before = ":"
        elif mark == ",":
            if before != "value":
                return None
            commas[-1] += 1
            out.append(", ")
            before = ","
        else:
            if mark != stack[-1] or before in (":", "key"):
                return None
            if mark == ")" and before == "value" and not commas[-1]:
                return None  # (1) is no tuple
            if before == ",":
                out.pop()
            out.append("}" if mark == "}" else "]")
            stack.pop()
            commas.pop()
            before = "value"
            if not stack:
                break
    return "".join(out) if position == end and not stack else None


def _python_scalar(found: re.Match[str]) -> str | None:
    """The JSON text of a token that is no mark; None if it is not Python after all."""
    word, string, number = found.group("word", "string", "number")
    if word:
        return _PYTHON_WORDS[word]
    if number:
        # Python knows no 007, though 007.5 and 00 are fine.
        digits = number.lstrip("+-")
        octal = digits.isdigit() and digits[0] == "0" and digits.strip("0")
        return None if octal else _number(number, loose=True)
    try:
        return quote(_python_escape().sub(_unescape, string[1:-1]))
    except ValueError:
        return None


def _unescape(found: re.Match[str]) -> str:
    octal, hexa, small, large, other = found.groups()
    if octal:
        return chr(int(octal, 8))
    code = hexa or small or large
    if code:
        return chr(int(code, 16))
    if other in "xuUN":
        raise ValueError("an escape that names no character, or names it in words")
    return _ESCAPED.get(other, "\\" + other)
