"""JSON text for values that were not written as JSON: the style of ``json.dumps(..., ensure_ascii=False)``.

    >>> escape_json('say "hi"' + chr(10)), character_json(0x41), character_json(0xD83D)
    ('say \\\\"hi\\\\"\\\\n', 'A', '\\\\ud83d')

Text is passed through untouched where it can be. A lone surrogate, which a Python escape may name, is written
as a JSON escape, so that what leaves is always encodable.
"""

from __future__ import annotations

from json.encoder import encode_basestring
from typing import Final

#: What a JSON string cannot hold as it is, as the inside of a character class.
UNSAFE: Final = r'"\\\x00-\x1f'


def escape_json(text: str) -> str:
    """The inside of the JSON string for ``text`` (without the quotes); pieces may be joined."""
    return encode_basestring(text)[1:-1]


def character_json(code: int) -> str:
    """The inside of a JSON string for one code point, surrogates included."""
    if 0xD800 <= code <= 0xDFFF:
        return f"\\u{code:04x}"
    return escape_json(chr(code))
