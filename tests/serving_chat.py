"""For tests of the chat layer: a model on a scripted engine, and answers folded from what a sink hears."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from serving_models import CHATML
from serving_text_sinks import Listener, ScriptedClient
from toolgrammar_serving.chat import ChatFinish, ChatModel, ChatRequest, Generation, PreparedChat
from toolgrammar_serving.llm import LLM, ModelDefaults
from toolgrammar_serving.protocol.wire import ABORTED, LENGTH, REPETITION, STOP
from toolgrammar_serving.text import ByteTokenizer, TextModel

from toolgrammar import CallArguments, CallEnd, CallStart, Content, Diagnostic, Message, Reasoning

MARKERS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
SET_LAMP = {
    "type": "function",
    "function": {
        "name": "set_lamp",
        "description": "Switch a lamp.",
        "parameters": {
            "type": "object",
            "properties": {"room": {"type": "string"}, "on": {"type": "boolean"}},
            "required": ["room"],
        },
    },
}
USER = {"role": "user", "content": "Hi"}
FINISH = {"stop": STOP, "length": LENGTH, "abort": ABORTED, "repetition": REPETITION}


def fixed(prompt: str) -> str:
    """A template that always says ``prompt``, to its last line feed."""
    return "{{ " + repr(prompt) + " }}"


class Chat:
    """A chat model whose engine says what a test tells it to."""

    def __init__(self, format: str = "hermes", *, markers: tuple[str, ...] = MARKERS, **options: Any) -> None:
        self.client = ScriptedClient()
        self.tokenizer = ByteTokenizer(markers, eos=markers[1] if len(markers) > 1 else None)
        defaults = ModelDefaults(eos_token_id=self.tokenizer.eos_token_id, max_model_len=1 << 20)
        options = {"template": CHATML, **options}
        self.model = ChatModel(TextModel(LLM(self.client, defaults), self.tokenizer), format=format, **options)

    def prepare(self, request: ChatRequest) -> PreparedChat:
        return asyncio.run(self.model.prepare(request))

    def start(self, request: ChatRequest) -> tuple[Generation, list[Listener]]:
        listeners = [Listener() for _ in range(request.n)]
        return self.model.start(self.prepare(request), listeners), listeners

    def send(self, step: list[str] | str, *, index: int = 0, finish: str | None = None) -> None:
        """One step, its tokens by their texts: as an engine's output, where ``finish`` comes with the last."""
        text = step if isinstance(step, str) else "".join(step)
        self.client.send(
            self.tokenizer.encode(text), index=index, finish=None if finish is None else FINISH[finish]
        )

    def answer(self, request: ChatRequest, steps: list[Any], finish: str = "stop") -> Answer:
        """The answer to ``steps``."""
        first = len(self.client.requests)
        _, (listener,) = self.start(request)
        for number, step in enumerate(steps):
            self.send(step, index=first, finish=finish if number == len(steps) - 1 else None)
        return Answer.of(listener)

    @property
    def sent(self) -> Any:
        """The last request at the engine."""
        return self.client.requests[-1]


class Answer(msgspec.Struct):
    """What a client would see. ``calls``: name and arguments' text."""

    reasoning: str | None
    content: str | None
    calls: list[tuple[str, str]]
    finish: str
    stop_reason: int | str | None = None

    @classmethod
    def of(cls, listener: Listener) -> Answer:
        """From the events of a stream, which must keep the rules of streams; equal to its message, if it has
        one."""
        events = [event for what, *pushed in listener.heard if what == "push" for event in pushed[0]]
        end = listener.end
        assert isinstance(end, ChatFinish), end
        found = cls(*folded(events), end.reason, end.stop_reason)
        if end.message is not None:
            assert cls(*of_message(end.message), end.reason, end.stop_reason) == found
            assert end.message.finish == end.reason
        return found


def folded(events: list[Any]) -> tuple[str | None, str | None, list[tuple[str, str]]]:
    reasoning = content = ""
    calls: list[list[str]] = []
    ids: set[str] = set()
    ended: set[int] = set()
    for event in events:
        match event:
            case Reasoning(text):
                assert text
                reasoning += text
            case Content(text):
                assert text
                content += text
            case CallStart(index, id_, name):
                assert index == len(calls) and name and id_ and id_ not in ids
                ids.add(id_)
                calls.append([name, ""])
            case CallArguments(index, delta):
                assert delta and index == len(calls) - 1 and index not in ended
                calls[index][1] += delta
            case CallEnd(index):
                assert index == len(calls) - 1 and index not in ended
                ended.add(index)
            case Diagnostic():
                pass
            case _:
                raise AssertionError(event)
    assert len(ended) == len(calls)
    return reasoning or None, content or None, [(name, text) for name, text in calls]


def of_message(message: Message) -> tuple[str | None, str | None, list[tuple[str, str]]]:
    return message.reasoning, message.content, [(call.name, call.arguments_raw) for call in message.calls]


def request(**fields: Any) -> ChatRequest:
    """A request with one tool; ``tools=None`` for none."""
    given: dict[str, Any] = {"messages": [USER], "tools": [SET_LAMP], **fields}
    return ChatRequest("r", **given)
