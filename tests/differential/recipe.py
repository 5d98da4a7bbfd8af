"""deepseek-recipe: what DeepSeek's own encoder writes, and what its own parser reads."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from differential.turns import TOOLS, Turn


@dataclass(frozen=True)
class Encoding:
    """One of the peer's encodings in one thinking mode."""

    label: str
    format: str
    name: str
    model: str
    thinks: bool

    @property
    def start(self) -> str:
        return "reasoning" if self.thinks else "content"


ENCODINGS = [
    Encoding("v4", "deepseek-v4", "DeepseekV4Encoding", "DeepSeek-V4-Pro", True),
    Encoding("v4-chat", "deepseek-v4", "DeepseekV4Encoding", "DeepSeek-V4-Pro", False),
    Encoding("v4.1", "deepseek-v4.1", "DeepseekV41Encoding", "DeepSeek-V4.1-Flash", True),
    Encoding("v4.1-chat", "deepseek-v4.1", "DeepseekV41Encoding", "DeepSeek-V4.1-Flash", False),
]


def render(encoding: Encoding, turn: Turn) -> tuple[str, str]:
    """The prompt, and the turn up to and with its end token."""
    peer = importlib.import_module("deepseek_recipe")

    calls = [
        peer.ToolCall(str(index), name, json.dumps(arguments, ensure_ascii=False))
        for index, (name, arguments) in enumerate(turn.calls)
    ]
    reasoning = (turn.reasoning or "") if encoding.thinks else None
    user = peer.UserMessage("hi")
    assistant = peer.AssistantMessage(turn.content or "", reasoning, calls or None)
    tools = [peer.ToolDefinition(tool["name"], "", tool["parameters"]) for tool in TOOLS]
    prompt, whole = (
        getattr(peer, encoding.name)()
        .render_conversation(peer.Conversation(messages, thinking_mode=encoding.thinks, tools=tools))
        .prompt
        for messages in ([user], [user, assistant])
    )
    assert whole.startswith(prompt), "the peer's turn does not go on from its own prompt"
    end = "<｜end▁of▁sentence｜>"
    said, found, _ = whole[len(prompt) :].rpartition(end)
    return prompt, said + found


def read(encoding: Encoding, pieces: Iterable[str]) -> Turn:
    """What the peer's parser reads from a finished turn, given without its end token, as its engine does."""
    peer = importlib.import_module("deepseek_recipe")

    functions = [{"type": "function", "function": tool} for tool in TOOLS]
    body: dict[str, Any] = {
        "model": encoding.model,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": functions,
        "thinking": {"type": "enabled" if encoding.thinks else "disabled"},
    }
    request = peer.ChatCompletionRequest(body).convert(peer.ConversionOptions())
    generator = peer.ChatCompletionRequest.chunk_generator(request, "id", encoding.model)
    processor = peer.StreamProcessor(generator, request.parsing_options)
    response = peer.ChatCompletionResponse("id", encoding.model, 0, 0, 0)
    chunks = [peer.InferenceChunk.ready(), *(peer.InferenceChunk.text(piece, 1) for piece in pieces)]
    chunks.append(peer.InferenceChunk.finish(peer.InferenceFinishReason.Stop))
    for chunk in chunks:
        for event in processor.push(chunk):
            response.accumulate(event)
    for event in processor.finish():
        response.accumulate(event)
    message = json.loads(response.to_json())["choices"][0]["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
    return Turn(
        message.get("reasoning_content") or None,
        message.get("content") or None,
        tuple((name, json.loads(arguments)) for name, arguments in calls),
    )
