"""A worked example of a format: one turn as its template would write it, and how it is read.

    >>> example(registry.load("hermes")).text
    '<think>\\nRack B7 is warm. ...'

The turn thinks, speaks and makes two calls; what the format cannot say is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolgrammar import combinators as c
from toolgrammar.events import CallArguments, CallEnd, CallStart, Content, Diagnostic, Event, Reasoning
from toolgrammar.parser import Parser, Start
from toolgrammar.readings.explain import Explained, explain
from toolgrammar.readings.render import RenderError, render_calls
from toolgrammar.readings.turns import Called

TOOLS: Sequence[Mapping[str, Any]] = (
    {
        "name": "set_fan",
        "parameters": {
            "type": "object",
            "properties": {"rack": {"type": "string"}, "speed": {"type": "integer"}},
        },
    },
    {
        "name": "read_meter",
        "parameters": {"type": "object", "properties": {"meter": {"type": "string"}}},
    },
)
CALLS = (Called("set_fan", {"rack": "B7", "speed": 80}), Called("read_meter", {"meter": "inlet-2"}))
REASONING = "Rack B7 is warm. Fan up, then check the inlet."
CONTENT = "I turn the fan of B7 up."


@dataclass(frozen=True)
class Example:
    """A turn: where it starts, its text, the stretches and the events it is read as."""

    start: str
    text: str
    stretches: list[Explained]
    events: list[str]


def example(grammar: c.Grammar) -> Example | None:
    """The turn that says most; None if the format can say nothing of it."""
    return next((made for parts in _turns(grammar) if (made := _made(grammar, *parts)) is not None), None)


def one_call(grammar: c.Grammar) -> str | None:
    """One call and nothing else; None if the format has no calls."""
    for start in grammar.starts:
        if start != "section" and (made := _made(grammar, start, CALLS[:1], None, None)) is not None:
            return made.text
    return None


def thinks(grammar: c.Grammar) -> bool:
    """Whether the format has reasoning."""
    return any(map(_thinks, grammar.rules.values()))


def _thinks(node: Any) -> bool:
    return (isinstance(node, c.Text) and node.sink == "reasoning") or any(map(_thinks, c.children(node)))


def _turns(grammar: c.Grammar) -> Iterator[tuple[str, Sequence[Called], str | None, str | None]]:
    """What to try, the fullest first: start, calls, content, reasoning."""
    starts = [start for start in grammar.starts if start != "section"]
    for calls in (CALLS, CALLS[:1], ()):
        for reasoning in (REASONING, None) if thinks(grammar) else (None,):
            for content in (CONTENT, None):
                if calls or content or reasoning:
                    yield from ((start, calls, content, reasoning) for start in starts)


def _made(
    grammar: c.Grammar, start: str, calls: Sequence[Called], content: str | None, reasoning: str | None
) -> Example | None:
    """The turn, None if it cannot be written or does not read back."""
    try:
        text = render_calls(grammar, calls, TOOLS, content=content, reasoning=reasoning, start=start)
    except RenderError:
        return None
    parser = _parser(grammar, start)
    events = [*parser.feed(text), *parser.finish()]
    message = parser.message()
    read = [(call.name, call.arguments) for call in message.calls]
    if (message.reasoning, message.content) != (reasoning, content) or read != [
        (c.name, c.arguments) for c in calls
    ]:
        return None
    return Example(start, text, explain([text], _parser(grammar, start)), list(told(events, text)))


def _parser(grammar: c.Grammar, start: str) -> Parser:
    state: Start = "reasoning" if start == "reasoning" else "content"
    return Parser(grammar=grammar, tools=TOOLS, start=state)


def told(events: Iterable[Event], text: str) -> Iterator[str]:
    """A line per event, neighbours of one kind joined; ids that are not in ``text`` are ours, and left out."""
    last: Event | None = None
    for event in [*events, None]:
        joined = _joined(last, event)
        if joined is None and last is not None:
            yield _line(last, text)
        last = joined or event


def _joined(last: Event | None, event: Event | None) -> Event | None:
    match last, event:
        case Content() as a, Content() as b:
            return Content(a.text + b.text, a.start, b.end)
        case Reasoning() as a, Reasoning() as b:
            return Reasoning(a.text + b.text, a.start, b.end)
        case CallArguments() as a, CallArguments() as b if a.index == b.index:
            return CallArguments(a.index, a.delta + b.delta, a.start, b.end)
    return None


def _line(event: Event, text: str) -> str:
    match event:
        case Reasoning():
            said = f"reasoning       {json.dumps(event.text, ensure_ascii=False)}"
        case Content():
            said = f"content         {json.dumps(event.text, ensure_ascii=False)}"
        case CallStart():
            said = f"call_start      {event.index} {event.name}" + (f" id={event.id}" if event.id in text else "")
        case CallArguments():
            said = f"call_arguments  {event.index} {event.delta}"
        case CallEnd():
            said = f"call_end        {event.index} {event.status}"
        case Diagnostic():
            said = f"diagnostic      {event.code}: {event.message}"
    return f"{f'{event.start}-{event.end}':<9}{said}"
