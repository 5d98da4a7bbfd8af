"""A request's wishes and the model's defaults to the engine's sampling parameters."""

from __future__ import annotations

import json
from math import inf, isfinite
from typing import Final, TypeVar

import msgspec

from toolgrammar_serving.errors import BadRequest, TooLong
from toolgrammar_serving.llm.defaults import ModelDefaults
from toolgrammar_serving.llm.requests import GenerateRequest, Sampling
from toolgrammar_serving.protocol.wire import DELTA, FINAL_ONLY, SamplingParams, StructuredOutputs

_T = TypeVar("_T")

#: What enforces constraints in the engine, unless a request names another.
_BACKEND: Final = "xgrammar"
#: Below this temperature an engine takes the likeliest token.
_GREEDY: Final = 1e-5

#: Name: least, most, and whether the least itself is allowed.
_RANGES: Final[dict[str, tuple[float, float, bool]]] = {
    "temperature": (0.0, inf, True),
    "top_p": (0.0, 1.0, False),
    "min_p": (0.0, 1.0, True),
    "presence_penalty": (-2.0, 2.0, True),
    "frequency_penalty": (-2.0, 2.0, True),
    "repetition_penalty": (0.0, inf, False),
    "min_tokens": (0, inf, True),
    "max_tokens": (1, inf, True),
    "seed": (-(2**63), 2**63 - 1, True),
}

#: A bias beyond this is as good as a ban or a demand.
_MOST_BIAS: Final = 100.0


def check(sampling: Sampling, vocab_size: int | None, max_logprobs: int) -> None:
    """Raise ``BadRequest`` for values that no engine takes; ``param`` is the field's name. ``max_logprobs``: the
    most alternatives a position, -1 for the whole vocabulary."""
    for name, (least, most, inclusive) in _RANGES.items():
        value = getattr(sampling, name)
        if value is None:
            continue
        if not (isfinite(value) and (least <= value if inclusive else least < value) and value <= most):
            bound = f"{'at least' if inclusive else 'above'} {least:g}"
            bound += "" if most == inf else f" and at most {most:g}"
            raise BadRequest(f"{name} must be {bound}, and is {value:g}", param=name)
    if sampling.top_k is not None and sampling.top_k < -1:
        raise BadRequest(f"top_k must be -1 (all), 0 (all) or more, and is {sampling.top_k}", param="top_k")
    if sampling.max_tokens is not None and sampling.min_tokens > sampling.max_tokens:
        raise BadRequest(
            f"min_tokens ({sampling.min_tokens}) is more than max_tokens ({sampling.max_tokens})",
            param="min_tokens",
        )
    if sampling.allowed_token_ids is not None and not sampling.allowed_token_ids:
        raise BadRequest("allowed_token_ids allows no token", param="allowed_token_ids")
    for name in ("logprobs", "prompt_logprobs"):
        value = getattr(sampling, name)
        if value is not None and (value < -1 or (max_logprobs != -1 and not 0 <= value <= max_logprobs)):
            raise BadRequest(f"{name} must be from 0 to {max_logprobs}, and is {value}", param=name)
    for name in ("stop_token_ids", "logit_bias", "allowed_token_ids", "logprob_token_ids"):
        for id_ in getattr(sampling, name) or ():
            if id_ < 0 or (vocab_size is not None and id_ >= vocab_size):
                raise BadRequest(f"{name}: {id_} is no token id of this model", param=name)


def room(request: GenerateRequest, defaults: ModelDefaults, max_model_len: int | None) -> int | None:
    """The most tokens that ``request`` may generate; None if nothing limits it. Raises ``TooLong``."""
    wanted = request.sampling.max_tokens
    if max_model_len is None:
        return wanted if wanted is not None else defaults.max_new_tokens
    length = len(request.prompt_token_ids)
    left = max_model_len - length
    if left <= 0:
        raise TooLong(
            f"the prompt has {length} tokens, and the model takes {max_model_len}, prompt and output together",
            param="prompt",
        )
    if wanted is None:
        return left if defaults.max_new_tokens is None else min(left, defaults.max_new_tokens)
    if wanted > left:
        raise TooLong(
            f"the prompt has {length} tokens and max_tokens is {wanted}: {length + wanted} together, and the "
            f"model takes {max_model_len}",
            param="max_tokens",
        )
    return wanted


