"""Calls that were asked for may come as bare JSON: a format's grammar that reads those forms, too.

    named      {"room": "hall"}                                the arguments of the one tool
    required   [{"name": "set_lamp", "parameters": {…}}, …]    or one such object

Engines write these when a choice is enforced by a JSON schema, for want of a constraint in the model's own format.
They are looked for where content may begin; the format's own calls are read as ever.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from toolgrammar import combinators as c
from toolgrammar.errors import GrammarError
from toolgrammar.machine.cache import program_of

Forced: TypeAlias = Literal["named", "required"]

_ONE: Final = c.Envelope(other="reject", allowed=("type", "description"), type_value="function", decide="strong")
_RULES: Final[dict[str, c.Node]] = {
    "forced.list": c.seq(c.lit("["), c.ws, c.Ref("forced.items")),
    "forced.items": c.seq(
        _ONE,
        c.ws,
        c.alt(c.seq(c.lit(","), c.ws, c.alt(c.lit("]"), c.Ref("forced.items"))), c.lit("]")),
    ),
    "forced.bare": c.seq(
        c.Peek(c.lit("{")),
        c.Choose("name", (c.Arm(".*", c.Call(c.Json()), when="sole"),)),
    ),
}


def forced(grammar: c.Grammar, reading: Forced) -> c.Grammar:
    """``grammar`` with the forms of ``reading``; itself, if they cannot be told from what it has.

    ``named`` needs a parser to which only the one tool is offered.
    """
    forms: list[c.Node] = [_ONE, c.Ref("forced.list")]
    if reading == "named":
        forms.append(c.Ref("forced.bare"))
    made = _with(grammar, forms)
    try:
        program_of(made)
    except GrammarError:
        return grammar
    return made


def _with(grammar: c.Grammar, forms: list[c.Node]) -> c.Grammar:
    # With no marker in front they are tried one after the other; what none can read is content.
    unmarked = c.Let("name", "")
    first = [msgspec.to_builtins(c.attempt(unmarked, c.ws, form, word=True)) for form in forms]
    data = msgspec.to_builtins(grammar.rules)
    rules = {name: msgspec.convert(_before_content(node, first), c.Node) for name, node in data.items()}
    return msgspec.structs.replace(grammar, rules={**rules, **_RULES})


def _before_content(node: Any, first: list[Any]) -> Any:
    """``node``, as data, with one of ``first`` or nothing in front of every content."""
    if isinstance(node, dict):
        white = {"type": "Ws"}
        if node.get("type") == "Text" and node.get("sink") == "content":
            arms = [{"type": "Seq", "items": [attempt, white, node]} for attempt in first]
            return {"type": "Alt", "arms": [*arms, node]}
        return {key: _before_content(value, first) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_before_content(value, first) for value in node]
    return node
