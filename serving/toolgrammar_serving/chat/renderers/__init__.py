"""Prompts of models that come without a chat template, or with one that says less than the model understands.

Each renderer writes what its model was trained on; the texts in capital spots (tool instructions, effort
paragraphs) are part of those formats, to the letter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from toolgrammar_serving.chat.prompts import Renderer
from toolgrammar_serving.chat.renderers.deepseek_v4 import V4, V41, DeepSeekV4
from toolgrammar_serving.chat.renderers.deepseek_v32 import DeepSeekV32
from toolgrammar_serving.chat.renderers.harmony import Harmony

_MADE: Final[Mapping[str, Callable[[Callable[[], datetime]], Renderer]]] = {
    "deepseek-v3.2": lambda now: DeepSeekV32(),
    "deepseek-v4": lambda now: DeepSeekV4(V4),
    "deepseek-v4.1": lambda now: DeepSeekV4(V41),
    "harmony": lambda now: Harmony(now),
}
#: Formats whose renderer goes before a template that the model may have.
PREFERRED: Final = frozenset({"harmony"})


def renderer_of(format: str, now: Callable[[], datetime] = datetime.now) -> Renderer | None:
    """The renderer of a format, if it has one."""
    made = _MADE.get(format)
    return None if made is None else made(now)
