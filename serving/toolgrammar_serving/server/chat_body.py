"""The body of a chat completions request, its rules, and the conversation it stands for."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from toolgrammar_serving.chat import ChatRequest
from toolgrammar_serving.server.body import (
    Natural,
    SharedBody,
    alternatives,
    check,
    constraint,
    handed_down,
    refuse,
    sampling,
    told,
)
from toolgrammar_serving.server.chat_options import ChatOptions
from toolgrammar_serving.server.config import ServerConfig
from toolgrammar_serving.server.exchange import Exchange
from toolgrammar_serving.server.message_rules import check_messages, check_tools
from toolgrammar_serving.server.tool_choice import read_response_format, read_tool_choice


class ExtensionBody(msgspec.Struct, kw_only=True):
    """The ``toolgrammar`` member. ``spans``: the answer has the member, too. ``start``: what the prompt leaves
    open."""

    spans: bool = True
    start: Literal["auto", "reasoning", "content", "section"] = "auto"


class ChatBody(SharedBody, kw_only=True):
    """POST /v1/chat/completions. The members up to ``continue_final_message`` become the prompt."""

    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    tools: list[dict[str, Any]] | None = None
    reasoning_effort: str | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    max_completion_tokens: Natural | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=-1)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: Any = None
    include_reasoning: bool | None = None
    toolgrammar: bool | ExtensionBody | None = None


DECODER: Final = msgspec.json.Decoder(ChatBody)


def check_conversation(body: ChatBody, config: ServerConfig) -> list[str]:
    """The tools' names. Errors: BadRequest."""
    check_messages(body.messages, config.limits)
    if body.chat_template is not None and not config.trust_chat_template:
        raise refuse("This server takes no chat templates from clients.", "chat_template", "not_allowed")
    if body.continue_final_message and body.add_generation_prompt:
        raise refuse(
            "continue_final_message and add_generation_prompt exclude each other.", "continue_final_message"
        )
    return check_tools(body.tools, config.limits) if body.tools else []


def conversation(body: ChatBody, **more: Any) -> ChatRequest:
    """The conversation as the chat layer takes it; ``more`` are further fields of the request."""
    continued = bool(body.continue_final_message)
    return ChatRequest(
        messages=body.messages,
        tools=body.tools or None,
        reasoning_effort=body.reasoning_effort,
        chat_template=body.chat_template,
        chat_template_kwargs=body.chat_template_kwargs or {},
        documents=body.documents,
        add_generation_prompt=not continued if body.add_generation_prompt is None else body.add_generation_prompt,
        continue_final_message=continued,
        **more,
    )


def chat_request(
    body: ChatBody, exchange: Exchange, config: ServerConfig, request_id: str
) -> tuple[ChatRequest, ChatOptions]:
    """The request as the chat layer takes it, and how its answer is to be written. Errors: BadRequest."""
    check(body, config)
    names = check_conversation(body, config)
    if body.functions is not None:
        raise refuse("functions is no longer supported; use tools.", "functions", "unsupported_parameter")
    limit = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    if limit == 0:
        param = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
        raise refuse(f"{param} must be at least 1.", param)
    logprobs = _logprobs(body, config)
    extension = body.toolgrammar
    wanted = extension.spans if isinstance(extension, ExtensionBody) else bool(extension)
    request = conversation(
        body,
        request_id=request_id,
        tool_choice=read_tool_choice(body.tool_choice, names),
        parallel_tool_calls=body.parallel_tool_calls is not False,
        response_format=read_response_format(body.response_format),
        structured_outputs=constraint(body),
        include_reasoning=body.include_reasoning is not False,
        sampling=sampling(body, limit, logprobs),
        add_special_tokens=bool(body.add_special_tokens),
        start=extension.start if isinstance(extension, ExtensionBody) else "auto",
        spans=wanted,
        **handed_down(body, exchange),
    )
    return request, _options(body, exchange, config, extension=wanted)


def _options(body: ChatBody, exchange: Exchange, config: ServerConfig, *, extension: bool) -> ChatOptions:
    """Without reasoning nothing is told of single tokens either: they would tell it."""
    shown = body.include_reasoning is not False
    return ChatOptions(
        reasoning_fields=config.reasoning_fields if shown else (),
        logprobs=bool(body.logprobs) and shown,
        token_ids=bool(body.return_token_ids) and shown,
        extension=extension,
        echo=_echo(body),
        **told(body, exchange, config),
    )


def _logprobs(body: ChatBody, config: ServerConfig) -> int | None:
    if body.top_logprobs is not None and not body.logprobs:
        raise refuse("top_logprobs needs logprobs to be true.", "top_logprobs")
    if not body.logprobs:
        return None
    return alternatives(body.top_logprobs or 0, "top_logprobs", config.limits)


def _echo(body: ChatBody) -> str:
    """With ``echo``: the last message's text, if the assistant said it."""
    last = body.messages[-1]
    content = last.get("content")
    return content if body.echo and last.get("role") == "assistant" and isinstance(content, str) else ""
