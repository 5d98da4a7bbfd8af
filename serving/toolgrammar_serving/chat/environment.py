"""The Jinja environment of chat templates, as transformers' ``apply_chat_template`` has it, without transformers.

Templates come with models, which come from anywhere: the sandbox keeps them from the process, ``range`` is
limited, a text or list cannot be multiplied to any length, and an output has a limit. Nested loops can still
take long, which is why a request's own template needs the operator's leave.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

#: Attributes of dictionaries, which go before items of the same name.
_OF_DICT: Final = frozenset(dir(dict))
#: Items or characters that ``*`` may make.
_MOST: Final = 1_000_000


class _Generation(Extension):
    """``{% generation %}``: what the model said, for training masks; here only its contents."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> Any:
        """The statements inside, in a scope of their own as a call block has."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


class _Names(Namespace):
    """A namespace without private attributes."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *given = args  # ``namespace(self=...)`` is a template's right
        names = dict(*given, **kwargs)
        for name in names:
            _public(name)
        Namespace.__init__(self, names)

    def __setitem__(self, name: str, value: Any) -> None:
        _public(name)
        Namespace.__setitem__(self, name, value)


def _public(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a chat template may not set {name!r}")


class _Dict:
    """``dict`` with nothing to reach through it."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        """As ``dict.fromkeys``."""
        return dict.fromkeys(*args)


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(["*", "**"])

    def getattr(self, obj: Any, attribute: str) -> Any:
        """As the sandbox has it; what is no method of a dictionary's is looked up at once. Messages and tools are
        dictionaries: the sandbox's checks of an attribute that is not there are most of a template's time."""
        if type(obj) is not dict or attribute in _OF_DICT:
            return super().getattr(obj, attribute)
        try:
            return obj[attribute]
        except KeyError:
            return self.undefined(obj=obj, name=attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """``*`` and ``**``, of reasonable size."""
        if operator == "*":
            for one, other in ((left, right), (right, left)):
                if isinstance(one, str | list | tuple) and isinstance(other, int) and len(one) * other > _MOST:
                    raise SecurityError("a chat template makes a text or list too long")
        elif isinstance(right, int) and abs(right) > 1000:
            raise SecurityError("a chat template makes a number too large")
        return super().call_binop(context, operator, left, right)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON for a prompt: nothing escaped for HTML, which Jinja's own filter does."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@lru_cache(maxsize=4)
def environment(now: Callable[[], datetime] = datetime.now) -> jinja2.Environment:
    """The environment; ``now`` is what ``strftime_now`` reads."""
    made = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    made.filters["tojson"] = _tojson
    made.globals["raise_exception"] = _raise_exception
    made.globals["strftime_now"] = lambda shape: now().strftime(shape)
    made.globals["dict"] = _Dict()
    made.globals["namespace"] = _Names
    return made
