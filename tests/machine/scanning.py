"""A scanner fed in pieces, as one buffer and as the machine does it: what comes out, and where it ends."""

from __future__ import annotations

import pickle
from typing import Any

from toolgrammar.machine.scanner import MORE

Result = tuple[str, int, int, list[str]]  # text, status, position, codes of the notes


def feed(scanner: Any, text: str, ends: list[int]) -> Result:
    """Scan ``text`` in pieces that end at ``ends``, in one buffer: nothing is read past a piece's end."""
    pos = 0
    out = ""
    codes = []
    for end in ends:
        pos = scanner.scan(text, pos, end, end == len(text))
        out += scanner.text
        codes += [code for code, _, _ in scanner.notes]
        scanner.notes.clear()
        assert not scanner.in_string or pos == end
        if scanner.status != MORE:
            break
    return out, scanner.status, pos, codes


def feed_trimmed(scanner: Any, text: str, ends: list[int]) -> Result:
    """As a machine does it: consumed text is gone, what decides nothing is not looked at, copies take over."""
    buf = ""
    consumed = begin = 0
    out = ""
    codes = []
    for end in ends:
        delta = text[begin:end]
        begin = end
        if scanner.in_string and not buf and scanner.string_stop(delta) is None:
            consumed += len(delta)
            out += delta
            continue
        if (
            end < len(text)
            and not scanner.in_string
            and scanner.quiet is not None
            and scanner.quiet(delta) is None
        ):
            buf += delta
            continue
        buf += delta
        scanner = pickle.loads(pickle.dumps(scanner.copy()))
        pos = scanner.scan(buf, 0, len(buf), end == len(text))
        out += scanner.text
        codes += [code for code, _, _ in scanner.notes]
        scanner.notes.clear()
        consumed += pos
        buf = buf[pos:]
        if scanner.status != MORE:
            break
    return out, scanner.status, consumed, codes


def whole(scanner: Any, text: str) -> Result:
    """Scan ``text`` in one piece."""
    return feed(scanner, text, [len(text)])


def every(step: int, text: str) -> list[int]:
    """The ends of pieces of ``step`` characters."""
    return [*range(step, len(text), step), len(text)]
