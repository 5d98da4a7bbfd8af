"""Character classes in the syntax tree of a pattern, and as they are written."""

from __future__ import annotations

import re
import re._parser as sre  # type: ignore[import-not-found]
from collections.abc import Sequence
from typing import Any, Final

from toolgrammar.combinators import WHITE

_WHITE: Final = frozenset(WHITE + "\f\v")
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


def class_of(item: Any, any_literal: bool = False) -> str | None:
    """The character class that ``item`` is, as written in a pattern ("" is any character); None if it is none."""
    op, argument = str(item[0]), item[1]
    if op == "ANY":
        return ""
    if op == "NOT_LITERAL":
        return f"[^{re.escape(chr(argument))}]"
    if op == "LITERAL" and any_literal:
        return f"[{re.escape(chr(argument))}]"
    if op != "IN":
        return None
    text = "".join(map(_member, argument))
    return text if text in _CATEGORIES.values() else f"[{text}]"


def _member(member: Any) -> str:
    op, argument = str(member[0]), member[1]
    if op == "NEGATE":
        return "^"
    if op == "RANGE":
        return "-".join(re.escape(chr(code)) for code in argument)
    return _CATEGORIES[str(argument)] if op == "CATEGORY" else re.escape(chr(argument))


def union(classes: Sequence[str]) -> str:
    """A class of all characters of some classes; "" if there is no simple one."""
    if len(set(classes)) == 1:
        return classes[0]
    if any(text == "" or text.startswith("[^") or text in (r"\D", r"\S", r"\W") for text in classes):
        return ""
    return "[" + "".join(text[1:-1] if text.startswith("[") else text for text in dict.fromkeys(classes)) + "]"


def with_bounds(chars: str, least: int, most: Any) -> str:
    """A class and how often, as written."""
    if (least, most) == (1, 1):
        return chars or "."
    return f"{chars or '.'}{{{least},{'' if most is sre.MAXREPEAT else most}}}"


def is_white(item: Any) -> bool:
    """Whether an item is one character of white space."""
    op, argument = str(item[0]), item[1]
    if op == "LITERAL":
        return chr(argument) in _WHITE
    return op == "IN" and all(map(_is_blank, argument))


def _is_blank(member: Any) -> bool:
    kind, value = str(member[0]), member[1]
    return (kind == "LITERAL" and chr(value) in _WHITE) or str(value) == "CATEGORY_SPACE"


def white_chars(item: Any) -> str:
    """The characters of a class that ``is_white``."""
    if str(item[0]) == "LITERAL":
        return chr(item[1])
    given = "".join(chr(value) for kind, value in item[1] if str(kind) == "LITERAL")
    return given if all(str(kind) == "LITERAL" for kind, _ in item[1]) else WHITE
