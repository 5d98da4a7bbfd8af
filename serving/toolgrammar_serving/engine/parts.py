"""The parts of transformers' continuous batching that know our requests.

Scheduling, paged cache, prefix sharing, batch tensors and graphs are transformers'. Per request it has only
temperature, top_k and top_p; so four of its parts are replaced, each by the least that does:

    Sequence     its state of a request: ends by our rules, and keeps its ``Request`` when it starts again
    Scheduler    knows which requests read shared prefixes, and notes what they found
    Cache        keeps the blocks of private requests from being shared
    Runner       hands the logits to our sampler, outside of what a CUDA graph captures, and those of prompts
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import Any, cast

import torch
from torch import Tensor
from transformers.generation.continuous_batching.cache import PagedAttentionCache
from transformers.generation.continuous_batching.model_runner import ModelRunner
from transformers.generation.continuous_batching.requests import RequestState, RequestStatus
from transformers.generation.continuous_batching.scheduler import FIFOScheduler
from transformers.generation.continuous_batching.utils import stream_context

from toolgrammar_serving.engine import logprobs
from toolgrammar_serving.engine.request import Request
from toolgrammar_serving.engine.sampler import Sampler


class Sequence(RequestState):
    """A request in the scheduler's eyes."""

    def __init__(self, request: Request, tokens: list[int]) -> None:
        super().__init__(request_id=request.id, initial_tokens=tokens, max_new_tokens=None)
        self.request = request

    def update_and_check_completion(self, token_id: int, logprob: float | None) -> bool:
        """Take a sampled token; True if it was the last."""
        self.generated_tokens.append(token_id)
        self.tokens_to_process = [token_id]
        if self.request.accept(token_id):
            self.status = RequestStatus.FINISHED
            return True
        return False

    def create_equivalent_initial_request(self) -> Sequence:
        """The same request from the start, when its cache was taken for others: all its tokens are prompt now."""
        self.request.restarts += 1
        return Sequence(self.request, self.initial_tokens + self.generated_tokens)

    def to_generation_output(self) -> None:
        """Outputs go another way."""


class Scheduler(FIFOScheduler):
    """First come, first served; notes how much of a prompt was found in the cache."""

    def _infer_request_tokens(self, state: Any, removed: set[str]) -> list[int]:
        tokens: list[int]
        if state.status != RequestStatus.PENDING:
            tokens = super()._infer_request_tokens(state, removed)
            return tokens
        request = state.request
        if request.private or not request.reads_cache:
            tokens = state.remaining_prefill_tokens
        else:
            tokens = super()._infer_request_tokens(state, removed)
        if not request.out:  # one that starts again would find its own tokens
            request.cached_tokens = state.position_offset
            request.scheduled_at = time.monotonic()
        return tokens


class Cache(PagedAttentionCache):
    """Blocks of requests with a salt are found by nobody."""

    def count_new_complete_blocks(self, state: Any, request_len: int) -> dict[str, int]:
        if state.request.private:
            return {}
        return super().count_new_complete_blocks(state, request_len)


class Runner(ModelRunner):
    """The forward pass as transformers has it; sampling is ours."""

    sampler: Sampler
    _logits: Tensor | None = None  # of the last forward pass
    _static: Tensor | None = None  # where every graph leaves them
    _more_rows = False

    def compute_batch(self, model: Any, batch_data: dict[str, Any]) -> None:
        futures: list[Any] = cast(Any, self.inputs_and_outputs).requests_in_batch
        batch = [future for future in futures if isinstance(future.state, Sequence)]
        sampled = [future.state.request for future in batch if future.has_new_token]
        count = len(sampled)
        prompts = _prompt_rows(batch)
        self._more_rows = bool(prompts)
        if prompts:
            extra = torch.tensor([row for rows, _, _ in prompts for row in rows], dtype=torch.int32)
            indices = batch_data["logits_indices"]
            batch_data["logits_indices"] = torch.cat([indices[:count], extra.to(indices.device)])
        self._logits = self._static
        super().compute_batch(model, batch_data)
        if not batch:  # a warm-up: its requests are not ours
            return
        logits = self._logits
        assert logits is not None
        with stream_context(self.inputs_and_outputs.compute_stream):
            _keep_prompt_logprobs(logits[count:], prompts)
            if count:
                tokens = self.sampler.sample(logits[:count], sampled)
                self.inputs_and_outputs.output_ids[0, :count] = torch.tensor(tokens, dtype=torch.int32)

    def _get_forward_fn(self, use_block_table: bool) -> tuple[Callable[..., None], bool]:
        forward, graph = super()._get_forward_fn(use_block_table)
        return forward, graph and not self._more_rows  # a graph has as many logits as it was captured with

    def _forward_process_and_sample(self, model: Any, batch_data: dict[str, Any], *carried: Tensor) -> None:
        self.inputs_and_outputs.carry_over_tokens(batch_data["input_ids"], *carried[:2])
        logits = model(**batch_data).logits
        if "logits_to_keep" not in batch_data:
            logits = logits[:, batch_data["logits_indices"], :]
        if not self.pad_inputs or self._more_rows:
            self._logits = logits[0].float()
            return
        if self._static is None:
            rows = self.cb_config.max_requests_per_batch or logits.shape[1]
            self._static = torch.zeros(rows, logits.shape[-1], device=logits.device)
        self._logits = self._static
        self._static[: logits.shape[1]].copy_(logits[0])


def _prompt_rows(batch: Many[Any]) -> list[tuple[list[int], Request, int]]:
    """Of each request that wants log-probabilities of its prompt: rows of the batch, and the first's position."""
    found = []
    row = 0
    for future in batch:
        length = future.query_length
        request = future.state.request
        if request.params.prompt_logprobs is not None and not request.started:
            first = future.state.position_offset - length  # the batch's tensors are made: the offset has moved on
            rows = list(range(row, row + min(length, len(request.prompt) - 1 - first)))
            if rows:
                found.append((rows, request, first))
        row += length
    return found


def _keep_prompt_logprobs(logits: Tensor, prompts: Many[tuple[list[int], Request, int]]) -> None:
    for rows, request, first in prompts:
        own, logits = logits[: len(rows)], logits[len(rows) :]
        followers = request.prompt[first + 1 : first + 1 + len(rows)]
        part = logprobs.of_prompt(own, followers, request.params.prompt_logprobs or 0)
        if first == 0:
            request.prompt_logprobs = []
        request.prompt_logprobs.append(part)
