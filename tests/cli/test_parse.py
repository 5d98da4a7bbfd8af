"""``parse``: shapes, inputs and cuts."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion

from .conftest import Run

Write = Callable[[str, "str | bytes"], str]

CALL = '<tool_call>\n{"name": "book_ferry", "arguments": {"port": "Oban", "seats": 3}}\n</tool_call>'
TEXT = f"<think>\nTwo of them.\n</think>\n\nBooking — 満潮 at noon.\n{CALL}"
CUT = 'On it.\n<tool_call>\n{"name": "book_ferry", "arguments": {"port": "Ob'
TOOLS = [{"type": "function", "function": {"name": "book_ferry", "parameters": {"type": "object"}}}]
PARSE = ("parse", "--model", "hermes")


def test_a_text_file(run: Run, write: Write) -> None:
    ran = run(*PARSE, write("a.txt", TEXT))
    assert (ran.code, ran.err) == (0, "")
    (line,) = ran.lines
    spans = line.pop("spans")
    (call,) = line.pop("calls")
    assert line == {
        "v": 1,
        "model": "hermes",
        "grammar": "hermes",
        "reasoning": "Two of them.",
        "content": "Booking — 満潮 at noon.",
        "finish": None,
        "unfinished": False,
        "diagnostics": [],
        "tail": "",
        "lossless": True,
        "record": {"file": "a.txt"},
    }
    assert TEXT[slice(*call.pop("span"))] == CALL.split("\n")[1]
    assert call == {
        "index": 0,
        "id": "call_ID",
        "name": "book_ferry",
        "arguments_raw": '{"port": "Oban", "seats": 3}',
        "arguments": {"port": "Oban", "seats": 3},
        "status": "complete",
        "known": True,
    }
    assert spans[0][0] == 0
    assert spans[-1][1] == len(TEXT)


def test_standard_input_is_the_default_and_a_dash(run: Run) -> None:
    plain = run(*PARSE, stdin=TEXT)
    dash = run(*PARSE, "-", stdin=TEXT)
    assert plain.out == dash.out
    assert plain.lines[0]["record"] == {"file": "<stdin>"}


@pytest.mark.parametrize("text", [TEXT, CUT], ids=["whole", "cut"])
def test_pretty(text: str, run: Run, snapshot: SnapshotAssertion) -> None:
    ran = run(*PARSE, "-f", "pretty", stdin=text)
    assert ran.out == snapshot


def test_pretty_of_many_things(run: Run, write: Write, snapshot: SnapshotAssertion) -> None:
    arguments = {
        "path": "港/tides.py",
        "text": 'def f():\n\treturn "x"\n',
        "deep": {"rows": [1, 2.5, None, True], "label": "x" * 80},
        "empty": "",
    }
    call = json.dumps({"name": "write_file", "arguments": arguments}, ensure_ascii=False)
    records = [
        {"id": "many/1", "text": f'<tool_call>{call}</tool_call><tool_call>{{"name": "f"}}</tool_call>'},
        {"id": "many/2", "text": "bell \x07, escape \x1b[31m, reversed \u202etxt, lone \ud800"},
        {"id": "many/3", "text": '{"name": "book_ferry"}', "tools": TOOLS},
        {"id": "many/4", "text": CALL, "tools": [{"name": "other", "parameters": {}}]},
        {"id": "many/5", "text": '<tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>'},
        {"id": "many/6", "text": ""},
    ]
    file = write("many.jsonl", "\n".join(json.dumps(record) for record in records))
    ran = run(*PARSE, "-f", "pretty", file)
    assert ran.code == 1
    assert ran.out == snapshot
    assert ran.err == "6 records, 4 calls\n"


def test_colours(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pretty = (*PARSE, "-f", "pretty")
    plain = run(*pretty, stdin=TEXT).out
    assert "\x1b" not in plain
    coloured = run(*pretty, "--color", "always", stdin=TEXT).out
    assert "\x1b[" in coloured
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run(*pretty, stdin=TEXT).out == coloured
    assert run(*pretty, "--color", "never", stdin=TEXT).out == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(*pretty, stdin=TEXT).out == plain


def test_json_is_one_array(run: Run, write: Write) -> None:
    file = write("a.jsonl", json.dumps({"text": TEXT}) + "\n\n" + json.dumps({"text": "x"}) + "\n")
    assert [each["content"] for each in run(*PARSE, "-f", "json", file).json] == [
        "Booking — 満潮 at noon.",
        "x",
    ]
    assert run(*PARSE, "-f", "json", write("none.jsonl", "")).json == []


def test_openai_and_anthropic(run: Run) -> None:
    (line,) = run(*PARSE, "-f", "openai", stdin=TEXT).lines
    assert line["tool_calls"][0]["function"] == {
        "name": "book_ferry",
        "arguments": '{"port": "Oban", "seats": 3}',
    }
    ran = run(*PARSE, "-f", "anthropic", stdin=CUT)
    assert [block["type"] for block in ran.lines[0]["content"]] == ["text", "tool_use"]
    assert ran.lines[0]["stop_reason"] == "max_tokens"
    assert (ran.code, ran.err) == (1, "<stdin>: call 0 (book_ferry) is incomplete\n")
    assert run(*PARSE, "-f", "anthropic", stdin=TEXT).lines[0]["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    ("told", "finish"), [({}, None), ({"finish_reason": "length"}, "length"), ({"finish_reason": "stop"}, "stop")]
)
@pytest.mark.parametrize("shape", ["jsonl", "events"])
def test_a_finish_reason_is_not_made_up(told: dict[str, str], finish: str | None, shape: str, run: Run) -> None:
    ran = run(*PARSE, "-f", shape, "--input", "jsonl", stdin=json.dumps({"text": "Hi.", **told}))
    assert ran.lines[-1]["finish"] == finish


def test_the_prompt_of_a_record(run: Run, write: Write) -> None:
    opened = "<|im_start|>assistant\n<think>\n"
    record = {"text": "Hm.</think>Yes.", "prompt": opened}
    lines = [record, {**record, "prompt": "Hi"}, {**record, "prompt": [1]}, {**record, "starts_in": "content"}]
    file = write("a.jsonl", "\n".join(map(json.dumps, lines)))
    first, *others = run("parse", "-m", "qwen3", file).lines
    assert (first["reasoning"], first["content"]) == ("Hm.", "Yes.")
    assert [each["reasoning"] for each in others] == [None, None, None]
    hi = write("hi.txt", "Hi")
    assert run("parse", "-m", "qwen3", "--prompt", hi, file).lines[0]["reasoning"] is None


def test_events(run: Run) -> None:
    lines = run(*PARSE, "-f", "events", "--chunk", "whole", stdin=TEXT).lines
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert {line["v"] for line in lines} == {1}
    types = [line["type"] for line in lines]
    assert types[:3] == ["reasoning", "content", "call_start"]
    assert types[-2:] == ["call_end", "end"]
    assert set(types[3:-2]) == {"call_arguments"}
    assert "".join(line.get("delta", "") for line in lines) == '{"port": "Oban", "seats": 3}'
    assert lines[-1] == {
        "v": 1,
        "type": "end",
        "seq": len(lines) - 1,
        "finish": None,
        "unfinished": False,
        "tail": "",
        "record": {"file": "<stdin>"},
    }


@pytest.mark.parametrize("chunk", ["1", "3", "char", "whole", "recorded", "random:3", "random"])
def test_any_cut_gives_the_same_message(chunk: str, run: Run) -> None:
    assert run(*PARSE, "--chunk", chunk, stdin=TEXT).out == run(*PARSE, stdin=TEXT).out


def test_jsonl_fields(run: Run, write: Write) -> None:
    records = [
        {"id": 7, "text": "a", "raw": "no"},
        {"raw": "b"},
        {"output": "c"},
        {"content": "d"},
        {"chunks": ["e", "f"]},
        {"chunks": [["g", "h"], ["gh"]]},
        {"text": "i", "chunks": ["other"]},
    ]
    file = write("a.jsonl", "\r\n".join(json.dumps(record) for record in records))
    ran = run(*PARSE, file)
    assert [line["content"] for line in ran.lines] == ["a", "b", "c", "d", "ef", "gh", "i"]
    assert ran.lines[0]["record"] == {"file": "a.jsonl", "line": 1, "id": "7"}
    assert ran.err == "a.jsonl:7: the recorded chunks do not join to the text; it is fed whole\n"
    events = run(*PARSE, "-f", "events", file).lines
    assert [line["text"] for line in events if line["type"] == "content"][4:8] == ["e", "f", "g", "h"]


def test_a_field_by_name_or_path(run: Run, write: Write) -> None:
    record = {"a.b": "dotted", "choices": [{"message": {"content": "deep"}}], "text": "default"}
    file = write("a.jsonl", json.dumps(record))
    assert run(*PARSE, "--field", "a.b", file).lines[0]["content"] == "dotted"
    assert run(*PARSE, "--field", "choices.0.message.content", file).lines[0]["content"] == "deep"


def test_what_a_record_says_about_itself(run: Run, write: Write) -> None:
    records = [
        {"text": CALL, "format": "hermes", "model": "unknown-9b", "tools": [{"name": "other"}]},
        {"text": "so.</think>Yes.", "model": "Qwen/Qwen2.5-7B-Instruct", "starts_in": "reasoning"},
    ]
    first, second = run("parse", write("a.jsonl", "\n".join(map(json.dumps, records)))).lines
    assert (first["grammar"], first["calls"][0]["known"]) == ("hermes", False)
    assert (second["grammar"], second["reasoning"], second["content"]) == ("hermes", "so.", "Yes.")
    ran = run("parse", "--tools", write("t.json", json.dumps(TOOLS)), "--start", "content", "a.jsonl")
    assert ran.lines[0]["calls"][0]["known"] is True
    assert ran.lines[1]["reasoning"] is None


def test_a_prompt_decides_where_the_output_starts(run: Run, write: Write) -> None:
    prompt = write("p.txt", "<|im_start|>assistant\n<think>\n")
    (line,) = run(*PARSE, "--prompt", prompt, stdin="so.</think>Yes.").lines
    assert (line["reasoning"], line["content"]) == ("so.", "Yes.")


def test_a_grammar_of_ones_own(run: Run, mine: str, write: Write) -> None:
    text = "See <call>f:{}</call>"
    (line,) = run("parse", "--grammar", mine, stdin=text).lines
    assert (line["grammar"], line["content"], line["calls"][0]["name"]) == ("mine", "See ", "f")
    with open(mine, encoding="utf-8") as file:
        other = write("mine.txt", file.read())
    assert run("parse", "--grammar", other, stdin=text).lines[0]["calls"][0]["name"] == "f"


def test_repair_can_be_turned_off(run: Run) -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>'
    (line,) = run(*PARSE, stdin=text).lines
    assert (line["calls"][0]["status"], line["diagnostics"][0]["code"]) == ("complete", "W201")
    assert line["diagnostics"][0].keys() == {"code", "severity", "message", "span"}
    ran = run(*PARSE, "--no-repair", stdin=text)
    assert (ran.code, ran.lines[0]["calls"][0]["status"]) == (1, "malformed")
    assert ran.lines[0]["calls"][0]["arguments"] is None


def test_output_file(run: Run, write: Write) -> None:
    ran = run(*PARSE, "-o", "out.jsonl", stdin=TEXT)
    assert (ran.code, ran.out) == (0, "")
    with open("out.jsonl", encoding="utf-8") as file:
        assert json.loads(file.read())["content"] == "Booking — 満潮 at noon."


def test_a_lone_surrogate_goes_through(run: Run, write: Write) -> None:
    call = '<tool_call>{\\"name\\": \\"f\\", \\"arguments\\": {\\"x\\": \\"\\ud801\\"}}</tool_call>'
    file = write("a.jsonl", f'{{"text": "a \\udfff b{call}"}}')
    for shape in ("jsonl", "json", "openai", "anthropic", "events", "pretty"):
        ran = run(*PARSE, "-f", shape, file)
        assert ran.code == 0, ran
        assert "\\udfff" in ran.out
        assert "\\ud801" in ran.out
    assert json.loads(run(*PARSE, file).out)["content"] == "a \udfff b"


def test_numbers_beyond_json_do_not_break_the_output(run: Run) -> None:
    text = '<tool_call>{"name": "f", "arguments": {"x": 1e999, "y": 123456789012345678901234567890}}</tool_call>'
    (call,) = run(*PARSE, stdin=text).lines[0]["calls"]
    assert call["arguments"] == {"x": "Infinity", "y": 123456789012345678901234567890}
    assert call["arguments_raw"] == '{"x": 1e999, "y": 123456789012345678901234567890}'


def test_a_byte_order_mark_is_no_part_of_jsonl(run: Run, write: Write) -> None:
    assert run(*PARSE, write("a.jsonl", b'\xef\xbb\xbf{"text": "x"}')).lines[0]["content"] == "x"


def test_line_ends_of_a_text_are_kept(run: Run, write: Write) -> None:
    assert run(*PARSE, write("a.txt", b"one\r\ntwo\r")).lines[0]["content"] == "one\r\ntwo\r"


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [("malformed,incomplete,unknown", 1), ("incomplete", 1), ("malformed", 0), ("none", 0)],
)
def test_fail_on(fail_on: str, code: int, run: Run) -> None:
    assert run(*PARSE, "--fail-on", fail_on, stdin=CUT).code == code


def test_fail_on_unknown(run: Run, write: Write) -> None:
    tools = write("t.json", '[{"name": "other", "input_schema": {"type": "object"}}]')
    assert run(*PARSE, "--tools", tools, stdin=CALL).code == 1
    assert run(*PARSE, "--tools", tools, "--fail-on", "malformed", stdin=CALL).code == 0
