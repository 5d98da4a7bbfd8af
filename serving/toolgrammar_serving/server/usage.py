"""Token counts as the API names them."""

from __future__ import annotations

from typing import Any

from toolgrammar_serving.text import Usage


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
