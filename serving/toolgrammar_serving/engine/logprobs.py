"""Log-probabilities, as the model has them: of its raw logits, before any rule, constraint or temperature.

On the wire: ``[ids, logprobs, ranks, nil]`` of arrays ``[dtype, shape, bytes]``. Column 0 is the token that came,
columns 1.. are the best ``k`` or the ids asked for; a rank of 1 is the model's favourite.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import torch
from torch import Tensor

from toolgrammar_serving.engine.request import Request
from toolgrammar_serving.protocol.wire import EXT_RAW, SamplingParams

_NUMPY: Final = {torch.int64: "<i8", torch.float32: "<f4"}
_TORCH: Final = {torch.int64: "int64", torch.float32: "float32"}


def of_rows(logits: Tensor, rows: list[int]) -> Tensor:
    """Log-probabilities [rows, vocabulary] of some rows, kept apart from what happens to ``logits`` later."""
    if not rows:
        return logits[:0]
    return torch.log_softmax(logits[rows], -1)


def record(request: Request, row: Tensor, token: int) -> None:
    """Note the log-probabilities [vocabulary] under which ``token`` was sampled, for the next output."""
    params = request.params
    chosen = torch.tensor([token], device=row.device)
    request.new_logprobs = _pack(*_columns(row.unsqueeze(0), chosen, params.logprobs or 0, params), _NUMPY)


def of_prompt(rows: Tensor, followers: list[int], count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, log-probabilities and ranks for prompt positions: ``rows`` [positions, vocabulary] are logits."""
    chosen = torch.tensor(followers, device=rows.device)
    ids, values, ranks = _columns(torch.log_softmax(rows.float(), -1), chosen, count, None)
    return ids.cpu(), values.cpu(), ranks.cpu()


def pack_prompt(parts: list[tuple[Tensor, Tensor, Tensor]]) -> Any:
    """The wire form of a whole prompt from its parts in order."""
    ids, values, ranks = (torch.cat(column) for column in zip(*parts, strict=True))
    return _pack(ids, values, ranks, _TORCH)


def _columns(
    rows: Tensor, chosen: Tensor, count: int, params: SamplingParams | None
) -> tuple[Tensor, Tensor, Tensor]:
    own = rows.gather(-1, chosen.unsqueeze(1))
    ranks = (rows > own).sum(-1) + 1
    if params is not None and params.logprob_token_ids:
        asked = torch.tensor(params.logprob_token_ids, device=rows.device).expand(len(rows), -1)
        return torch.cat([chosen.unsqueeze(1), asked], -1), torch.cat([own, rows.gather(-1, asked)], -1), ranks
    width = rows.shape[-1]
    values, ids = rows.topk(width if count < 0 else min(count, width), dim=-1)
    return torch.cat([chosen.unsqueeze(1), ids], -1), torch.cat([own, values], -1), ranks


def _pack(ids: Tensor, values: Tensor, ranks: Tensor, names: dict[torch.dtype, str]) -> Any:
    return [*(_array(tensor, names) for tensor in (ids, values, ranks)), None]


def _array(tensor: Tensor, names: dict[torch.dtype, str]) -> Any:
    """``[dtype, shape, bytes]``; bytes inside the message are always legal, whatever their length."""
    data = tensor.contiguous().cpu().numpy().tobytes()
    return [names[tensor.dtype], list(tensor.shape), msgspec.msgpack.Ext(EXT_RAW, data)]
