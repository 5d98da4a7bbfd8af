"""What both generating endpoints read from a request's body, and how a body is read.

A body is decoded once, straight into a struct: types and ranges are checked by the decoder, whose complaint
becomes the ``message`` and ``param`` of the answer. Members nobody knows are ignored. null is as good as absent.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from toolgrammar_serving.errors import BadRequest
from toolgrammar_serving.server.config import Limits, ServerConfig
from toolgrammar_serving.server.exchange import ID_PATTERN, Exchange
from toolgrammar_serving.text import Sampling

Probability = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Natural = Annotated[int, Meta(ge=0, le=2**31 - 1)]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class StreamOptions(msgspec.Struct, kw_only=True):
    """Of a streamed answer."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Repetition(msgspec.Struct, kw_only=True):
    """When the engine ends a sequence that repeats itself."""

    max_pattern_size: Positive
    min_count: Positive
    min_pattern_size: Natural | None = None


class SharedBody(msgspec.Struct, kw_only=True):
    """The members that chat and completions have in common."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Positive | None = None
    max_tokens: Natural | None = None
    min_tokens: Natural | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=-1)] | None = None
    min_p: Probability | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(gt=0)] | None = None
    seed: Seed | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[TokenId] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    logit_bias: dict[str, float] | None = None
    bad_words: list[str] | None = None
    allowed_token_ids: list[TokenId] | None = None
    logprob_token_ids: list[TokenId] | None = None
    prompt_logprobs: Annotated[int, Meta(ge=-1)] | None = None
    add_special_tokens: bool | None = None
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1)] | None = None
    truncation_side: Literal["left", "right"] | None = None
    echo: bool | None = None
    priority: int | None = None
    cache_salt: Annotated[str, Meta(max_length=128)] | None = None
    request_id: Annotated[str, Meta(max_length=256, pattern=ID_PATTERN)] | None = None
    session_id: Annotated[str, Meta(max_length=256)] | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    guided_json: Any = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    thinking_token_budget: Annotated[int, Meta(ge=-1)] | None = None
    repetition_detection: Repetition | None = None
    skip_reading_prefix_cache: bool | None = None
    kv_transfer_params: dict[str, Any] | None = None
    vllm_xargs: dict[str, Any] | None = None
    use_beam_search: bool | None = None


Body = TypeVar("Body", bound=msgspec.Struct)

_AT: Final = re.compile(r" - at `(.*)`$", re.DOTALL)
_LIMIT_SHOWN: Final = 300
#: The escape of half of a surrogate pair, or of both: JSON by its grammar, but alone no text.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def read(decoder: msgspec.json.Decoder[Body], data: bytes) -> Body:
    """The body as ``decoder``'s struct. Errors: BadRequest with the member that is wrong."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        message, param = _complaint(str(error))
        raise BadRequest(message, param=param, code="invalid_value") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(_not_json(data, str(error)), code="invalid_json") from None
    except RecursionError:
        raise BadRequest("The body is nested too deeply.", code="nested_too_deeply") from None


def _not_json(data: bytes, why: str) -> str:
    """What to say of it; the decoder takes half of a surrogate pair for an end that comes too early."""
    if not data.strip():
        return "The body is empty: send a JSON object."
    half = (
        " A text in it may hold half of a surrogate pair (\\ud800 to \\udfff)." if _SURROGATE.search(data) else ""
    )
    return f"The body is not JSON: {why}.{half}"


def _complaint(text: str) -> tuple[str, str | None]:
    """msgspec's "Expected `int`, got `str` - at `$.messages[0].x`" as a sentence and a dotted path."""
    found = _AT.search(text)
    missing = re.search(r"missing required field `(.*?)`", text)
    path = found[1].removeprefix("$").removeprefix(".") if found else ""
    if missing:
        path = f"{path}.{missing[1]}" if path else missing[1]
    message = text[: found.start()] if found else text
    message = message.replace("`", "'")[:_LIMIT_SHOWN]
    return (f"{path}: {message}" if path else f"{message}."), path or None


def refuse(message: str, param: str, code: str = "invalid_value") -> BadRequest:
    """A broken rule."""
    return BadRequest(message, param=param, code=code)


def check(body: SharedBody, config: ServerConfig) -> None:
    """The rules that types cannot say, and the limits."""
    limits = config.limits
    if body.stream_options is not None and not body.stream:
        raise refuse("stream_options is only allowed when stream is true.", "stream_options")
    if body.use_beam_search:
        raise refuse("Beam search is not supported.", "use_beam_search", "unsupported_parameter")
    if body.n is not None and body.n > limits.n:
        raise refuse(f"n may be at most {limits.n}.", "n", "limit_exceeded")
    if body.prompt_logprobs is not None and body.stream:
        raise refuse("prompt_logprobs is not available when stream is true.", "prompt_logprobs")
    if body.prompt_logprobs is not None:
        alternatives(body.prompt_logprobs, "prompt_logprobs", limits)
    if body.min_tokens and body.max_tokens is not None and body.min_tokens > body.max_tokens:
        raise refuse("min_tokens may not be greater than max_tokens.", "min_tokens")
    if body.cache_salt is not None and (not body.cache_salt or any(c in body.cache_salt for c in "@/\\\0")):
        raise refuse("cache_salt must be a text without '@', '/', '\\' and NUL.", "cache_salt")
    if body.logit_bias is not None:
        _check_bias(body.logit_bias, limits)
    _check_texts(body, limits)
    for name in ("stop_token_ids", "allowed_token_ids", "logprob_token_ids"):
        _at_most(getattr(body, name), limits.token_ids if name != "allowed_token_ids" else 1 << 20, name)


