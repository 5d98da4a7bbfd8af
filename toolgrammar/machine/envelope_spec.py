"""What a format's call objects look like: which member means what, and when an object is a call.

    EnvelopeSpec(ids=("id",), wrappers=("function",))                      hermes
    EnvelopeSpec(other="reject", type_value="function", decide="weak")     llama3-json in running text

The scanner reads the derived ``roles``, ``strict`` and ``decision``; the rest is as given.
"""

from __future__ import annotations

from typing import Any, Final

# What a member is to the call.
KEY: Final = 0  # not a value: the string that is read is a key
NAME: Final = 1
ARGUMENTS: Final = 2
ID: Final = 3
WRAPPER: Final = 4
TYPE: Final = 5
OTHER: Final = 6

BEGUN: Final = 0
STRONG: Final = 1
WEAK: Final = 2
OFFERED: Final = 3
_DECIDE: Final = {"begun": BEGUN, "strong": STRONG, "weak": WEAK, "offered": OFFERED}


class EnvelopeSpec:
    """What a format's call objects look like. Not changed once made.

    ``decide`` says when an object is certainly a call:

    =========  =============================================================================
    begun      name complete and the first character of the arguments read, or the object closed
    strong     an offered name complete, or any name and the arguments' key and colon
    weak       an offered name and the arguments' key and colon; any other name is a FLAW
    offered    the same, or the object closed with an offered name and no arguments
    =========  =============================================================================
    """

    __slots__ = (
        "allowed",
        "arguments",
        "decide",
        "decision",
        "ids",
        "names",
        "other",
        "roles",
        "strict",
        "tool_key",
        "type_value",
        "wrappers",
    )

    def __init__(
        self,
        names: tuple[str, ...] = ("name",),
        arguments: tuple[str, ...] = ("arguments", "parameters"),
        ids: tuple[str, ...] = (),
        wrappers: tuple[str, ...] = (),
        other: str = "ignore",
        allowed: tuple[str, ...] = (),
        type_value: str = "",
        decide: str = "begun",
        tool_key: bool = False,
    ) -> None:
        if other not in ("ignore", "reject"):
            raise ValueError(f'other: expected "ignore" or "reject", found {other!r}')
        if decide not in _DECIDE:
            raise ValueError(f"decide: expected one of {', '.join(_DECIDE)}, found {decide!r}")
        self.names: tuple[str, ...] = names
        self.arguments: tuple[str, ...] = arguments
        self.ids: tuple[str, ...] = ids
        self.wrappers: tuple[str, ...] = wrappers
        self.other: str = other
        self.allowed: tuple[str, ...] = allowed
        self.type_value: str = type_value
        self.decide: str = decide
        self.tool_key: bool = tool_key
        self.decision: int = _DECIDE[decide]
        self.strict: bool = other == "reject"
        self.roles: dict[str, int] = dict.fromkeys(allowed, OTHER)
        if type_value:
            self.roles["type"] = TYPE
        for keys, role in (
            (wrappers, WRAPPER),
            (ids, ID),
            (arguments, ARGUMENTS),
            (names, NAME),
        ):
            self.roles.update(dict.fromkeys(keys, role))

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.names, self.arguments, self.ids, self.wrappers, self.other, self.allowed)
        return (EnvelopeSpec, (*given, self.type_value, self.decide, self.tool_key))
