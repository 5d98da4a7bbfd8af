"""Recorded event streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Run

Write = Callable[[str, "str | bytes"], str]
PARSE = ("parse", "--model", "hermes")


def chunk(content: str | None, index: int = 0, finish: str | None = None, id: str = "c1", **delta: Any) -> str:
    choice = {"index": index, "delta": {"content": content, **delta}, "finish_reason": finish}
    return f"data: {json.dumps({'id': id, 'model': 'Qwen/Qwen2.5-7B-Instruct', 'choices': [choice]})}\n\n"


def test_a_chat_stream_keeps_its_cuts(run: Run, write: Write) -> None:
    stream = (
        ": keep-alive\n\n"
        + chunk("", role="assistant")
        + chunk("Hel")
        + chunk("lo", finish="length")
        + ('data: {"id": "c1", "choices": [], "usage": {"total_tokens": 3}}\n\ndata: [DONE]\n\n')
    )
    file = write("a.sse", stream)
    lines = run("parse", "-f", "events", file).lines
    assert [line["text"] for line in lines[:-1]] == ["Hel", "lo"]
    assert lines[-1]["finish"] == "length"
    assert lines[-1]["record"] == {"file": "a.sse", "line": 3, "id": "c1", "choice": 0}
    assert run("parse", "-f", "events", "--input", "sse", stdin=stream).code == 0


def test_several_choices_and_streams(run: Run, write: Write) -> None:
    file = write(
        "a.sse",
        chunk("a", 0) + chunk("x", 1) + chunk("b", 0, "stop") + chunk("y", 1, "stop") + "data: [DONE]\n\n"
        + chunk("next", id="c2") + chunk("last", id="c3"),
    )  # fmt: skip
    lines = run(*PARSE, file).lines
    assert [line["content"] for line in lines] == ["ab", "xy", "next", "last"]
    assert [line["record"]["choice"] for line in lines] == [0, 1, 0, 0]


def test_completions_and_windows_line_ends(run: Run, write: Write) -> None:
    events = [{"id": "c", "choices": [{"index": 0, "text": text}]} for text in ("<tool_", "call>")]
    file = write("a.sse", "".join(f"event: x\r\ndata:{json.dumps(event)}\r\n\r\n" for event in events))
    (line,) = run(*PARSE, file).lines
    assert (line["content"], line["unfinished"]) == (None, True)


def test_bad_events_are_reported_and_the_rest_is_read(run: Run, write: Write) -> None:
    file = write(
        "a.sse",
        (
            chunk("a") + 'data: {"broken\n\ndata: {"error": {"message": "engine died"}}\n\ndata: {"id": "c1"}\n\n'
        ).encode()
        + b"data: \xff\n\n"
        + chunk("b").encode(),
    )
    ran = run(*PARSE, file)
    assert (ran.code, ran.lines[0]["content"]) == (4, "ab")
    codes = [line[:11] for line in ran.err.splitlines()]
    assert codes == ["error[E023]", "error[E025]", "error[E024]", "error[E022]"]
    assert "a.sse:5: the server reported an error: engine died" in ran.err


@pytest.mark.parametrize("shape", ["jsonl", "events"])
def test_a_stream_that_ended_in_an_error(shape: str, run: Run, write: Write) -> None:
    error = 'data: {"error": {"message": "engine died"}}\n\n'
    file = write("a.sse", chunk("a") + chunk("x", 1) + error + chunk("whole", id="c2", finish="stop"))
    ran = run(*PARSE, "-f", shape, file)
    ends = [line for line in ran.lines if "finish" in line]
    assert (ran.code, [line["finish"] for line in ends]) == (4, [None, None, "stop"])
    told = "a.sse:5: the server reported an error: engine died"
    assert [line["record"].get("problems") for line in ends] == [[told], [told], None]
    assert f"problem: {told}\n" in run(*PARSE, "-f", "pretty", file).out


BAD_PARTS: list[tuple[dict[str, Any], str]] = [
    ({"index": 0, "delta": {"content": 5}}, "content should be a string, found a number"),
    ({"index": 0, "delta": {"content": ["b"]}}, "content should be a string, found a list"),
    ({"index": 0, "delta": 5}, "delta should be an object, found a number"),
    ({"index": 0, "text": 5}, "text should be a string, found a number"),
    ({"index": "a", "delta": {"content": "lost"}}, "index should be an integer, found a string"),
    ({"index": True, "delta": {"content": "lost"}}, "index should be an integer, found a boolean"),
    ({"index": 0, "finish_reason": 1}, "finish_reason should be a string, found a number"),
]


@pytest.mark.parametrize(("choice", "wrong"), BAD_PARTS)
def test_a_part_of_the_wrong_type_is_told(choice: dict[str, Any], wrong: str, run: Run, write: Write) -> None:
    bad = f"data: {json.dumps({'id': 'c1', 'choices': [choice, {'index': 0, 'delta': {'content': 'b'}}]})}\n\n"
    ran = run(*PARSE, write("a.sse", chunk("a") + bad + chunk("c", finish="stop")))
    (line,) = ran.lines
    assert (ran.code, line["content"], line["finish"]) == (4, "abc", "stop")
    assert ran.err == f"error[E024]: a.sse:3: {wrong}\n"
    assert line["record"]["problems"] == [f"a.sse:3: {wrong}"]


def test_a_choice_that_is_no_object_leaves_the_others(run: Run, write: Write) -> None:
    choices = [5, {"index": 0, "delta": {"content": "b"}}]
    ran = run(*PARSE, write("a.sse", chunk("a") + f"data: {json.dumps({'id': 'c1', 'choices': choices})}\n\n"))
    assert (ran.code, ran.lines[0]["content"]) == (4, "ab")
    assert ran.err == "error[E024]: a.sse:3: a choice should be an object, found a number\n"


def test_what_may_be_null_or_missing(run: Run, write: Write) -> None:
    choices = [{"delta": {"content": "a"}}, {"index": None, "delta": None}, {"index": 0, "delta": {}}]
    event = {"id": "c1", "choices": choices, "error": None}
    ran = run(*PARSE, write("a.sse", f"data: {json.dumps(event)}\n\n"))
    assert (ran.code, ran.err, ran.lines[0]["content"]) == (0, "", "a")


def test_a_file_that_is_no_stream(run: Run, write: Write) -> None:
    ran = run(*PARSE, write("a.sse", "<html>502</html>\n"))
    assert (ran.code, ran.out) == (4, "")
    assert ran.err == "error[E023]: a.sse: no 'data:' line; this is no recorded event stream\n"


def test_what_the_server_has_parsed_itself_is_said(run: Run, write: Write) -> None:
    ran = run(*PARSE, write("a.sse", chunk("a", reasoning_content="hm") + chunk("b", reasoning_content="hm")))
    assert ran.lines[0]["content"] == "ab"
    assert ran.err == "a.sse:1: the server has parsed this stream itself; only its content is read\n"
    assert run(*PARSE, "-q", "a.sse").err == ""
