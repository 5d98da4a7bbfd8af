"""What reaches the layers below: every member of the body, and the headers that count."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from serving_http import Script, content, post, read_response, serving
from toolgrammar_serving.chat import ResponseFormat, ToolChoice

BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def sent(body: dict[str, Any], *headers: str, path: str = "/v1/chat/completions") -> Any:
    """The one request that reached the stage."""
    with serving(Script([content("a")])) as live, live.send(post(path, body, *headers)) as connection:
        status, _, answer = read_response(connection)
        assert status == 200, answer
        (request,) = live.stage.requests
    return request


def test_sampling_members() -> None:
    body = {
        **BODY,
        "temperature": 0,
        "top_p": 0.5,
        "top_k": -1,
        "min_p": 0.1,
        "presence_penalty": 1,
        "frequency_penalty": -1,
        "repetition_penalty": 1.5,
        "seed": 7,
        "max_tokens": 5,
        "max_completion_tokens": 6,
        "min_tokens": 2,
        "stop_token_ids": [3],
        "ignore_eos": True,
        "logit_bias": {"12": -1.5},
        "allowed_token_ids": [1, 2],
        "logprobs": True,
        "thinking_token_budget": -1,
        "repetition_detection": {"max_pattern_size": 3, "min_count": 2},
        "vllm_xargs": {"a": 1},
        "kv_transfer_params": {"b": 2},
    }
    sampling = sent(body).sampling
    found = {name: getattr(sampling, name) for name in sampling.__struct_fields__}
    assert found == {
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 0,
        "min_p": 0.1,
        "presence_penalty": 1.0,
        "frequency_penalty": -1.0,
        "repetition_penalty": 1.5,
        "seed": 7,
        "max_tokens": 6,
        "min_tokens": 2,
        "stop_token_ids": [3],
        "ignore_eos": True,
        "logprobs": 0,
        "prompt_logprobs": None,
        "logprob_token_ids": None,
        "logit_bias": {12: -1.5},
        "allowed_token_ids": [1, 2],
        "bad_words_token_ids": None,
        "structured_outputs": None,
        "thinking_token_budget": None,
        "repetition_detection": {"max_pattern_size": 3, "min_count": 2},
        "skip_reading_prefix_cache": None,
        "extra_args": {"a": 1, "kv_transfer_params": {"b": 2}},
    }


def test_conversation_members() -> None:
    body = {
        **BODY,
        "tools": [TOOL],
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "include_reasoning": False,
        "chat_template_kwargs": {"enable_thinking": False},
        "documents": [{"text": "d"}],
        "stop": "END",
        "include_stop_str_in_output": True,
        "skip_special_tokens": False,
        "bad_words": ["no"],
        "truncate_prompt_tokens": 9,
        "n": 2,
        "structured_outputs": {"regex": "a"},
    }
    request = sent(body)
    assert request.messages == BODY["messages"] and request.tools == [TOOL]
    wanted = {
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "include_reasoning": False,
        "chat_template_kwargs": {"enable_thinking": False},
        "documents": [{"text": "d"}],
        "stop": ["END"],
        "include_stop": True,
        "skip_special_tokens": False,
        "bad_words": ["no"],
        "truncate_prompt_tokens": 9,
        "n": 2,
        "structured_outputs": {"regex": "a"},
        "stream": False,
        "add_generation_prompt": True,
        "continue_final_message": False,
    }
    assert {name: getattr(request, name) for name in wanted} == wanted


def test_null_is_as_good_as_absent() -> None:
    names = (
        "temperature",
        "n",
        "stop",
        "tools",
        "tool_choice",
        "stream",
        "stream_options",
        "response_format",
        "model",
    )
    body = {**BODY, **dict.fromkeys(names)}
    request, bare = sent({**body, "request_id": "r"}), sent({**BODY, "request_id": "r"})
    assert request == bare


def test_members_nobody_knows_are_ignored() -> None:
    sent({**BODY, "user": "u", "metadata": {"a": [1]}, "store": True, "service_tier": "auto", "verbosity": "low"})


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        ("none", ToolChoice("none")),
        ("auto", ToolChoice("auto")),
        ("required", ToolChoice("required")),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("named", ("f",))),
        ({"type": "function", "name": "f"}, ToolChoice("named", ("f",))),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [TOOL]}},
            ToolChoice("required", ("f",)),
        ),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
            ToolChoice("auto", ("f",)),
        ),
    ],
)
def test_tool_choices(value: Any, choice: ToolChoice) -> None:
    assert sent({**BODY, "tools": [TOOL], "tool_choice": value}).tool_choice == choice


TAG = {"type": "structural_tag", "format": {"type": "any_text"}}


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ({"type": "text"}, ResponseFormat()),
        ({"type": "json_object"}, ResponseFormat("json_object")),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array"}}},
            ResponseFormat("json_schema", schema={"type": "array"}),
        ),
        (TAG, ResponseFormat("structural_tag", tag=msgspec.json.encode(TAG).decode())),
    ],
)
def test_response_formats(value: Any, form: ResponseFormat) -> None:
    assert sent({**BODY, "response_format": value}).response_format == form


def test_headers_reach_the_engine_s_request() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = (
        "X-Request-Id: my-id",
        f"traceparent: {trace}",
        "tracestate: a=b",
        "X-Session-ID: s1",
        "X-data-parallel-rank: 3",
        "X-Vllm-Priority: -2",
    )
    for path, body in (("/v1/chat/completions", BODY), ("/v1/completions", {"prompt": "x"})):
        request = sent({**body, "priority": 5, "session_id": "s2"}, *headers, path=path)
        assert request.request_id.endswith("-my-id")
        assert request.trace_headers == {"traceparent": trace, "tracestate": "a=b"}
        assert (request.session_id, request.data_parallel_rank, request.priority) == ("s1", 3, -2)


def test_messages_are_handed_on_as_they_came() -> None:
    messages = [
        {"role": "developer", "content": [{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"broken": '}},
                {"id": "2", "type": "function", "function": {"name": "f", "arguments": {"as": "object"}}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "failed", "is_error": True},
    ]
    assert sent({"messages": messages}).messages == messages


def test_old_templates_and_tools_without_parameters() -> None:
    bare = {"type": "function", "function": {"name": "f"}}
    strict = {"type": "function", "function": {"name": "g", "parameters": None, "strict": True}}
    assert sent({**BODY, "tools": [bare, strict]}).tools == [bare, strict]
    assert sent({**BODY, "tools": []}).tools is None
