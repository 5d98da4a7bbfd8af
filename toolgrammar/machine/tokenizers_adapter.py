"""``tokenizers.Tokenizer`` and what transformers wraps around it, as the protocol of ``machine.tokens`` asks.

Neither package is imported: what is given is known by its methods.
"""

from __future__ import annotations

from typing import Any

#: Ids that may wait for the rest of a character, which has four bytes at most. More are no character.
_MOST = 8


def adapted(tokenizer: Any) -> Any:
    """``tokenizer`` with ``special_tokens()`` and ``decoder()``, itself if it has them. Raises ``TypeError``."""
    if callable(getattr(tokenizer, "special_tokens", None)):
        return tokenizer
    inner = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if callable(getattr(inner, "get_added_tokens_decoder", None)) and callable(getattr(inner, "decode", None)):
        return FastTokenizer(inner)
    raise TypeError(
        f"{type(tokenizer).__name__} is no tokenizer that is known here: it takes a tokenizers.Tokenizer, a fast "
        "tokenizer of transformers, or an object with special_tokens() and decoder()"
    )


class FastTokenizer:
    """A ``tokenizers.Tokenizer``: special tokens by id, and incremental decoders for the others."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self._special = {number: token.content for number, token in added.items() if token.special}

    def special_tokens(self) -> dict[int, str]:
        """Special tokens: id to text."""
        return self._special

    def decoder(self) -> FastDecoder:
        """A decoder for one stream."""
        return FastDecoder(self._tokenizer)


class FastDecoder:
    """Ids to text, one at a time; holds what may be part of a character."""

    def __init__(self, tokenizer: Any, ids: tuple[int, ...] = (), done: int = 0) -> None:
        self._tokenizer = tokenizer
        #: The ids said last, for a decoder that looks at the one before (blanks), and those not yet said.
        self._ids = list(ids)
        self._done = done

    def step(self, number: int) -> str | None:
        """The text that ``number`` completes."""
        self._ids.append(number)
        return self._said(len(self._ids) - self._done >= _MOST)

    def flush(self) -> str:
        """The text of what waits still, with U+FFFD for half a character."""
        return self._said(True) or ""

    def copy(self) -> FastDecoder:
        """An independent decoder in the same state."""
        return FastDecoder(self._tokenizer, tuple(self._ids), self._done)

    def _said(self, all_of_it: bool) -> str | None:
        before, text = self._text(self._ids[: self._done]), self._text(self._ids)
        if not all_of_it and (len(text) <= len(before) or text.endswith("\ufffd")):
            return None
        self._ids, self._done = self._ids[self._done :], len(self._ids) - self._done
        return text[len(before) :]

    def _text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False)) if ids else ""
