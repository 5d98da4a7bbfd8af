"""What each token id is, as text and as bytes: the tables that detokenising reads.

Nearly every token is whole characters, and its text is in ``texts``. A token that is not (half an emoji, a byte of
a letter) has None there and its bytes in ``partial``. So one list and a small dictionary serve a vocabulary of any
size; nothing is kept twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

#: Id to text. None: bytes that are no whole characters.
Texts: TypeAlias = list[str | None]

#: Tables with special texts that are kept. Each has a pointer per token: 1.2 MB for 150,000.
_VIEWS: Final = 8

#: Tokens that are kept as text and bytes, for logprobs.
_TOKENS: Final = 10_000


class Vocabulary:
    """The tables of one tokenizer. Ids outside of them are no text at all."""

    def __init__(
        self,
        texts: Sequence[str | None],
        partial: Mapping[int, bytes],
        special: Mapping[int, str],
        *,
        leading_blanks: int = 0,
    ) -> None:
        """``texts`` has every token's own text, special ones included. ``special``: special tokens, id to text.
        ``leading_blanks``: that many blanks at the very start of a text are dropped.
        """
        self.texts: Texts = list(texts)
        self.partial = partial
        self.special = special
        self.leading_blanks = leading_blanks
        self._tokens: dict[int, tuple[str, bytes]] = {}
        self._views: dict[tuple[bool, tuple[tuple[int, str], ...]], Texts] = {}

    def view(self, skip_special: bool, overrides: Mapping[int, str] | None = None) -> Texts:
        """The texts as one request wants them; to be read only. With ``skip_special`` special tokens are empty;
        ``overrides`` wins over both. Tables are shared and the latest few are kept."""
        key = (skip_special, tuple(sorted(overrides.items())) if overrides else ())
        found = self._views.get(key)
        if found is None:
            found = self._made(skip_special, overrides or {})
            if len(self._views) >= _VIEWS:
                del self._views[next(iter(self._views))]
            self._views[key] = found
        return found

    def _made(self, skip_special: bool, overrides: Mapping[int, str]) -> Texts:
        changes = dict.fromkeys(self.special, "") if skip_special else {}
        changes.update(overrides)
        if not changes:
            return self.texts
        texts = self.texts + [""] * (max(changes) + 1 - len(self.texts))
        for id_, text in changes.items():
            texts[id_] = text
        return texts

    def token(self, id_: int) -> tuple[str, bytes]:
        """One token alone: as text, with U+FFFD for what is no character, and exactly."""
        found = self._tokens.get(id_)
        if found is None:
            if len(self._tokens) >= _TOKENS:
                self._tokens.clear()
            found = self._tokens[id_] = self._token(id_)
        return found

    def _token(self, id_: int) -> tuple[str, bytes]:
        text = self.texts[id_] if 0 <= id_ < len(self.texts) else ""
        if text is None:
            data = self.partial[id_]
            return data.decode("utf-8", "replace"), data
        return text, text.encode("utf-8", "surrogatepass")
