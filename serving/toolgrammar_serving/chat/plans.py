"""What a request's choice and formats come to: how the answer is read, what of it is wanted, what the engine
enforces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

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


#: What of calls is enforced at least, whatever a request says of its tools: nothing, their form, their arguments.
StrictLevel: TypeAlias = Literal["auto", "function", "parameter"]


class Planner:
    """Plans for one model. ``constrain`` off: nothing is enforced but what requests spell out themselves."""

    def __init__(
        self,
        format: Format,
        constrain: bool = True,
        strict_level: StrictLevel = "auto",
        backend: str = "xgrammar",
    ) -> None:
        self._format = format
        self._constrain = constrain
        self._strict_level = strict_level
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
        elif choice.mode == "required" or (_both(request) and tools.names and not self._format.calls):
            reading = "required"
        wanted = Wanted(names, request.parallel_tool_calls, request.include_reasoning)
        return Plan(choice, tools, table, reading, wanted)

    async def constraint(self, request: ChatRequest, plan: Plan, parser: Parser) -> Constraint:
        """What is enforced on an answer that ``parser`` is about to read. Raises ``BadRequest`` for a wrong
        format.

        Constraints on calls are written off the loop, once for equal tools: for many tools that takes a while.
        """
        content = content_outputs(request.response_format, request.structured_outputs)
        mode, parallel = plan.choice.mode, request.parallel_tool_calls
        forced = mode in ("required", "named")
        choosing = bool(plan.tools.names) and mode != "none" and self._constrain
        content = None if forced else content
        strict = plan.tools.strict or self._strict_level != "auto"
        calls = choosing and (forced or strict or bool(plan.choice.names))
        if content is None and not calls:
            return Constraint()
        frame = self._frame(parser, request.start == "section")
        if content is None:
            key: Any = ("calls", mode, plan.choice.names, parallel, frame)
            found: Constraint = await plan.tools.once(key, lambda: self._calls(plan, parallel, frame))
            return found
        if content.structural_tag is not None or not choosing:
            return self._content(content, None, frame)
        key = ("some calls", plan.choice.names, parallel)
        return self._content(content, await plan.tools.once(key, lambda: self._some_calls(plan, parallel)), frame)

    def _calls(self, plan: Plan, parallel: bool, frame: Frame) -> Constraint:
        """Calls by a structural tag of the format; where it has none, forced ones by JSON."""
        mode = plan.choice.mode
        assert mode != "none"
        tag = self._calls_tag(plan, mode, parallel, frame.start)
        if tag is not None:
            return self._tag(tag)
        if mode == "auto":
            return Constraint()
        value = calls_value(plan.tools, plan.choice, parallel, self._format.reads(plan.reading))
        return self._framed(value, frame)

    def _some_calls(self, plan: Plan, parallel: bool) -> dict[str, Any]:
        """Calls as a part of a structural tag, without reasoning in front of them."""
        tag = self._calls_tag(plan, "required", parallel, None)
        if tag is not None:
            value: dict[str, Any] = tag["format"]
            return value
        return calls_value(plan.tools, plan.choice, parallel, self._format.reads("required"))

    def _calls_tag(
        self,
        plan: Plan,
        mode: Literal["auto", "required", "named"],
        parallel: bool,
        start: Literal["content", "reasoning", "section"] | None,
    ) -> dict[str, Any] | None:
        strict = True if self._strict_level == "parameter" else None
        return calls_tag(self._format.grammar, plan.tools, mode, plan.choice.names, parallel, start, strict)

    def _frame(self, parser: Parser, section: bool) -> Frame:
        known = self._format
        return frame_of(parser, known.marks.outward, known.headers, known.turn, section)

    def _content(self, content: StructuredOutputs, calls: dict[str, Any] | None, frame: Frame) -> Constraint:
        """A wanted form of the content, or ``calls`` instead."""
        content = msgspec.structs.replace(content, backend=self._backend, backend_was_auto=True)
        if content.structural_tag is not None or (calls is None and frame.free):
            return Constraint(content, True)
        if calls is None and not frame.known:
            # How the format frames its reasoning is not known here: the engine's reasoning parser may be.
            return Constraint(content)
        value = content_format(content)
        return self._framed(value if calls is None else either(value, calls), frame)

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


def _both(request: ChatRequest) -> bool:
    """Whether the answer is content of a certain form, or calls."""
    form = request.response_format.kind != "text" or bool(request.structured_outputs)
    return form and request.tool_choice.mode == "auto"
