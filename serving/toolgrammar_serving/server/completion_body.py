"""The body of a completions request, its rules, and the text requests it stands for: one a prompt."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from toolgrammar_serving.chat import content_outputs
from toolgrammar_serving.server.body import (
    SharedBody,
    TokenId,
    alternatives,
    check,
    constraint,
    handed_down,
    refuse,
    sampling,
    told,
)
from toolgrammar_serving.server.config import ServerConfig
from toolgrammar_serving.server.exchange import Exchange
from toolgrammar_serving.server.tool_choice import read_response_format
from toolgrammar_serving.text import Sampling, TextRequest

#: What the API promises to who names no limit.
DEFAULT_MAX_TOKENS: Final = 16


class CompletionBody(SharedBody, kw_only=True):
    """POST /v1/completions. ``prompt``: a text, token ids, or a list of either."""

    prompt: str | list[str | TokenId | list[TokenId]]
    logprobs: Annotated[int, Meta(ge=-1)] | None = None
    suffix: str | None = None


DECODER: Final = msgspec.json.Decoder(CompletionBody)


class CompletionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the answer is written. ``only_prompt``: nothing is generated, the answer is the echo."""

    arrived: float
    usage: bool = False
    continuous_usage: bool = False
    logprobs: bool = False
    prompt_logprobs: bool = False
    token_ids: bool = False
    tokens_as_ids: bool = False
    echo: bool = False
    only_prompt: bool = False
    fingerprint: str | None = None


def prompts(body: CompletionBody) -> list[str | list[int]]:
    """The prompts, one or many. Errors: BadRequest."""
    given: Any = body.prompt
    if isinstance(given, str):
        return [given]
    if not given:
        raise refuse("prompt may not be empty.", "prompt")
    if all(isinstance(item, int) for item in given):
        return [given]
    if all(isinstance(item, str) for item in given) or all(isinstance(item, list) and item for item in given):
        return list(given)
    raise refuse("prompt must be a text, token ids, or a list of either kind.", "prompt")


def completion_requests(
    body: CompletionBody, exchange: Exchange, config: ServerConfig, request_id: str
) -> tuple[list[TextRequest], CompletionOptions]:
    """The requests as the text layer takes them, and how their answer is to be written. Errors: BadRequest."""
    check(body, config)
    if body.suffix:
        raise refuse("suffix is not supported.", "suffix", "unsupported_parameter")
    only_prompt = body.max_tokens == 0
    if only_prompt and not body.echo:
        raise refuse("max_tokens may only be 0 with echo.", "max_tokens")
    limits = config.limits
    given = prompts(body)
    if len(given) > limits.prompts or len(given) * (body.n or 1) > limits.sequences:
        raise refuse("Too many prompts, or too many sequences of them.", "prompt", "limit_exceeded")
    logprobs = None if body.logprobs is None else alternatives(body.logprobs, "logprobs", limits)
    shared = _shared(body, exchange, logprobs)
    requests = [
        TextRequest(
            request_id=request_id if len(given) == 1 else f"{request_id}-{number}", prompt=prompt, **shared
        )
        for number, prompt in enumerate(given)
    ]
    options = CompletionOptions(
        logprobs=logprobs is not None,
        token_ids=bool(body.return_token_ids),
        echo=bool(body.echo),
        only_prompt=only_prompt,
        **told(body, exchange, config),
    )
    return requests, options


def _shared(body: CompletionBody, exchange: Exchange, logprobs: int | None) -> dict[str, Any]:
    """What the requests of all prompts have in common."""
    wanted = sampling(body, DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens or 1, logprobs)
    if body.echo and logprobs is not None and wanted.prompt_logprobs is None:
        wanted.prompt_logprobs = logprobs
    _constrain(wanted, body)
    return {
        "sampling": wanted,
        "add_special_tokens": body.add_special_tokens is not False,
        # Nobody framed any reasoning here: an engine that looks for its end would never enforce anything.
        "reasoning_ended": True if wanted.structured_outputs is not None else None,
        **handed_down(body, exchange),
    }


def _constrain(wanted: Sampling, body: CompletionBody) -> None:
    """Constraints as the engine takes them, by the rules that conversations have, too."""
    found = content_outputs(read_response_format(body.response_format), constraint(body))
    if found is not None:
        found.backend = "auto"
        wanted.structured_outputs = found
