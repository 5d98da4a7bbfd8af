"""parsy with types, as far as the oracle needs it: parsers are ``Any`` to the type checker."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import parsy  # type: ignore[import-untyped, unused-ignore]


def primitive(run: Callable[[str, int], Any]) -> Any:
    """A parser that is the function of text and index it decorates."""
    return parsy.Parser(run)


def steps(what: str) -> Callable[[Callable[[], Generator[Any, Any, Any]]], Any]:
    """A parser made of the parsers that the decorated function yields; ``what`` it expects."""
    return lambda run: parsy.generate(what)(run)
