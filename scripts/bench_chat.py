"""What the chat layer costs: per push beside the parser alone, per prepared request beside its rendering.

python scripts/bench_chat.py            # from a checkout: PYTHONPATH=serving:tests
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from serving_chat import SET_LAMP, Chat, request

from toolgrammar import Parser

PUSHES = 200_000
REQUESTS = 300


class Deaf:
    """A sink that does nothing."""

    def push(self, events: Any, ids: Any, logprobs: Any) -> None: ...
    def finish(self, finish: Any) -> None: ...
    def fail(self, error: Any) -> None: ...


def each(work: Callable[[], Any], times: int) -> float:
    """Microseconds a call, the best of five runs."""
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(times):
            work()
        best = min(best, time.perf_counter() - begin)
    return best / times * 1e6


def pushes(chat: Chat, label: str, opened: str, text: str) -> None:
    prepared = chat.prepare(request())
    choice = chat.model._choice(prepared, prepared.parser, Deaf())
    bare = Parser(chat.model.format.name, [SET_LAMP])
    marks = chat.model.format.marks
    choice.push(marks.inward(opened), [1], None)
    bare.feed(opened)
    feed, push, ids = bare.feed, choice.push, [1]
    parser = each(lambda: feed(text), PUSHES // 5)
    whole = each(lambda: push(text, ids, None), PUSHES // 5)
    print(f"{label:34} parser {parser:5.2f} µs   push {whole:5.2f} µs   ours {whole - parser:5.2f} µs")


def prepared(chat: Chat, label: str, tools: list[Any]) -> None:
    asked = request(tools=tools)
    model = chat.model

    async def many() -> float:
        await model.prepare(asked)
        begin = time.perf_counter()
        for _ in range(REQUESTS):
            await model.prepare(asked)
        return (time.perf_counter() - begin) / REQUESTS * 1e6

    whole = min(asyncio.run(many()) for _ in range(3))
    prompt = model.prompt(asked)
    rendering = each(lambda: model.prompt(asked), REQUESTS // 5)
    encoding = each(lambda: chat.tokenizer.encode(prompt), REQUESTS // 5)
    rest = whole - rendering - encoding
    parts = f"rendering {rendering:6.0f}   encoding {encoding:6.0f}   rest {rest:5.0f}"
    print(f"{label:34} prepare {whole:6.0f} µs   {parts}")


def main() -> None:
    hermes = Chat()
    harmony = Chat(
        "harmony", markers=("<|start|>", "<|return|>", "<|channel|>", "<|message|>", "<|end|>"), template="x"
    )
    pushes(hermes, "content", "", "abcd")
    pushes(hermes, "content, not ASCII", "", "grün")
    pushes(hermes, "arguments", '<tool_call>{"name": "set_lamp", "arguments": {"room": "', "abcd")
    pushes(harmony, "content behind special tokens", "<|channel|>final<|message|>", "abcd")
    many = [
        {"type": "function", "function": {**SET_LAMP["function"], "name": f"tool_{i}", "description": "x" * 1500}}
        for i in range(24)
    ]
    prepared(hermes, "one tool", [SET_LAMP])
    prepared(hermes, "24 tools, 40 KB", many)


if __name__ == "__main__":
    main()
