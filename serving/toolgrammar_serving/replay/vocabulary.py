"""Text to token ids and back, for recordings: a model's own ``tokenizer.json``, or bytes if there is no model."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Final, Protocol

_BYTES: Final = 256


class VocabularyError(ValueError):
    """No usable vocabulary. The message says where it was looked for."""


class Vocabulary(Protocol):
    """What recordings need of a tokenizer."""

    @property
    def special(self) -> Sequence[str]:
        """Texts that are one token wherever they stand."""

    def encode(self, text: str) -> list[int]:
        """The ids of ``text`` alone: no beginning or end is added."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of the ids, special tokens too."""

    def has(self, token_id: int) -> bool:
        """Whether there is such a token."""


class ByteVocabulary:
    """Ids 0 to 255 are bytes of UTF-8, 256 + i is the i-th of ``special``; the longest one wins."""

    def __init__(self, special: Sequence[str] = ()) -> None:
        self.special = tuple(special)
        self._ids = {text: _BYTES + at for at, text in enumerate(self.special)}

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in split_at(text, self.special):
            known = self._ids.get(part)
            # A lone surrogate, which JSON can hold, has no bytes.
            ids.extend(part.encode("utf-8", "replace") if known is None else (known,))
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        joined = b"".join(
            bytes((token,)) if token < _BYTES else self.special[token - _BYTES].encode()
            for token in token_ids
            if self.has(token)
        )
        return joined.decode("utf-8", "replace")

    def has(self, token_id: int) -> bool:
        return 0 <= token_id < _BYTES + len(self.special)


class FileVocabulary:
    """The vocabulary of a model directory, or of a ``tokenizer.json``. Raises ``VocabularyError``."""

    def __init__(self, path: str) -> None:
        from tokenizers import Tokenizer

        file = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path
        if not os.path.isfile(file):
            raise VocabularyError(f"no tokenizer.json in {path}")
        try:
            self._tokenizer: Any = Tokenizer.from_file(file)
        except Exception as error:  # the package raises bare Exception
            raise VocabularyError(f"{file} is no usable tokenizer: {error}") from error
        self.special = tuple(token.content for token in self._tokenizer.get_added_tokens_decoder().values())

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=False)
        return text

    def has(self, token_id: int) -> bool:
        return 0 <= token_id < 2**32 and self._tokenizer.id_to_token(token_id) is not None


def split_at(text: str, special: Sequence[str]) -> list[str]:
    """``text`` in parts: special texts alone, of several that begin at a place the longest, and what is
    between."""
    if not special:
        return [text] if text else []
    longest_first = sorted(special, key=len, reverse=True)
    pattern = "(" + "|".join(re.escape(one) for one in longest_first if one) + ")"
    return [part for part in re.split(pattern, text) if part]
