"""DeepSeek's markup: calls of the history, as DeepSeek's encoders write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from toolgrammar_serving.chat.renderers.conversation import OldCall

BOS: Final = "<｜begin▁of▁sentence｜>"
EOS: Final = "<｜end▁of▁sentence｜>"
USER: Final = "<｜User｜>"
ASSISTANT: Final = "<｜Assistant｜>"
SYSTEM: Final = "<｜System｜>"
THINK: Final = "<think>"
END_THINK: Final = "</think>"


class Markup(msgspec.Struct, frozen=True):
    """A dialect: what stands behind ``｜DSML｜`` in each tag, and what a section is called."""

    section: str
    space: str = ""

    def tag(self, name: str, attributes: str = "", end: str = "") -> str:
        """One tag."""
        return f"<{end}｜DSML｜{self.space}{name}{attributes}>"

    def calls(self, calls: Sequence[OldCall]) -> str:
        """A section of calls, with the blank line in front of it; nothing for none."""
        if not calls:
            return ""
        invokes = "".join([self._invoke(call) for call in calls])
        return f"\n\n{self.tag(self.section)}\n{invokes}{self.tag(self.section, end='/')}"

    def _invoke(self, call: OldCall) -> str:
        arguments = call.arguments if isinstance(call.arguments, dict) else {"arguments": call.arguments}
        # Without parameters there is an empty line between the tags.
        body = "\n".join([self._parameter(key, value) for key, value in arguments.items()])
        attributes = f' name="{call.name}"'
        return f"{self.tag('invoke', attributes)}\n{body}\n{self.tag('invoke', end='/')}\n"

    def _parameter(self, key: str, value: Any) -> str:
        string = isinstance(value, str)
        text = value if string else to_json(value)
        attributes = f' name="{key}" string="{"true" if string else "false"}"'
        return f"{self.tag('parameter', attributes)}{text}{self.tag('parameter', end='/')}"

    def example(self, name: str) -> str:
        """A section as the instructions show it; ``name`` stands for a tool's."""
        value = self.tag("parameter", ' name="$PARAMETER_NAME" string="true|false"')
        parameter = f"{value}$PARAMETER_VALUE{self.tag('parameter', end='/')}"
        first, second = (self.tag("invoke", f' name="${name}{number}"') for number in ("", "2"))
        close = self.tag("invoke", end="/")
        lines = [self.tag(self.section), first, parameter, "...", close, second, "...", close]
        return "\n".join([*lines, self.tag(self.section, end="/")])


def to_json(value: Any) -> str:
    """JSON as the encoders write it."""
    return json.dumps(value, ensure_ascii=False)
