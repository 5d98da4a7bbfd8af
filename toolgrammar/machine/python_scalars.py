"""Python's scalar notation as JSON: numbers, constants and the escapes of string literals.

    >>> [scalar_json(word) for word in ("0x1F", "1_000", "-2.", ".5", "007", "None", "Oslo")]
    ['31', '1000', '-2.0', '0.5', '7', 'null', None]
    >>> read_escape(r"\\u00e9!", 0, 7), read_escape(r"\\u00", 0, 4), read_escape(r"\\q", 0, 2)
    ((6, 'é'), (0, ''), (1, '\\\\\\\\'))

Numbers stay exact at any size: they are rewritten as text and never pass through a float.
"""

from __future__ import annotations

import re
import unicodedata
from json.encoder import encode_basestring
from typing import Final

from toolgrammar.machine.json_writer import character_json, escape_json

#: The longest hexadecimal, octal or binary literal: converting one costs more than linear time.
BASED_LIMIT: Final = 4096

CONSTANTS: Final = {
    "True": "true",
    "true": "true",
    "False": "false",
    "false": "false",
    "None": "null",
    "null": "null",
    "-0": "0",  # Python's integers have one zero
}
_json_number: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch
_decimal: Final = re.compile(r"([+-]?)([0-9][0-9_]*)?(?:(\.)([0-9][0-9_]*)?)?([eE][+-]?[0-9][0-9_]*)?").fullmatch
_based: Final = re.compile(r"([+-]?)0(?:[xX]([0-9a-fA-F_]+)|[oO]([0-7_]+)|[bB]([01_]+))").fullmatch
#: ``str(int)`` refuses more than 4300 digits, so longer ones are written in pieces of 4000.
_PIECE: Final = 4000


def scalar_json(word: str) -> str | None:
    """The JSON of a Python number or constant; None for any other word."""
    constant = CONSTANTS.get(word)
    if constant is not None:
        return constant
    if _json_number(word) is not None:
        return word
    match = _decimal(word)
    if match is not None:
        sign, whole, point, fraction, exponent = match.groups()
        if whole is None and fraction is None:
            return None
        text = (whole or "0").replace("_", "").lstrip("0") or "0"
        if point is not None:
            text += "." + (fraction or "0").replace("_", "")
        text += (exponent or "").replace("_", "")
        return "-" + text if sign == "-" and text != "0" else text
    match = _based(word)
    return None if match is None else _based_json(match)


def _based_json(match: re.Match[str]) -> str | None:
    sign, hexadecimal, octal, _binary = match.groups()
    base = 16 if hexadecimal is not None else 8 if octal is not None else 2
    digits = match[match.lastindex or 0].replace("_", "")
    if not digits or len(digits) > BASED_LIMIT:
        return None
    number = int(digits, base)
    limit = 10**_PIECE
    pieces = ""
    while number >= limit:
        number, rest = divmod(number, limit)
        pieces = str(rest).zfill(_PIECE) + pieces
    text = str(number) + pieces
    return "-" + text if sign == "-" and text != "0" else text


#: Escapes of two characters, as they look inside a JSON string. A backslash before a line break joins lines.
_SIMPLE: Final = {
    "\\": "\\\\",
    "'": "'",
    '"': '\\"',
    "a": "\\u0007",
    "b": "\\b",
    "f": "\\f",
    "n": "\\n",
    "r": "\\r",
    "t": "\\t",
    "v": "\\u000b",
    "\n": "",
}
#: What a stretch of ``python_strings`` may hold that JSON spells differently, or must not hold: by its text.
_SPELLINGS: Final = {
    **{"\\" + char: text for char, text in _SIMPLE.items()},
    **{char: encode_basestring(char)[1:-1] for char in ('"', *map(chr, range(0x20)))},
}
#: The same, one after the other, for a long text: escaped backslashes are out of the way meanwhile.
_REPLACED: Final = (
    ("\\\\", "\0"), ('\\"', '"'), ("\\'", "'"), ("\\\n", ""), ("\\a", "\\u0007"), ("\\v", "\\u000b"),
    ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"),
)  # fmt: skip
_LONG: Final = 100
_rare: Final = re.compile(r"[\x01-\x1f]").sub
_to_spell: Final = re.compile(r'\\[\s\S]|["\x00-\x1f]').sub
_X: Final = "[0-9a-fA-F]"
_HIGH: Final = rf"[dD][89abAB]{_X}{{2}}"
_NAME: Final = r"""[^{}'"\\\r\n]"""
_coded: Final = re.compile(
    rf"\\(?:([0-7]{{1,3}})|x({_X}{{2}})|u({_HIGH})\\u([dD][c-fC-F]{_X}{{2}})|u({_X}{{4}})|U({_X}{{8}})"
    rf"|N\{{({_NAME}{{1,128}})\}}|(\r\n?))"
).match
#: An escape that the next characters may still make longer. The first of two surrogates waits for the second.
_cut: Final = re.compile(
    rf"\\(?:[0-7]{{1,2}}|x{_X}?|u{_X}{{0,3}}|u{_HIGH}(?:\\(?:u(?:[dD](?:[c-fC-F]{_X}?)?)?)?)?"
    rf"|U{_X}{{0,7}}|N(?:\{{{_NAME}{{0,128}})?|\r)?\Z"
).match


def respell(text: str) -> str:
    """The inside of a JSON string for text of a string literal whose escapes are all of two characters."""
    if len(text) < _LONG or "\0" in text:
        return _to_spell(_spelling, text)
    for old, new in _REPLACED:
        text = text.replace(old, new)
    return _rare(_spelling, text).replace("\0", "\\\\")


def _spelling(match: re.Match[str]) -> str:
    return _SPELLINGS[match[0]]


def read_escape(buf: str, at: int, end: int) -> tuple[int, str]:
    """The escape at the backslash ``buf[at]``: the position behind it and its text inside a JSON string.

    The position is ``at`` itself while the escape may be cut by ``end``. An unknown or impossible escape is a
    backslash: only that is consumed.
    """
    if at + 1 < end:
        simple = _SIMPLE.get(buf[at + 1])
        if simple is not None:
            return at + 2, simple
    if _cut(buf, at, end) is not None:
        return at, ""
    match = _coded(buf, at, end)
    text = None if match is None else _coded_json(match)
    if match is None or text is None:
        return at + 1, "\\\\"
    return match.end(), text


def _coded_json(match: re.Match[str]) -> str | None:
    octal, byte, high, low, short, long, name, _joined_lines = match.groups()
    if octal is not None:
        return character_json(int(octal, 8))
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    digits = byte or short or long
    if digits is not None:
        code = int(digits, 16)
        return character_json(code) if code <= 0x10FFFF else None
    if name is None:
        return ""
    try:
        return escape_json(unicodedata.lookup(name))
    except KeyError:
        return None
