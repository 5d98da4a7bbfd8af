"""How much memory the KV cache takes, and what fits in it.

A budget in bytes pays for the cache and for all that grows with it: without flash attention a mask of
``[batch tokens, cached tokens]`` and the tensors of indices. On CUDA, without a budget, transformers measures the
free memory itself.
"""

from __future__ import annotations

import importlib
from typing import Any, Final, NamedTuple

import torch

PAGE: Final = 32  # tokens in a block on the host: prefixes are shared in whole blocks
_PAGE_FLASH: Final = 256  # what flash attention's kernels over block tables take
_CPU_BATCH_TOKENS: Final = 512
_CPU_SHARE: Final = 0.25  # of the free memory, if nobody says more
_CPU_AT_MOST: Final = 2 * 2**30
_INDEX_BYTES: Final = 16


class Plan(NamedTuple):
    """What goes into transformers' configuration; None: it decides."""

    page_size: int
    num_blocks: int | None
    max_batch_tokens: int | None


class NoRoom(Exception):
    """The budget does not hold even one block; the message is for the person who started the engine."""


def plan(
    config: Any,
    *,
    dtype: torch.dtype,
    device: torch.device,
    flash: bool,
    budget: int | None,
    max_batch_tokens: int | None,
    max_num_seqs: int,
    max_model_len: int,
) -> Plan:
    """Divide ``budget`` bytes. ``config`` is the model's text configuration."""
    if flash:
        per_token = token_bytes(config, dtype)
        blocks = None if budget is None else max(1, budget // (per_token * _PAGE_FLASH))
        return Plan(_PAGE_FLASH, blocks, max_batch_tokens)
    batch = max(max_batch_tokens or _CPU_BATCH_TOKENS, max_num_seqs)
    if budget is None and device.type != "cpu":
        return Plan(PAGE, None, batch)
    given = budget or _default_budget()
    mask = batch * dtype.itemsize * (2 if getattr(config, "sliding_window", None) else 1)
    tokens = (given - batch * mask) // (token_bytes(config, dtype) + mask + _INDEX_BYTES)
    useful = max_num_seqs * max_model_len
    blocks = min(tokens, useful) // PAGE
    if blocks < 1:
        needed = batch * mask + PAGE * (token_bytes(config, dtype) + mask + _INDEX_BYTES)
        raise NoRoom(f"the KV cache needs {needed} bytes at least with {batch} tokens a step; {given} were given")
    return Plan(PAGE, blocks, batch)


def _default_budget() -> int:
    psutil: Any = importlib.import_module("psutil")  # transformers needs it, too; it has no types
    return min(int(psutil.virtual_memory().available * _CPU_SHARE), _CPU_AT_MOST)


def token_bytes(config: Any, dtype: torch.dtype) -> int:
    """Keys and values of one token in all layers."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * heads * head_dim * config.num_hidden_layers * dtype.itemsize)
