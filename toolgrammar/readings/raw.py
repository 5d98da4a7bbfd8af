"""Raw values: the text of a parameter between its tags, and whether it would come back as it was."""

from __future__ import annotations

import json
from typing import Any

from toolgrammar import combinators as c
from toolgrammar.readings.first import Chain, FirstSets
from toolgrammar.readings.style import Style
from toolgrammar.schema import Plan
from toolgrammar.testing import same_value


class Unwritable(Exception):
    """A value that the notation cannot say."""


def raw_text(style: Style, value: Any, kind: str | None, plan: Plan, key: str) -> str:
    """``value`` as the raw text that is typed back to it. Raises ``Unwritable``."""
    text = value if isinstance(value, str) else style.json(value)
    if kind is not None:
        read = json.dumps(text) if kind == "true" else plan.encode_json(text)
    else:
        read = plan.encode(text)
    if not same_value(json.loads(read), value):
        raise Unwritable(f"{key!r} would be read as {read[:60]}: the tool's schema decides its type")
    return text


def closes_early(first: FirstSets, chain: Chain | None, node: c.Typed, text: str, key: str) -> None:
    """Raise ``Unwritable`` if the value would end before its end."""
    written = text + node.trim
    peeks = _peeks(first, chain)
    for marker in first.of_chain(chain).markers:
        at = (written + marker.text).find(marker.text)
        while at < len(written):
            behind = (written + marker.text)[at + len(marker.text) :].lstrip(c.WHITE)
            if not peeks or behind.startswith(peeks):
                raise Unwritable(f"{key!r} holds the closer {marker.text!r}")
            at = (written + marker.text).find(marker.text, at + 1)
    for opener in node.reopen:
        for marker in first.of(opener).markers:
            if (("\n" + marker.text) if marker.line_start else marker.text) in "\n" + written:
                raise Unwritable(f"{key!r} holds {marker.text!r}, which ends it")


def _peeks(first: FirstSets, chain: Chain | None) -> tuple[str, ...]:
    """What must follow the closer for it to count; () is nothing."""
    nodes = list(chain or ())
    if len(nodes) > 1 and isinstance(nodes[0], c.Lit) and isinstance(nodes[1], c.Peek):
        return tuple(marker.text for marker in first.of(nodes[1].item).markers)
    return ()
