"""Text requests from end to end: a client without an engine, tokenizers of bytes and of a model directory."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
import serving_models
from serving_text_sinks import Listener, ScriptedClient
from toolgrammar_serving.errors import BadRequest, EngineLost, TooLong
from toolgrammar_serving.llm import LLM, Finish, Generation, ModelDefaults, Sampling, Usage
from toolgrammar_serving.protocol.arrays import Logprobs
from toolgrammar_serving.protocol.wire import LENGTH, STOP
from toolgrammar_serving.text import (
    Alternative,
    ByteTokenizer,
    TextModel,
    TextRequest,
    TokenLogprob,
    load_tokenizer,
)

END, CALL = 256, 257
TOKENIZER = ByteTokenizer(["<|im_end|>", "<|call|>"], eos="<|im_end|>")
DEFAULTS = ModelDefaults(eos_token_id=END, stop_token_ids=(CALL,), max_model_len=1000, vocab_size=258)


def model(client: ScriptedClient | None = None) -> tuple[TextModel, ScriptedClient]:
    client = client or ScriptedClient()
    return TextModel(LLM(client, DEFAULTS), TOKENIZER), client


def started(
    prompt: str | list[int] = "Hi", n: int = 1, **fields: Any
) -> tuple[ScriptedClient, Generation, list[Listener]]:
    text_model, client = model()
    listeners = [Listener() for _ in range(n)]
    prepared = asyncio.run(text_model.prepare(TextRequest("r", prompt, n=n, **fields)))
    return client, text_model.start(prepared, listeners), listeners


def send(client: ScriptedClient, *steps: bytes | list[int], index: int = 0, finish: int | None = None) -> None:
    for step in steps[:-1]:
        client.send(list(step), index=index)
    client.send(list(steps[-1]), index=index, finish=finish)


# ---- the recipes of public faults ---------------------------------------------------------------------------


def test_stop_held_back() -> None:
    client, _, (listener,) = started(stop=["WXYZ"])
    send(client, b"a W", b"X", b"YZ b")
    assert (listener.text, listener.end) == ("a ", Finish("stop", "WXYZ"))
    assert client.aborted == [client.requests[0].request_id]


def test_stop_held_back_and_not_found() -> None:
    client, _, (listener,) = started(stop=["WXYZ"])
    send(client, b"a W", b"X", [*b"-", END], finish=STOP)
    assert (listener.text, listener.end) == ("a WX-", Finish("stop"))
    assert client.aborted == []


def test_emoji_two_tokens() -> None:
    client, _, (listener,) = started()
    send(client, b"\xf0\x9f", b"\x8c\xbf", b" ok", [END], finish=STOP)
    assert listener.pieces == ["", "🌿", " ok"] and listener.end == Finish("stop")


def test_prompt_ends_mid_character() -> None:
    client, _, (listener,) = started([*b"Hello world \xe8\xb5"])
    send(client, b"\xb0", b"!", [END], finish=STOP)
    assert listener.pieces == ["走", "!"]


def test_two_sequences_share_nothing() -> None:
    client, generation, (first, second) = started(n=2, stop=["stop"])
    send(client, b"one st", index=0)
    send(client, b"two op", index=1)
    send(client, b"\xf0\x9f", index=0)
    send(client, b"op\xf0\x9f", index=1)
    send(client, b"\x8c\xbf", index=0)
    send(client, b"\x8c\xbf stop", index=1)
    send(client, b"!", index=0, finish=LENGTH)
    assert (first.text, first.end) == ("one st🌿!", Finish("length"))
    assert (second.text, second.end) == ("two opop🌿 ", Finish("stop", "stop"))
    assert client.aborted == [client.requests[1].request_id]
    assert generation.usage == Usage(2, 28)


def test_cancel() -> None:
    client, generation, (listener,) = started(stop=["stop"])
    send(client, b"one st")
    generation.abort()
    send(client, b"op", b"more", finish=LENGTH)
    assert listener.heard == [("push", "one ", [*b"one st"], None)]
    assert client.aborted == [client.requests[0].request_id]


# ---- ends ---------------------------------------------------------------------------------------------------


def test_half_a_character_at_the_end() -> None:
    client, _, (listener,) = started()
    send(client, b"a\xf0\x9f", finish=LENGTH)
    assert listener.pieces == ["a", "\ufffd"] and listener.end == Finish("length")


def test_a_stop_string_in_the_last_step_needs_no_abort() -> None:
    client, _, (listener,) = started(stop=["b"])
    send(client, b"abc", finish=LENGTH)
    assert (listener.text, listener.end, client.aborted) == ("a", Finish("stop", "b"), [])


def test_what_was_held_comes_at_the_end() -> None:
    client, _, (listener,) = started(stop=["bcd"], include_stop=True)
    send(client, b"ab", b"c", finish=LENGTH)
    assert listener.pieces == ["a", "", "bc"] and listener.end == Finish("length")


def test_stop_strings_are_included_if_asked_for() -> None:
    client, _, (listener,) = started(stop=["bc", "xyz"], include_stop=True)
    send(client, b"ab", b"cd")
    assert (listener.text, listener.end) == ("abc", Finish("stop", "bc"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "a"),
        ({"include_stop": True}, "a"),
        ({"include_stop": True, "skip_special_tokens": False}, "a<|call|>"),
        ({"skip_special_tokens": False}, "a"),
        ({"special_text": {CALL: "\udb80"}}, "a\udb80"),
        ({"special_text": {END: "\udb80"}}, "a"),
        ({"stop": ["x"], "special_text": {CALL: "\udb80"}}, "a\udb80"),
    ],
)
def test_the_token_that_ended_it(fields: dict[str, Any], expected: str) -> None:
    client, generation, (listener,) = started(**fields)
    client.send([97, CALL], finish=STOP, stop_reason=CALL)
    assert (listener.text, listener.ids, listener.end) == (expected, [97], Finish("stop", CALL))
    assert generation.usage == Usage(2, 2)


def test_the_main_end_of_sequence_as_text() -> None:
    client, _, (listener,) = started(special_text={END: "\udb80"})
    client.send([97, END], finish=STOP)
    assert (listener.text, listener.end) == ("a\udb80", Finish("stop"))
    client, _, (listener,) = started(special_text={END: "\udb80"})
    client.send([97], finish=LENGTH)
    assert listener.text == "a"


def test_no_stop_string_ends_before_so_many_tokens() -> None:
    client, _, (listener,) = started(stop=["b"], sampling=Sampling(min_tokens=3))
    send(client, b"ab", b"ba", b"xb!")
    assert (listener.text, listener.end) == ("abbax", Finish("stop", "b"))


def test_the_engine_dies() -> None:
    for fields in ({}, {"stop": ["x"]}):
        client, _, (listener,) = started(**fields)
        send(client, b"a")
        client.die()
        assert listener.text == "a" and type(listener.end) is EngineLost


# ---- numbers ------------------------------------------------------------------------------------------------


def test_logprobs_have_texts() -> None:
    client, generation, (listener,) = started("Hé", stop=["!"], sampling=Sampling(logprobs=1, prompt_logprobs=0))
    numbers = Logprobs([[0xC3, 97], [0xA9, END]], [[-0.5, -0.25], [-0.75, -1.0]], [2, 1])
    prompt = Logprobs([[0xC3], [0xA9]], [[-1.0], [-2.0]], [1, 1])
    client.send([0xC3, 0xA9], new_logprobs=numbers, new_prompt_logprobs_tensors=prompt)
    client.send([33], new_logprobs=Logprobs([[33, 34]], [[-3.0, -4.0]], [1]))
    assert listener.heard == [
        (
            "push",
            "é",
            [0xC3, 0xA9],
            [
                TokenLogprob(Alternative(0xC3, "\ufffd", b"\xc3", -0.5), 2, [Alternative(97, "a", b"a", -0.25)]),
                TokenLogprob(
                    Alternative(0xA9, "\ufffd", b"\xa9", -0.75),
                    1,
                    [Alternative(END, "<|im_end|>", b"<|im_end|>", -1.0)],
                ),
            ],
        ),
        (
            "push",
            "",
            [33],
            [TokenLogprob(Alternative(33, "!", b"!", -3.0), 1, [Alternative(34, '"', b'"', -4.0)])],
        ),
        ("finish", Finish("stop", "!")),
    ]
    assert model()[0].prompt_logprobs(generation) == [
        None,
        TokenLogprob(Alternative(0xC3, "\ufffd", b"\xc3", -1.0), 1, []),
        TokenLogprob(Alternative(0xA9, "\ufffd", b"\xa9", -2.0), 1, []),
    ]


# ---- prompts ------------------------------------------------------------------------------------------------


def prepared(prompt: str | list[int], **fields: Any) -> Any:
    text_model, _ = model()
    return asyncio.run(text_model.prepare(TextRequest("r", prompt, **fields)))


def test_a_prompt_is_encoded() -> None:
    assert prepared("é<|call|>").prompt_token_ids == [0xC3, 0xA9, CALL]
    assert prepared([1, 2]).generate.prompt_token_ids == [1, 2]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"truncate_prompt_tokens": 3}, b"cde"),
        ({"truncate_prompt_tokens": 3, "truncation_side": "right"}, b"abc"),
        ({"truncate_prompt_tokens": 9}, b"abcde"),
        ({"truncate_prompt_tokens": -1}, b"abcde"),
    ],
)
def test_a_prompt_is_cut(fields: dict[str, Any], expected: bytes) -> None:
    assert prepared("abcde", **fields).prompt_token_ids == list(expected)


def test_a_prompt_is_cut_to_what_fits() -> None:
    cut = prepared("x" * 2000, truncate_prompt_tokens=-1, sampling=Sampling(max_tokens=100))
    assert len(cut.prompt_token_ids) == 900


@pytest.mark.parametrize(
    ("prompt", "fields", "kind", "param"),
    [
        ("", {}, BadRequest, "prompt"),
        ([], {}, BadRequest, "prompt"),
        ([5, 258], {}, BadRequest, "prompt"),
        ([-1], {}, BadRequest, "prompt"),
        ("a", {"stop": ["x", ""]}, BadRequest, "stop"),
        ("a", {"bad_words": [" "]}, BadRequest, "bad_words"),
        ("a", {"truncate_prompt_tokens": 0}, BadRequest, "truncate_prompt_tokens"),
        ("a", {"truncate_prompt_tokens": -2}, BadRequest, "truncate_prompt_tokens"),
        ("a", {"truncate_prompt_tokens": 1001}, TooLong, "truncate_prompt_tokens"),
        ("a" * 1000, {}, TooLong, "prompt"),
        ("a", {"sampling": Sampling(max_tokens=1000)}, TooLong, "max_tokens"),
        ("a", {"sampling": Sampling(temperature=-1.0)}, BadRequest, "temperature"),
        ("a", {"n": 0}, BadRequest, "n"),
    ],
)
def test_what_is_refused(
    prompt: str | list[int], fields: dict[str, Any], kind: type[Exception], param: str
) -> None:
    with pytest.raises(kind) as caught:
        prepared(prompt, **fields)
    assert caught.value.param == param


def test_bad_words_become_ids(tmp_path: Path) -> None:
    directory = serving_models.byte_level(tmp_path)
    tokenizer = load_tokenizer(directory)
    text_model = TextModel(LLM(ScriptedClient(), ModelDefaults.load(directory)), tokenizer)
    request = TextRequest("r", "a", sampling=Sampling(bad_words_token_ids=[[1]]), bad_words=["lamp", "\n"])
    with pytest.raises(BadRequest):
        asyncio.run(text_model.prepare(request))
    request.bad_words = ["lamp", " the lamp"]
    words = asyncio.run(text_model.prepare(request)).generate.sampling.bad_words_token_ids
    assert words is not None
    assert [tokenizer.decode(ids) for ids in words[1:]] == ["lamp", " lamp", "the lamp", " the lamp"]
    assert words[0] == [1] and request.sampling.bad_words_token_ids == [[1]]  # the request is as it was


def test_everything_else_is_passed_on() -> None:
    fields: dict[str, Any] = {
        "priority": 2,
        "cache_salt": "s",
        "data_parallel_rank": 1,
        "trace_headers": {"traceparent": "00"},
        "session_id": "x",
        "reasoning_ended": True,
        "reasoning_parser_kwargs": {"a": 1},
        "stream": False,
        "n": 2,
    }
    generate = prepared("a", **fields).generate
    assert {name: getattr(generate, name) for name in fields} == fields


def test_long_texts_are_encoded_off_the_loop(tmp_path: Path) -> None:
    directory = serving_models.byte_level(tmp_path)
    tokenizer = load_tokenizer(directory, fast=False)
    text_model = TextModel(LLM(ScriptedClient(), ModelDefaults.load(directory)), tokenizer)
    threads = []
    encode = tokenizer.encode

    def watched(text: str, *, add_special_tokens: bool = False) -> list[int]:
        threads.append(threading.current_thread())
        return encode(text, add_special_tokens=add_special_tokens)

    tokenizer.encode = watched  # type: ignore[method-assign]
    short, long = "the lamp", "the lamp is on. " * 400
    assert asyncio.run(text_model.encode(short)) == encode(short)
    assert asyncio.run(text_model.encode(long, add_special_tokens=True)) == encode(long)
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


def test_there_and_back() -> None:
    text_model, _ = model()
    assert text_model.decode([97, CALL]) == "a<|call|>"
    assert text_model.decode([97, CALL], skip_special_tokens=True) == "a"
    assert text_model.token_strings([97, CALL, 0xC3]) == ["a", "<|call|>", "\ufffd"]
    with pytest.raises(BadRequest, match="258 is no token id"):
        text_model.decode([1, 258, 3])
