"""A chat template: its text compiled, what it can take found out by trying, rendering with errors for clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import jinja2

from toolgrammar_serving.chat.environment import environment
from toolgrammar_serving.chat.traits import Traits, tried
from toolgrammar_serving.errors import BadRequest

#: Characters of a prompt; more fits no model's context.
_LONGEST: Final = 64 << 20


class TemplateRefused(BadRequest):
    """The template does not take this conversation, and says why or breaks."""

    code = "chat_template_error"


class ChatTemplate:
    """One compiled template. ``tokens``: the named special tokens it may use (``bos_token``...).

    Raises ``ValueError`` for a text that is no template.
    """

    def __init__(
        self, source: str, tokens: Mapping[str, str] | None = None, now: Callable[[], datetime] = datetime.now
    ) -> None:
        self.source = source
        self._tokens = dict(tokens or {})
        try:
            self._template = environment(now).from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ValueError(f"the chat template is wrong in line {error.lineno}: {error.message}") from None

    @cached_property
    def traits(self) -> Traits:
        """In which shapes the template takes messages."""
        return tried(self.render)

    def render(
        self,
        messages: list[dict[str, Any]],
        tools: list[Any] | None = None,
        documents: list[Any] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt. Raises ``TemplateRefused`` with the template's own words, if it has any."""
        pieces: list[str] = []
        length = 0
        given = {
            **self._tokens,
            **variables,
            "messages": messages,
            "tools": tools,
            "documents": documents,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            for piece in self._template.generate(given):
                pieces.append(piece)
                length += len(piece)
                if length > _LONGEST:
                    raise TemplateRefused("the chat template writes too long a prompt", param="messages")
        except jinja2.TemplateError as error:
            raise TemplateRefused(f"chat template: {error.message or error}", param="messages") from None
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise TemplateRefused(f"chat template: {error}", param="messages") from None
        return "".join(pieces)
