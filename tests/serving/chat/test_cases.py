"""Every case of the formats as tokens through text and chat layers: streamed and whole, one and several a step."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from serving_chat import USER, Answer, Chat
from toolgrammar_serving.chat import ChatRequest

from toolgrammar import Message, registry
from toolgrammar.testing import compare

CASES = Path(__file__).resolve().parents[3] / "fixtures" / "cases"


@functools.cache
def chat_of(name: str) -> Chat:
    """A model of the format; what it takes for control tokens are special tokens of the vocabulary."""
    grammar = registry.load(name)
    texts = {*grammar.stops, *grammar.skips, *grammar.tokens}
    markers = ("<|begin|>", *sorted(text for text in texts if text.startswith(("<|", "<｜"))), "<|over|>")
    return Chat(name, markers=(markers[0], markers[-1], *markers[1:-1]), template="x")


def cases(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def differs(case: dict[str, Any], message: Message) -> list[Any]:
    """What of the answer is not as the case says, and whether its spans are the text."""
    ends = [0, *(end for _, end, _ in message.spans)]
    starts = [*(start for start, _, _ in message.spans), len(case["text"])]
    return [*compare(case["expect"], message), *([] if starts == ends else [message.spans])]


@pytest.mark.parametrize("path", sorted(CASES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_cases(path: Path) -> None:
    wrong = []
    for case in cases(path):
        if case.get("soft"):
            continue
        chat = chat_of(case["format"])
        ids = chat.tokenizer.encode(case["text"])
        ways = []
        for stream, size in ((True, 1), (False, 1), (True, 7), (False, 1 << 20)):
            request = ChatRequest(
                "r", [USER], tools=case["tools"] or None, stream=stream, start=case["starts_in"], spans=True
            )
            first = len(chat.client.requests)
            _, (listener,) = chat.start(request)
            for at in range(0, len(ids), size):
                chat.client.send(ids[at : at + size], index=first)
            chat.client.send([], index=first, finish=0)
            ways.append(Answer.of(listener))
            if difference := differs(case, listener.end.message):
                wrong.append((case["id"], stream, size, difference))
        if any(way != ways[0] for way in ways):
            wrong.append((case["id"], ways))
    assert not wrong
