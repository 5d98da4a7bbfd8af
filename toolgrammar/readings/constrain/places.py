"""Where the walk is: a place in the grammar, and what must be known there to go on."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from toolgrammar import combinators as c
from toolgrammar.readings.first import Chain

#: What was last heard of before here: nothing yet, or text of a sink, or a call.
Since: TypeAlias = Literal["start", "reasoning", "content", "call"]

#: A parameter's place among the properties where any key may stand.
ANY: Final = -1


class Place(msgspec.Struct, frozen=True):
    """A place on the way through the grammar. Equal places go on alike."""

    chain: Chain | None
    regs: tuple[tuple[str, str], ...] = ()
    #: Registers that a field has filled since the last value of the call.
    filled: tuple[str, ...] = ()
    #: The next property of the call being made, whether it was chosen, and whether all values are written.
    member: int = 0
    chosen: bool = False
    in_loop: bool = False
    written: bool = False
    in_call: bool = False
    called: bool = False
    #: For each open call section, whether a call was made in it.
    sections: tuple[bool, ...] = ()
    #: Inside an attempt whose opener may be prose.
    word: bool = False
    #: A call must still come.
    unfinished: bool = False
    need: tuple[str, ...] = ()
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

    def with_reg(self, name: str, text: str | None) -> tuple[tuple[str, str], ...]:
        """The registers with one of them set, or taken away."""
        kept = {register: value for register, value in self.regs if register != name}
        return tuple(sorted((kept if text is None else {**kept, name: text}).items()))


class JsonName(c._Node, frozen=True, tag=True):
    """A tool's name as a JSON string: inside a call object."""


class JsonId(c._Node, frozen=True, tag=True):
    """A call's id as a JSON string: inside a call object."""


class Told(c._Node, frozen=True, tag=True):
    """The end of a call, of a section: stands in chains."""

    what: str


END_CALL: Final = Told("call")
END_SECTION: Final = Told("section")
