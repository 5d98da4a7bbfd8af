"""What a request's choice and formats come to: how the answer is read, what of it is wanted, what the engine
enforces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolgrammar import Parser
from toolgrammar.schema import ToolTable
from toolgrammar_serving.chat.constraints import calls_tag, calls_value, content_format, content_outputs, either
from toolgrammar_serving.chat.filters import Wanted
from toolgrammar_serving.chat.forced import Forced
from toolgrammar_serving.chat.formats import Format
from toolgrammar_serving.chat.framing import Frame, frame_of, framed
from toolgrammar_serving.chat.requests import ChatRequest, ToolChoice
from toolgrammar_serving.chat.tools import ToolSet, checked
from toolgrammar_serving.text import StructuredOutputs


class Plan(msgspec.Struct, eq=False):
    """How an answer is read: the parser's ``table`` and further forms of calls, and what of it is wanted."""

    choice: ToolChoice
    tools: ToolSet
    table: ToolTable
    reading: Forced | None
    wanted: Wanted


class Constraint(msgspec.Struct, eq=False):
    """What the engine is asked to enforce. ``reasoning_ended``: True if ``outputs`` hold from the first token
    on."""

    outputs: StructuredOutputs | None = None
    reasoning_ended: bool | None = None


class Planner:
    """Plans for one model. ``constrain`` off: nothing is enforced but what requests spell out themselves."""

    def __init__(self, format: Format, constrain: bool = True, backend: str = "xgrammar") -> None:
        self._format = format
        self._constrain = constrain
        self._backend = backend

    def plan(self, request: ChatRequest, tools: ToolSet) -> Plan:
        """How the answer to ``request`` is to be read. Raises ``BadRequest`` for a choice that is impossible."""
        choice = checked(request.tool_choice, tools)
        if choice.mode == "none":
            names: frozenset[str] | None = frozenset()
        else:
            names = None if choice.names is None else frozenset(choice.names)
        reading: Forced | None = None
        table = tools.table
        if choice.mode == "named" and choice.names is not None:
            reading, table = "named", tools.narrowed(choice.names)
        elif choice.mode == "required" or (choice.mode == "auto" and tools.names and _content_wanted(request)):
            reading = "required"
        wanted = Wanted(names, request.parallel_tool_calls, request.include_reasoning)
        return Plan(choice, tools, table, reading, wanted)

    def constraint(self, request: ChatRequest, plan: Plan, parser: Parser) -> Constraint:
        """What is enforced on an answer that ``parser`` is about to read. Raises ``BadRequest`` for a wrong
        format."""
        content = content_outputs(request.response_format, request.structured_outputs)
        mode = plan.choice.mode
        forced = mode in ("required", "named")
        calls = plan.tools.names and (forced or (mode == "auto" and (plan.tools.strict or plan.choice.names)))
        content = None if forced else content
        if content is None and not (calls and self._constrain):
            return Constraint()
        frame = frame_of(parser, self._format.marks.outward, request.start == "section")
        if content is not None:
            choices = plan if mode == "auto" and plan.tools.names else None
            return self._content(content, choices, frame)
        key = ("constraint", mode, plan.choice.names, request.parallel_tool_calls, frame)
        made = plan.tools.made
        if key not in made:
            made[key] = self._calls(plan, request.parallel_tool_calls, frame)
        found: Constraint = made[key]
        return found

    def _calls(self, plan: Plan, parallel: bool, frame: Frame) -> Constraint:
        """Calls by a structural tag of the format; where it has none, forced ones by JSON."""
        mode = plan.choice.mode
        assert mode != "none"
        tag = calls_tag(self._format.grammar, plan.tools, mode, plan.choice.names, parallel, frame.start)
        if tag is not None:
            return self._tag(tag)
        if mode == "auto":
            return Constraint()
        value = calls_value(plan.tools, plan.choice, parallel, self._format.reads(plan.reading))
        return self._framed(value, frame)

    def _content(self, content: StructuredOutputs, plan: Plan | None, frame: Frame) -> Constraint:
        """A wanted form of the content; calls instead, if there are tools to choose from."""
        content = msgspec.structs.replace(content, backend=self._backend, backend_was_auto=True)
        if content.structural_tag is not None:
            return Constraint(content, True)
        if plan is None and not frame.reasons:
            return Constraint(content, True)
        value = content_format(content)
        if plan is not None and self._constrain:
            value = either(value, calls_value(plan.tools, plan.choice, True, self._format.reads("required")))
        if not frame.known:
            # How the format frames its reasoning is not known here: the engine's reasoning parser may be.
            return Constraint(content if plan is None else self._tag_outputs(value), None)
        return self._framed(value, frame)

    def _framed(self, value: dict[str, Any], frame: Frame) -> Constraint:
        if not frame.known:
            return Constraint(self._tag_outputs(value), None)
        return Constraint(self._tag_outputs(framed(value, frame)), True)

    def _tag(self, tag: Mapping[str, Any]) -> Constraint:
        text = msgspec.json.encode(tag).decode()
        return Constraint(StructuredOutputs(structural_tag=text, backend=self._backend), True)

    def _tag_outputs(self, value: dict[str, Any]) -> StructuredOutputs:
        text = msgspec.json.encode({"type": "structural_tag", "format": value}).decode()
        return StructuredOutputs(structural_tag=text, backend=self._backend)


def _content_wanted(request: ChatRequest) -> bool:
    return request.response_format.kind != "text" or bool(request.structured_outputs)
