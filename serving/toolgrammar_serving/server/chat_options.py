"""What a chat request wants of the form of its answer."""

from __future__ import annotations

import msgspec


class ChatOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the answer is written.

    ``arrived``: monotonic seconds. ``reasoning_fields``: empty if the client wants none. ``echo``: text the answer
    begins with. ``stop_for_calls``: calls end with ``stop``, as the request named its tool and the server says so.
    """

    arrived: float
    reasoning_fields: tuple[str, ...] = ("reasoning", "reasoning_content")
    usage: bool = False
    continuous_usage: bool = False
    logprobs: bool = False
    token_ids: bool = False
    tokens_as_ids: bool = False
    extension: bool = False
    echo: str = ""
    fingerprint: str | None = None
    stop_for_calls: bool = False

    @property
    def detailed(self) -> bool:
        """Events carry more than text."""
        return self.logprobs or self.token_ids or self.continuous_usage

    def finish_reason(self, reason: str) -> str:
        """The finish reason to be told."""
        return "stop" if self.stop_for_calls and reason == "tool_calls" else reason
