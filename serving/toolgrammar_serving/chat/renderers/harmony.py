"""Harmony (gpt-oss): a turn is messages, each with a header; tools are declared as TypeScript."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from toolgrammar_serving.chat.renderers.conversation import Turn, functions_of, turns_of
from toolgrammar_serving.chat.renderers.dsml import to_json
from toolgrammar_serving.chat.renderers.typescript import declaration
from toolgrammar_serving.chat.requests import ChatRequest
from toolgrammar_serving.errors import BadRequest

_IDENTITY: Final = "You are ChatGPT, a large language model trained by OpenAI."
_EFFORTS: Final = {
    "none": "low",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


class Harmony:
    """The prompts of gpt-oss. ``now`` gives the date that the model is told."""

    def __init__(self, now: Callable[[], datetime] = datetime.now) -> None:
        self._now = now

    def render(
        self, request: ChatRequest, tools: Sequence[Mapping[str, Any]] | None, variables: Mapping[str, Any]
    ) -> str:
        """See ``Renderer``."""
        turns = turns_of(request)
        functions = functions_of(tools)
        first = turns[0].text if turns[0].role == "system" else ""
        pieces = [self._system(variables, bool(functions)), _developer(first, functions)]
        rest = turns[1:] if turns[0].role == "system" else turns
        last_final = max(
            (i for i, turn in enumerate(rest) if turn.role == "assistant" and not turn.calls), default=-1
        )
        for i, turn in enumerate(rest):
            open_end = request.continue_final_message and i == len(rest) - 1
            pieces.append(_message(turn, thought=i >= last_final, open_end=open_end))
        if request.add_generation_prompt and not request.continue_final_message:
            pieces.append("<|start|>assistant")
        return "".join(pieces)

    def _system(self, variables: Mapping[str, Any], functions: bool) -> str:
        wanted = variables.get("reasoning_effort") or "medium"
        effort = _EFFORTS.get(wanted) if isinstance(wanted, str) else None
        if effort is None:
            raise BadRequest(f"reasoning_effort: {wanted!r} is no effort of this model", param="reasoning_effort")
        lines = [
            f"{variables.get('model_identity') or _IDENTITY}\nKnowledge cutoff: 2024-06\n"
            f"Current date: {self._now():%Y-%m-%d}\n\nReasoning: {effort}\n\n"
            "# Valid channels: analysis, commentary, final. Channel must be included for every message."
        ]
        if functions:
            lines.append("Calls to these tools must go to the commentary channel: 'functions'.")
        return _told("system", "\n".join(lines))


def _developer(text: str, functions: Sequence[Mapping[str, Any]]) -> str:
    sections = [f"# Instructions\n\n{text}"] if text else []
    if functions:
        declared = "".join([f"{declaration(function)}\n\n" for function in functions])
        sections.append(
            f"# Tools\n\n## functions\n\nnamespace functions {{\n\n{declared}}} // namespace functions"
        )
    return _told("developer", "\n\n".join(sections)) if sections else ""


def _message(turn: Turn, thought: bool, open_end: bool) -> str:
    """What a message of the history is written as. ``thought``: its reasoning still counts."""
    if turn.role == "user":
        return _told("user", turn.text)
    if turn.role == "system":
        return _developer(turn.text, ())
    if turn.role == "tool":
        name = turn.call.name if turn.call is not None else "unknown"
        return f"<|start|>functions.{name} to=assistant<|channel|>commentary<|message|>{turn.text}<|end|>"
    pieces = []
    if turn.reasoning and thought and (turn.calls or open_end):
        pieces.append(_told("assistant<|channel|>analysis", turn.reasoning))
    if turn.text and turn.calls:
        pieces.append(_told("assistant<|channel|>commentary", turn.text))
    for call in turn.calls:
        arguments = call.arguments if isinstance(call.arguments, str) else to_json(call.arguments)
        header = f"assistant to=functions.{call.name}<|channel|>commentary json"
        pieces.append(f"<|start|>{header}<|message|>{arguments}<|call|>")
    if turn.text and not turn.calls:
        pieces.append(_told("assistant<|channel|>final", turn.text))
    said = "".join(pieces)
    return said.removesuffix("<|end|>") if open_end and not turn.calls else said


def _told(header: str, text: str) -> str:
    return f"<|start|>{header}<|message|>{text}<|end|>"
