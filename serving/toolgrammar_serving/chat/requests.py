"""What the chat layer takes and gives: a conversation in, chat events out. No API's shape: server adapts."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from toolgrammar import Event, Message
from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.text import Sampling, TokenLogprob

ChatFinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "abort", "repetition"]


class ToolChoice(msgspec.Struct, frozen=True):
    """``named``: exactly the tool ``names[0]``. ``names`` otherwise: the tools allowed, None for all."""

    mode: Literal["none", "auto", "required", "named"] = "auto"
    names: tuple[str, ...] | None = None


class ResponseFormat(msgspec.Struct, frozen=True):
    """What the answer's content must be. ``schema``: of ``json_schema``; ``tag``: JSON text of
    ``structural_tag``."""

    kind: Literal["text", "json_object", "json_schema", "structural_tag"] = "text"
    schema: Any = None
    tag: str | None = None


class ChatRequest(msgspec.Struct):
    """A conversation to be continued.

    ``messages`` and ``tools`` in OpenAI's chat shape, read and never changed (old calls' ``arguments`` may be
    any text). ``structured_outputs``: vLLM's own constraint fields, beside ``response_format``. ``start``: what
    the prompt leaves open, if the caller knows better than the prompt's tail. ``spans``: keep events and spans
    for the message.
    """

    request_id: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    response_format: ResponseFormat = ResponseFormat()
    structured_outputs: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] = {}
    documents: list[Any] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    include_reasoning: bool = True
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    n: int = 1
    stream: bool = True
    stop: list[str] = []
    include_stop: bool = False
    skip_special_tokens: bool = True
    bad_words: list[str] = []
    add_special_tokens: bool = False
    truncate_prompt_tokens: int | None = None
    truncation_side: Literal["left", "right"] = "left"
    priority: int = 0
    cache_salt: str | None = None
    data_parallel_rank: int | None = None
    trace_headers: dict[str, str] | None = None
    session_id: str | None = None
    start: Literal["auto", "reasoning", "content", "section"] = "auto"
    spans: bool = False


class ChatFinish(msgspec.Struct, frozen=True):
    """How one choice ended, and what was in it.

    ``reason``: ``length`` always wins; ``tool_calls`` if the model stopped by itself with a whole call and no
    cut one. ``message``: everything, collected; None if the request streams and asked for no spans.
    ``reasoning_tokens``: how many of its tokens were reasoning.
    """

    reason: ChatFinishReason
    stop_reason: int | str | None = None
    message: Message | None = None
    reasoning_tokens: int = 0


class ChatSink(Protocol):
    """Takes one choice of an answer. ``push`` any number of times, then ``finish`` or ``fail`` exactly once."""

    def push(self, events: list[Event], token_ids: list[int], logprobs: list[TokenLogprob] | None) -> None:
        """What became certain with these tokens; often one event, often none."""

    def finish(self, finish: ChatFinish) -> None:
        """The choice is over."""

    def fail(self, error: ServingError) -> None:
        """There will be no more: the engine died or refused."""
