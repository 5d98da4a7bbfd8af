"""Chat completions as the openai client sees them: both modes say the same, in every option."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from serving_http import Live, Script, Step, call, content, reasoning, serving
from toolgrammar_serving.chat import ChatFinish
from toolgrammar_serving.text import Alternative, TokenLogprob

from toolgrammar import Call, Content, Diagnostic, Message

MESSAGES: Any = [{"role": "user", "content": "x"}]
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("book_slot", "look")
]
ANSWER = [
    *reasoning("Think", "ing."),
    *content("Sure", ", \u2028 ", "ja 🌿."),
    *call(0, "book_slot", '{"hour"', ": 9}"),
    *call(1, "look"),
]


def client(live: Live) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{live.base}/v1", api_key="none", max_retries=0)


def joined(chunks: list[Any]) -> dict[int, dict[str, Any]]:
    """What a client makes of the chunks of a stream, by choice."""
    found: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        assert chunk.object == "chat.completion.chunk"
        for choice in chunk.choices:
            new: dict[str, Any] = {"content": "", "reasoning": "", "calls": [], "finish": None}
            one = found.setdefault(choice.index, new)
            delta = choice.delta.model_dump(exclude_unset=True)
            one["content"] += delta.get("content") or ""
            assert delta.get("reasoning") == delta.get("reasoning_content")
            one["reasoning"] += delta.get("reasoning") or ""
            assert "tool_calls" not in delta or delta["tool_calls"]
            for piece in delta.get("tool_calls", []):
                if piece["index"] == len(one["calls"]):
                    assert piece["id"] and piece["type"] == "function" and piece["function"]["name"]
                    one["calls"].append([piece["id"], piece["function"]["name"], piece["function"]["arguments"]])
                else:
                    assert piece.keys() == {"index", "function"} and piece["function"].keys() == {"arguments"}
                    one["calls"][piece["index"]][2] += piece["function"]["arguments"]
            if choice.finish_reason:
                assert one["finish"] is None
                one["finish"] = choice.finish_reason
    return found


def whole(response: Any) -> dict[int, dict[str, Any]]:
    """The same of an answer in one piece."""
    return {
        choice.index: {
            "content": choice.message.content or "",
            "reasoning": choice.message.reasoning or "",
            "calls": [[c.id, c.function.name, c.function.arguments] for c in choice.message.tool_calls or ()],
            "finish": choice.finish_reason,
        }
        for choice in response.choices
    }


@pytest.mark.parametrize("n", [1, 3])
def test_both_modes_say_the_same(n: int) -> None:
    with (
        serving(Script([ANSWER, content("only text")], ChatFinish("tool_calls", reasoning_tokens=2))) as live,
        client(live) as api,
    ):
        create = api.chat.completions.create
        options: Any = {"model": "m", "messages": MESSAGES, "tools": TOOLS, "n": n}
        streamed = list(create(stream=True, stream_options={"include_usage": True}, **options))
        answered = create(**options)
    first = {
        "content": "Sure, \u2028 ja 🌿.",
        "reasoning": "Thinking.",
        "calls": [["call_0", "book_slot", '{"hour": 9}'], ["call_1", "look", "{}"]],
        "finish": "tool_calls",
    }
    second = {"content": "only text", "reasoning": "", "calls": [], "finish": "tool_calls"}
    assert joined(streamed) == whole(answered) == dict(enumerate([first, second, first][:n]))
    assert [chunk.usage is not None for chunk in streamed] == [False] * (len(streamed) - 1) + [True]
    assert streamed[-1].choices == []
    assert streamed[-1].usage == answered.usage
    tokens = {1: 11, 3: 23}[n]
    assert answered.usage.model_dump(exclude_unset=True) == {
        "prompt_tokens": 11,
        "completion_tokens": tokens,
        "total_tokens": 11 + tokens,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2 * n},
    }


def test_the_client_library_s_own_stream_helper_reads_a_call() -> None:
    with (
        serving(Script([ANSWER], ChatFinish("tool_calls"))) as live,
        client(live) as api,
        api.chat.completions.stream(model="m", messages=MESSAGES, tools=TOOLS) as stream,
    ):
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        final = stream.get_final_completion()
    assert [(event.name, event.arguments) for event in done] == [("book_slot", '{"hour": 9}'), ("look", "{}")]
    assert [json.loads(c.function.arguments) for c in final.choices[0].message.tool_calls or ()] == [
        {"hour": 9},
        {},
    ]


def logprob(text: str, value: float, *others: tuple[str, float]) -> TokenLogprob:
    def alternative(text: str, value: float) -> Alternative:
        return Alternative(len(text), text, text.encode(), value)

    return TokenLogprob(alternative(text, value), 1, [alternative(*other) for other in others])


def test_logprobs_in_both_modes() -> None:
    steps = [
        Step(
            [Content("ab", 0, 2)], 2, logprobs=[logprob("a", -0.5, ("a", -0.5), ("é", -1.0)), logprob("b", -2.0)]
        ),
        Step([], 1, logprobs=[logprob("", float("-inf"))]),
    ]
    with serving(Script([steps])) as live, client(live) as api:
        options: Any = {"model": "m", "messages": MESSAGES, "logprobs": True, "top_logprobs": 2}
        chunks = list(api.chat.completions.create(stream=True, **options))
        answer = api.chat.completions.create(**options)
        request = live.stage.requests[0]
    assert request.sampling.logprobs == 2
    found = [choice.logprobs for chunk in chunks for choice in chunk.choices if choice.logprobs]
    entries = [entry.model_dump() for logprobs in found for entry in logprobs.content or ()]
    assert entries == [entry.model_dump() for entry in answer.choices[0].logprobs.content]
    assert [len(logprobs.content or ()) for logprobs in found] == [2, 1]
    assert entries == [
        {
            "token": "a",
            "logprob": -0.5,
            "bytes": [97],
            "top_logprobs": [
                {"token": "a", "logprob": -0.5, "bytes": [97]},
                {"token": "é", "logprob": -1.0, "bytes": [195, 169]},
            ],
        },
        {"token": "b", "logprob": -2.0, "bytes": [98], "top_logprobs": []},
        {"token": "", "logprob": -9999.0, "bytes": [], "top_logprobs": []},
    ]


def test_token_ids_and_counts_in_every_event() -> None:
    steps = [Step([Content("ab", 0, 2)], 2), Step([], 1), *content("c")]
    extra = {"return_token_ids": True}
    with serving(Script([steps])) as live, client(live) as api:
        options: Any = {"model": "m", "messages": MESSAGES, "extra_body": extra}
        streaming: Any = {
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        chunks = list(api.chat.completions.create(**options, **streaming))
        answer = api.chat.completions.create(**options)
    assert chunks[0].prompt_token_ids == answer.prompt_token_ids == list(range(11))
    ids = [chunk.choices[0].token_ids for chunk in chunks[1:-2]]
    assert ids == [[0, 1], [0], [0]]
    assert answer.choices[0].token_ids == [0, 1, 0, 0]
    assert [chunk.usage.completion_tokens for chunk in chunks[1:]] == [2, 3, 4, 4, 4]


def test_without_reasoning_nothing_of_it_is_told() -> None:
    steps = [Step([*reasoning("hm")[0].events], logprobs=[logprob("hm", -1.0)]), *content("yes")]
    extra = {"include_reasoning": False, "return_token_ids": True}
    with serving(Script([steps], ChatFinish("stop", reasoning_tokens=1))) as live, client(live) as api:
        options: Any = {"model": "m", "messages": MESSAGES, "logprobs": True, "extra_body": extra}
        chunks = [chunk.to_dict() for chunk in api.chat.completions.create(stream=True, **options)]
        answer = api.chat.completions.create(**options).to_dict()
    assert "hm" not in json.dumps(chunks) and "hm" not in json.dumps(answer)
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "yes"},
        {},
    ]
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "yes", "refusal": None}
    assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 1}


def test_content_is_null_beside_a_call_and_else_a_text() -> None:
    answers = {"call": call(0, "look"), "nothing": [], "reasoning": reasoning("hm")}
    with serving(lambda request: Script([answers[request.messages[0]["content"]]])) as live, client(live) as api:
        found = {
            name: api.chat.completions.create(model="m", messages=[{"role": "user", "content": name}])
            for name in answers
        }
    contents = {name: answer.choices[0].message.content for name, answer in found.items()}
    assert contents == {"call": None, "nothing": "", "reasoning": None}


def test_the_extension_has_spans_and_remarks() -> None:
    message = Message(
        "m",
        "hermes",
        None,
        "a",
        [Call(0, "i", "f", "{}", "complete", True, (1, 9))],
        [Diagnostic("W201", "trailing comma dropped", 3, 4)],
        False,
        "",
        [(0, 1, "content"), (1, 9, "call")],
    )
    expected = {
        "format": "hermes",
        "spans": [[0, 1, "content"], [1, 9, "call"]],
        "calls": [{"index": 0, "status": "complete", "known": True, "span": [1, 9]}],
        "diagnostics": [{"code": "W201", "severity": "info", "message": "trailing comma dropped", "span": [3, 4]}],
        "unfinished": False,
        "tail": "",
    }
    finish = ChatFinish("stop", message=message)
    with serving(Script([content("a")], finish)) as live, client(live) as api:
        for wanted, found in ((True, expected), ({"spans": True, "start": "content"}, expected), (False, None)):
            options: Any = {"model": "m", "messages": MESSAGES, "extra_body": {"toolgrammar": wanted}}
            chunks = list(api.chat.completions.create(stream=True, **options))
            answer = api.chat.completions.create(**options)
            extensions = [getattr(chunk.choices[0], "toolgrammar", None) for chunk in chunks]
            assert extensions == [None] * (len(chunks) - 1) + [found]
            assert getattr(answer.choices[0], "toolgrammar", None) == found
        starts = [(request.start, request.spans) for request in live.stage.requests]
    assert starts == [("auto", True)] * 2 + [("content", True)] * 2 + [("auto", False)] * 2


def test_the_prompt_s_logprobs() -> None:
    with serving(Script([content("a")])) as live, client(live) as api:
        live.stage.prompt_positions = [None, logprob("bc", -1.0, ("d", -0.5))]
        answer: Any = api.chat.completions.create(model="m", messages=MESSAGES, extra_body={"prompt_logprobs": 1})
        (request,) = live.stage.requests
    assert request.sampling.prompt_logprobs == 1
    assert answer.prompt_logprobs == [
        None,
        {
            "1": {"logprob": -0.5, "rank": 1, "decoded_token": "d"},
            "2": {"logprob": -1.0, "rank": 1, "decoded_token": "bc"},
        },
    ]


def test_echo_begins_with_what_the_assistant_had_said() -> None:
    messages: Any = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "Once "}]
    extra = {"echo": True, "continue_final_message": True, "add_generation_prompt": False}
    with serving(Script([content("upon")])) as live, client(live) as api:
        chunks = list(api.chat.completions.create(model="m", messages=messages, stream=True, extra_body=extra))
        answer = api.chat.completions.create(model="m", messages=messages, extra_body=extra)
    assert joined(chunks)[0]["content"] == answer.choices[0].message.content == "Once upon"


def test_an_engine_that_ends_a_request_says_so_in_both_modes() -> None:
    with serving(Script([content("a")], ChatFinish("abort"))) as live, client(live) as api:
        chunks = list(api.chat.completions.create(model="m", messages=MESSAGES, stream=True))
        answer = api.chat.completions.create(model="m", messages=MESSAGES)
    assert chunks[-1].choices[0].finish_reason == answer.choices[0].finish_reason == "abort"
