"""Helpers for people who write grammars: feed a case in every way and compare it with what is right.

A case is a dict, one line of a case file (``toolgrammar check FILE`` runs whole files)::

    {"id": "mine/one-call", "format": "mine", "tools": [...], "starts_in": "content",
     "text": "<call>...", "chunks": [["<ca", "ll>..."]],
     "expect": {"reasoning": null, "content": null, "unfinished": false,
                "tool_calls": [{"name": "f", "arguments": {"x": 1}}]}}

A call of ``tool_calls`` has either ``arguments`` (it must be complete) or ``arguments_text`` (it must be
incomplete, or malformed where ``"status": "malformed"`` says so, with what was passed on). ``id`` is compared
where it is given. ``"soft": true`` marks an arguable case: reported, never a failure.

In a test of your own::

    from toolgrammar import Parser
    from toolgrammar.testing import run_case

    def test_my_format(case):
        result = run_case(case, lambda case: Parser(grammar="mine.tg", tools=case["tools"]))
        assert result.ok, result.report()
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolgrammar.events import CallArguments, Content, Event, Reasoning
from toolgrammar.message import Call, Message

__all__ = ["CaseResult", "Difference", "Way", "every_split", "random_splits", "run_case", "same_value"]


class ParserLike(Protocol):
    """What ``run_case`` needs of a parser."""

    def feed(self, text: str, /) -> list[Event]: ...
    def finish(self) -> list[Event]: ...
    def message(self) -> Message: ...


@dataclass(frozen=True)
class Difference:
    """One field that is not as expected. ``white``: only white space at an end of the text differs."""

    field: str
    expected: Any
    got: Any
    white: bool = False
    note: str = ""

    def __str__(self) -> str:
        note = "white space only" if self.white else self.note
        what = f"{self.field} ({note})" if note else self.field
        return f"{what}: expected {_show(self.expected)}, got {_show(self.got)}"


@dataclass(frozen=True)
class Way:
    """One way of feeding the text, and what differed."""

    name: str
    differences: list[Difference] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing differed."""
        return not self.differences


@dataclass(frozen=True)
class CaseResult:
    """A case fed in several ways."""

    id: str
    format: str
    soft: bool
    ways: list[Way]

    @property
    def ok(self) -> bool:
        """Every way gave what was expected, white space included."""
        return all(way.ok for way in self.ways)

    @property
    def white_only(self) -> bool:
        """It fails, but by nothing except white space at the ends of reasoning or content."""
        return not self.ok and all(diff.white for way in self.ways for diff in way.differences)

    def report(self) -> str:
        """The differences as text; ways that differ in the same manner share a paragraph."""
        groups: dict[str, list[str]] = {}
        for way in self.ways:
            if not way.ok:
                groups.setdefault("\n".join(f"  {diff}" for diff in way.differences), []).append(way.name)
        said = {
            text: "every way" if len(names) == len(self.ways) else ", ".join(names)
            for text, names in groups.items()
        }
        return "\n".join(f"{self.id}, {names}:\n{text}" for text, names in said.items())


def every_split(text: str) -> Iterator[list[str]]:
    """``[a, b]`` for every place where ``text`` can be cut in two."""
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]


