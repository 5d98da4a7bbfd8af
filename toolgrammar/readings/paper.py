"""What the renderer has written so far: an immutable state, and the text made of it at the end."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from toolgrammar import combinators as c
from toolgrammar.readings.first import Chain
from toolgrammar.readings.headers import Slot

TokenKind: TypeAlias = Literal["mark", "control", "white", "slot", "field", "text", "value"]


class Token(msgspec.Struct, frozen=True, eq=False):
    """A piece of the text. ``white`` with text None is settled when both its sides are known."""

    kind: TokenKind
    text: str | None
    before: Token | None
    #: slot: its number. white: the characters it may be made of.
    slot: int = -1
    chars: str = ""


class Paper(msgspec.Struct, frozen=True, eq=False):
    """A place on the way through the grammar, and everything written up to it."""

    chain: Chain | None
    #: Parts said, and members written of the call being made.
    part: int = 0
    members: int = 0
    in_call: bool = False
    id_said: bool = False
    regs: tuple[tuple[str, str], ...] = ()
    #: Fields whose text is not certain yet, by number; which one each register is.
    slots: tuple[Slot, ...] = ()
    slot_of: tuple[tuple[str, int], ...] = ()
    #: The next token must begin with one of these; () is no matter.
    need: tuple[str, ...] = ()
    #: Markers that would have been read here, had they been written.
    skipped: frozenset[str] = frozenset()
    #: The headers that would have been read here: characters, and what ends them.
    heads: frozenset[tuple[str, tuple[str, ...]]] = frozenset()
    said: frozenset[str] = frozenset()
    #: What may not be written, because a draft is open.
    closers: frozenset[str] = frozenset()
    #: A header stands in front: 2, with a marker behind it: 1.
    headed: int = 0
    #: Nothing may be written any more.
    over: bool = False
    #: How many parts had been said where each open section began.
    opened: tuple[int, ...] = ()
    #: A call or more must still come.
    unfinished: bool = False
    #: The parts that were written as blocks of their own.
    blocks: tuple[int, ...] = ()
    last: Token | None = None
    cost: int = 0

    def key(self) -> tuple[Any, ...]:
        """What the rest of the way depends on."""
        return (
            id(self.chain), self.part, self.members, self.in_call, self.id_said, self.regs,
            tuple((register, self.slots[number].text) for register, number in self.slot_of),
            self.need, self.headed, self.unfinished, self.opened, self.over, self.blocks, self.closers,
            self.last is None,
        )  # fmt: skip

    def reg(self, name: str) -> str | None:
        """The text of a register."""
        return dict(self.regs).get(name)


def put_together(paper: Paper) -> str:
    """The text that was written."""
    tokens: list[Token] = []
    token = paper.last
    while token is not None:
        tokens.append(token)
        token = token.before
    tokens.reverse()
    out: list[str] = []
    for place, token in enumerate(tokens):
        if token.kind == "slot":
            out.append(paper.slots[token.slot].text)
        elif token.text is not None:
            out.append(token.text)
        elif place and place + 1 < len(tokens):
            out.append(between(tokens[place - 1], tokens[place + 1], token.chars))
    return "".join(out)


def between(left: Token, right: Token, chars: str) -> str:
    """The white space a template writes between two tokens."""
    if chars == "\n":
        return "\n"
    if left.text in (",", ";") and " " in chars:
        return " "
    if "control" in (left.kind, right.kind) or right.kind in ("slot", "field", "text") or "\n" not in chars:
        return ""
    tag = left.kind == "mark" and (left.text or "").endswith((">", "```", "```json"))
    fence = right.kind == "mark" and (right.text or "").startswith(("<", "```"))
    return "\n" if tag or fence else ""


def text_before(token: Token | None) -> str:
    """The free text that ends here, if nothing but unwritten white space stands behind it."""
    while token is not None and token.kind == "white" and not token.text:
        token = token.before
    return token.text or "" if token is not None and token.kind == "text" else ""


def last_character(token: Token | None) -> str:
    """The character in front of here, as far as it is known; "" if it may be any."""
    while token is not None and not token.text:
        if token.kind == "slot":
            return ""
        token = token.before
    return "\n" if token is None else (token.text or "")[-1]


def white_token(node: c.Ws, text: str | None, before: Token | None) -> Token:
    """A token for framing white space."""
    return Token("white", text, before, chars=node.exact or node.chars)
