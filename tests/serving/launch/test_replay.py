"""`toolgrammar-serve --replay FILE`, started as a person does, asked by the openai client."""

from __future__ import annotations

import json
import shlex
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import launch_running
import openai
import pytest
from launch_running import Served, captures, serving

REASONING = "They want the weather."
CONTENT = "One moment."
ARGUMENTS = {"city": "Paris"}
CALL = json.dumps({"name": "get_weather", "arguments": ARGUMENTS})
RAW = f"<think>\n{REASONING}\n</think>\n\n{CONTENT}\n<tool_call>\n{CALL}\n</tool_call>"
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


def records() -> list[dict[str, Any]]:
    return [
        {"text": RAW, "chunks": [RAW[at : at + 7] for at in range(0, len(RAW), 7)], "match": "weather"},
        {"text": "Ça va ? 🙂", "match": "hello"},
        {"text": "cut", "finish_reason": "length", "match": "long"},
    ]


def ask(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    file = captures(tmp_path_factory.mktemp("replay") / "captures.jsonl", *records())
    with serving("--replay", file, "--port", "0", "--served-model-name", "m", "--format", "hermes") as one:
        yield one
        assert one.stop() == 0
        assert "Traceback" not in one.said


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with launch_running.client(served.url) as made:
        yield made


def test_a_start_says_what_is_served_and_the_next_step(served: Served) -> None:
    url = served.url
    assert served.wait_for(r"^model +(.*)$")[1] == "m"
    assert served.wait_for(r"^format +(.*)$")[1] == "hermes (named)"
    assert served.wait_for(r"^tokens +(.*)$")[1] == "bytes, no model"
    assert served.wait_for(r"^  (curl .*)$")[1].startswith(f"curl -s {url}/v1/chat/completions ")


def test_the_request_to_copy_has_an_answer(served: Served) -> None:
    line = served.wait_for(r"^  (curl .*)$")[1]
    body = json.loads(shlex.split(line)[-1])
    assert httpx.post(f"{served.url}/v1/chat/completions", json=body).status_code == 200


def test_a_capture_is_read_into_reasoning_content_and_calls(client: openai.OpenAI) -> None:
    choice = client.chat.completions.create(model="m", messages=ask("the weather?"), tools=TOOLS).choices[0]
    assert choice.message.content == CONTENT
    assert choice.message.model_dump()["reasoning"] == REASONING
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", ARGUMENTS)
    assert choice.finish_reason == "tool_calls"


def test_the_stream_says_the_same(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="m", messages=ask("the weather?"), tools=TOOLS) as stream:
        reasoning = "".join(
            event.chunk.choices[0].delta.model_dump().get("reasoning") or ""
            for event in stream
            if event.type == "chunk" and event.chunk.choices
        )
        choice = stream.get_final_completion().choices[0]
    assert (choice.message.content, reasoning) == (CONTENT, REASONING)
    assert choice.message.tool_calls is not None
    assert json.loads(choice.message.tool_calls[0].function.arguments) == ARGUMENTS
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize("text,content,reason", [("hello", "Ça va ? 🙂", "stop"), ("long", "cut", "length")])
def test_captures_are_chosen_by_the_request(client: openai.OpenAI, text: str, content: str, reason: str) -> None:
    choice = client.chat.completions.create(model="m", messages=ask(text)).choices[0]
    assert (choice.message.content, choice.finish_reason) == (content, reason)


def test_completions_give_the_raw_text(client: openai.OpenAI) -> None:
    choice = client.completions.create(model="m", prompt="the weather", max_tokens=4096).choices[0]
    assert (choice.text, choice.finish_reason) == (RAW, "stop")


def test_an_unknown_model_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="other", messages=ask("hello"))


def test_several_api_processes_share_port_and_engine(tmp_path: Path) -> None:
    file = captures(tmp_path / "captures.jsonl", *records())
    with serving("--replay", file, "--port", "0", "--api-server-count", "2", "--speed", "max") as served:
        url = served.url
        assert served.wait_for(r"^format +(.*)$")[1].startswith("hermes (reads 1 whole call")
        for _ in range(8):  # a connection each; the kernel spreads them
            with launch_running.client(url) as client:
                message = (
                    client.chat.completions.create(model="captures", messages=ask("hello")).choices[0].message
                )
                assert message.content == "Ça va ? 🙂"
        assert served.stop() == 0


def test_a_unix_socket_and_a_key(tmp_path: Path) -> None:
    file = captures(tmp_path / "captures.jsonl", *records())
    path = str(tmp_path / "s")
    with serving("--replay", file, "--uds", path, env={"TOOLGRAMMAR_API_KEY": "k"}) as served:
        assert served.url == f"http+unix://{path}"
        with httpx.Client(transport=httpx.HTTPTransport(uds=path)) as http:
            assert http.get("http://localhost/health").status_code == 200
            assert http.get("http://localhost/v1/models").status_code == 401
            answer = http.get("http://localhost/v1/models", headers={"authorization": "Bearer k"}).json()
            assert [(one["id"], one["format"]) for one in answer["data"]] == [("captures", "hermes")]
        assert served.stop(signal.SIGINT) == 0
    assert not Path(path).exists()


