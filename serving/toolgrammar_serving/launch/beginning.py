"""Where captured outputs begin, if neither an option nor a template says it: as their texts speak for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from toolgrammar import parse, registry
from toolgrammar.cli.inputs import Record
from toolgrammar.parser import Start

_INSIDE: Final = "reasoning"


class Beginning(NamedTuple):
    """A start, and what is to be said of it: nothing if it is the usual one."""

    start: Start = "auto"
    why: str = ""


def choose_beginning(format_name: str, records: Iterable[Record]) -> Beginning:
    """Inside reasoning if every whole text of ``records`` began there; a hint if only some did."""
    grammar = registry.load(format_name)
    if _INSIDE not in grammar.starts:
        return Beginning()
    inside = count = 0
    for record in records:
        text = "".join(record.pieces)
        if not text or record.finish == "length":  # one that was cut may never have come to the end of reasoning
            continue
        count += 1
        inside += record.start == _INSIDE if record.start else began_inside(text, format_name)
    if not inside:
        return Beginning()
    if inside == count:
        whose = "the text ends" if count == 1 else f"all {count} texts end"
        return Beginning(_INSIDE, f"{whose} a reasoning that the prompt began")
    return Beginning("auto", f"{inside} of {count} texts seem to begin inside it; --start reasoning, if all do")


def began_inside(text: str, format_name: str) -> bool:
    """Whether ``text`` has the end of a reasoning that it does not begin: as content, the end would be shown."""
    spans = parse(text, format_name, start=_INSIDE).spans[:2]
    if [span[2] for span in spans] != [_INSIDE, "framing"]:
        return False
    mark = text[spans[1][0] : spans[1][1]].strip()
    return bool(mark) and mark in (parse(text, format_name, start="content").content or "")