def sampling_params(request: GenerateRequest, defaults: ModelDefaults, max_tokens: int | None) -> SamplingParams:
    """What the engine is told, of the first sequence. The request wins over the model's defaults."""
    wanted = request.sampling
    params = SamplingParams(
        presence_penalty=_first(wanted.presence_penalty, 0.0),
        frequency_penalty=_first(wanted.frequency_penalty, 0.0),
        repetition_penalty=_first(wanted.repetition_penalty, defaults.repetition_penalty, 1.0),
        temperature=_first(wanted.temperature, defaults.temperature, 1.0),
        seed=None if wanted.seed == -1 else wanted.seed,
        max_tokens=max_tokens,
        min_tokens=wanted.min_tokens,
        logprobs=wanted.logprobs,
        prompt_logprobs=wanted.prompt_logprobs,
        logprob_token_ids=wanted.logprob_token_ids,
        output_kind=DELTA if request.stream else FINAL_ONLY,
        skip_clone=True,
        structured_outputs=_enforced(wanted.structured_outputs),
        logit_bias=_clamped(wanted.logit_bias),
        allowed_token_ids=wanted.allowed_token_ids,
        bad_words_token_ids=wanted.bad_words_token_ids,
        thinking_token_budget=wanted.thinking_token_budget,
        repetition_detection=wanted.repetition_detection,
        extra_args=wanted.extra_args,
        # Logprobs of a prompt's tokens are computed with them; what the cache has is not.
        skip_reading_prefix_cache=_first(wanted.skip_reading_prefix_cache, wanted.prompt_logprobs is not None),
    )
    if params.temperature >= _GREEDY:
        params.top_p = _first(wanted.top_p, defaults.top_p, 1.0)
        params.top_k = max(0, _first(wanted.top_k, defaults.top_k, 0))
        params.min_p = _first(wanted.min_p, defaults.min_p, 0.0)
    _set_ends(params, wanted, defaults)
    return params


def _enforced(wanted: StructuredOutputs | None) -> StructuredOutputs | None:
    """A constraint with a backend, and a list of choices as a grammar: vLLM leaves both to its front end."""
    if wanted is None:
        return None
    if wanted.choice is not None:
        rule = " | ".join(json.dumps(text, ensure_ascii=False) for text in wanted.choice)
        wanted = msgspec.structs.replace(wanted, choice=None, grammar=f"root ::= {rule}")
    if wanted.backend in (None, "auto"):
        wanted = msgspec.structs.replace(wanted, backend=_BACKEND, backend_was_auto=True)
    return wanted


def _set_ends(params: SamplingParams, wanted: Sampling, defaults: ModelDefaults) -> None:
    """The engine knows no end of sequence but what it is told: the main one, which it reports without its id, and
    others. All of them together it only keeps from being sampled before ``min_tokens``."""
    stops = list(dict.fromkeys(wanted.stop_token_ids))
    if wanted.ignore_eos:
        params.ignore_eos = True
    else:
        params.eos_token_id = defaults.eos_token_id
        stops += [id_ for id_ in defaults.stop_token_ids if id_ not in stops]
    params.stop_token_ids = stops
    ends = stops if params.eos_token_id is None else [params.eos_token_id, *stops]
    params.all_stop_token_ids = list(dict.fromkeys(ends))


def _clamped(biases: dict[int, float] | None) -> dict[int, float] | None:
    if not biases:
        return None
    return {id_: max(-_MOST_BIAS, min(_MOST_BIAS, bias)) for id_, bias in biases.items()}


def _first(*values: _T | None) -> _T:
    """The first that is not None; the last never is."""
    for value in values:
        if value is not None:
            return value
    raise AssertionError("a default is None")
