"""What the text layer asks of a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from toolgrammar_serving.text.detokenizer import Detokenizer, decode
from toolgrammar_serving.text.vocabulary import Vocabulary


class IncrementalDecoder(Protocol):
    """Ids of one sequence to text, as they come."""

    def push(self, ids: Sequence[int]) -> str:
        """The text that is complete with ``ids``."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each of ``ids`` brought. They are the list that was pushed last, or what is left of it."""

    def flush(self) -> str:
        """What waits still, at the end."""


class Tokenizer(Protocol):
    """Text to ids and back. Thread-safe in ``encode``; the rest is for one thread."""

    @property
    def special_tokens(self) -> Mapping[int, str]:
        """Special tokens, id to text: not in a text that skips them."""

    @property
    def added_tokens(self) -> Mapping[int, str]:
        """Special tokens and all others that stand beside the learned vocabulary, id to text."""

    @property
    def eos_token_id(self) -> int | None:
        """The main end of sequence."""

    @property
    def bos_token_id(self) -> int | None:
        """The beginning of a text, if the model has one."""

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """The ids of ``text``, with the tokenizer's own beginning and end if asked for."""

    def is_quick(self, text: str) -> bool:
        """Whether ``text`` is encoded in about the time it takes to ask a thread."""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of ``ids``."""

    def decoder(
        self, prompt: Sequence[int], *, skip_special_tokens: bool, special_text: Mapping[int, str]
    ) -> IncrementalDecoder:
        """A decoder of what follows ``prompt``. ``special_text`` wins over what an id is otherwise."""

    def token(self, id_: int) -> tuple[str, bytes]:
        """One token alone: as text, with U+FFFD for what is no character, and exactly."""

    def token_text(self, id_: int) -> str:
        """One token alone, as text."""

    def token_string(self, id_: int) -> str:
        """One token as the vocabulary spells it (``Ġhello``)."""

    def token_id(self, string: str) -> int | None:
        """The id of the token that the vocabulary spells so."""


class Tabled:
    """A tokenizer's way back, from a vocabulary's tables."""

    vocabulary: Vocabulary

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of ``ids``."""
        return decode(self.vocabulary, ids, skip_special=skip_special_tokens)

    def decoder(
        self, prompt: Sequence[int], *, skip_special_tokens: bool, special_text: Mapping[int, str]
    ) -> IncrementalDecoder:
        """A decoder of what follows ``prompt``."""
        return Detokenizer(self.vocabulary, self.vocabulary.view(skip_special_tokens, special_text), prompt)

    def token(self, id_: int) -> tuple[str, bytes]:
        """One token alone: as text, with U+FFFD for what is no character, and exactly."""
        return self.vocabulary.token(id_)

    def token_text(self, id_: int) -> str:
        """One token alone, as text."""
        return self.token(id_)[0]
