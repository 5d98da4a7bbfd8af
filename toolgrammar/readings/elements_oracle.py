"""Arguments as elements that nest, read for the oracle by rules of its own: see ``elements`` for what they are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import parsy  # type: ignore[import-untyped, unused-ignore]

from toolgrammar.readings.elements import KEY, child_schema, typing_plan
from toolgrammar.readings.parsing import steps


def read_elements(prefix: str, root: Any) -> parsy.Parser:
    """A parser of all elements up to one that only closes."""
    schema = root if isinstance(root, Mapping) else {}
    white = parsy.regex(r"\s*")
    opener = white >> parsy.string(prefix) >> parsy.regex(r"[ \t]*<") >> parsy.regex(KEY) << parsy.string(">")

    def element(parent: Any, array: bool) -> parsy.Parser:
        @steps("an element")
        def read() -> Any:
            key = yield opener
            found = parent.get("items") if array and isinstance(parent, Mapping) else child_schema(parent, key)
            value = yield body(key, found if isinstance(found, Mapping) else None)
            yield parsy.string(f"{prefix}</{key}>")
            return key, value

        return read

    def body(key: str, schema: Any) -> parsy.Parser:
        plan = typing_plan(schema, root)
        closer = f"{prefix}</{key}>" if plan.only_string else prefix
        text = parsy.regex(f"(?:(?!{re.escape(closer)}).)*", re.S)
        if plan.only_string:
            return text
        kind = (schema or {}).get("type")
        listed = (element(schema, True).at_least(1) << white).map(lambda found: [value for _, value in found])
        record = element(schema, False).at_least(1).map(dict) << white
        if kind == "array" or schema is None:
            items = parsy.peek(
                opener.bind(lambda key: parsy.success(key) if key == "item" else parsy.fail("an item"))
            )
            record = (listed if kind == "array" else items >> listed) | record
        return record | text.map(lambda found: json.loads(plan.encode(found)))

    return element(schema, False).many().map(dict) << white