@pytest.mark.parametrize("count", ["1", "2"])
def test_a_signal_loses_no_open_stream(tmp_path: Path, count: str) -> None:
    """The second half of the capture comes after the signal: the stream goes on while the server drains."""
    halves = ["first half, ", "second half"]
    file = captures(
        tmp_path / "captures.jsonl", {"text": "".join(halves), "chunks": halves, "times_s": [0.0, 1.0]}
    )
    with serving("--replay", file, "--port", "0", "--format", "identity", "--api-server-count", count) as served:
        with launch_running.client(served.url) as client:
            stream = client.chat.completions.create(model="captures", messages=ask("go"), stream=True)
            text = ""
            for chunk in stream:
                if chunk.choices and (delta := chunk.choices[0].delta.content):
                    if not text:
                        served.process.terminate()
                    text += delta
        assert text == "".join(halves)
        assert served.ends() == 0


@pytest.mark.parametrize("count", ["1", "2"])
def test_a_dead_engine_ends_streams_with_an_error_and_the_server_with_a_code(tmp_path: Path, count: str) -> None:
    file = captures(
        tmp_path / "captures.jsonl",
        {"steps": [[72, 105], []], "delays_s": [0, 0.2], "finish": None, "then": "dead"},
    )
    with serving("--replay", file, "--port", "0", "--format", "identity", "--api-server-count", count) as served:
        with launch_running.client(served.url) as client:
            stream = client.chat.completions.create(model="captures", messages=ask("go"), stream=True)
            with pytest.raises(openai.APIError) as caught:
                for _ in stream:
                    pass
        assert "engine" in str(caught.value)
        assert served.ends() == 1
        assert "error: the server ended: " in served.said


def test_a_taken_port_is_told_before_anything_starts(tmp_path: Path) -> None:
    file = captures(tmp_path / "captures.jsonl", *records())
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with serving("--replay", file, "--port", str(port)) as served:
            assert served.ends() == 2
    assert served.lines == [
        f"error: 127.0.0.1:{port} is taken by another program",
        f"  hint: --port {port + 1}, or --port 0 for a free one",
    ]


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["--replay", "CAPTURES", "--format", "no-such-format"], "error: no grammar for model 'no-such-format'"),
        (
            ["--replay", "CAPTURES", "--format", "hermes", "--speed", "fast"],
            "error: --speed fast: it is recorded, max, or",
        ),
        (["--replay", "EMPTY", "--format", "hermes"], "error: nothing to replay in"),
        (["--replay", "MIXED"], "has records of several formats: hermes, mistral"),
        ([], "error: there is nothing to serve"),
        (["--port", "-1"], "error: Invalid value for '--port'"),
    ],
)
def test_what_cannot_start_ends_with_2_and_says_why(tmp_path: Path, arguments: list[str], message: str) -> None:
    files = {
        "CAPTURES": captures(tmp_path / "captures.jsonl", *records()),
        "EMPTY": captures(tmp_path / "empty.jsonl"),
        "MIXED": captures(
            tmp_path / "m.jsonl", {"text": "a", "format": "hermes"}, {"text": "b", "format": "mistral"}
        ),
    }
    with serving("--port", "0", *(files.get(each, each) for each in arguments)) as served:
        assert served.ends() == 2
    assert message in served.said
    assert "Traceback" not in served.said


def test_format_and_times_follow_the_file(tmp_path: Path) -> None:
    file = captures(
        tmp_path / "c.jsonl", {"text": '[TOOL_CALLS][{"name": "f", "arguments": {}}]', "model": "mistral"}
    )
    with serving("--replay", file, "--port", "0") as served:
        url = served.url
        assert served.wait_for(r"^format +(.*)$")[1] == "mistral (its records name it)"
        with launch_running.client(url) as client:
            choice = client.chat.completions.create(model="c", messages=ask("x")).choices[0]
            assert choice.message.tool_calls is not None
            assert choice.message.tool_calls[0].model_dump()["function"] == {"name": "f", "arguments": "{}"}
        assert served.stop() == 0


def test_captures_with_a_model_directory_go_through_its_tokenizer(tmp_path: Path) -> None:
    import serving_models

    model = str(serving_models.byte_level(tmp_path / "tiny"))
    file = captures(tmp_path / "captures.jsonl", *records())
    with serving(model, "--replay", file, "--port", "0", "--served-model-name", "tiny") as served:
        url = served.url
        assert served.wait_for(r"^format +(.*)$")[1] == "hermes (by the model's directory)"
        with launch_running.client(url) as client:
            choice = client.chat.completions.create(model="tiny", messages=ask("weather"), tools=TOOLS).choices[0]
            assert choice.message.content == CONTENT
            assert choice.finish_reason == "tool_calls"
        assert served.stop() == 0


def test_help_needs_nothing_installed_and_nothing_slow() -> None:
    import subprocess

    code = "import sys; sys.argv = ['toolgrammar-serve', '--help']\n"
    code += "from toolgrammar_serving.launch.serve import main\n"
    code += "try:\n    main()\nfinally:\n    print([m for m in ('zmq', 'uvicorn', 'torch') if m in sys.modules])\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
