"""Token counts as the API names them."""

from __future__ import annotations

from typing import Any

from toolgrammar import Event, Reasoning
from toolgrammar_serving.text import Usage


def reasoning_share(events: list[Event], tokens: int) -> int:
    """How many of the tokens that brought ``events`` were reasoning: by characters, where a step brought more.

    So the sum over a stream is exact but for steps in which reasoning begins or ends among other tokens.
    """
    thought = sum(event.end - event.start for event in events if type(event) is Reasoning)
    if not thought:
        return 0
    whole = max(event.end for event in events) - min(event.start for event in events)
    return round(tokens * thought / whole)


def usage_object(usages: list[Usage], reasoning_tokens: int | None = None) -> dict[str, Any]:
    """The ``usage`` member for all generations of one request. ``reasoning_tokens``: None where nobody looked."""
    prompt = sum(usage.prompt_tokens for usage in usages)
    completion = sum(usage.completion_tokens for usage in usages)
    cached = [usage.cached_tokens for usage in usages if usage.cached_tokens is not None]
    found: dict[str, Any] = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": sum(cached)} if cached else None,
    }
    if reasoning_tokens is not None:
        found["completion_tokens_details"] = {"reasoning_tokens": reasoning_tokens}
    return found
