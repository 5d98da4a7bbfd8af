"""The prompt, as an answer that is asked to repeat it does."""

from __future__ import annotations

from typing import Any

from toolgrammar_serving.server.service import TextLayer
from toolgrammar_serving.text import TokenLogprob


class Echo:
    """A prompt's text, token ids and, once its generation has begun, logprobs."""

    def __init__(self, layer: TextLayer, prompt: str | list[int], token_ids: list[int]) -> None:
        self._layer = layer
        self._prompt = prompt
        self.token_ids = token_ids
        self.generation: Any = None

    def text(self) -> str:
        """As it was given, or decoded."""
        return self._prompt if isinstance(self._prompt, str) else self._layer.decode(self._prompt)

    def positions(self) -> tuple[list[TokenLogprob | None], list[str]]:
        """What is known of the prompt's tokens, and their texts."""
        found = self.logprobs()
        texts = [
            self._layer.tokenizer.token_text(id_) if position is None else position.token.text
            for id_, position in zip(self.token_ids, found, strict=True)
        ]
        return found, texts

    def logprobs(self) -> list[TokenLogprob | None]:
        """One a token; None for the first, and for all if the engine gave none."""
        found = None if self.generation is None else self._layer.prompt_logprobs(self.generation)
        return [None] * len(self.token_ids) if found is None else found


def prompt_logprobs(positions: list[TokenLogprob | None] | None) -> list[dict[str, Any] | None] | None:
    """The ``prompt_logprobs`` member: one a token of the prompt, by token id."""
    return None if positions is None else [None if one is None else _by_id(one) for one in positions]


def _by_id(position: TokenLogprob) -> dict[str, Any]:
    """A position's alternatives by token id, with their ranks."""
    found: dict[str, Any] = {}
    for rank, token in [*enumerate(position.top, 1), (position.rank, position.token)]:
        found[str(token.token_id)] = {"logprob": token.logprob, "rank": rank, "decoded_token": token.text}
    return found
