"""Encoding a text that begins as an earlier one did, without encoding the beginning again.

A text is cut in front of special tokens; what lies between two cuts is encoded once and remembered. The ids are
those of the whole text, whatever the cuts: a tokenizer takes special tokens out of a text before all else, so
nothing on one side of such a token depends on the other side. Where that might not hold, no cut is made.
"""

from __future__ import annotations

import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

#: Bytes of a remembered segment: its text, and an id's place in a list and the number itself.
_PER_CHARACTER: Final = 2
_PER_ID: Final = 36
_PER_SEGMENT: Final = 200

#: Searches of a whole text, at most, before single characters are looked for instead.
_PASSES: Final = 4


class SegmentCache:
    """Remembers segments, the latest ones, up to ``max_bytes``. Thread-safe if ``encode`` is.

    ``encode``: a text to its ids, without the tokenizer's own beginning and end. ``cuts``: see ``safe_cuts``.
    """

    def __init__(self, encode: Callable[[str], list[int]], cuts: Iterable[str], max_bytes: int) -> None:
        self._encode = encode
        self._max_bytes = max_bytes
        self._bytes = 0
        self._known: OrderedDict[str, list[int]] = OrderedDict()
        self._lock = threading.Lock()
        #: What was cut last: a text is often asked about before it is encoded.
        self._last: tuple[str, list[str]] = ("", [""])
        cuts = set(cuts)
        self._cuts = frozenset(cuts)
        #: Two characters that a cut begins with, to the lengths of such cuts.
        self._lengths = {head: sorted({len(c) for c in cuts if c[:2] == head}) for head in {c[:2] for c in cuts}}
        heads = sorted(self._lengths)
        #: What a text is searched for: finding is much faster than matching, but a pass each.
        self._heads = heads if len(heads) <= _PASSES else sorted({head[0] for head in heads})

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``."""
        segments = self.split(text)
        if len(segments) == 1:
            return self._encode(text)
        ids: list[int] = []
        for segment in segments:
            ids += self._segment(segment)
        return ids

    def unknown(self, text: str) -> int:
        """How many characters of ``text`` are not remembered."""
        return sum([len(segment) for segment in self.split(text) if segment not in self._known])

    def split(self, text: str) -> list[str]:
        """``text``, cut in front of each token that is safe to cut at."""
        last = self._last
        if last[0] is text:
            return last[1]
        segments = self._split(text)
        self._last = (text, segments)
        return segments

    def _split(self, text: str) -> list[str]:
        places = []
        for head in self._heads:
            at = text.find(head, 1)
            while at > 0:
                for length in self._lengths.get(text[at : at + 2], ()):
                    if text[at : at + length] in self._cuts:
                        places.append(at)
                        break
                at = text.find(head, at + 1)
        if len(self._heads) > 1:
            places.sort()
        ends = [*places, len(text)]
        return [text[start:end] for start, end in zip([0, *places], ends, strict=True)]

    def _segment(self, segment: str) -> list[int]:
        with self._lock:
            ids = self._known.get(segment)
            if ids is not None:
                self._known.move_to_end(segment)
                return ids
        ids = self._encode(segment)
        size = _size(segment, ids)
        with self._lock:
            if segment not in self._known and size <= self._max_bytes:
                self._known[segment] = ids
                self._bytes += size
                while self._bytes > self._max_bytes:
                    self._bytes -= _size(*self._known.popitem(last=False))
        return ids


def _size(segment: str, ids: list[int]) -> int:
    return _PER_CHARACTER * len(segment) + _PER_ID * len(ids) + _PER_SEGMENT


def safe_cuts(added: Iterable[Any]) -> list[str]:
    """Those special ones of a tokenizer's ``added`` tokens (``content``, ``lstrip``, ...) in front of which a text
    may be cut.

    Such a token is always found where it stands: it is looked for in the text as it is, takes no blanks in front
    of it, and no other token's text can overlap its beginning. Nor does a token before it or at its place depend
    on what is on the other side: it begins with no letter, which could keep another token from being a whole word.
    """
    added = list(added)
    ends = {token.content[start:] for token in added for start in range(1, len(token.content))}
    looking_back = [token.content for token in added if token.lstrip or token.single_word]
    insides = "\0".join(token.content[1:] for token in added)
    return [
        token.content
        for token in added
        if token.special
        and not token.normalized
        and len(token.content) > 1
        and _is_mark(token.content[0])
        and not any(text.startswith(token.content) for text in looking_back)
        and token.content not in insides
        and not any(token.content[:length] in ends for length in range(1, len(token.content)))
    ]


def _is_mark(character: str) -> bool:
    """Punctuation or a symbol; nothing that a word may hold."""
    category = unicodedata.category(character)
    return category[0] in "PS" and category != "Pc"
