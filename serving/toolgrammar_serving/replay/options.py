"""How a replay engine behaves, and what it says of itself."""

from __future__ import annotations

from typing import Final

import msgspec

from toolgrammar_serving.protocol.wire import ReadyResponse

WEIGHT_VERSION: Final = "default"
_KV_TOKENS: Final = 1 << 20
_BLOCK: Final = 16


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``interval_s``: time between steps; 0: as fast as the front ends' sockets take it; None: only when told to
    (``release``). ``keep_delays``: requests whose script has delays get their steps by these instead. ``window``:
    how many messages may wait at ZeroMQ for a front end before it is not stepped; 0: any number.
    ``eos_token_id``: ends scripts for requests that name no end-of-sequence token. ``tokens_per_step``: cuts
    scripts that requests bring.
    """

    interval_s: float | None = 0.0
    keep_delays: bool = True
    tokens_per_step: int = 1
    window: int = 16
    eos_token_id: int | None = None
    max_model_len: int = 32768
    max_num_seqs: int = 4096
    stats: bool = True
    vllm_version: str = "0.33.0"
    rank: int = 0
    data_parallel_size: int = 1

    def ready_response(self) -> ReadyResponse:
        """What the engine says of itself when it registers."""
        return ReadyResponse(
            max_model_len=self.max_model_len,
            num_gpu_blocks=_KV_TOKENS // _BLOCK,
            block_size=_BLOCK,
            dtype="bfloat16",
            vllm_version=self.vllm_version,
            data_parallel_size=self.data_parallel_size,
            data_parallel_rank=self.rank,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=8192,
            instance_id="replay",
            kv_cache_size_tokens=_KV_TOKENS,
            kv_cache_max_concurrency=_KV_TOKENS / self.max_model_len,
            effective_attention_block_size=_BLOCK,
        )
