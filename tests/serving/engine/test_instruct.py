"""The whole way with a real model: client, server, engine, calls. TOOLGRAMMAR_TEST_MODEL names its directory."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest

MODEL = os.environ.get("TOOLGRAMMAR_TEST_MODEL")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MODEL is None, reason="TOOLGRAMMAR_TEST_MODEL names no model directory"),
]

WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS: Any = [
    {
        "type": "function",
        "function": {"name": "get_weather", "description": "Weather forecast of a city", "parameters": WEATHER},
    },
    {
        "type": "function",
        "function": {
            "name": "set_lamp",
            "description": "Switch a lamp",
            "parameters": {
                "type": "object",
                "properties": {"room": {"type": "string"}, "on": {"type": "boolean"}},
            },
        },
    },
]
QUESTION: Any = [{"role": "user", "content": "What will the weather be in Paris for the next 3 days?"}]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    import openai

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "toolgrammar_serving.launch.serve", str(MODEL), "--port", str(port)]
    command += ["--device", "cpu", "--max-model-len", "4096", "--kv-memory", "512MiB", "--served-model-name", "it"]
    with subprocess.Popen(command) as server:
        try:
            transport = httpx.HTTPTransport(retries=0)
            with openai.OpenAI(
                base_url=f"http://127.0.0.1:{port}/v1",
                api_key="none",
                max_retries=120,  # with pauses in between: until the server listens
                http_client=httpx.Client(transport=transport, timeout=600),
            ) as one:
                one.models.list()
                yield one
        finally:
            server.terminate()
            server.wait(60)


def calls(client: Any, stream: bool, **more: Any) -> tuple[list[tuple[str, Any]], str]:
    """Names and arguments, and why it ended."""
    asked = {"model": "it", "messages": QUESTION, "tools": TOOLS, "temperature": 0, "max_tokens": 200, **more}
    if not stream:
        choice = client.chat.completions.create(**asked).choices[0]
        found = [(one.function.name, one.function.arguments) for one in choice.message.tool_calls or []]
        return [(name, json.loads(text)) for name, text in found], choice.finish_reason
    names: dict[int, str] = {}
    texts: dict[int, str] = {}
    reason = ""
    for chunk in client.chat.completions.create(stream=True, **asked):
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            for one in choice.delta.tool_calls or []:
                names[one.index] = names.get(one.index, "") + (one.function.name or "")
                texts[one.index] = texts.get(one.index, "") + (one.function.arguments or "")
    return [(names[i], json.loads(texts[i])) for i in sorted(names)], reason


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_is_made_if_one_is_required(client: Any, stream: bool) -> None:
    made, reason = calls(client, stream, tool_choice="required")
    assert made[0] == ("get_weather", {"city": "Paris", "days": 3})
    assert reason == "tool_calls"


def test_left_to_itself_the_model_says_the_same_streamed_or_not(client: Any) -> None:
    """A small model may write its call without the markers of its template: then it is text, and stays text."""
    asked = {"model": "it", "messages": QUESTION, "tools": TOOLS, "temperature": 0, "max_tokens": 100}
    message = client.chat.completions.create(**asked).choices[0].message
    text = "".join(
        choice.delta.content or ""
        for chunk in client.chat.completions.create(stream=True, **asked)
        for choice in chunk.choices
    )
    assert text == (message.content or "")
    if message.tool_calls:
        assert message.tool_calls[0].function.name == "get_weather"
    else:
        assert "Paris" in text


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_nobody_would_make_is_made_if_it_is_named(client: Any, stream: bool) -> None:
    named = {"type": "function", "function": {"name": "set_lamp"}}
    made, _ = calls(client, stream, tool_choice=named)
    assert [name for name, _ in made] == ["set_lamp"]
    jsonschema.validate(made[0][1], TOOLS[1]["function"]["parameters"])


def test_hot_required_calls_of_strict_tools_are_valid(client: Any) -> None:
    strict = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS]
    hot = {"tool_choice": "required", "tools": strict, "temperature": 1.0, "parallel_tool_calls": False}
    for seed in range(2):
        made, _ = calls(client, False, seed=seed, **hot)
        assert made
        for name, arguments in made:
            tool = next(one["function"] for one in TOOLS if one["function"]["name"] == name)
            jsonschema.validate(arguments, tool["parameters"])