def random_splits(text: str, n: int, seed: int = 0) -> Iterator[list[str]]:
    """``n`` ways to cut ``text`` at random places, from few cuts to many; the same for the same seed."""
    source = random.Random(f"{seed}:{len(text)}")
    for _ in range(n):
        places = max(len(text) - 1, 0)
        cuts = sorted(source.sample(range(1, len(text)), source.randint(0, places))) if places else []
        yield [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def run_case(
    case: Mapping[str, Any],
    parser_factory: Callable[[Mapping[str, Any]], ParserLike] | None = None,
    *,
    cuts: int = 8,
    seed: int = 0,
) -> CaseResult:
    """Feed ``case`` whole, one code point at a time, in its own chunks and over ``cuts`` random cuts.

    ``parser_factory`` is called with the case for each way; the default makes
    ``Parser(case["format"], tools=case["tools"], start=case["starts_in"])``.
    """
    make = parser_factory or _default_parser
    text = case["text"]
    feeds = [("whole", [text]), ("code points", list(text))]
    own = case.get("chunks") or []
    if own and isinstance(own[0], str):
        own = [own]
    feeds += [(f"chunks[{n}]", pieces) for n, pieces in enumerate(own)]
    feeds += [(f"random[{n}]", pieces) for n, pieces in enumerate(random_splits(text, cuts, seed))]
    return CaseResult(
        id=str(case.get("id", "")),
        format=str(case.get("format", "")),
        soft=bool(case.get("soft", False)),
        ways=[Way(name, _feed(make(case), pieces, case["expect"])) for name, pieces in feeds],
    )


def _default_parser(case: Mapping[str, Any]) -> ParserLike:
    from toolgrammar import Parser

    parser: ParserLike = Parser(case["format"], tools=case.get("tools"), start=case.get("starts_in", "auto"))
    return parser


def _feed(parser: ParserLike, pieces: Sequence[str], expect: Mapping[str, Any]) -> list[Difference]:
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
    events += parser.finish()
    message = parser.message()
    return [
        *compare(expect, message),
        *_agrees(events, message),
        *_tiles(message, sum(map(len, pieces))),
    ]


def compare(expect: Mapping[str, Any], message: Message) -> list[Difference]:
    """Where ``message`` is not what ``expect`` says, by the grading rules of the formats."""
    found = [
        *_texts("reasoning", expect.get("reasoning"), message.reasoning),
        *_texts("content", expect.get("content"), message.content),
    ]
    wanted = expect.get("tool_calls") or []
    names = [call["name"] for call in wanted], [call.name for call in message.calls]
    if names[0] != names[1]:
        found.append(Difference("calls", *names))
    else:
        for n, (want, call) in enumerate(zip(wanted, message.calls, strict=True)):
            found += _call(f"calls[{n}]", want, call)
    if bool(expect.get("unfinished", False)) != message.unfinished:
        found.append(Difference("unfinished", bool(expect.get("unfinished", False)), message.unfinished))
    return found


def _texts(name: str, want: str | None, got: str | None) -> list[Difference]:
    if want == got:
        return []
    return [Difference(name, want, got, white=(want or "").strip() == (got or "").strip())]


def _call(name: str, want: Mapping[str, Any], call: Call) -> list[Difference]:
    found = []
    status = want.get("status") or ("complete" if "arguments" in want else "incomplete")
    if status != call.status:
        found.append(Difference(f"{name}.status", status, call.status))
    if "arguments" in want:
        if not same_value(want["arguments"], call.arguments):
            got = call.arguments if call.arguments is not None else call.arguments_raw
            found.append(Difference(f"{name}.arguments", want["arguments"], got))
    elif (flaw := _text_flaw(want["arguments_text"], call.arguments_raw)) is not None:
        found.append(Difference(f"{name}.arguments_text", want["arguments_text"], call.arguments_raw, note=flaw))
    if "id" in want and want["id"] != call.id:
        found.append(Difference(f"{name}.id", want["id"], call.id))
    return found


def same_value(a: Any, b: Any) -> bool:
    """Equal as JSON values: numbers by value, and true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_value(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_value, a, b))
    return bool(a == b)


def _text_flaw(want: str, got: str) -> str | None:
    """None if ``got`` may stand for ``want``, else a note: one is a prefix of the other, and none unsound."""
    (a, _), (b, inside) = _squeeze(want), _squeeze(got)
    if a.startswith(b):
        return None
    if not b.startswith(a):
        return ""
    tail = b[len(a) :]
    if not inside and tail.endswith(","):
        return "ends in a comma"
    if not inside and tail[-1] not in '"{}[]:':
        return "ends in an undecided word"
    if inside and _cut_escape(tail):
        return "ends in a cut escape"
    return None


def _squeeze(text: str) -> tuple[str, bool]:
    """``text`` without the white space outside strings, and whether it ends inside a string."""
    out: list[str] = []
    inside = escaped = False
    for char in text:
        if inside:
            out.append(char)
            inside = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char not in " \t\r\n":
            out.append(char)
            inside = char == '"'
    return "".join(out), inside


def _cut_escape(text: str) -> bool:
    at = len(text) - len(text.rstrip("\\"))
    if at % 2:
        return True
    hexed = text.rpartition("\\u")
    slashes = len(hexed[0]) - len(hexed[0].rstrip("\\"))
    return bool(hexed[1]) and slashes % 2 == 0 and len(hexed[2]) < 4


def _agrees(events: Sequence[Event], message: Message) -> list[Difference]:
    """The events, joined, are the message."""
    found = []
    reasoning = "".join(event.text for event in events if isinstance(event, Reasoning))
    content = "".join(event.text for event in events if isinstance(event, Content))
    if (reasoning or None) != message.reasoning:
        found.append(Difference("joined reasoning events", message.reasoning, reasoning))
    if (content or None) != message.content:
        found.append(Difference("joined content events", message.content, content))
    pieces = [""] * len(message.calls)
    for event in events:
        if isinstance(event, CallArguments):
            pieces[event.index] += event.delta
    for call, text in zip(message.calls, pieces, strict=True):
        if call.arguments_raw != text:
            found.append(Difference(f"joined arguments events of call {call.index}", call.arguments_raw, text))
    return found


def _tiles(message: Message, length: int) -> list[Difference]:
    """The spans cover the text: each begins where the one before it ended."""
    at = 0
    for start, end, _ in message.spans:
        if start != at or end <= start:
            return [Difference("spans", f"a span from {at}", f"[{start}, {end}]")]
        at = end
    return [] if at == length else [Difference("spans", f"an end at {length}", at)]


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