def _check_bias(bias: dict[str, float], limits: Limits) -> None:
    _at_most(bias, limits.logit_bias, "logit_bias")
    for token, value in bias.items():
        if not token.isascii() or not token.isdigit() or len(token) > 10:
            raise refuse("The keys of logit_bias must be token ids.", f"logit_bias.{token[:32]}")
        if not -100 <= value <= 100:
            raise refuse("The values of logit_bias must be between -100 and 100.", f"logit_bias.{token}")


def _check_texts(body: SharedBody, limits: Limits) -> None:
    stop = body.stop
    if isinstance(stop, list):
        _at_most(stop, limits.stop_strings, "stop")
    for text in stops(body):
        if not text or len(text) > limits.stop_chars:
            raise refuse(f"A stop string must have 1 to {limits.stop_chars} characters.", "stop")
    _at_most(body.bad_words, limits.bad_words, "bad_words")
    for text in body.bad_words or ():
        if not text or len(text) > limits.stop_chars:
            raise refuse(f"A bad word must have 1 to {limits.stop_chars} characters.", "bad_words")


def _at_most(values: Any, most: int, param: str) -> None:
    if values is not None and len(values) > most:
        raise refuse(f"{param} may have at most {most} entries.", param, "limit_exceeded")


def alternatives(count: int, param: str, limits: Limits) -> int:
    """A number of logprobs per position, if it may be asked for."""
    most = limits.logprobs
    if most != -1 and not 0 <= count <= most:
        raise refuse(f"{param} must be between 0 and {most}.", param, "limit_exceeded")
    return count


def stops(body: SharedBody) -> list[str]:
    """The stop strings as a list."""
    if body.stop is None:
        return []
    return [body.stop] if isinstance(body.stop, str) else body.stop


def constraint(body: SharedBody) -> dict[str, Any] | None:
    """``structured_outputs``, or the older members that said the same."""
    if body.structured_outputs is not None:
        return body.structured_outputs
    old = {
        "json": body.guided_json,
        "regex": body.guided_regex,
        "choice": body.guided_choice,
        "grammar": body.guided_grammar,
    }
    return {name: value for name, value in old.items() if value is not None} or None


def handed_down(body: SharedBody, exchange: Exchange) -> dict[str, Any]:
    """What requests for the layers below have under the same names for both endpoints. Errors: BadRequest."""
    priority = exchange.integer(b"x-vllm-priority")
    return {
        "n": body.n or 1,
        "stream": bool(body.stream),
        "stop": stops(body),
        "include_stop": bool(body.include_stop_str_in_output),
        "skip_special_tokens": body.skip_special_tokens is not False,
        "bad_words": body.bad_words or [],
        "truncate_prompt_tokens": body.truncate_prompt_tokens,
        "truncation_side": body.truncation_side or "left",
        "priority": priority if priority is not None else body.priority or 0,
        "cache_salt": body.cache_salt,
        "data_parallel_rank": exchange.integer(b"x-data-parallel-rank"),
        "trace_headers": exchange.trace_headers,
        "session_id": exchange.text(b"x-session-id") or body.session_id,
    }


def told(body: SharedBody, exchange: Exchange, config: ServerConfig) -> dict[str, Any]:
    """What both endpoints' options have under the same names: how the answer is written."""
    streaming = body.stream_options
    continuous = bool(streaming and streaming.continuous_usage_stats)
    return {
        "arrived": exchange.arrived,
        "usage": bool(streaming and streaming.include_usage) or config.force_usage or continuous,
        "continuous_usage": continuous,
        "prompt_logprobs": body.prompt_logprobs is not None,
        "tokens_as_ids": bool(body.return_tokens_as_token_ids),
        "fingerprint": config.system_fingerprint,
    }


def sampling(body: SharedBody, max_tokens: int | None, logprobs: int | None) -> Sampling:
    """How the sequences are sampled; ``structured_outputs`` is the layers' below."""
    budget = body.thinking_token_budget
    detection = body.repetition_detection
    extra: dict[str, Any] = dict(body.vllm_xargs or {})
    if body.kv_transfer_params is not None:
        extra["kv_transfer_params"] = body.kv_transfer_params
    return Sampling(
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=None if body.top_k is None else max(body.top_k, 0),
        min_p=body.min_p,
        presence_penalty=body.presence_penalty,
        frequency_penalty=body.frequency_penalty,
        repetition_penalty=body.repetition_penalty,
        seed=body.seed,
        max_tokens=max_tokens,
        min_tokens=body.min_tokens or 0,
        stop_token_ids=body.stop_token_ids or [],
        ignore_eos=bool(body.ignore_eos),
        logprobs=logprobs,
        prompt_logprobs=body.prompt_logprobs,
        logprob_token_ids=body.logprob_token_ids,
        logit_bias={int(token): value for token, value in body.logit_bias.items()} if body.logit_bias else None,
        allowed_token_ids=body.allowed_token_ids,
        thinking_token_budget=None if budget == -1 else budget,
        repetition_detection=None if detection is None else _detection(detection),
        skip_reading_prefix_cache=body.skip_reading_prefix_cache,
        extra_args=extra or None,
    )


def _detection(wanted: Repetition) -> dict[str, int]:
    found = {"max_pattern_size": wanted.max_pattern_size, "min_count": wanted.min_count}
    if wanted.min_pattern_size is not None:
        found["min_pattern_size"] = wanted.min_pattern_size
    return found
