"""Two outputs of one request made one: what a slow reader finds waiting is then pushed once, not once a step."""

from __future__ import annotations

from toolgrammar_serving.protocol.arrays import Logprobs
from toolgrammar_serving.protocol.wire import EngineCoreOutput


def merge(earlier: EngineCoreOutput, later: EngineCoreOutput) -> bool:
    """Add ``later`` to ``earlier``; False, and nothing done, where that would lose something.

    Tokens and logprobs are joined. What comes with the first output stays, what comes with the last is taken over.
    Logprobs are ``Logprobs`` or None in both. Two outputs are not joined if tokens would no longer be in step with
    logprobs, if the request was over already, or if both carry the same array of another kind.
    """
    if earlier.finish_reason is not None:
        return False
    carried = [name for name in _ONCE if getattr(later, name) is not None]
    if any(getattr(earlier, name) is not None for name in carried):
        return False
    if (later.new_logprobs is not None or earlier.new_logprobs is not None) and not _join_logprobs(earlier, later):
        return False
    earlier.new_token_ids += later.new_token_ids
    earlier.num_nans_in_logits += later.num_nans_in_logits
    if later.events is not None:
        earlier.events = [*(earlier.events or ()), *later.events]
    for name in carried:
        setattr(earlier, name, getattr(later, name))
    return True


#: Fields that at most one of two outputs may have.
_ONCE = (
    "new_prompt_logprobs_tensors",
    "pooling_output",
    "finish_reason",
    "stop_reason",
    "kv_transfer_params",
    "ec_transfer_params",
    "trace_headers",
    "prefill_stats",
    "routed_experts",
    "mm_cache_miss_hashes",
    "new_sampling_mask",
    "spec_decode_metrics",
    "prompt_token_id_logprobs",
    "error",
)


def is_plain(output: EngineCoreOutput) -> bool:
    """Nothing but tokens: a step in the middle. What comes with a finish reason only needs no look."""
    return (
        output.finish_reason is None
        and output.new_logprobs is None
        and output.prefill_stats is None
        and output.events is None
        and output.new_prompt_logprobs_tensors is None
        and output.new_sampling_mask is None
        and output.routed_experts is None
        and output.pooling_output is None
        and not output.num_nans_in_logits
    )


def _join_logprobs(earlier: EngineCoreOutput, later: EngineCoreOutput) -> bool:
    """Join the logprobs, if each side has one row a token; a side without tokens needs none."""
    first: Logprobs | None = earlier.new_logprobs
    second: Logprobs | None = later.new_logprobs
    if len(first.ranks if first else ()) != len(earlier.new_token_ids):
        return False
    if len(second.ranks if second else ()) != len(later.new_token_ids):
        return False
    if first is None:
        earlier.new_logprobs = second
    elif second is not None:
        first.ids += second.ids
        first.logprobs += second.logprobs
        first.ranks += second.ranks
    return True
