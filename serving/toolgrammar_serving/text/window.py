"""Decoding as it comes, for tokenizers whose decoder looks at a token's neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

#: Ids that may wait for the rest of a character, which has four bytes at most. More are no character.
_MOST: Final = 8


class WindowDecoder:
    """One sequence. Decodes each new id together with those before it, and takes what is added to the text."""

    __slots__ = ("_new", "_pieces", "_said", "_skip", "_special_text", "_tokenizer")

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
        #: What each of the ids pushed last brought.
        self._pieces: list[str] = []

    def push(self, ids: Sequence[int]) -> str:
        """The text that is complete with ``ids``."""
        self._pieces = [self._piece(id_) for id_ in ids]
        return "".join(self._pieces)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each of ``ids`` brought. They are the list that was pushed last, or what is left of it."""
        return self._pieces[: len(ids)]

    def _piece(self, id_: int) -> str:
        own = self._special_text.get(id_)
        if own is not None:
            return self.flush() + own
        self._new.append(id_)
        text = self._added()
        if len(self._new) < _MOST and (not text or text.endswith("\ufffd")):
            return ""
        self._take()
        return text

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
