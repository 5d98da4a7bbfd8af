"""Requests that cannot be served: status, ``param`` and ``code``, and nothing reaches the layers below."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from serving_http import Live, Script, content, post, read_response, serving
from toolgrammar_serving.errors import BadRequest, EngineBusy, EngineLost, TooLong
from toolgrammar_serving.server import Limits

USER = [{"role": "user", "content": "x"}]
TOOL = {"type": "function", "function": {"name": "f"}}
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"

# What is sent in place of, or beside, a good body's members; what is wrong with it, and how.
CHAT_FAULTS: list[tuple[dict[str, Any], str | None, str]] = [
    ({"messages": None}, "messages", "invalid_value"),
    ({"messages": []}, "messages", "invalid_value"),
    ({"messages": "hi"}, "messages", "invalid_value"),
    ({"messages": [1]}, "messages[0]", "invalid_value"),
    ({"messages": [{"content": "x"}]}, "messages[0].role", "invalid_value"),
    ({"messages": [*USER, {"role": "user", "content": 5}]}, "messages[1].content", "invalid_value"),
    ({"messages": [{"role": "user", "content": [{"text": "a"}]}]}, "messages[0].content[0]", "invalid_value"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "messages[0].content[0].text",
        "invalid_value",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]},
        "messages[0].content[0]",
        "unsupported_content",
    ),
    ({"messages": [{"role": "assistant", "tool_calls": 1}]}, "messages[0].tool_calls", "invalid_value"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{}]}]},
        "messages[0].tool_calls[0].function",
        "invalid_value",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]},
        "messages[0].tool_calls[0].function.name",
        "invalid_value",
    ),
    ({"max_tokens": 0}, "max_tokens", "invalid_value"),
    ({"max_completion_tokens": 0}, "max_completion_tokens", "invalid_value"),
    ({"max_tokens": -1}, "max_tokens", "invalid_value"),
    ({"max_tokens": "5"}, "max_tokens", "invalid_value"),
    ({"max_tokens": 4, "min_tokens": 5}, "min_tokens", "invalid_value"),
    ({"temperature": -0.1}, "temperature", "invalid_value"),
    ({"top_p": 1.1}, "top_p", "invalid_value"),
    ({"n": 0}, "n", "invalid_value"),
    ({"request_id": "a\nb"}, "request_id", "invalid_value"),
    ({"request_id": "a\n"}, "request_id", "invalid_value"),
    ({"request_id": ""}, "request_id", "invalid_value"),
    ({"n": 9}, "n", "limit_exceeded"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
    ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage", "invalid_value"),
    ({"stop": ["a"] * 5}, "stop", "limit_exceeded"),
    ({"stop": ""}, "stop", "invalid_value"),
    ({"stop": "x" * 21}, "stop", "invalid_value"),
    ({"stop": [1]}, "stop[0]", "invalid_value"),
    ({"logit_bias": {"a": 1}}, "logit_bias.a", "invalid_value"),
    ({"logit_bias": {"1": 101}}, "logit_bias.1", "invalid_value"),
    ({"logit_bias": {str(i): 1 for i in range(7)}}, "logit_bias", "limit_exceeded"),
    ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
    ({"logprobs": True, "top_logprobs": 6}, "top_logprobs", "limit_exceeded"),
    ({"logprobs": True, "top_logprobs": -1}, "top_logprobs", "limit_exceeded"),
    ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs", "invalid_value"),
    ({"cache_salt": "a@b"}, "cache_salt", "invalid_value"),
    ({"use_beam_search": True}, "use_beam_search", "unsupported_parameter"),
    ({"functions": []}, "functions", "unsupported_parameter"),
    ({"chat_template": "{{ x }}"}, "chat_template", "not_allowed"),
    ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message", "invalid_value"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "unsupported_tool"),
    ({"tools": [TOOL, {"type": "function"}]}, "tools[1].function", "invalid_value"),
    ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name", "invalid_value"),
    (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": 3}}]},
        "tools[0].function.parameters",
        "invalid_value",
    ),
    ({"tools": [TOOL] * 4}, "tools", "limit_exceeded"),
    ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
    ({"tool_choice": "some", "tools": [TOOL]}, "tool_choice", "invalid_value"),
    ({"tool_choice": {"type": "x"}, "tools": [TOOL]}, "tool_choice.type", "invalid_value"),
    (
        {"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": [TOOL]},
        "tool_choice.function.name",
        "invalid_value",
    ),
    ({"response_format": {"type": "yaml"}}, "response_format.type", "invalid_value"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "invalid_value"),
    ({"toolgrammar": {"start": "middle"}}, "toolgrammar.start", "invalid_value"),
]
TEXT_FAULTS: list[tuple[dict[str, Any], str | None, str]] = [
    ({"prompt": None}, "prompt", "invalid_value"),
    ({"prompt": []}, "prompt", "invalid_value"),
    ({"prompt": ["a", 1]}, "prompt", "invalid_value"),
    ({"prompt": [[1], []]}, "prompt", "invalid_value"),
    ({"prompt": [-1]}, "prompt[0]", "invalid_value"),
    ({"prompt": ["a"] * 7}, "prompt", "limit_exceeded"),
    ({"prompt": ["a"] * 3, "n": 3}, "prompt", "limit_exceeded"),
    ({"suffix": "end"}, "suffix", "unsupported_parameter"),
    ({"max_tokens": 0}, "max_tokens", "invalid_value"),
    ({"logprobs": 6}, "logprobs", "limit_exceeded"),
    ({"structured_outputs": {"regex": "a", "json": {}}}, "structured_outputs", "invalid_value"),
    ({"structured_outputs": {"regex": 5}}, "structured_outputs", "invalid_value"),
    ({"guided_choice": []}, "structured_outputs", "invalid_value"),
    ({"guided_grammar": ""}, "structured_outputs", "invalid_value"),
    ({"guided_json": "{"}, "structured_outputs", "invalid_value"),
    ({"guided_json": [1]}, "structured_outputs", "invalid_value"),
    ({"guided_regex": "(("}, "structured_outputs", "invalid_value"),
    ({"structured_outputs": {"structural_tag": "[]"}}, "structured_outputs", "invalid_value"),
    ({"structured_outputs": {}}, "structured_outputs", "invalid_value"),
]
LIMITS = Limits(
    n=8, stop_strings=4, stop_chars=20, logit_bias=6, logprobs=5, tools=3, prompts=6, sequences=8, body_bytes=4000
)


@pytest.fixture(scope="module")
def live() -> Any:
    with serving(Script([content("a")]), limits=LIMITS) as found:
        yield found


def refused(live: Live, raw: bytes) -> tuple[int, dict[str, Any]]:
    """Status and ``error``; nothing got through."""
    before = len(live.stage.requests)
    with live.send(raw) as connection:
        status, headers, body = read_response(connection)
    assert headers["content-type"] == "application/json"
    answer = msgspec.json.decode(body)
    assert answer.keys() == {"error"}
    assert answer["error"].keys() == {"message", "type", "param", "code", "status"}
    assert answer["error"]["status"] == status and answer["error"]["message"]
    assert len(live.stage.requests) == before
    return status, answer["error"]


@pytest.mark.parametrize(("change", "param", "code"), CHAT_FAULTS, ids=lambda value: str(value)[:60])
def test_chat(live: Live, change: dict[str, Any], param: str, code: str) -> None:
    status, error = refused(live, post(CHAT, {"model": "m", "messages": USER, **change}))
    assert (status, error["param"], error["code"]) == (400, param, code)


@pytest.mark.parametrize(("change", "param", "code"), TEXT_FAULTS, ids=lambda value: str(value)[:60])
def test_completions(live: Live, change: dict[str, Any], param: str, code: str) -> None:
    status, error = refused(live, post(TEXT, {"model": "m", "prompt": "x", **change}))
    assert (status, error["param"], error["code"]) == (400, param, code)


@pytest.mark.parametrize(
    ("raw", "status", "param", "code"),
    [
        (post(CHAT, b"{"), 400, None, "invalid_json"),
        (post(CHAT, b""), 400, None, "invalid_json"),
        (post(CHAT, b'{"messages": [{"role": "user", "content": "\xff"}]}'), 400, None, "invalid_json"),
        (post(CHAT, b'{"temperature": NaN}'), 400, None, "invalid_json"),
        (post(CHAT, b"[" * 3000), 400, None, "invalid_value"),
        (post(CHAT, b'{"messages": [{"content": ' + b"[" * 3000), 400, None, "nested_too_deeply"),
        (post(CHAT, b"{}"), 400, "messages", "invalid_value"),
        (post(CHAT, b"[]"), 400, None, "invalid_value"),
        (post(CHAT, b"x" * 4001), 413, None, "request_too_large"),
        (post(CHAT, {"model": "other", "messages": USER}), 404, "model", "model_not_found"),
        (post(TEXT, {"model": "other", "prompt": "x"}), 404, "model", "model_not_found"),
        (post(CHAT, {"messages": USER}, "X-data-parallel-rank: a"), 400, "x-data-parallel-rank", "invalid_header"),
        (post(CHAT, {"messages": USER}, "Content-Encoding: gzip"), 415, None, "unsupported_content_encoding"),
        (post(CHAT, {"messages": USER}).replace(b"/json", b"/xml"), 415, None, "unsupported_media_type"),
        (post("/v1/nothing", {}), 404, None, "unknown_url"),
        (post("/v1/models", {}), 405, None, "method_not_allowed"),
        (post("/tokenize", {}), 400, "prompt", "missing_parameter"),
        (post("/detokenize", {"tokens": "a"}), 400, "tokens", "invalid_value"),
        (b"GET /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n", 405, None, "method_not_allowed"),
        (b"GET /v1/models/other HTTP/1.1\r\nHost: x\r\n\r\n", 404, "model", "model_not_found"),
        (b"NOT HTTP\r\n\r\n", 400, None, "invalid_http"),
    ],
)
def test_whatever_is_wrong_is_told_in_one_shape(
    live: Live, raw: bytes, status: int, param: str | None, code: str
) -> None:
    found, error = refused(live, raw)
    assert (found, error["param"], error["code"]) == (status, param, code)


def test_a_chunked_body_is_limited_too(live: Live) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = (b"400\r\n" + b"x" * 0x400 + b"\r\n") * 5
    status, error = refused(live, head + body)
    assert (status, error["code"]) == (413, "request_too_large")


def test_an_endless_head_is_cut_off(live: Live) -> None:
    with live.send(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: ") as connection, contextlib.suppress(OSError):
        for _ in range(256):
            connection.sendall(b"a" * 65536)
        pytest.fail("all of it was read")


def test_a_head_in_pieces_with_a_large_body_behind_it_is_served(live: Live) -> None:
    raw = post(CHAT, {"messages": [{"role": "user", "content": "x" * 3000}]})
    many = raw * 60
    health = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    with live.send(health + raw[:40]) as connection:
        file = connection.makefile("rb")
        assert read_response(connection, file)[0] == 200  # so the first piece has come, too
        connection.sendall(raw[40:] + many + health)
        assert [read_response(connection, file)[0] for _ in range(62)] == [200] * 62


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        (TooLong("too long", param="messages"), 400, None),
        (BadRequest("no"), 400, None),
        (EngineBusy("paused"), 503, "1"),
        (EngineLost("gone"), 503, "1"),
    ],
)
def test_errors_of_the_layers_below(error: Any, status: int, retry: str | None) -> None:
    with serving(Script([[]], refuse=error)) as live:
        for body in ({"messages": USER}, {"messages": USER, "stream": True}):
            with live.send(post(CHAT, body)) as connection:
                found, headers, data = read_response(connection)
            assert (found, headers.get("retry-after")) == (status, retry)
            told = msgspec.json.decode(data)["error"]
            assert (told["message"], told["code"], told["param"]) == (error.message, error.code, error.param)


def test_a_fault_of_ours_tells_nothing() -> None:
    def script(request: Any) -> Script:
        raise RuntimeError("secret")

    with serving(script) as live, live.send(post(CHAT, {"messages": USER})) as connection:
        status, headers, body = read_response(connection)
    assert status == 500 and b"secret" not in body and "x-request-id" in headers
    assert msgspec.json.decode(body)["error"]["code"] == "internal_error"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b" ", "The body is empty: send a JSON object."),
        (b'{"model": "\\ud800"}', "half of a surrogate pair (\\ud800 to \\udfff)."),
        (b'{"model": ', "The body is not JSON: Input data was truncated."),
    ],
)
def test_what_is_wrong_with_a_body_is_said(body: bytes, message: str) -> None:
    with serving(Script([])) as live, live.send(post(CHAT, body)) as connection:
        status, _, data = read_response(connection)
    assert status == 400 and msgspec.json.decode(data)["error"]["message"].endswith(message)
