"""Rules on the logits of one request: what may not come next, what should, and what came too often.

Each rule works in place on its request's row (``[vocabulary]``, float32, on the model's device) before sampling,
in the order of ``rules_for``: allowed ids, bad words, minimum length, bias, penalties.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from toolgrammar_serving.protocol.wire import SamplingParams


class Rule(Protocol):
    """One rule, with what it remembers of the output."""

    masks: bool  # can forbid tokens

    def apply(self, row: Tensor) -> None:
        """Change the logits of the next token."""

    def observe(self, token: int) -> None:
        """``token`` was sampled."""


class Allowed:
    """Only these ids may come."""

    masks = True

    def __init__(self, ids: Sequence[int], vocab_size: int, device: torch.device) -> None:
        self.others = torch.ones(vocab_size, dtype=torch.bool, device=device)
        self.others[torch.tensor(ids, device=device)] = False

    def apply(self, row: Tensor) -> None:
        row.masked_fill_(self.others[: row.shape[0]], -torch.inf)

    def observe(self, token: int) -> None:
        pass


class BadWords:
    """None of these sequences may be completed."""

    masks = True

    def __init__(self, words: Sequence[Sequence[int]]) -> None:
        self.words = [(list(word[:-1]), word[-1]) for word in words if word]
        self.longest = max((len(start) for start, _ in self.words), default=0)
        self.out: list[int] = []

    def apply(self, row: Tensor) -> None:
        out = self.out
        for start, last in self.words:
            if not start or out[-len(start) :] == start:
                row[last] = -torch.inf

    def observe(self, token: int) -> None:
        if self.longest:
            self.out.append(token)
            del self.out[: -self.longest]


class MinTokens:
    """No stop token before ``count`` tokens are out."""

    masks = True

    def __init__(self, count: int, stop_ids: Sequence[int], device: torch.device) -> None:
        self.left = count
        self.ids = torch.tensor(stop_ids, dtype=torch.long, device=device)

    def apply(self, row: Tensor) -> None:
        if self.left > 0:
            row.index_fill_(0, self.ids, -torch.inf)

    def observe(self, token: int) -> None:
        self.left -= 1


class Bias:
    """Added to the logits of some ids."""

    masks = False

    def __init__(self, bias: dict[int, float], device: torch.device) -> None:
        self.ids = torch.tensor(list(bias), dtype=torch.long, device=device)
        self.values = torch.tensor(list(bias.values()), dtype=torch.float32, device=device)

    def apply(self, row: Tensor) -> None:
        row.index_add_(0, self.ids, self.values)

    def observe(self, token: int) -> None:
        pass


class Penalties:
    """Repetition (prompt and output), frequency and presence (output) penalties.

    Only the distinct tokens seen are kept and touched, so the cost does not grow with the vocabulary.
    """

    masks = False

    def __init__(self, params: SamplingParams, prompt: Sequence[int], device: torch.device) -> None:
        self.repetition = params.repetition_penalty
        self.frequency = params.frequency_penalty
        self.presence = params.presence_penalty
        seen = list(dict.fromkeys(prompt)) if self.repetition != 1.0 else []
        self.slots = {token: slot for slot, token in enumerate(seen)}
        room = 2 * len(seen) + 64
        self.ids = torch.zeros(room, dtype=torch.long, device=device)
        self.ids[: len(seen)] = torch.tensor(seen, dtype=torch.long, device=device)
        self.counts = torch.zeros(room, dtype=torch.float32, device=device)  # in the output

    def apply(self, row: Tensor) -> None:
        used = len(self.slots)
        if not used:
            return
        ids = self.ids[:used]
        logits = row[ids]
        if self.repetition != 1.0:
            logits = torch.where(logits > 0, logits / self.repetition, logits * self.repetition)
        counts = self.counts[:used]
        logits -= self.frequency * counts + self.presence * (counts > 0)
        row[ids] = logits

    def observe(self, token: int) -> None:
        slot = self.slots.get(token)
        if slot is None:
            slot = self.slots[token] = len(self.slots)
            if slot == len(self.ids):
                self.ids = torch.cat([self.ids, torch.zeros_like(self.ids)])
                self.counts = torch.cat([self.counts, torch.zeros_like(self.counts)])
            self.ids[slot] = token
        self.counts[slot] += 1.0


def rules_for(
    params: SamplingParams, prompt: Sequence[int], vocab_size: int, device: torch.device, *, constrained: bool
) -> list[Rule]:
    """The rules a request asks for. A ``constrained`` output ends where its constraint says, at any length."""
    rules: list[Rule] = []
    if params.allowed_token_ids:
        rules.append(Allowed(params.allowed_token_ids, vocab_size, device))
    if params.bad_words_token_ids:
        rules.append(BadWords(params.bad_words_token_ids))
    stops = {*params.all_stop_token_ids, *params.stop_token_ids}
    if params.eos_token_id is not None:
        stops.add(params.eos_token_id)
    stops = {token for token in stops if 0 <= token < vocab_size}  # others never come
    if params.min_tokens > 0 and stops and not constrained:
        rules.append(MinTokens(params.min_tokens, sorted(stops), device))
    if params.logit_bias:
        rules.append(Bias(params.logit_bias, device))
    if params.repetition_penalty != 1.0 or params.frequency_penalty or params.presence_penalty:
        rules.append(Penalties(params, prompt, device))
    return rules
