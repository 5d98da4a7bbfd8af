"""Decoding as it comes, for tokenizers whose decoder looks at a token's neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

#: Ids that may wait for the rest of a character, which has four bytes at most. More are no character.
_MOST: Final = 8


class WindowDecoder:
    """One sequence. Decodes each new id together with those before it, and takes what is added to the text."""

    __slots__ = ("_new", "_said", "_skip", "_special_text", "_tokenizer")

    def __init__(
        self, tokenizer: Any, prompt: Sequence[int], skip_special: bool, special_text: Mapping[int, str]
    ) -> None:
        """``tokenizer``: a ``tokenizers.Tokenizer``. ``prompt``: the ids before the sequence."""
        self._tokenizer = tokenizer
        self._skip = skip_special
        self._special_text = special_text
        #: The ids said last, which the decoder may look at, and those not yet said.
        self._said = list(prompt[-_MOST:])
        self._new: list[int] = []

    def push(self, ids: Sequence[int]) -> str:
        """The text that is complete with ``ids``."""
        pieces: list[str] = []
        for id_ in ids:
            own = self._special_text.get(id_)
            if own is not None:
                pieces += (self.flush(), own)
                continue
            self._new.append(id_)
            text = self._added()
            if len(self._new) >= _MOST or (text and not text.endswith("\ufffd")):
                pieces.append(text)
                self._take()
        return "".join(pieces)

    def flush(self) -> str:
        """What waits still, at the end."""
        text = self._added() if self._new else ""
        self._take()
        return text

    def _added(self) -> str:
        return self._text(self._said + self._new)[len(self._text(self._said)) :]

    def _take(self) -> None:
        if self._new:
            self._said, self._new = self._new, []

    def _text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=self._skip)) if ids else ""
