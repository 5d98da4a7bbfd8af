"""DeepSeek V4 and V4.1: results of calls inside user turns, thinking on unless switched off, levels of effort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from toolgrammar_serving.chat.renderers.conversation import (
    Turn,
    functions_of,
    in_call_order,
    thinks,
    turns_of,
)
from toolgrammar_serving.chat.renderers.dsml import (
    ASSISTANT,
    BOS,
    END_THINK,
    EOS,
    SYSTEM,
    THINK,
    USER,
    Markup,
    to_json,
)
from toolgrammar_serving.chat.requests import ChatRequest
from toolgrammar_serving.errors import BadRequest

_HIGH: Final = (
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the "
    "root cause, rigorously stress-testing your logic against all potential paths, edge cases, and "
    "adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered "
    "alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n"
)
_MAX: Final = (
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively "
    "decompose the problem into its most fundamental components, trace every causal chain to its root, and "
    "resolve the underlying cause rather than any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple angles and are "
    "certain that no assumption remains unchecked and no error remains undiscovered.\n\n"
)
_PARAGRAPHS: Final = {
    "minimal": "",
    "low": "",
    "medium": "",
    "high": _HIGH,
    "xhigh": _MAX,
    "max": _MAX,
}
_LEVELS: Final = {"minimal": 50, "low": 50, "medium": 75, "high": 75, "xhigh": 75, "max": 100}


class Dialect(msgspec.Struct, frozen=True):
    """``systems``: system messages have a token of their own, and stay where they are."""

    markup: Markup
    systems: bool

    def effort(self, wanted: Any) -> str:
        """What the prompt says about effort, while thinking is on. Raises ``BadRequest``."""
        if self.systems:
            level = _LEVELS.get(wanted or "high", wanted) if not isinstance(wanted, int) else wanted
            if isinstance(level, int) and 1 <= level <= 100:
                scale = "(range 1-100, the higher the value, the more thorough the reasoning)"
                return f"Reasoning Effort: {level} {scale}\n\n"
        elif (wanted or "low") in _PARAGRAPHS:
            return _PARAGRAPHS[wanted or "low"]
        raise BadRequest(f"reasoning_effort: {wanted!r} is no effort of this model", param="reasoning_effort")


V4: Final = Dialect(Markup("tool_calls"), systems=False)
V41: Final = Dialect(Markup("calls", " "), systems=True)


class DeepSeekV4:
    """The prompts of DeepSeek V4, or V4.1, by the dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        markup = dialect.markup
        self._tools = (
            "## Tools\n\n"
            "You have access to a set of tools to help answer the user's question. You can invoke tools by "
            f'writing a "{markup.tag(markup.section)}" block like the following:\n\n'
            f"{markup.example('TOOL_NAME')}\n\n"
            'String parameters should be specified as is and set `string="true"`. For all other types '
            "(numbers, booleans, arrays, objects), pass the value in JSON format and set "
            '`string="false"`.\n\n'
            f"If thinking_mode is enabled (triggered by {THINK}), you MUST output your complete reasoning "
            f"inside {THINK}...{END_THINK} BEFORE any tool calls or final response.\n\n"
            f"Otherwise, output directly after {END_THINK} with tool calls or final response.\n\n"
            "### Available Tool Schemas\n\n"
        )

    def render(
        self, request: ChatRequest, tools: Sequence[Mapping[str, Any]] | None, variables: Mapping[str, Any]
    ) -> str:
        """See ``Renderer``."""
        turns = turns_of(request, "\n\n")
        thinking = thinks(variables, default=True)
        effort = self._dialect.effort(variables.get("reasoning_effort")) if thinking else ""
        if self._dialect.systems:
            first = 1 if turns[0].role == "system" else 0
        else:
            turns = [turn for role in (True, False) for turn in turns if (turn.role == "system") is role]
            first = next((i for i, turn in enumerate(turns) if turn.role != "system"), len(turns))
        system = "\n\n".join([turn.text for turn in turns[:first]])
        if tools:
            listed = "\n".join([to_json(function) for function in functions_of(tools)])
            system += (
                f"\n\n{self._tools}{listed}\n\nYou MUST strictly follow the above defined tool name and parameter "
                "schemas to invoke tool calls.\n"
            )
        system = effort + system
        if self._dialect.systems and (system or first):
            system = SYSTEM + system
        return BOS + system + self._history(turns[first:], request, thinking, bool(tools))

    def _history(self, turns: list[Turn], request: ChatRequest, thinking: bool, tools: bool) -> str:
        last_user = max((i for i, turn in enumerate(turns) if turn.role != "assistant"), default=-1)
        pieces: list[str] = []
        i = 0
        while i < len(turns):
            turn = turns[i]
            if turn.role == "system":
                pieces.append(SYSTEM + turn.text)
            elif turn.role == "assistant":
                thought = f"{THINK}{turn.reasoning}" if thinking and (tools or i > last_user) else ""
                said = f"{thought}{END_THINK}{turn.text}{self._dialect.markup.calls(turn.calls)}"
                end = "" if request.continue_final_message and i == len(turns) - 1 else EOS
                pieces.append(ASSISTANT + said + end)
            else:
                rest = range(i, len(turns))
                end_at = next((k for k in rest if turns[k].role not in ("user", "tool")), len(turns))
                pieces.append(USER + _user(turns[:i], turns[i:end_at]))
                i = end_at - 1
            i += 1
        if request.add_generation_prompt and not request.continue_final_message:
            pieces.append(ASSISTANT + (THINK if thinking else END_THINK))
        return "".join(pieces)


def _user(before: list[Turn], turns: list[Turn]) -> str:
    """One user turn: what the user said and what tools answered, results in the order of the calls."""
    assistant = next((turn for turn in reversed(before) if turn.role == "assistant"), None)
    results = in_call_order(
        [turn for turn in turns if turn.role == "tool"], assistant.calls if assistant is not None else ()
    )
    waiting = iter(results)
    return "\n\n".join(
        [
            f"<tool_result>{next(waiting).text}</tool_result>" if turn.role == "tool" else turn.text
            for turn in turns
        ]
    )
