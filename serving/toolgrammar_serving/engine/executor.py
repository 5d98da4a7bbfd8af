"""Runs requests on the model, one step after the other: transformers' continuous batching, with our parts in it.

transformers' own manager runs a thread, queues and an output object per request and token. Here one thread owns
everything: it adds and cancels between steps, and takes the tokens straight from the requests.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig
from transformers.generation.continuous_batching import ContinuousBatchingManager
from transformers.generation.continuous_batching.continuous_api import ContinuousBatchProcessor, OutputRouter
from transformers.generation.continuous_batching.initialization import update_cb_config_after_cache_creation
from transformers.generation.continuous_batching.model_runner import infer_max_single_request_tokens

from toolgrammar_serving.engine import capacity
from toolgrammar_serving.engine.parts import Cache, Runner, Scheduler, Sequence
from toolgrammar_serving.engine.request import Request
from toolgrammar_serving.engine.sampler import Sampler
from toolgrammar_serving.protocol import wire


class Executor:
    """Up to ``max_num_seqs`` requests at a time. Not for several threads."""

    def __init__(
        self, model: Any, vocab_size: int, plan: capacity.Plan, *, max_num_seqs: int, share: bool
    ) -> None:
        self.model = model
        self.device: torch.device = model.device
        config = ContinuousBatchingConfig(
            page_size=plan.page_size,
            num_blocks=plan.num_blocks,
            max_batch_tokens=plan.max_batch_tokens,
            max_requests_per_batch=max_num_seqs,
            allow_block_sharing=share,
            use_async_batching=False,  # penalties and constraints need every token before the next is sampled
            auto_switch_to_flash=False,  # it may fetch kernels
            max_memory_percent=0.9,
        )
        self._processor, self._cache = _assemble(model, config)
        self._scheduler: Any = self._processor.scheduler
        runner = self._processor.model_runner
        runner.sampler = Sampler(vocab_size, self.device)
        runner.warmup(model)
        self.block_size: int = plan.page_size
        self.num_blocks: int = self._cache.num_blocks
        self.max_batch_tokens: int = self._cache.max_batch_tokens
        self.capacity: int = infer_max_single_request_tokens(self._cache)  # tokens one request can have at most
        self._allocators = list(self._cache.cache_allocators.values())
        self._batch: list[Request] = []

    # ---- requests ------------------------------------------------------------------------------------------

    def add(self, request: Request) -> None:
        """Queue a request; its prompt and ``limit`` must fit ``capacity``."""
        self._scheduler.add_waiting_request(Sequence(request, request.prompt))

    def cancel(self, request_ids: Iterable[str]) -> None:
        """Forget requests, and free their blocks now."""
        for request_id in request_ids:
            self._scheduler.set_request_cancellation(request_id)
        self._scheduler.clear_cancelled_requests()
        # After requests were put back for want of memory, nothing new is taken until one *finishes*; a cancelled
        # one frees memory just as well, and perhaps nothing is left to finish.
        self._scheduler.block_new_requests = False

    @property
    def busy(self) -> bool:
        return bool(self._scheduler.active_requests or self._scheduler.waiting_requests)

    @property
    def running(self) -> int:
        return len(self._scheduler.active_requests)

    @property
    def waiting(self) -> int:
        return len(self._scheduler.waiting_requests)

    # ---- one step ------------------------------------------------------------------------------------------

    def step(self) -> list[Request]:
        """One forward pass over what is scheduled; the requests that got a token or an end."""
        processor = self._processor
        self._batch = []
        with torch.inference_mode():
            if not processor.prepare_next_batch():
                if self._scheduler.block_new_requests and not self._scheduler.active_requests:
                    self._scheduler.block_new_requests = False
                return []
            futures = processor.inputs_and_outputs.requests_in_batch
            self._batch = [future.state.request for future in futures]
            processor._generation_step(self.model)
            processor.update_batch()
        return [future.state.request for future in futures if future.has_new_token]

    def try_out(self) -> None:
        """Make two tokens, to hear now that a model cannot be run. Raises whatever comes of it."""
        asked = wire.EngineCoreRequest("", [0], None, None, None, 0.0, None, None, None)
        params = wire.SamplingParams(temperature=0.0, max_tokens=2)
        self.add(Request(asked, params, random.Random(0), self.capacity))
        while self.busy:
            self.step()

    def fail_batch(self) -> list[Request]:
        """After a step that raised: drop the requests that were in it."""
        failed, self._batch = self._batch, []
        if not failed:  # it failed while scheduling: nobody knows over whom
            states = [*self._scheduler.active_requests.values(), *self._scheduler.waiting_requests.values()]
            failed = [state.request for state in states]
        self.cancel(request.id for request in failed)
        return failed

    # ---- the cache -----------------------------------------------------------------------------------------

    def cache_usage(self) -> float:
        """Share of the blocks that running requests hold. Blocks only kept for later prompts count as free."""
        used = sum(
            len({block for blocks in one.block_table.values() for block in blocks}) * one.bytes_per_block
            for one in self._allocators
        )
        return used / (self._cache.num_sectors * self._cache.bytes_per_sector)

    def forget_prefixes(self) -> bool:
        """Drop what is kept for later prompts; False while requests run that share it."""
        self._cache.evict_cached_blocks()
        return not self._scheduler.active_requests


class _Nowhere(OutputRouter):
    """Where transformers delivers its output objects: we have read the tokens already."""

    def deliver_batch(self, outputs: object) -> None:
        pass


def _assemble(model: Any, config: Any) -> tuple[Any, Cache]:
    """What transformers' manager would put together, with our parts; its thread is never started."""
    generation: Any = GenerationConfig
    manager = ContinuousBatchingManager(model, generation(do_sample=False, eos_token_id=-1), config)
    config = manager.continuous_batching_config
    text = model.config.get_text_config()
    cache = Cache(
        config=text,
        continuous_batching_config=config,
        device=model.device,
        distributed_helper=manager.distributed_helper,
        dtype=model.dtype,
        model_supports_logits_to_keep=model._supports_logits_to_keep(),
    )
    update_cb_config_after_cache_creation(config, cache.num_blocks, cache.max_batch_tokens)
    if len(cache.cache_allocators) > 1 or "full_attention" not in cache.cache_allocators:
        config.max_blocks_per_request = 0  # as the manager does: no block tables beside sliding windows
    scheduler = Scheduler(
        cache=cache,
        safety_margin=config.safety_margin,
        max_requests_per_batch=config.max_requests_per_batch,
    )
    processor = ContinuousBatchProcessor(
        cache=cache,
        config=text,
        generation_config=manager.generation_config,
        continuous_batching_config=config,
        logit_processor=manager.logit_processor,
        input_queue=None,
        cancel_queue=None,
        output_router=_Nowhere(),
        background_thread_status=manager.background_thread_status,
        model_device=model.device,
        model_dtype=model.dtype,
        scheduler=scheduler,
        distributed_helper=manager.distributed_helper,
    )
    processor.model_runner = Runner(
        logit_processor=processor.logit_processor,
        cb_config=processor.cb_config,
        cache=cache,
        inputs_and_outputs=processor.inputs_and_outputs,
        do_sample=False,
        return_logprobs=False,
    )
    return processor, cache
