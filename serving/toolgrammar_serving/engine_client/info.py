"""What the engines say of themselves when they register."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from toolgrammar_serving.protocol.wire import ReadyResponse


class EngineInfo(msgspec.Struct, frozen=True):
    """The deployment as one engine. Zero and empty mean that the engines did not say.

    ``max_model_len``: the smallest of the ranks, in tokens; ``num_gpu_blocks``: of all ranks together, of
    ``block_size`` tokens each. ``responses``: by rank, as they were registered.
    """

    ranks: list[int]
    responses: dict[int, ReadyResponse]
    max_model_len: int = 0
    num_gpu_blocks: int = 0
    block_size: int = 0
    vllm_version: str = ""
    dtype: str = ""
    supports_lora: bool = False
    coordinator: str | None = None

    @property
    def announces_waves(self) -> bool:
        """Whether a front end has to tell the coordinator of a request to paused engines: up to version 0.32."""
        major, _, rest = self.vllm_version.partition(".")
        minor = rest.partition(".")[0]
        return major == "0" and minor.isdecimal() and int(minor) <= 32


def engine_info(responses: Mapping[int, ReadyResponse], coordinator: str | None) -> EngineInfo:
    """The ranks' registrations taken together. ``coordinator`` wins over the address the engines name."""
    ranks = sorted(responses)
    told = [responses[rank] for rank in ranks]
    first = told[0]
    return EngineInfo(
        ranks=ranks,
        responses=dict(responses),
        max_model_len=min((r.max_model_len for r in told if r.max_model_len), default=0),
        num_gpu_blocks=sum(r.num_gpu_blocks for r in told),
        block_size=first.block_size,
        vllm_version=first.vllm_version,
        dtype=first.dtype,
        supports_lora=all(r.supports_lora for r in told),
        coordinator=coordinator or next((r.dp_stats_address for r in told if r.dp_stats_address), None),
    )
