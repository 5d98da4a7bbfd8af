"""DeepSeek V3.2: results of calls in one block, the thought going on behind it, thinking off unless asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toolgrammar_serving.chat.renderers.conversation import (
    Turn,
    functions_of,
    in_call_order,
    thinks,
    turns_of,
)
from toolgrammar_serving.chat.renderers.dsml import ASSISTANT, BOS, END_THINK, EOS, THINK, USER, Markup, to_json
from toolgrammar_serving.chat.requests import ChatRequest

_MARKUP: Final = Markup("function_calls")
_OPEN, _CLOSE = _MARKUP.tag("function_calls"), _MARKUP.tag("function_calls", end="/")
_TOOLS: Final = (
    "## Tools\n\n"
    "You have access to a set of tools you can use to answer the user's question.\n"
    f'You can invoke functions by writing a "{_OPEN}" block like the following as part of your reply to '
    f"the user:\n{_MARKUP.example('FUNCTION_NAME')}\n\n"
    "String and scalar parameters should be specified as is without any escaping or quotes, while lists "
    'and objects should use JSON format. The "string" attribute should be set to "true" for string type '
    'parameters and "false" for other types (numbers, booleans, arrays, objects).\n\n'
    "If the thinking_mode is enabled, then after function results you should strongly consider outputting "
    "a thinking block. Here is an example:\n\n"
    f"{_OPEN}\n...\n{_CLOSE}\n\n<function_results>\n...\n</function_results>\n\n"
    f"{THINK}...thinking about results{END_THINK}\n\n"
    "Here are the functions available in JSONSchema format:\n<functions>\n"
)


class DeepSeekV32:
    """The prompts of DeepSeek V3.2."""

    def render(
        self, request: ChatRequest, tools: Sequence[Mapping[str, Any]] | None, variables: Mapping[str, Any]
    ) -> str:
        """See ``Renderer``."""
        turns = turns_of(request)
        thinking = thinks(variables, default=False)
        system = "\n\n".join([turn.text for turn in turns if turn.role == "system"])
        turns = [turn for turn in turns if turn.role != "system"]
        if tools:
            listed = "".join([f"{to_json(function)}\n" for function in functions_of(tools)])
            system = f"{system}\n\n{_TOOLS}{listed}</functions>\n"
        return BOS + system + _History(turns, thinking, request).text()


class _History:
    """The turns, and what opens the next one."""

    def __init__(self, turns: list[Turn], thinking: bool, request: ChatRequest) -> None:
        self._turns = turns
        self._thinking = thinking
        self._last_user = max((i for i, turn in enumerate(turns) if turn.role == "user"), default=-1)
        self._continued = request.continue_final_message
        self._opened = request.add_generation_prompt and not request.continue_final_message

    def text(self) -> str:
        """All of it."""
        pieces: list[str] = []
        #: What goes before an assistant's turn, if one comes.
        opener = ASSISTANT
        i, n = 0, len(self._turns)
        while i < n:
            turn = self._turns[i]
            if turn.role == "user":
                pieces.append(USER + turn.text)
                opener = ASSISTANT
            elif turn.role == "assistant":
                pieces.append(self._assistant(i, opener))
                opener = ASSISTANT
            else:
                end = next((k for k in range(i, n) if self._turns[k].role != "tool"), n)
                pieces.append(self._results(i, end))
                opener = "\n\n"
                i = end - 1
            i += 1
        if self._opened:
            pieces.append(opener + (THINK if self._thinking else END_THINK))
        return "".join(pieces)

    def _assistant(self, i: int, opener: str) -> str:
        turn = self._turns[i]
        thought = f"{THINK}{turn.reasoning}" if self._thinking and i > self._last_user else ""
        end = "" if self._continued and i == len(self._turns) - 1 else EOS
        return f"{opener}{thought}{END_THINK}{turn.text}{_MARKUP.calls(turn.calls)}{end}"

    def _results(self, start: int, end: int) -> str:
        before = next((turn for turn in reversed(self._turns[:start]) if turn.role == "assistant"), None)
        results = in_call_order(self._turns[start:end], before.calls if before is not None else ())
        told = "".join([f"\n<result>{turn.text}</result>" for turn in results])
        return f"\n\n<function_results>{told}\n</function_results>"
