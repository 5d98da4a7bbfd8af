"""What ``bench`` measures: the same six outputs written in each format by the renderer.

    short      300 characters of reasoning and one call
    five       the same and five calls
    code5      one call whose argument is a Python file of 5 KB (quotes, line ends, ``<``, ``>``)
    code20     the same with 20 KB
    think100   100 KB of reasoning and a word
    prose20    20 KB of content, no call

A format that cannot say reasoning gets the text as content, or none if there are calls. Deltas have 4
characters, but a marker that is a special token arrives whole, as it does from a model.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from toolgrammar.cli.grammars import markers_of
from toolgrammar.combinators import Grammar
from toolgrammar.parser import Start

NAMES: Final = ("short", "five", "code5", "code20", "think100", "prose20")
#: Workloads that are plain text to the parser.
PLAIN: Final = ("think100", "prose20")
DELTA: Final = 4

TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "description": "Write a text file",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
                "required": ["path", "text"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "tide_table",
            "description": "Tides of a harbour",
            "parameters": {
                "type": "object",
                "properties": {
                    "harbour": {"type": "string"},
                    "days": {"type": "integer"},
                    "metric": {"type": "boolean"},
                },
                "required": ["harbour"],
            },
        },
    },
]

_SENTENCES: Final = (
    "The harbour master wants the times for Tuesday, so the table has to start a day early. ",
    "If the swell is above 2 m, the small jetty is closed; 3 < 5 boats would fit anyway.\n",
    "I should ask for metric units, because the form says so (see page 4). ",
    "Nothing here depends on the moon - only on the wind, the gauge and who is on duty. ",
    "Grün heißt frei, красный - закрыто; the sign says 満潮 at noon.\n\n",
)
_HARBOURS: Final = ("Oban", "Whitby", "Ålesund", "La Spezia", "St. John's")
_SPECIAL: Final = re.compile(r"<[|｜][^<>|｜]+[|｜]>")


@dataclass(frozen=True)
class Workload:
    """One output in one format, cut into deltas. ``argument``: the long string in it, if there is one."""

    name: str
    format: str
    text: str
    deltas: list[str]
    tools: list[dict[str, Any]]
    start: Start
    argument: str = ""


def build(grammar: Grammar, name: str) -> Workload:
    """The workload ``name`` in the format of ``grammar``; ``RenderError`` if it has no way to say it."""
    calls: list[tuple[str, dict[str, Any]]] = []
    reasoning = content = argument = ""
    if name in ("short", "five"):
        reasoning = prose(300)
        calls = [_tides(n) for n in range(1 if name == "short" else 5)]
    elif name in ("code5", "code20"):
        argument = code(5335 if name == "code5" else 20_000)
        calls = [("write_file", {"path": "harbour/tides.py", "text": argument})]
    elif name == "think100":
        reasoning, content = prose(100_000), "Closed."
    else:
        content = prose(20_000)
    text, start = write(grammar, calls, content, reasoning)
    return Workload(name, grammar.name, text, cut(text, special(grammar)), TOOLS, start, argument)


def write(
    grammar: Grammar, calls: list[tuple[str, dict[str, Any]]], content: str, reasoning: str
) -> tuple[str, Start]:
    """An output of the format, and the start it is written for."""
    from toolgrammar.readings.render import RenderError, render_calls

    try:
        text = render_calls(grammar, calls, TOOLS, content=content or None, reasoning=reasoning or None)
    except RenderError:
        text = render_calls(grammar, calls, TOOLS, content=(reasoning + content) or None)
    return text, "content"


def prose(length: int) -> str:
    """Plain text of a given length, without markup."""
    once = "".join(_SENTENCES)
    return (once * (length // len(once) + 1))[: length - 1].rstrip() + "."


def code(length: int) -> str:
    """A Python file of about that many characters."""
    lines = ['"""Tide tables; see <https://tides.example/docs>."""', "", "import math", ""]
    size, n = 0, 0
    while size < length:
        block = (
            f"def height_{n}(hour: int, gauge: dict[str, float]) -> float:\n"
            f'    """Height at \\"hour\\" for gauge {n}, in metres."""\n'
            f"    if hour < {n % 24} and gauge.get('base', 0.0) > {n}.5:\n"
            f'        print(f"late: {{hour}} <{{gauge!r}}>\\n")\n'
            f"    return gauge['mean'] + math.sin(hour / 12.4) * {n + 1}  # 100% \\\\ ok\n"
        )
        lines.append(block)
        size, n = size + len(block) + 1, n + 1
    return "\n".join(lines)[:length]


def _tides(n: int) -> tuple[str, dict[str, Any]]:
    return "tide_table", {"harbour": _HARBOURS[n % len(_HARBOURS)], "days": n + 2, "metric": n % 2 == 0}


def special(grammar: Grammar) -> tuple[str, ...]:
    """What a model writes as one token: declared texts, stops, and what looks like ``<|...|>``."""
    found = {*grammar.tokens, *grammar.stops}
    for marker in markers_of(grammar):
        found.update(_SPECIAL.findall(marker.text))
    return tuple(sorted(filter(None, found), key=lambda text: (-len(text), text)))


def cut(text: str, whole: tuple[str, ...]) -> list[str]:
    """``text`` in deltas of 4 characters, the texts of ``whole`` each in one."""
    if not whole:
        return _fours(text)
    pieces: list[str] = []
    for part in re.split("(" + "|".join(map(re.escape, whole)) + ")", text):
        pieces += [part] if part in whole else _fours(part)
    return pieces


def _fours(text: str) -> list[str]:
    return [text[at : at + DELTA] for at in range(0, len(text), DELTA)]


def argument_deltas(workload: Workload) -> int:
    """How many deltas lie wholly within the long string as it is spelled in the text."""
    spelled = next((form for form in _spellings(workload.argument) if form and form in workload.text), "")
    if not spelled:
        return 0
    start = workload.text.index(spelled)
    end, at, count = start + len(spelled), 0, 0
    for delta in workload.deltas:
        count += start <= at and at + len(delta) <= end
        at += len(delta)
    return count


def _spellings(text: str) -> list[str]:
    return [text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1], repr(text)[1:-1]]
