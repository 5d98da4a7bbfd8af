"""No member of a body is taken and forgotten: each changes the request below, the answer's form, or is refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from toolgrammar_serving.errors import BadRequest
from toolgrammar_serving.server import chat_body, completion_body
from toolgrammar_serving.server.body import SharedBody, read
from toolgrammar_serving.server.config import ServerConfig
from toolgrammar_serving.server.exchange import exchange

TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
#: A value of each member that is not its default, with what else it needs.
SHARED: dict[str, dict[str, Any]] = {
    "stream": {"stream": True},
    "stream_options": {"stream": True, "stream_options": {"include_usage": True}},
    "n": {"n": 2},
    "max_tokens": {"max_tokens": 5},
    "min_tokens": {"min_tokens": 2},
    "temperature": {"temperature": 0.5},
    "top_p": {"top_p": 0.5},
    "top_k": {"top_k": 4},
    "min_p": {"min_p": 0.5},
    "presence_penalty": {"presence_penalty": 1},
    "frequency_penalty": {"frequency_penalty": 1},
    "repetition_penalty": {"repetition_penalty": 2},
    "seed": {"seed": 1},
    "stop": {"stop": "x"},
    "stop_token_ids": {"stop_token_ids": [1]},
    "include_stop_str_in_output": {"include_stop_str_in_output": True},
    "ignore_eos": {"ignore_eos": True},
    "skip_special_tokens": {"skip_special_tokens": False},
    "logit_bias": {"logit_bias": {"1": 1}},
    "bad_words": {"bad_words": ["x"]},
    "allowed_token_ids": {"allowed_token_ids": [1]},
    "logprob_token_ids": {"logprob_token_ids": [1]},
    "prompt_logprobs": {"prompt_logprobs": 1},
    "truncate_prompt_tokens": {"truncate_prompt_tokens": 5},
    "truncation_side": {"truncation_side": "right"},
    "priority": {"priority": 1},
    "cache_salt": {"cache_salt": "x"},
    "session_id": {"session_id": "x"},
    "return_token_ids": {"return_token_ids": True},
    "return_tokens_as_token_ids": {"return_tokens_as_token_ids": True},
    "response_format": {"response_format": {"type": "json_object"}},
    "structured_outputs": {"structured_outputs": {"regex": "a"}},
    "guided_json": {"guided_json": {"type": "object"}},
    "guided_regex": {"guided_regex": "a"},
    "guided_choice": {"guided_choice": ["a"]},
    "guided_grammar": {"guided_grammar": "root ::= 'a'"},
    "thinking_token_budget": {"thinking_token_budget": 5},
    "repetition_detection": {"repetition_detection": {"max_pattern_size": 2, "min_count": 2}},
    "skip_reading_prefix_cache": {"skip_reading_prefix_cache": True},
    "kv_transfer_params": {"kv_transfer_params": {"a": 1}},
    "vllm_xargs": {"vllm_xargs": {"a": 1}},
    "use_beam_search": {"use_beam_search": True},
}
CHAT = {
    **SHARED,
    "echo": {"echo": True},
    "add_special_tokens": {"add_special_tokens": True},
    "messages": {"messages": [{"role": "user", "content": "y"}]},
    "tools": {"tools": [TOOL]},
    "reasoning_effort": {"reasoning_effort": "low"},
    "chat_template": {"chat_template": "x"},
    "chat_template_kwargs": {"chat_template_kwargs": {"a": 1}},
    "documents": {"documents": [{"text": "x"}]},
    "add_generation_prompt": {"add_generation_prompt": False},
    "continue_final_message": {"continue_final_message": True},
    "max_completion_tokens": {"max_completion_tokens": 5},
    "logprobs": {"logprobs": True},
    "top_logprobs": {"logprobs": True, "top_logprobs": 2},
    "tool_choice": {"tools": [TOOL], "tool_choice": "required"},
    "parallel_tool_calls": {"parallel_tool_calls": False},
    "functions": {"functions": []},
    "include_reasoning": {"include_reasoning": False},
    "toolgrammar": {"toolgrammar": True},
}
COMPLETION = {
    **SHARED,
    "echo": {"echo": True},
    "add_special_tokens": {"add_special_tokens": False},
    "prompt": {"prompt": "y"},
    "logprobs": {"logprobs": 1},
    "suffix": {"suffix": "x"},
}
#: What the routes read: the model's name, and the id of request and answer.
BY_ROUTES = {"model", "request_id"}
CHAT_BARE: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "a"}]}
COMPLETION_BARE: dict[str, Any] = {"prompt": "x"}
CONFIG = ServerConfig()
EXCHANGE = exchange({}, 64)


def below(members: dict[str, Any], *, chat: bool) -> Any:
    """What the layer below gets, and how the answer is to be written; an error's words if it is refused."""
    try:
        if chat:
            body = read(chat_body.DECODER, json.dumps({**CHAT_BARE, **members}).encode())
            return chat_body.chat_request(body, EXCHANGE, CONFIG, "r")
        text = read(completion_body.DECODER, json.dumps({**COMPLETION_BARE, **members}).encode())
        return completion_body.completion_requests(text, EXCHANGE, CONFIG, "r")
    except BadRequest as error:
        return str(error)


def names(body: type[SharedBody]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(body)} - BY_ROUTES


@pytest.mark.parametrize("chat", [True, False], ids=["chat", "completion"])
def test_every_member_is_asked_about_here(chat: bool) -> None:
    assert set(CHAT if chat else COMPLETION) == names(
        chat_body.ChatBody if chat else completion_body.CompletionBody
    )


def without(members: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


@pytest.mark.parametrize("name", sorted(CHAT))
def test_a_member_of_a_chat_counts(name: str) -> None:
    assert below(CHAT[name], chat=True) != below(without(CHAT[name], name), chat=True)


@pytest.mark.parametrize("name", sorted(COMPLETION))
def test_a_member_of_a_completion_counts(name: str) -> None:
    assert below(COMPLETION[name], chat=False) != below(without(COMPLETION[name], name), chat=False)
