"""A request's prompt: which template, which variables, what is done where a template refuses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from toolgrammar_serving.chat.files import ChatFiles
from toolgrammar_serving.chat.history import messages_for
from toolgrammar_serving.chat.requests import ChatRequest
from toolgrammar_serving.chat.templates import ChatTemplate, TemplateRefused
from toolgrammar_serving.errors import BadRequest

log: Final = logging.getLogger(__name__)

#: Put behind the message that is to be continued, and cut off with all that follows it.
#: Its blank is lost where a template trims.
_HERE: Final = "{{continue-here}} "
_RESERVED: Final = frozenset({"messages", "tools", "add_generation_prompt"})


class Renderer(Protocol):
    """Writes prompts. A template behind ``TemplateRenderer``, or code for a model without one."""

    def render(
        self, request: ChatRequest, tools: list[dict[str, Any]] | None, variables: Mapping[str, Any]
    ) -> str:
        """The prompt. ``tools`` are those to be shown. Raises ``BadRequest``."""
        ...


class TemplateRenderer:
    """Prompts by the model's chat templates, or the request's own if ``trusted``."""

    def __init__(
        self, files: ChatFiles, *, trusted: bool = False, now: Callable[[], datetime] = datetime.now
    ) -> None:
        """Raises ``ValueError`` for a template that is none."""
        self._named = {name: ChatTemplate(text, files.tokens, now) for name, text in files.templates.items()}
        self._trusted = trusted
        self._told = False
        self._given = lru_cache(maxsize=16)(lambda text: ChatTemplate(text, files.tokens, now))

    def render(
        self, request: ChatRequest, tools: list[dict[str, Any]] | None, variables: Mapping[str, Any]
    ) -> str:
        """The prompt."""
        template = self._template(request.chat_template, tools)
        if tools and not template.traits.tools and not self._told:
            self._told = True
            log.warning("the chat template has no place for tools: the model hears nothing of those in requests")
        messages = messages_for(request.messages, template.traits)
        given: dict[str, Any] = {"documents": request.documents, **variables}
        given["add_generation_prompt"] = request.add_generation_prompt and not request.continue_final_message
        refused: TemplateRefused | None = None
        for attempt, shown in _milder(messages, tools):
            given["tools"] = shown
            try:
                if request.continue_final_message:
                    return _continued(template, attempt, given)
                return template.render(attempt, **given)
            except TemplateRefused as error:
                refused = refused or error
        assert refused is not None
        raise refused

    def _template(self, given: str | None, tools: Any) -> ChatTemplate:
        if given is not None and given in self._named:
            return self._named[given]
        if given is not None:
            if not self._trusted:
                raise BadRequest(
                    "chat_template: this server takes no templates from requests", param="chat_template"
                )
            try:
                return self._given(given)
            except ValueError as error:
                raise BadRequest(f"chat_template: {error}", param="chat_template") from None
        name = "tool_use" if tools and "tool_use" in self._named else "default"
        if name not in self._named:
            raise BadRequest("this model has no chat template", param="messages", code="no_chat_template")
        return self._named[name]


_Attempt: TypeAlias = tuple[list[dict[str, Any]], list[dict[str, Any]] | None]


def _milder(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> Iterator[_Attempt]:
    """What is given to a template, then with less that it might refuse: raw arguments wrapped, an empty list for
    no tools, late system messages said by the user, all of them."""
    yield messages, tools
    wrapped = [_wrapped(message) for message in messages]
    if wrapped != messages:
        yield wrapped, tools
    if tools is None:
        yield wrapped, []
    for first in (1, 0):
        said = _said_by_user(wrapped, first)
        if said != wrapped:
            yield said, tools


def _said_by_user(messages: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
    """System messages from place ``first`` on as a part of the user's next message, or as one."""
    found: list[dict[str, Any]] = []
    waiting: list[str] = []
    for index, message in enumerate(messages):
        content = message.get("content")
        if message["role"] == "system" and index >= first and isinstance(content, str):
            waiting.append(content)
        elif waiting and message["role"] == "user" and isinstance(content, str):
            found.append({**message, "content": "\n\n".join([*waiting, content])})
            waiting = []
        else:
            found += [{"role": "user", "content": "\n\n".join(waiting)}] if waiting else []
            waiting = []
            found.append(message)
    return [*found, {"role": "user", "content": "\n\n".join(waiting)}] if waiting else found


def _wrapped(message: dict[str, Any]) -> dict[str, Any]:
    """Arguments that are no object inside one."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    found = []
    for call in calls:
        arguments = call["function"]["arguments"]
        arguments = arguments if isinstance(arguments, dict) else {"arguments": arguments}
        found.append({**call, "function": {**call["function"], "arguments": arguments}})
    return {**message, "tool_calls": found}


def _continued(template: ChatTemplate, messages: list[dict[str, Any]], given: dict[str, Any]) -> str:
    """The prompt up to the end of the last message's text."""
    last = messages[-1]
    content = last.get("content")
    if isinstance(content, list) and content:
        text = content[-1]["text"]
        marked: Any = [*content[:-1], {**content[-1], "text": text + _HERE}]
    elif isinstance(content, str):
        text, marked = content, content + _HERE
    else:
        raise BadRequest("continue_final_message: the last message has no text", param="continue_final_message")
    prompt = template.render([*messages[:-1], {**last, "content": marked}], **given)
    at = prompt.rfind(_HERE.rstrip())
    if at < 0 or text.strip() not in prompt:
        raise BadRequest(
            "continue_final_message: the chat template leaves out the last message's text",
            param="continue_final_message",
        )
    return prompt[:at] if prompt.startswith(_HERE, at) else prompt[:at].rstrip()


def variables_of(request: ChatRequest, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What a template is given beside messages and tools; the request's own words win."""
    found = {**defaults}
    effort = request.reasoning_effort
    if effort is not None:
        thinking = effort != "none"
        found |= {"reasoning_effort": effort, "enable_thinking": thinking, "thinking": thinking}
    given = request.chat_template_kwargs
    if not _RESERVED.isdisjoint(given):
        raise BadRequest(
            f"chat_template_kwargs: {', '.join(sorted(_RESERVED))} are the request's own fields",
            param="chat_template_kwargs",
        )
    return found | given
