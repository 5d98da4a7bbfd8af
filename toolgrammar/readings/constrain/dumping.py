"""Formats as JSON: the formats of xgrammar's structural tags.

>>> dump(seq(Const("<call>"), Run("0-9", 1, 4), Const("</call>")))
{'type': 'regex', 'pattern': '<call>[0-9]{1,4}<\\\\/call>'}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from toolgrammar.readings.constrain.formats import Const, Format, Free, Or, Repeat, Rules, Run, Schema, Seq

#: White space in a row inside JSON: enough for a deep indentation, not enough to go on for ever.
MOST_BLANKS: Final = 32

_KINDS: Final[Mapping[str, str]] = {"?": "optional", "*": "star", "+": "plus"}
_ESCAPES: Final[Mapping[str, str]] = {
    **{char: "\\" + char for char in "\\.^$*+?()[]{}|/-"}, "\n": "\\n", "\t": "\\t", "\r": "\\r",
}  # fmt: skip


def dump(item: Format) -> dict[str, Any]:
    """``item``, in which no hole is left, as a format of a structural tag."""
    match item:
        case Const() | Run():
            return _line([item])
        case Free(excludes):
            return {"type": "any_text", "excludes": list(excludes)} if excludes else {"type": "any_text"}
        case Schema(schema, _, excludes):
            found = {"type": "json_schema", "json_schema": schema, "max_whitespace_cnt": MOST_BLANKS}
            return {**found, "excludes": list(excludes)} if excludes else found
        case Rules(text):
            return {"type": "grammar", "grammar": text}
        case Seq(items):
            parts = list(_joined(items))
            if not parts:
                return {"type": "const_string", "value": ""}
            return parts[0] if len(parts) == 1 else {"type": "sequence", "elements": parts}
        case Or(items):
            return {"type": "or", "elements": [dump(each) for each in items]}
        case Repeat(inner, kind):
            return {"type": _KINDS[kind], "content": dump(inner)}
    raise TypeError(f"a hole is left: {item!r}")


def _joined(items: Iterable[Format]) -> Iterator[dict[str, Any]]:
    """The items as formats; texts and runs that stand side by side are one."""
    together: list[Const | Run] = []
    for item in items:
        if isinstance(item, Const | Run):
            together.append(item)
            continue
        if together:
            yield _line(together)
            together = []
        yield dump(item)
    if together:
        yield _line(together)


def _line(items: list[Const | Run]) -> dict[str, Any]:
    texts = [item.text for item in items if isinstance(item, Const)]
    if len(texts) == len(items):
        return {"type": "const_string", "value": "".join(texts)}
    return {"type": "regex", "pattern": "".join(map(_pattern, items))}


def _pattern(item: Const | Run) -> str:
    if isinstance(item, Run):
        return f"[{item.chars}]{{{item.least},{item.most}}}"
    return "".join(_ESCAPES.get(char, char) for char in item.text)
