"""The bytes of a stream, to the last one; and that they are the same over any way out."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from serving_http import Script, Stage, Step, call, content, events_of, post, read_response, reasoning, serving
from toolgrammar_serving.chat import ChatFinish
from toolgrammar_serving.server import ServerConfig, create_app

from toolgrammar import CallEnd, CallStart, Content, Reasoning

BODY = {"model": "m", "stream": True, "request_id": "r", "messages": [{"role": "user", "content": "x"}]}
STEPS = [
    *reasoning("Let me"),
    *content("a\nb", "\u2028\u0085", '"\\\r\n', "🌿"),
    *call(0, "f", '{"a"', ":1}"),
    *call(1, "g"),
]
DELTAS = [
    b'"role":"assistant","content":""',
    b'"reasoning":"Let me","reasoning_content":"Let me"',
    b'"content":"a\\nb"',
    b'"content":"\\u2028\\u0085"',
    b'"content":"\\"\\\\\\r\\n"',
    '"content":"🌿"'.encode(),
    b'"tool_calls":[{"index":0,"id":"call_0","type":"function","function":{"name":"f","arguments":""}}]',
    b'"tool_calls":[{"index":0,"function":{"arguments":"{\\"a\\""}}]',
    b'"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]',
    b'"tool_calls":[{"index":1,"id":"call_1","type":"function","function":{"name":"g","arguments":""}}]',
    b'"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]',
]


def expected(created: int) -> bytes:
    head = (
        b'data: {"id":"chatcmpl-r","object":"chat.completion.chunk","created":%d,"model":"m","choices":['
        b'{"index":0,"delta":{' % created
    )
    last = head + b'},"finish_reason":"tool_calls","stop_reason":null}]}\n\ndata: [DONE]\n\n'
    return b"".join([head + delta + b'},"finish_reason":null}]}\n\n' for delta in DELTAS]) + last


def script() -> Script:
    return Script([STEPS], ChatFinish("tool_calls"))


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_a_stream_is_these_bytes(version: str) -> None:
    with serving(script()) as live, live.send(post("/v1/chat/completions", BODY, version=version)) as connection:
        status, headers, body = read_response(connection)
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert body == expected(events_of(body)[0]["created"])


def test_any_asgi_server_gets_the_same_bytes() -> None:
    sent: list[Any] = []

    async def main() -> None:
        stage = Stage(lambda request: script())
        app = create_app(stage.chat, stage.text, stage, ServerConfig(models=("m",)))
        body = [{"type": "http.request", "body": msgspec.json.encode(BODY), "more_body": False}]

        async def receive() -> Any:
            return body.pop() if body else await asyncio.get_running_loop().create_future()

        async def send(message: Any) -> None:
            await asyncio.sleep(0)
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "2",
            "method": "POST",
            "path": "/v1/chat/completions",
            "raw_path": b"/v1/chat/completions",
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": [],
        }
        await app(scope, receive, send)

    asyncio.run(main())
    body = b"".join([message["body"] for message in sent[1:]])
    assert body == expected(events_of(body)[0]["created"])
    assert [message.get("more_body", False) for message in sent[1:]] == [True] * (len(sent) - 2) + [False]


def test_several_events_of_one_step_are_one_chunk_in_order() -> None:
    step = Step(
        [
            Reasoning("a", 0, 1),
            Reasoning("b", 1, 2),
            Content("c", 3, 4),
            CallStart(0, "i", "f", 5, 5),
            CallEnd(0, "i", "complete", 5, 9),
        ]
    )
    with (
        serving(Script([[step]], ChatFinish("tool_calls"))) as live,
        live.send(post("/v1/chat/completions", BODY)) as connection,
    ):
        found = events_of(read_response(connection)[2])
    assert [event["choices"][0]["delta"] for event in found] == [
        {"role": "assistant", "content": ""},
        {"reasoning": "ab", "reasoning_content": "ab"},
        {"content": "c"},
        {"tool_calls": [{"index": 0, "id": "i", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        {},
    ]


def test_a_call_that_is_cut_gets_no_arguments_it_did_not_have() -> None:
    steps = call(0, "f", status="incomplete")
    with (
        serving(Script([steps], ChatFinish("length"))) as live,
        live.send(post("/v1/chat/completions", BODY)) as connection,
    ):
        found = events_of(read_response(connection)[2])
        connection.sendall(post("/v1/chat/completions", {**BODY, "stream": False}))
        whole = msgspec.json.decode(read_response(connection)[2])
    assert [event["choices"][0]["delta"] for event in found[1:]] == [
        {
            "tool_calls": [
                {"index": 0, "id": "call_0", "type": "function", "function": {"name": "f", "arguments": ""}}
            ]
        },
        {},
    ]
    assert whole["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": ""}
    assert whole["choices"][0]["finish_reason"] == found[-1]["choices"][0]["finish_reason"] == "length"


def test_half_a_surrogate_pair_does_not_break_a_stream() -> None:
    with (
        serving(Script([content("a\ud83cb")])) as live,
        live.send(post("/v1/chat/completions", BODY)) as connection,
    ):
        found = events_of(read_response(connection)[2])
        connection.sendall(post("/v1/chat/completions", {**BODY, "stream": False}))
        whole = msgspec.json.decode(read_response(connection)[2])
    assert found[1]["choices"][0]["delta"]["content"] == "a\ufffdb"
    assert whole["choices"][0]["message"]["content"] == "a\ufffdb"
