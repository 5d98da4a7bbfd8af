"""Logprobs in the shapes of the chat and the completions API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from toolgrammar_serving.text import Alternative, TokenLogprob

#: What is told for a probability of zero: JSON has no infinity.
FLOOR: Final = -9999.0


def floored(logprob: float) -> float:
    """``logprob``, or the floor for what is below it or no number."""
    return logprob if logprob > FLOOR else FLOOR


def name(token: Alternative, as_ids: bool) -> str:
    """How a token is told: its text, or its id where texts would not be unique."""
    return f"token_id:{token.token_id}" if as_ids else token.text


def _entry(token: Alternative, as_ids: bool) -> dict[str, Any]:
    return {"token": name(token, as_ids), "logprob": floored(token.logprob), "bytes": list(token.bytes)}


def chat_logprobs(positions: list[TokenLogprob], as_ids: bool = False) -> dict[str, Any]:
    """The ``logprobs`` member of a chat choice or of one of its chunks."""
    content = []
    for position in positions:
        entry = _entry(position.token, as_ids)
        entry["top_logprobs"] = [_entry(token, as_ids) for token in position.top]
        content.append(entry)
    return {"content": content, "refusal": None}


class CompletionLogprobs:
    """The four lists of a completions choice, which may come in pieces: offsets go on."""

    def __init__(self, as_ids: bool) -> None:
        self._as_ids = as_ids
        self._offset = 0

    def piece(self, positions: Sequence[TokenLogprob | None], texts: list[str]) -> dict[str, Any]:
        """``positions`` as lists. ``texts``: of every position's token; a position without logprobs (a prompt's
        first) has null."""
        offsets: list[int] = []
        tokens: list[str] = []
        values: list[float | None] = []
        top: list[dict[str, float] | None] = []
        for position, text in zip(positions, texts, strict=True):
            offsets.append(self._offset)
            self._offset += len(text)
            if position is None:
                tokens.append(text)
                values.append(None)
                top.append(None)
                continue
            tokens.append(name(position.token, self._as_ids))
            values.append(floored(position.token.logprob))
            best = {name(token, self._as_ids): floored(token.logprob) for token in position.top}
            best.setdefault(tokens[-1], values[-1] or 0.0)
            top.append(best)
        return {"text_offset": offsets, "token_logprobs": values, "tokens": tokens, "top_logprobs": top}
