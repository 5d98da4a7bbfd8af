"""The next token of every request of a batch, each by its own parameters.

    raw logits -> (log-probabilities, as the model has them) -> constraints -> rules -> greedy, or draw

A draw is temperature, top_k, top_p, min_p in this order, and then one uniform number against the cumulated
probabilities. That number comes from the request's own generator on the host: a seed gives the same numbers on
every device, alone and in any batch.

A batch keeps its composition for many steps; what depends on it alone is made once (``_Plan``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from toolgrammar_serving.engine import logprobs
from toolgrammar_serving.engine.guided import apply_bitmask, new_bitmask
from toolgrammar_serving.engine.request import Request

NOTHING_ALLOWED = "No token is allowed here: constraint, allowed_token_ids and bad_words exclude each other."


class Sampler:
    """Samples for batches of up to any size over ``vocab_size`` logits."""

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self.vocab_size = vocab_size
        self.device = device
        self._plan = _Plan([], device)

    def sample(self, logits: Tensor, requests: list[Request]) -> list[int]:
        """One token for each row of ``logits`` [requests, vocabulary] (float32, changed in place).

        A request for which no token is left fails; the token returned for it is meaningless.
        """
        plan = self._plan
        if plan.requests != requests:
            plan = self._plan = _Plan(requests, self.device)
        if plan.plain:
            tokens: list[int] = logits.argmax(-1).tolist()
            return tokens
        before = logprobs.of_rows(logits, plan.with_logprobs)
        self._constrain(logits, requests)
        masked = plan.apply_rules(logits)
        constrained = [row for row, request in enumerate(requests) if request.constrained]
        self._fail_empty(logits, requests, sorted({*masked, *constrained}))
        tokens = plan.choose(logits)
        for place, row in enumerate(plan.with_logprobs):
            logprobs.record(requests[row], before[place], tokens[row])
        return tokens

    def _constrain(self, logits: Tensor, requests: Sequence[Request]) -> None:
        rows = [row for row, request in enumerate(requests) if request.constrained]
        if not rows:
            return
        bitmask = new_bitmask(len(requests), self.vocab_size)
        for row in rows:
            matcher = requests[row].matcher
            assert matcher is not None
            try:
                matcher.fill(bitmask, row)
            except Exception as problem:  # of the library that follows it: not the other requests' concern
                requests[row].fail(f"The constraint on the output cannot be followed: {problem}")
        apply_bitmask(logits, bitmask, rows)

    def _fail_empty(self, logits: Tensor, requests: Sequence[Request], rows: list[int]) -> None:
        """Fail those of ``rows`` in which nothing is allowed, and give them something to sample from."""
        if not rows:
            return
        best = logits[rows].amax(-1).tolist()
        for row, value in zip(rows, best, strict=True):
            if value == -torch.inf:
                requests[row].fail(NOTHING_ALLOWED, "validation_error")
                logits[row].zero_()


class _Plan:
    """What a batch of these requests, in this order, needs at every step."""

    def __init__(self, requests: list[Request], device: torch.device) -> None:
        self.requests = list(requests)
        self.with_logprobs = [row for row, request in enumerate(requests) if request.logprobs is not None]
        self.with_rules = [(row, request.rules) for row, request in enumerate(requests) if request.rules]
        self.plain = not self.with_logprobs and all(
            request.greedy and not request.rules and request.matcher is None for request in requests
        )
        self.greedy = any(request.greedy for request in requests)
        self.groups = [
            _Draw(group, device)
            for ranked in (False, True)
            if (group := [(r, q) for r, q in enumerate(requests) if not q.greedy and q.ranked is ranked])
        ]

    def apply_rules(self, logits: Tensor) -> list[int]:
        """Apply every request's rules; the rows in which something may be forbidden."""
        masked = []
        for row, rules in self.with_rules:
            for rule in rules:
                rule.apply(logits[row])
                if rule.masks:
                    masked.append(row)
        return masked

    def choose(self, logits: Tensor) -> list[int]:
        tokens: list[int] = logits.argmax(-1).tolist() if self.greedy else [0] * len(self.requests)
        for group in self.groups:
            for row, token in zip(group.rows, group.draw(logits), strict=True):
                tokens[row] = token
        return tokens


class _Draw:
    """Requests of a batch that draw in the same way: over a ranked (top_k, top_p) or over the open vocabulary."""

    def __init__(self, group: Sequence[tuple[int, Request]], device: torch.device) -> None:
        self.rows = [row for row, _ in group]
        self.index = torch.tensor(self.rows, dtype=torch.long, device=device)
        self.numbers = [request.numbers for _, request in group]
        params = [request.params for _, request in group]

        def column(values: list[Any]) -> Tensor:
            return torch.tensor(values, device=device).unsqueeze(1)

        self.temperature = column([p.temperature for p in params])
        self.ranked = group[0][1].ranked
        limits = [p.top_k for p in params]
        self.widest = max(limits) if min(limits) > 0 else 0  # 0: some request looks at the whole vocabulary
        self.top_k = column([k if k > 0 else 2**31 for k in limits]) if max(limits) > 0 else None
        # Above 1, so that rounding in the cumulated sum never cuts a tail that nobody asked to cut.
        self.top_p = column([p.top_p if p.top_p < 1.0 else 2.0 for p in params])
        self.min_p = column([p.min_p for p in params]) if any(p.min_p > 0 for p in params) else None

    def draw(self, logits: Tensor) -> list[int]:
        """A token for each of ``rows``."""
        scores = logits[self.index] / self.temperature
        if not self.ranked:
            return self._pick(torch.softmax(scores, -1)).tolist()
        width = scores.shape[-1]
        if 0 < self.widest < width:
            scores, ids = scores.topk(self.widest, dim=-1)
        else:
            scores, ids = scores.sort(dim=-1, descending=True)
        if self.top_k is not None:
            scores.masked_fill_(torch.arange(scores.shape[-1], device=scores.device) >= self.top_k, -torch.inf)
        chances = torch.softmax(scores, -1)
        chances.masked_fill_(chances.cumsum(-1) - chances >= self.top_p, 0.0)
        picked = self._pick(chances)
        return ids.gather(-1, picked.unsqueeze(1)).squeeze(1).tolist()

    def _pick(self, chances: Tensor) -> Tensor:
        """Positions in ``chances`` [rows, candidates], which need not add up to 1."""
        if self.min_p is not None:
            chances.masked_fill_(chances < self.min_p * chances.amax(-1, keepdim=True), 0.0)
        cumulated = chances.cumsum(-1)
        uniform = torch.tensor([numbers.random() for numbers in self.numbers], device=chances.device)
        aimed = uniform.unsqueeze(1) * cumulated[:, -1:]
        # The first place where the sum exceeds the aim: its own chance is not 0.
        picked = torch.searchsorted(cumulated, aimed, right=True).squeeze(1)
        return picked.clamp_(max=chances.shape[-1] - 1)
