"""How a turn is written where the format leaves a choice. ``Canonical`` writes as a template would.

A style decides spellings, framing white space, which way on is the cheapest, and how values are spelled. It never
decides what is said: every style of one turn reads back the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from toolgrammar import combinators as c

_NAME = re.compile(r"[^\W\d]\w*")
_BARE_KEY = re.compile(r"[^\W]+(?:[.-]\w+)*")


class Style:
    """The canonical style; subclasses vary it. Stateless."""

    def cost(self, usual: int) -> int:
        """What a step that usually costs ``usual`` costs; the cheapest way is taken, ties in order."""
        return usual

    def spelling(self, node: c.Lit) -> str:
        """Which spelling of a marker is written."""
        return node.spellings[0]

    def white(self, node: c.Ws) -> str | None:
        """Framing white space; None: what becomes the markers on both sides."""
        if node.canonical or node.exact:
            return node.canonical or node.exact
        return (" " if " " in node.chars else node.chars[0]) * node.least if node.least else None

    def json(self, value: Any) -> str:
        """``value`` as JSON. Raises ``ValueError`` for what JSON cannot say."""
        return json.dumps(value, ensure_ascii=False, allow_nan=False)

    def envelope(self, node: c.Envelope, name: str, arguments: Mapping[str, Any], id: str | None) -> str:
        """The call object of ``node``."""
        if node.tool_key:
            return self.json({name: arguments})
        members: dict[str, Any] = {node.names[0]: name, node.arguments[0]: arguments}
        if id is not None and node.ids:
            members[node.ids[0]] = id
        return self.json(members)

    def python(self, value: Any) -> str:
        """``value`` as a Python literal."""
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{self.python(key)}: {self.python(each)}" for key, each in value.items()) + "}"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(self.python, value)) + "]"
        if value is None or isinstance(value, bool):
            return repr(value)
        return self.json(value)

    def keywords(self, arguments: Mapping[str, Any]) -> str:
        """Python keyword arguments with their closing parenthesis."""
        given = [
            f"{key}={self.python(value)}" if _NAME.fullmatch(key) and key.isascii()
            else f"**{{{self.python(key)}: {self.python(value)}}}"
            for key, value in arguments.items()
        ]  # fmt: skip
        return ", ".join(given) + ")"

    def quoted(self, node: c.Quoted, value: Any) -> str:
        """``value`` with strings between ``node.quote``. Raises ``ValueError`` for a string that holds it."""
        if isinstance(value, Mapping):
            members = [f"{self._quoted_key(node, key)}:{self.quoted(node, each)}" for key, each in value.items()]
            return "{" + ",".join(members) + "}"
        if isinstance(value, (list, tuple)):
            return "[" + ",".join(self.quoted(node, each) for each in value) + "]"
        if isinstance(value, str):
            if node.quote in value + node.quote[:-1]:
                raise ValueError(f"a string holds the format's string delimiter {node.quote!r}")
            return node.quote + value + node.quote
        return self.json(value)

    def _quoted_key(self, node: c.Quoted, key: str) -> str:
        return key if _BARE_KEY.fullmatch(key) else self.quoted(node, key)


Canonical = Style()
