"""The output format of the model that is served: its grammar, its marks, parsers for requests."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from toolgrammar import Parser, registry
from toolgrammar.combinators import Call, Envelope, Grammar
from toolgrammar.errors import UnknownModelError
from toolgrammar.language.detect import Evidence
from toolgrammar.language.evidence import gather
from toolgrammar.machine.checks import walk
from toolgrammar.machine.tokens import Marks
from toolgrammar.parser import Start
from toolgrammar.schema import ToolTable
from toolgrammar_serving.chat.forced import Forced, forced
from toolgrammar_serving.chat.framing import Frame, opens, written
from toolgrammar_serving.errors import BadRequest

log: Final = logging.getLogger(__name__)

#: Everything is content.
PLAIN: Final = "identity"
_TRIED: Final = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]
_BARE: Final = '{"a": 1}'
_LIST: Final = '[{"name": "f", "parameters": {"a": 1}}]'


def grammar_for(name: str, directory: str | Path | None = None, template: str | None = None) -> Grammar:
    """The grammar that ``name`` stands for: a format, a peer's parser name, a ``.tg`` file, or ``auto``.

    ``auto`` looks at the operator's ``template``, then at the model's directory; a model of no known format is
    read as plain text, and that is logged. Raises ``UnknownModelError`` for a name that stands for nothing.
    """
    if name != "auto":
        return registry.load(name)
    if template is not None:
        evidence, _ = gather(Path(directory)) if directory is not None else (Evidence(), ())
        evidence = Evidence(template, evidence.vocab, evidence.archs)
        found = registry.default().by_evidence(evidence)
        if found and registry.default().known[found[0][0]].rank < registry.LATE:
            return registry.load(found[0][0])
    if directory is not None:
        try:
            return registry.load(str(directory))
        except UnknownModelError as error:
            log.warning("no format is known for this model (%s): its output is shown as it is", error)
    return registry.load(PLAIN)


class Format:
    """A grammar with the special tokens of one tokenizer. Shared by all requests."""

    def __init__(self, grammar: Grammar, special: Mapping[int, str]) -> None:
        self.grammar = grammar
        self.name = grammar.name
        self._special = dict(special)
        self._marks: dict[Forced | None, Marks] = {}
        self._reads: dict[Forced | None, frozenset[Literal["bare", "list"]]] = {}

    @property
    def marks(self) -> Marks:
        """What the text layer puts in place of special tokens (``by_id``)."""
        return self._marks_of(None)

    def special_text(self, endless: bool) -> Mapping[int, str]:
        """The marks, by id; those of an ``endless`` output without the ends of turns, which it passes over."""
        return self._endless if endless else self.marks.by_id

    @cached_property
    def _endless(self) -> dict[int, str]:
        stops = {self.marks.inward(stop) for stop in self.grammar.stops}
        return {number: mark for number, mark in self.marks.by_id.items() if mark not in stops}

    @cached_property
    def headers(self) -> bool:
        """Whether reasoning is said by headers, not by a marker."""
        if "reasoning" not in self.grammar.starts:
            return False
        return not opens(self.parser(ToolTable.of([]), "", "content"))

    @cached_property
    def turn(self) -> Frame | None:
        """How a turn is written, if that is known."""
        return written(self.grammar)

    @cached_property
    def calls(self) -> bool:
        """Whether the format has calls of its own."""
        nodes = (inner for rule in self.grammar.rules.values() for inner in walk(rule))
        return any(isinstance(node, Call | Envelope) for node in nodes)

    @property
    def plain(self) -> bool:
        """Whether there is nothing to be read in an output."""
        return self.name == PLAIN

    def parser(
        self, tools: ToolTable, prompt: str, start: Start = "auto", reading: Forced | None = None
    ) -> Parser:
        """A parser that begins where ``prompt`` leaves off. ``reading``: forms of a forced call that are read,
        too."""
        marks = self._marks_of(reading)
        try:
            return Parser(self.name, tools, start, prompt, grammar=marks.grammar, tokenizer=marks)  # type: ignore[arg-type]
        except ValueError as error:
            raise BadRequest(str(error), param="start") from None

    def reads(self, reading: Forced | None) -> frozenset[Literal["bare", "list"]]:
        """Which forms of JSON calls are read with ``reading``: arguments alone, a list of calls. One call always
        is."""
        if reading not in self._reads:
            forms: dict[Literal["bare", "list"], str] = {"bare": _BARE, "list": _LIST}
            found = [form for form, text in forms.items() if reading is not None and self._tried(text, reading)]
            self._reads[reading] = frozenset(found)
        return self._reads[reading]

    def _tried(self, text: str, reading: Forced) -> bool:
        parser = self.parser(ToolTable.of(_TRIED), "", "content", reading)
        parser.feed(text)
        parser.finish()
        return [call.arguments for call in parser.message().calls] == [{"a": 1}]

    def _marks_of(self, reading: Forced | None) -> Marks:
        found = self._marks.get(reading)
        if found is None:
            grammar = self.grammar if reading is None else forced(self.grammar, reading)
            found = self._marks[reading] = Marks(grammar, self._special)
        return found
