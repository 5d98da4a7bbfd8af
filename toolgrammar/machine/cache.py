"""Compiled programs, one per grammar and set of token markers, kept for the life of the process."""

from __future__ import annotations

from functools import lru_cache

from toolgrammar.combinators import Grammar
from toolgrammar.machine.program import Program

#: Programs kept; a server serves few formats, a test run many.
_KEPT = 256

_programs: dict[tuple[int, tuple[str, ...]], tuple[Grammar, Program]] = {}


def program_of(grammar: Grammar, tokens: tuple[str, ...] = ()) -> Program:
    """The compiled ``grammar``. ``tokens``: special tokens that come as sentinels (``machine.tokens``)."""
    key = (id(grammar), tokens)
    found = _programs.get(key)
    if found is not None:
        return found[1]
    program = _compiled(_Key(grammar), tokens)
    if len(_programs) >= _KEPT:
        _programs.clear()
    _programs[key] = (grammar, program)
    return program


class _Key:
    """A grammar as a cache key: equal by its serialised form."""

    __slots__ = ("data", "grammar")

    def __init__(self, grammar: Grammar) -> None:
        import msgspec

        self.grammar = grammar
        self.data = msgspec.msgpack.encode(grammar)

    def __hash__(self) -> int:
        return hash(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.data == self.data


@lru_cache(maxsize=_KEPT)
def _compiled(key: _Key, tokens: tuple[str, ...]) -> Program:
    # Imported here, and what reads the grammar's values with it: no call in a stream waits for an import.
    from toolgrammar.machine.compile import compile_grammar
    from toolgrammar.machine.values import scanner_of

    program = compile_grammar(key.grammar, tokens)
    for op in {state.op for state in program.states}:
        scanner_of(op)
    return program
