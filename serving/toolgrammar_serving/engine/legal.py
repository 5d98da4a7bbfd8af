"""Tokens that no JSON has, whatever the constraint lets through.

xgrammar 0.2 writes a string with a length bound as characters other than quote, backslash, CR and LF, so control
characters pass that JSON forbids. Under a JSON constraint every token with one is masked; LF and CR, which are
kept out of strings, stay for whitespace. A structural tag has free text beside JSON: there the tab stays, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

_NOT_IN_JSON: Final = re.compile(rb"[\x00-\x09\x0b\x0c\x0e-\x1f]")
_NOT_IN_TEXT: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
#: In a row, between the parts of JSON: a constrained model would sometimes go on with it for ever. Enough for an
#: indentation of 2 at depth 20.
MOST_WHITESPACE: Final = 40


class Legal:
    """Bitmasks over a vocabulary: ``json`` and ``tags``, int32 words as xgrammar has them."""

    def __init__(self, vocabulary: Sequence[bytes], vocab_size: int) -> None:
        self.json = _bits(vocabulary, vocab_size, _NOT_IN_JSON)
        self.tags = _bits(vocabulary, vocab_size, _NOT_IN_TEXT)


def _bits(vocabulary: Sequence[bytes], vocab_size: int, forbidden: re.Pattern[bytes]) -> Tensor:
    words = [-1] * ((vocab_size + 31) // 32)
    for token, text in enumerate(vocabulary[:vocab_size]):
        if forbidden.search(text):
            words[token // 32] &= ~(1 << token % 32)
    # Python's integers have no 32nd bit that is a sign: bring them into range.
    return torch.tensor([(word + 2**31) % 2**32 - 2**31 for word in words], dtype=torch.int32)


def bounded_whitespace(tag: Any) -> Any:
    """A structural tag in which whitespace between parts of JSON has a bound."""
    if isinstance(tag, list):
        return [bounded_whitespace(one) for one in tag]
    if not isinstance(tag, dict):
        return tag
    if tag.get("type") == "json_schema":
        return {"max_whitespace_cnt": MOST_WHITESPACE, **tag}
    return {key: bounded_whitespace(value) for key, value in tag.items()}
