"""Whether a request can be run at all, and what it becomes."""

from __future__ import annotations

import math
import random

import torch

from toolgrammar_serving.engine.request import Request
from toolgrammar_serving.engine.rules import rules_for
from toolgrammar_serving.protocol import wire

VALIDATION: str = "validation_error"


class Refused(Exception):
    """The request cannot be run; the message is for the client."""


class Admission:
    """What a model can take. ``max_model_len`` counts prompt and output; the cache can hold as much."""

    def __init__(self, vocab_size: int, max_model_len: int, device: torch.device, seed: int | None) -> None:
        self.vocab_size = vocab_size
        self.max_model_len = max_model_len
        self.device = device
        self._numbers = random.Random(seed)  # of all requests without a seed

    def admit(self, asked: wire.EngineCoreRequest) -> Request:
        """The request, ready to run but for its constraint. Raises ``Refused``."""
        params = asked.sampling_params
        if params is None:
            raise Refused("This engine generates only: the request has no sampling parameters.")
        self._check_prompt(asked)
        self._check(params)
        numbers = self._numbers if params.seed is None else random.Random(params.seed % 2**64)
        request = Request(asked, params, numbers, self.max_model_len)
        constrained = params.structured_outputs is not None
        request.rules = rules_for(params, request.prompt, self.vocab_size, self.device, constrained=constrained)
        return request

    def _check_prompt(self, asked: wire.EngineCoreRequest) -> None:
        prompt = asked.prompt_token_ids
        if asked.prompt_embeds is not None or asked.mm_features:
            raise Refused("This engine takes token ids only, no embeddings, images or sound.")
        if asked.lora_request is not None:
            raise Refused("This engine has no LoRA adapters.")
        if not prompt:
            raise Refused("The prompt is empty.")
        if len(prompt) >= self.max_model_len:
            raise Refused(
                f"The prompt has {len(prompt)} tokens, but the model takes {self.max_model_len} at most, "
                "prompt and output together."
            )
        self._check_ids("the prompt", prompt)

    def _check(self, params: wire.SamplingParams) -> None:
        if params.max_tokens is not None and params.max_tokens < 1:
            raise Refused(f"max_tokens must be at least 1, found {params.max_tokens}.")
        if not 0.0 <= params.temperature < float("inf"):
            raise Refused(f"temperature must be a number from 0, found {params.temperature}.")
        if not 0.0 < params.top_p <= 1.0:
            raise Refused(f"top_p must be in (0, 1], found {params.top_p}.")
        if not 0.0 <= params.min_p <= 1.0:
            raise Refused(f"min_p must be in [0, 1], found {params.min_p}.")
        if params.repetition_penalty <= 0.0:
            raise Refused(f"repetition_penalty must be above 0, found {params.repetition_penalty}.")
        if params.thinking_token_budget is not None:
            raise Refused("This engine has no thinking_token_budget.")
        self._check_numbers(params)
        if params.allowed_token_ids is not None and not params.allowed_token_ids:
            raise Refused("allowed_token_ids is empty: no token would be allowed.")
        self._check_ids("allowed_token_ids", params.allowed_token_ids or ())
        self._check_ids("logit_bias", params.logit_bias or ())
        self._check_ids("logprob_token_ids", params.logprob_token_ids or ())
        for word in params.bad_words_token_ids or ():
            self._check_ids("bad_words", word)

    def _check_numbers(self, params: wire.SamplingParams) -> None:
        """What is computed with must be finite, and fit into a tensor."""
        if params.top_k >= 2**31:
            raise Refused(f"top_k must be less than 2147483648, found {params.top_k}.")
        for name in ("repetition_penalty", "frequency_penalty", "presence_penalty"):
            if not math.isfinite(value := getattr(params, name)):
                raise Refused(f"{name} must be finite, found {value}.")
        if not all(map(math.isfinite, (params.logit_bias or {}).values())):
            raise Refused("logit_bias: every bias must be finite.")

    def _check_ids(self, what: str, ids: list[int] | tuple[int, ...] | dict[int, float]) -> None:
        if ids and (min(ids) < 0 or max(ids) >= self.vocab_size):
            worst = min(ids) if min(ids) < 0 else max(ids)
            raise Refused(f"{what}: token id {worst} is not in the vocabulary of {self.vocab_size}.")
