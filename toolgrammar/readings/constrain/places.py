"""Where the walk is: a place in the grammar, and what must be known there to go on."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from toolgrammar import combinators as c
from toolgrammar.readings.first import Chain

#: What was last heard of before here: nothing yet, or text of a sink, or a call.
Since: TypeAlias = Literal["start", "reasoning", "content", "call"]


class Place(msgspec.Struct, frozen=True):
    """A place on the way through the grammar. Equal places go on alike."""

    chain: Chain | None
    regs: tuple[tuple[str, str], ...] = ()
    #: Registers that a field has filled since the call, or the parameter, began.
    filled: tuple[str, ...] = ()
    #: Whose name the call bears, once that is settled: the name that stands for all that go the same way.
    like: str = ""
    in_call: bool = False
    in_member: bool = False
    #: The arguments are written.
    written: bool = False
    #: A call was made; and: one whose name was settled before it began has just ended.
    called: bool = False
    told: bool = False
    #: For each open call section, whether a call was made in it.
    sections: tuple[bool, ...] = ()
    #: Inside an attempt whose opener may be prose.
    word: bool = False
    #: A call must still come.
    unfinished: bool = False
    #: What must begin what follows, one of them.
    need: tuple[str, ...] = ()
    #: What would have been read here as something else.
    skipped: tuple[str, ...] = ()
    #: What the prompt's own beginning says behind the last marker.
    head: str = ""
    line_start: bool = True
    since: Since = "start"
    marked: bool = False
    #: The markers written since, so that none is written again and again.
    marks: tuple[str, ...] = ()
    thought: bool = False

    def reg(self, name: str) -> str | None:
        """The text of a register."""
        return dict(self.regs).get(name)

    def with_reg(self, name: str, text: str) -> tuple[tuple[str, str], ...]:
        """The registers with one of them set."""
        return tuple(sorted({**dict(self.regs), name: text}.items()))


class JsonName(c._Node, frozen=True, tag=True):
    """A tool's name as a JSON string: inside a call object."""


class JsonId(c._Node, frozen=True, tag=True):
    """A call's id as a JSON string: inside a call object."""


#: Stand at the end of a call, of a call section and of a parameter, in chains.
END_CALL: Final = c.Let("\0end", "call")
END_SECTION: Final = c.Let("\0end", "section")
END_MEMBER: Final = c.Let("\0end", "member")
