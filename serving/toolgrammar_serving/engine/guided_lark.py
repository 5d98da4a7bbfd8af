"""Constraints written in Lark's notation, by llguidance.

start: "yes" | "no" ("," /[a-z]+/)?
"""

from __future__ import annotations

from typing import Any

import llguidance
import llguidance.hf
import torch
from torch import Tensor


class LarkMatcher:
    """One output followed by llguidance. Raises ``ValueError`` for a grammar it does not take."""

    __slots__ = ("_matcher",)

    def __init__(self, grammar: str, tokenizer: Any, vocab_size: int, stop_ids: list[int]) -> None:
        vocabulary = llguidance.hf.from_tokenizer(tokenizer, vocab_size, stop_ids or None)
        self._matcher = llguidance.LLMatcher(vocabulary, llguidance.LLMatcher.grammar_from_lark(grammar))
        if self._matcher.is_error():
            raise ValueError(self._matcher.get_error())

    def fill(self, bitmask: Tensor, row: int) -> None:
        allowed = torch.frombuffer(bytearray(self._matcher.compute_bitmask()), dtype=torch.int32)
        width = min(len(allowed), bitmask.shape[1])  # its end of sequence may lie behind the model's vocabulary
        bitmask[row, :width] = allowed[:width]
        bitmask[row, width:] = 0

    def accept(self, token: int) -> bool:
        return bool(self._matcher.consume_token(token))

    @property
    def finished(self) -> bool:
        return bool(self._matcher.is_stopped())
