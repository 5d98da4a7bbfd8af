"""What a chat request wants of the form of its answer."""

from __future__ import annotations

import msgspec


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the answer is written.

    ``arrived``: monotonic seconds. ``reasoning_fields``: empty if the client wants none. ``echo``: text the answer
    begins with.
    """

    arrived: float
    reasoning_fields: tuple[str, ...] = ("reasoning", "reasoning_content")
    usage: bool = False
    continuous_usage: bool = False
    logprobs: bool = False
    prompt_logprobs: bool = False
    token_ids: bool = False
    tokens_as_ids: bool = False
    extension: bool = False
    echo: str = ""
    fingerprint: str | None = None

    @property
    def detailed(self) -> bool:
        """Events carry more than text."""
        return self.logprobs or self.token_ids or self.continuous_usage
