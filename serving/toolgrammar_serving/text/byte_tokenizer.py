"""A tokenizer without a model: ids 0 to 255 are bytes, ``256 + i`` is the i-th of a list of marker texts.

It lets the whole stack run where there is no checkpoint: replayed outputs, tests. Exact both ways, for any text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from toolgrammar_serving.text.tokenizer import Tabled
from toolgrammar_serving.text.vocabulary import Vocabulary

#: The id of the first marker.
FIRST_MARKER: Final = 256


class ByteTokenizer(Tabled):
    """Bytes, and ``markers`` as special tokens. ``eos``: the marker that ends a sequence, if one does.

    >>> ByteTokenizer(["<end>"], eos="<end>").encode("é<end>")
    [195, 169, 256]
    """

    def __init__(self, markers: Sequence[str] = (), *, eos: str | None = None) -> None:
        self.special_tokens = {FIRST_MARKER + i: text for i, text in enumerate(markers)}
        self.added_tokens = self.special_tokens
        self._ids = {text: id_ for id_, text in self.special_tokens.items()}
        self.eos_token_id = None if eos is None else self._ids[eos]
        self.bos_token_id: int | None = None
        longest_first = sorted(filter(None, markers), key=len, reverse=True)
        self._cut = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None
        ascii_ = [chr(byte) for byte in range(128)]
        partial = {byte: bytes((byte,)) for byte in range(128, FIRST_MARKER)}
        self.vocabulary = Vocabulary([*ascii_, *[None] * 128, *markers], partial, self.special_tokens)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """The ids of ``text``; a marker is one id wherever it stands, the longest of several."""
        if self._cut is None:
            return list(text.encode("utf-8", "replace"))
        ids: list[int] = []
        for i, piece in enumerate(self._cut.split(text)):
            if i % 2:
                ids.append(self._ids[piece])
            else:
                ids += piece.encode("utf-8", "replace")
        return ids

    def is_quick(self, text: str) -> bool:
        """Whatever it is: a copy is all it takes."""
        return True

    def token_string(self, id_: int) -> str:
        """The token as text; U+FFFD for a byte that is no character."""
        return self.token_text(id_)

    def token_id(self, string: str) -> int | None:
        """The id of the marker or ASCII character ``string``."""
        return ord(string) if len(string) == 1 and string.isascii() else self._ids.get(string)
