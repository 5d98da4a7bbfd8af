"""Faults of other servers, as far as they are this layer's: each with the engine's steps and the right answer.

Every answer is asked for streamed and whole; ``Answer.of`` holds the message against the events.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from serving_chat import SET_LAMP, USER, Answer, Chat, request
from toolgrammar_serving.chat import ChatRequest, ToolChoice

BOTH = pytest.mark.parametrize("stream", [True, False])
NAMED = ToolChoice("named", ("set_lamp",))


def called(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


@BOTH
@pytest.mark.parametrize("named_finish", ["tool_calls", "stop"])
def test_named_choice_finish(stream: bool, named_finish: Any) -> None:
    chat = Chat(named_finish=named_finish)
    steps = [['{"room"'], [': "hall"', ', "on": true'], ["}"]]
    answer = chat.answer(request(tool_choice=NAMED, stream=stream), steps)
    assert answer == Answer(None, None, [("set_lamp", '{"room": "hall", "on": true}')], named_finish)


@BOTH
def test_length_beats_tool_calls(stream: bool) -> None:
    steps = [["<tool_call>"], ['\n{"name": "set_lamp", '], ['"arguments": {"room": "ha']]
    answer = Chat().answer(request(stream=stream), steps, "length")
    assert answer == Answer(None, None, [("set_lamp", '{"room": "ha')], "length")


@BOTH
def test_length_beats_whole_calls_too(stream: bool) -> None:
    whole = called("set_lamp", '{"room": "x"}')
    answer = Chat().answer(request(stream=stream), [whole, whole, '<tool_call>\n{"name": "set_'], "length")
    assert answer == Answer(None, None, [("set_lamp", '{"room": "x"}')] * 2, "length")


@BOTH
def test_a_cut_call_at_a_natural_stop_is_no_tool_calls(stream: bool) -> None:
    answer = Chat().answer(request(stream=stream), ['<tool_call>{"name": "set_lamp", "arguments": {"room": "ha'])
    assert answer == Answer(None, None, [("set_lamp", '{"room": "ha')], "stop")


@BOTH
def test_finish_on_empty_last_delta(stream: bool) -> None:
    steps = [
        ["Plan.", "</think>"],
        ['<tool_call>\n{"name": "set_lamp", "arguments": {"room": "x"}}\n</tool_call>'],
        ["<|im_end|>"],
    ]
    answer = Chat().answer(request(stream=stream, start="reasoning"), steps)
    assert answer == Answer("Plan.", None, [("set_lamp", '{"room": "x"}')], "tool_calls")


@BOTH
def test_n2_tool_state(stream: bool) -> None:
    chat = Chat()
    _, (one, other) = chat.start(request(n=2, stream=stream))
    chat.send('<tool_call>\n{"name": "set_', index=0)
    chat.send("Just text, ", index=1)
    chat.send('lamp", "arguments": {"on"', index=0)
    chat.send('<tool_call>\n{"name": "set_lamp", "arguments": {"on": false}}', index=1)
    chat.send(": true}}\n</tool_call>", index=0, finish="stop")
    chat.send("\n</tool_call>", index=1, finish="stop")
    assert Answer.of(one) == Answer(None, None, [("set_lamp", '{"on": true}')], "tool_calls")
    assert Answer.of(other) == Answer(None, "Just text, ", [("set_lamp", '{"on": false}')], "tool_calls")


@BOTH
def test_concurrent_state(stream: bool) -> None:
    chat = Chat()
    _, (one,) = chat.start(request(stream=stream))
    _, (other,) = chat.start(request(stream=stream, start="reasoning"))
    for ours, theirs in [
        ("A <tool_call>", "I th"),
        ('{"name": "set_lamp", "argu', "ink.</thi"),
        ('ments": {"room": "x', "nk>Yes"),
        ('"}}</tool_call>', "."),
    ]:
        chat.send(ours, index=0)
        chat.send(theirs, index=1)
    chat.send("", index=0, finish="stop")
    chat.send("", index=1, finish="stop")
    assert Answer.of(one) == Answer(None, "A ", [("set_lamp", '{"room": "x"}')], "tool_calls")
    assert Answer.of(other) == Answer("I think.", "Yes.", [], "stop")


@BOTH
def test_stop_held_back(stream: bool) -> None:
    chat = Chat()
    _, (listener,) = chat.start(request(stream=stream, stop=["WXYZ"]))
    for step in ("a W", "X", "YZ b"):
        chat.send(step)
    assert Answer.of(listener) == Answer(None, "a ", [], "stop", "WXYZ")
    assert chat.client.aborted == [chat.sent.request_id]
    answer = Chat().answer(request(stream=stream, stop=["WXYZ"]), ["a W", "X", "-"])
    assert answer == Answer(None, "a WX-", [], "stop")


@BOTH
def test_stop_inside_reasoning(stream: bool) -> None:
    chat = Chat()
    _, (listener,) = chat.start(request(stream=stream, stop=["9.8"], start="reasoning"))
    for step in ("Compare 9.11 ", "and 9.", "8 now"):
        chat.send(step)
    assert Answer.of(listener) == Answer("Compare 9.11 and ", None, [], "stop", "9.8")


@BOTH
def test_a_character_of_two_tokens(stream: bool) -> None:
    chat = Chat()
    _, (listener,) = chat.start(request(stream=stream))
    for ids in ([0xF0, 0x9F], [0x8C, 0xBF], [0x20, 0x6F, 0x6B]):
        chat.client.send(ids)
    chat.send("", finish="stop")
    assert Answer.of(listener) == Answer(None, "🌿 ok", [], "stop")
    assert listener.pieces[0] == []


@BOTH
def test_engine_ends_request_early(stream: bool) -> None:
    assert Chat().answer(request(stream=stream), ["So", " far"], "abort") == Answer(None, "So far", [], "abort")


@BOTH
def test_engine_dies(stream: bool) -> None:
    chat = Chat()
    _, (listener,) = chat.start(request(stream=stream))
    chat.send("So")
    chat.client.die()
    assert [what for what, *_ in listener.heard] == ["push", "fail"]


@BOTH
def test_choice_none(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    chat = Chat()
    steps = ["Sure. ", called("set_lamp", '{"room": "x"}')]
    answer = chat.answer(request(stream=stream, tool_choice=ToolChoice("none")), steps)
    assert answer == Answer(None, "Sure. ", [], "stop")
    assert "set_lamp" not in chat.tokenizer.decode(chat.sent.prompt_token_ids)
    assert [record.getMessage() for record in caplog.records if "set_lamp" in record.getMessage()]


@BOTH
@pytest.mark.parametrize("arguments", ['{"room": "ha', "[1]", "", "null", '"x"', "no JSON"])
def test_history_bad_json(stream: bool, arguments: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "set_lamp", "arguments": arguments}}
    messages = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "bad arguments"},
        {"role": "user", "content": "Again"},
    ]
    asked = request(messages=messages, stream=stream)
    given = copy.deepcopy(messages)
    chat = Chat()
    assert chat.answer(asked, ["ok"]) == Answer(None, "ok", [], "stop")
    assert messages == given
    assert (arguments or "{}") in chat.tokenizer.decode(chat.sent.prompt_token_ids)


@BOTH
def test_two_calls_in_one_step(stream: bool) -> None:
    calls = [called("set_lamp", '{"room": "a"}'), called("set_lamp", '{"room": "b"}')]
    answer = Chat().answer(request(stream=stream), ["\n".join(calls)])
    assert answer.calls == [("set_lamp", '{"room": "a"}'), ("set_lamp", '{"room": "b"}')]
    assert answer.finish == "tool_calls"


@BOTH
def test_one_call_where_parallel_calls_are_not_wanted(stream: bool) -> None:
    calls = [called("set_lamp", '{"room": "a"}'), called("set_lamp", '{"room": "b"}')]
    answer = Chat().answer(request(stream=stream, parallel_tool_calls=False), ["\n".join(calls)])
    assert answer == Answer(None, None, [("set_lamp", '{"room": "a"}')], "tool_calls")


@BOTH
def test_reasoning_that_is_not_wanted(stream: bool) -> None:
    asked = request(stream=stream, start="reasoning", include_reasoning=False)
    assert Chat().answer(asked, ["I think.</think>", "Yes."]) == Answer(None, "Yes.", [], "stop")


@BOTH
def test_allowed_tools(stream: bool) -> None:
    other = {"type": "function", "function": {"name": "read_lamp", "parameters": {"type": "object"}}}
    asked = request(stream=stream, tools=[SET_LAMP, other], tool_choice=ToolChoice("auto", ("read_lamp",)))
    chat = Chat()
    calls = [called("set_lamp", "{}"), called("read_lamp", "{}")]
    assert chat.answer(asked, calls) == Answer(None, None, [("read_lamp", "{}")], "tool_calls")
    prompt = chat.tokenizer.decode(chat.sent.prompt_token_ids)
    assert "set_lamp" in prompt and "read_lamp" in prompt


def test_everything_reaches_the_sink_in_order() -> None:
    chat = Chat()
    _, (listener,) = chat.start(ChatRequest("r", [USER]))
    chat.send("a")
    chat.send("b", finish="stop")
    assert listener.ids == [97, 98]
