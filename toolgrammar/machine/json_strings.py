r"""JSON strings as models write them: how far one is sound, and how the rest is mended.

    "it\'s a \d"   ->   "it's a \\d"       two notes, W205
    'say "hi"'     ->   "say \"hi\""       the re-quoting itself, W202, is noted by the caller

The patterns say how far a string needs no thought; ``mend`` deals with the one character behind, so a
string is repaired alike whether it streams (``json_value``) or is read whole (``json_envelope``'s names).
Nothing that is valid JSON is changed.

All patterns are possessive: they never go back, so any input costs linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, cast

Run = Callable[[str, int, int], "re.Match[str]"]

#: JSON's white space; other blanks are a flaw.
BLANKS: Final = " \t\n\r"
#: The most text that may wait for a decision (a key, a word, the blanks behind a quote); more is a flaw.
UNDECIDED_LIMIT: Final = 4096

_ESCAPE: Final = r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_CONTROLS: Final = {chr(code): f"\\u{code:04x}" for code in range(0x20)}
_CONTROLS.update({"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def run(pattern: str) -> Run:
    """The ``match`` of a pattern that matches everywhere, if only the empty text."""
    return cast(Run, re.compile(pattern).match)


#: White space, any amount.
SPACE: Final = run(r"[ \t\n\r]*+")
#: A bare word or number.
BARE: Final = run(r"[-+.0-9A-Za-z_]*+")
#: The sound inside of a string: plain text and whole, known escapes.
SOUND: Final = run(rf'(?:[^"\\\x00-\x1f]++|{_ESCAPE})*+')
#: The same in a single-quoted string, up to any quote.
SOUND_SINGLE: Final = run(rf"""(?:[^'"\\\x00-\x1f]++|{_ESCAPE})*+""")
#: The rest of a string by quotes and backslashes alone. Group 1: a backslash the input cut off.
REST: Final = run(r'(?s:[^"\\]++|\\.)*+(\\?)')
REST_SINGLE: Final = run(r"(?s:[^'\\]++|\\.)*+(\\?)")
#: A whole sound string, quotes included.
SOUND_STRING: Final = re.compile(rf'"(?:[^"\\\x00-\x1f]++|{_ESCAPE})*+"').match

_CUT_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z").match


def is_cut(buf: str, pos: int, end: int) -> bool:
    """Whether ``buf[pos:end]`` is the beginning of an escape and nothing else."""
    return _CUT_ESCAPE(buf, pos, end) is not None


def mend(char: str, following: str) -> tuple[str, int, str]:
    r"""Repair a character that stopped ``SOUND``: what to write, for how many characters, and the code.

    >>> mend("\n", "x"), mend("\\", "'"), mend("\\", "d")
    (('\\n', 1, 'W204'), ("'", 2, 'W205'), ('\\\\', 1, 'W205'))
    """
    if char == "\\":
        # The letter of an unknown escape is read on as text: it may itself be a control character.
        return ("'", 2, "W205") if following == "'" else ("\\\\", 1, "W205")
    if char == '"':
        return '\\"', 1, ""
    if char == "'":
        return char, 1, ""
    return _CONTROLS[char], 1, "W204"


def requote(buf: str, start: int, stop: int, notes: list[tuple[str, int, int]]) -> str:
    """The whole string ``buf[start:stop]``, quotes of either kind included, as a JSON string."""
    single = buf[start] == "'"
    sound = SOUND_SINGLE if single else SOUND
    if single:
        notes.append(("W202", start, start + 1))
    parts = ['"']
    i, last = start + 1, stop - 1
    while True:
        bound = sound(buf, i, last).end()
        parts.append(buf[i:bound])
        if bound == last:
            break
        text, length, code = mend(buf[bound], buf[bound + 1])
        parts.append(text)
        if code and not (single and length == 2):
            notes.append((code, bound, bound + length))
        i = bound + length
    parts.append('"')
    return "".join(parts)


def decode(buf: str, start: int, stop: int, repair: bool, notes: list[tuple[str, int, int]]) -> str | None:
    """What the whole string ``buf[start:stop]`` means; None if that takes a repair and none is allowed."""
    sound = SOUND_STRING(buf, start, stop)
    if sound is not None and sound.end() == stop:
        if "\\" not in sound.group():
            return buf[start + 1 : stop - 1]
        return str(json.loads(sound.group()))
    if not repair:
        return None
    return str(json.loads(requote(buf, start, stop, notes)))
