"""Our prompts for DeepSeek V4 and V4.1 are those of DeepSeek's own encoder."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from toolgrammar_serving.chat import ChatRequest
from toolgrammar_serving.chat.renderers import renderer_of

pytest.importorskip("deepseek_recipe", reason="the peer is not installed: pip install '.[differential]'")

TOOL = {
    "type": "function",
    "function": {
        "name": "set_light",
        "description": "Switch <a> light.",
        "parameters": {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]},
    },
}
SYSTEM = {"role": "system", "content": "Be brief."}
ASKED = {"role": "user", "content": "Light!"}
MORE = {"role": "user", "content": "More ä!"}
SAID = {"role": "assistant", "content": "Done.", "reasoning_content": "Fine."}


def call(id_: str, arguments: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "set_light", "arguments": arguments}}


CALLED = {
    "role": "assistant",
    "content": None,
    "reasoning_content": "Two.",
    "tool_calls": [call("a", '{"room": "x", "level": 3, "at": [1, {"k": null}]}'), call("b", '{"room": "\\n"}')],
}
BROKEN = {"role": "assistant", "content": "So.", "tool_calls": [call("a", '{"room": "ha')]}
FIRST = {"role": "tool", "tool_call_id": "a", "content": "first"}
SECOND = {"role": "tool", "tool_call_id": "b", "content": "second"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}

TALKS: dict[str, list[dict[str, Any]]] = {
    "user": [ASKED],
    "system": [SYSTEM, ASKED],
    "history": [SYSTEM, ASKED, SAID, MORE],
    "calls": [SYSTEM, ASKED, CALLED, SECOND, FIRST],
    "calls and more": [ASKED, CALLED, FIRST, SECOND, SAID, MORE],
    "broken call": [ASKED, BROKEN, FIRST, MORE],
    "late system": [SYSTEM, ASKED, SAID, {"role": "system", "content": "Late."}, MORE],
    "two users": [ASKED, MORE],
    "system alone": [SYSTEM],
    "parts": [PARTS],
    "empty answer": [ASKED, {"role": "assistant", "content": ""}, MORE],
}


@pytest.mark.parametrize("effort", ["high", "max"])
@pytest.mark.parametrize("tools", [None, [TOOL]], ids=["bare", "tools"])
@pytest.mark.parametrize("thinking", [True, False], ids=["thinking", "chat"])
@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize(
    ("format", "encoding", "model"),
    [
        ("deepseek-v4", "DeepseekV4Encoding", "DeepSeek-V4-Pro"),
        ("deepseek-v4.1", "DeepseekV41Encoding", "DeepSeek-V4.1-Flash"),
    ],
)
def test_prompts(
    format: str, encoding: str, model: str, talk: str, thinking: bool, tools: Any, effort: str
) -> None:
    peer = importlib.import_module("deepseek_recipe")
    body: dict[str, Any] = {"model": model, "messages": TALKS[talk], "reasoning_effort": effort}
    body["thinking"] = {"type": "enabled" if thinking else "disabled"}
    if tools:
        body["tools"] = tools
    conversation = peer.ChatCompletionRequest(body).convert(peer.ConversionOptions()).conversation
    right = getattr(peer, encoding)().render_conversation(conversation).prompt
    renderer = renderer_of(format)
    assert renderer is not None
    variables = {"thinking": thinking, "reasoning_effort": effort}
    assert renderer.render(ChatRequest("r", TALKS[talk]), tools, variables) == right
