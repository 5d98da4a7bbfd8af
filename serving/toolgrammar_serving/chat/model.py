"""The chat layer's face: a conversation is prepared, then started."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from toolgrammar import Parser
from toolgrammar_serving.chat.choices import Choice, FilteredChoice, NamedFinish
from toolgrammar_serving.chat.files import chat_files
from toolgrammar_serving.chat.filters import Filter
from toolgrammar_serving.chat.formats import Format, grammar_for
from toolgrammar_serving.chat.plans import Constraint, Plan, Planner, StrictLevel
from toolgrammar_serving.chat.prompts import Renderer, TemplateRenderer, variables_of
from toolgrammar_serving.chat.renderers import PREFERRED, renderer_of
from toolgrammar_serving.chat.requests import ChatRequest, ChatSink
from toolgrammar_serving.chat.tools import ToolSet, ToolSets
from toolgrammar_serving.errors import BadRequest
from toolgrammar_serving.text import Generation, Prepared, TextModel, TextRequest

log: Final = logging.getLogger(__name__)


class PreparedChat(msgspec.Struct, eq=False):
    """A request that can be started, once: its ``prompt``, and what the text layer made of it."""

    request: ChatRequest
    prompt: str
    text: Prepared
    parser: Parser
    plan: Plan
    choices: list[Choice] = []

    @property
    def held(self) -> int:
        """Characters that wait to be decided, of all its choices; of a request that was started."""
        return sum([choice.held for choice in self.choices])


class ChatModel:
    """Conversations with one model.

    ``format``: the output format (a name of ours or of a peer), ``auto`` for the model's by its directory and
    template, ``none`` for plain text. ``template``: a chat template instead of the model's. ``template_kwargs``:
    variables that requests may override. ``trust_request_template``: requests may bring templates.
    ``named_finish``: the finish reason of a choice that made the call named in the request. ``constrain``:
    whether choices and formats are enforced by the engine, as they should be wherever it can.
    ``tool_strict_level``: what of calls is enforced though no request asks for it.
    """

    def __init__(
        self,
        text: TextModel,
        *,
        format: str = "auto",
        directory: str | Path | None = None,
        template: str | None = None,
        renderer: Renderer | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        trust_request_template: bool = False,
        named_finish: NamedFinish = "tool_calls",
        constrain: bool = True,
        tool_strict_level: StrictLevel = "auto",
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """Raises ``UnknownModelError`` for a format that is none, ``ValueError`` for a template that is none."""
        self._text = text
        files = chat_files(directory)
        if template is not None:
            files.templates = {"default": template}
        self.format = Format(grammar_for(format, directory, template), text.tokenizer.special_tokens)
        templates: Renderer = TemplateRenderer(files, trusted=trust_request_template, now=now)
        own = renderer_of(self.format.name, now)
        if own is not None and template is None and (self.format.name in PREFERRED or not files.templates):
            templates = own
        self._renderer = renderer or templates
        self._defaults = dict(template_kwargs or {})
        self._tools = ToolSets()
        self._planner = Planner(self.format, constrain, tool_strict_level)
        self._named_finish: NamedFinish = named_finish

    def prompt(self, request: ChatRequest) -> str:
        """The prompt of ``request``, as text. Raises ``BadRequest``."""
        shown = _shown(request, self._tools.of(request.tools))
        return self._renderer.render(request, shown, variables_of(request, self._defaults))

    async def prepare(self, request: ChatRequest) -> PreparedChat:
        """All that can be done before the engine is asked. Raises ``BadRequest``, ``TooLong``."""
        if request.add_generation_prompt and request.continue_final_message:
            raise BadRequest(
                "continue_final_message: the last message cannot be continued behind a generation prompt",
                param="continue_final_message",
            )
        tools = self._tools.of(request.tools)
        plan = self._planner.plan(request, tools)
        variables = variables_of(request, self._defaults)
        prompt = self._renderer.render(request, _shown(request, tools), variables)
        parser = self.format.parser(plan.table, prompt, request.start, plan.reading)
        constraint = await self._planner.constraint(request, plan, parser)
        text = await self._text.prepare(self._text_request(request, prompt, constraint, variables))
        return PreparedChat(request, prompt, text, parser, plan)

    def start(self, prepared: PreparedChat, sinks: Sequence[ChatSink]) -> Generation:
        """Send it to the engine; ``sinks[i]`` hears of choice i."""
        first = prepared.parser
        parsers = [first if index == 0 else first.copy() for index in range(len(sinks))]
        pairs = zip(parsers, sinks, strict=True)
        prepared.choices = [self._choice(prepared, parser, sink) for parser, sink in pairs]
        return self._text.start(prepared.text, prepared.choices)

    def _choice(self, prepared: PreparedChat, parser: Parser, sink: ChatSink) -> Choice:
        request, plan = prepared.request, prepared.plan
        collect = request.spans or not request.stream
        called = self._named_finish if request.tool_choice.mode == "named" else "tool_calls"
        marks = self.format.marks
        if plan.wanted.all:
            return Choice(parser, sink, collect, called, marks)
        dropped = Filter(plan.wanted, lambda name: self._dropped(request.request_id, name))
        return FilteredChoice(parser, sink, collect, called, marks, dropped)

    def _dropped(self, request_id: str, name: str) -> None:
        log.warning("request %s: a call of %r was not asked for and is left out", request_id, name[:80])

    def _text_request(
        self, request: ChatRequest, prompt: str, constraint: Constraint, variables: Mapping[str, Any]
    ) -> TextRequest:
        """What the text layer is asked for."""
        inward = self.format.marks.inward
        sampling = request.sampling
        constrained = constraint.outputs is not None
        if constrained:
            sampling = msgspec.structs.replace(sampling, structured_outputs=constraint.outputs)
        return TextRequest(
            request.request_id,
            prompt,
            sampling,
            n=request.n,
            stream=request.stream,
            # A special token in a stop string may come as itself or spelled.
            stop=list(dict.fromkeys([stop for each in request.stop for stop in (each, inward(each))])),
            include_stop=request.include_stop,
            skip_special_tokens=request.skip_special_tokens,
            special_text=self.format.special_text(request.sampling.ignore_eos),
            add_special_tokens=request.add_special_tokens,
            bad_words=request.bad_words,
            truncate_prompt_tokens=request.truncate_prompt_tokens,
            truncation_side=request.truncation_side,
            priority=request.priority,
            cache_salt=request.cache_salt,
            data_parallel_rank=request.data_parallel_rank,
            trace_headers=request.trace_headers,
            session_id=request.session_id,
            reasoning_ended=constraint.reasoning_ended,
            reasoning_parser_kwargs={"chat_template_kwargs": dict(variables)} if constrained else None,
        )


def _shown(request: ChatRequest, tools: ToolSet) -> list[dict[str, Any]] | None:
    """The tools that the prompt speaks of."""
    return tools.tools if tools.tools and request.tool_choice.mode != "none" else None
