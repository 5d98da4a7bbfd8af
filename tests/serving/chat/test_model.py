"""The layer's face: which format, what goes down, special tokens as themselves."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from serving_chat import MARKERS, SET_LAMP, USER, Answer, Chat, fixed, request
from serving_models import CHATML, byte_level
from serving_text_sinks import Listener, ScriptedClient
from toolgrammar_serving.chat import ChatModel, ChatRequest, Sampling
from toolgrammar_serving.chat.formats import grammar_for
from toolgrammar_serving.llm import LLM, ModelDefaults
from toolgrammar_serving.text import TextModel, load_tokenizer

from toolgrammar import Content
from toolgrammar.errors import UnknownModelError

HARMONY = ("<|start|>", "<|return|>", "<|end|>", "<|call|>", "<|channel|>", "<|message|>", "<|constrain|>")


# ---- which format --------------------------------------------------------------------------------------------


def test_auto_looks_at_the_directory(tmp_path: Path) -> None:
    coder = "{% for tool in tools %}<function={{ tool.name }}><parameter=x>{% endfor %}"
    assert grammar_for("auto", byte_level(tmp_path / "a", template=coder)).name == "qwen3-coder"
    # The operator's template goes first.
    folder = byte_level(tmp_path / "b", template=coder)
    assert grammar_for("auto", folder, "<｜DSML｜tool_calls>").name == "deepseek-v4"


def test_names_of_peers() -> None:
    assert grammar_for("qwen3_xml").name == "qwen3-coder"
    assert grammar_for("openai").name == "harmony"
    assert grammar_for("none").name == "identity"
    with pytest.raises(UnknownModelError):
        grammar_for("no-such-format")


def test_an_unknown_model_is_plain_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "model").mkdir()
    with caplog.at_level(logging.WARNING):
        assert grammar_for("auto", tmp_path / "model").name == "identity"
    assert "no format is known" in caplog.text
    assert grammar_for("auto").name == "identity"


def test_plain_text_is_shown_as_it_is() -> None:
    text = 'Hm</think> <tool_call>{"name": "set_lamp"}</tool_call>'
    assert Chat("none").answer(request(), [text]) == Answer(None, text, [], "stop")


def test_a_whole_model_directory(tmp_path: Path) -> None:
    folder = byte_level(tmp_path / "model", template=CHATML)
    client, tokenizer = ScriptedClient(), load_tokenizer(folder)
    model = ChatModel(TextModel(LLM(client, ModelDefaults.load(folder)), tokenizer), directory=folder)
    listener = Listener()
    prepared = asyncio.run(model.prepare(request()))
    model.start(prepared, [listener])
    assert model.format.name == "hermes"
    assert tokenizer.decode(client.requests[0].prompt_token_ids, skip_special_tokens=False) == prepared.prompt
    for id_ in tokenizer.encode(
        'Ok. <tool_call>\n{"name": "set_lamp", "arguments": {"room": "Flur"}}\n</tool_call>'
    ):
        client.send([id_])
    client.send([ModelDefaults.load(folder).eos_token_id or 0], finish=0)
    assert Answer.of(listener) == Answer(None, "Ok. ", [("set_lamp", '{"room": "Flur"}')], "tool_calls")


def test_what_is_held_is_known() -> None:
    chat = Chat()
    prepared = chat.prepare(request(n=2))
    chat.model.start(prepared, [Listener(), Listener()])
    assert prepared.held == 0
    chat.send("Ok <tool", index=0)
    chat.send("A <", index=1)
    assert prepared.held == len("<tool") + len("<")


# ---- special tokens ------------------------------------------------------------------------------------------


def harmony(**options: Any) -> Chat:
    return Chat("harmony", markers=HARMONY, template="<|start|>assistant", **options)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_special_tokens_are_markers_and_their_spelling_is_text(stream: bool, size: int) -> None:
    chat = harmony()
    encode = chat.tokenizer.encode
    ids = encode("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>a ")
    ids += list(b"<|end|>") + encode(" b<|end|><|start|>assistant<|channel|>commentary to=functions.set_lamp")
    ids += encode('<|message|>{"room": "x"}<|call|>')
    _, (listener,) = chat.start(request(stream=stream, spans=True))
    for at in range(0, len(ids), size):
        chat.client.send(ids[at : at + size])
    chat.client.send([], finish=0)
    assert Answer.of(listener) == Answer("Hm.", "a <|end|> b", [("set_lamp", '{"room": "x"}')], "tool_calls")
    message = listener.end.message
    raw = chat.tokenizer.decode(ids, skip_special_tokens=False)
    assert [raw[start:end] for start, end, kind in message.spans if kind in ("reasoning", "content")] == [
        "Hm.", "a <|end|> b",
    ]  # fmt: skip


def test_special_tokens_of_no_format_are_not_shown() -> None:
    chat = Chat("hermes", markers=(*MARKERS, "<|image_pad|>"))
    assert chat.answer(request(), ["a<|image_pad|>b"]) == Answer(None, "ab", [], "stop")
    shown = request(skip_special_tokens=False)
    assert chat.answer(shown, ["a<|image_pad|>b"]) == Answer(None, "a<|image_pad|>b", [], "stop")


def test_an_endless_output_goes_on_behind_the_end_of_a_turn() -> None:
    asked = request(sampling=Sampling(ignore_eos=True, max_tokens=9))
    assert Chat().answer(asked, ["a<|im_end|>b"], "length") == Answer(None, "ab", [], "length")


def test_a_stop_string_that_is_a_special_token() -> None:
    chat = harmony()
    _, (listener,) = chat.start(request(stop=["<|constrain|>"]))
    chat.send("<|channel|>final<|message|>a<|constrain|>b")
    assert Answer.of(listener) == Answer(None, "a", [], "stop", "<|constrain|>")


# ---- where an answer begins ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "text", "right"),
    [
        ("<|im_start|>assistant\n<think>\n", "Hm.\n</think>\n\nYes.", ("Hm.", "Yes.")),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "Yes.", (None, "Yes.")),
        ("<|im_start|>assistant\n", "<think>\nHm.\n</think>\n\nYes.", ("Hm.", "Yes.")),
        ("<|im_start|>user\nSay <think><|im_end|>\n<|im_start|>assistant\n", "Yes.", (None, "Yes.")),
        ("User: Say <think><|im_end|>\nAssistant:", "Yes.", (None, "Yes.")),
        ("<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n", "Yes.", (None, "Yes.")),
    ],
)
def test_the_prompt_says_where(prompt: str, text: str, right: tuple[str | None, str]) -> None:
    answer = Chat(template=fixed(prompt)).answer(request(), list(text))
    assert (answer.reasoning, answer.content) == right


def test_a_continued_message_goes_on_as_content() -> None:
    talk = [USER, {"role": "assistant", "content": "Sure, "}]
    chat = Chat()
    asked = request(messages=talk, tools=None, continue_final_message=True, add_generation_prompt=False)
    assert chat.answer(asked, ["here."]) == Answer(None, "here.", [], "stop")
    prompt = chat.tokenizer.decode(chat.sent.prompt_token_ids, skip_special_tokens=False)
    assert prompt.endswith("<|im_start|>assistant\nSure, ")


# ---- what goes down ------------------------------------------------------------------------------------------


def test_what_the_engine_is_asked_for() -> None:
    chat = Chat(template_kwargs={"enable_thinking": False})
    chat.start(
        request(
            sampling=Sampling(temperature=0.5, max_tokens=7, seed=3),
            n=2,
            priority=4,
            cache_salt="salt",
            data_parallel_rank=1,
            trace_headers={"traceparent": "x"},
            session_id="s",
        )
    )
    first, second = chat.client.requests
    for number, sent in enumerate((first, second)):
        assert (sent.external_req_id, sent.priority, sent.cache_salt, sent.session_id) == ("r", 4, "salt", "s")
        assert (sent.data_parallel_rank, sent.trace_headers) == (1, {"traceparent": "x"})
        assert sent.sampling_params is not None
        assert (sent.sampling_params.temperature, sent.sampling_params.max_tokens) == (0.5, 7)
        assert sent.sampling_params.seed == 3 + number
    prompt = chat.tokenizer.decode(first.prompt_token_ids or [], skip_special_tokens=False)
    assert prompt.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_equal_tools_are_one_set() -> None:
    chat = Chat()
    copies = [[dict(SET_LAMP)], [dict(SET_LAMP)]]
    one, other = (chat.prepare(request(tools=tools)) for tools in copies)
    assert one.plan.tools is other.plan.tools
    copies[0][0]["function"] = {"name": "changed"}
    assert one.plan.tools.names == ("set_lamp",)


def test_logprobs_come_with_what_they_belong_to() -> None:
    chat = Chat()
    _, (listener,) = chat.start(ChatRequest("r", [USER]))
    chat.send("a")
    chat.send("<tool")
    chat.send("s", finish="stop")
    assert [(pushed[0], pushed[1]) for what, *pushed in listener.heard if what == "push"] == [
        ([Content("a", 0, 1)], [97]),
        ([], list(b"<tool")),
        ([Content("<tools", 1, 7)], [115]),
    ]
