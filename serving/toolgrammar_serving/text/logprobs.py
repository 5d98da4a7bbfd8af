"""Logprobs with their tokens as text and bytes."""

from __future__ import annotations

from collections.abc import Sequence

from toolgrammar_serving.llm import Position
from toolgrammar_serving.text.requests import Alternative, TokenLogprob
from toolgrammar_serving.text.tokenizer import Tokenizer


def with_texts(tokenizer: Tokenizer, positions: Sequence[Position]) -> list[TokenLogprob]:
    """One entry a position. A token's text is what it is alone, special tokens too."""
    token = tokenizer.token
    entries = []
    for position in positions:
        sampled, *top = [
            Alternative(id_, *token(id_), logprob)
            for id_, logprob in zip(position.token_ids, position.logprobs, strict=True)
        ]
        entries.append(TokenLogprob(sampled, position.rank, top))
    return entries
