"""The parser: a model's grammar, a request's tools, one stream of output.

    parser = Parser("qwen3-coder", tools=tools)
    for delta in stream:
        for event in parser.feed(delta):
            ...
    parser.finish()
    message = parser.message()

Guarantees: any cut of the output gives the same events once neighbours of one kind are joined; model output
never raises; ``feed`` costs time linear in its input, whatever came before; a parser can be copied and pickled.
A parser is not thread-safe; any number of them run beside each other.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolgrammar.errors import GrammarError
from toolgrammar.events import Event
from toolgrammar.message import Collector, Message

# The machine, the grammars and the registry are imported with the first parser, not with the package: a program
# that imports toolgrammar and may never parse starts at once. ``tests/test_packaging.py`` has the budget.
if TYPE_CHECKING:
    from toolgrammar.combinators import Grammar
    from toolgrammar.machine.program import Program
    from toolgrammar.machine.session import Session
    from toolgrammar.machine.tokens import TokenReader
    from toolgrammar.schema import ToolTable

Start: TypeAlias = Literal["auto", "reasoning", "content", "section"]
Tools: TypeAlias = Sequence[Mapping[str, Any]]
Finish: TypeAlias = Literal["stop", "length", "tool_calls"]
Template: TypeAlias = "Mapping[str, Any] | str | PathLike[str]"


class Parser:
    """Reads one output of ``model``.

    ``model``: a format name, a peer's parser name, a model id, or a local model directory. ``grammar``: a grammar
    or the path of a ``.tg`` file, instead. ``template``: a Hugging Face response template, instead: data, a JSON
    file, or a directory whose ``tokenizer_config.json`` has one. ``tools``: the request's tools, in OpenAI's,
    Anthropic's or MCP's shape. ``start``: what the prompt left open; ``auto`` is content unless ``prompt`` (its
    text, or tail) says otherwise. ``repair``: mend almost-JSON, each time with a diagnostic. ``strict``: a call of
    a tool that is not offered is content, what its span covers. ``tokenizer``: lets ``feed`` take token ids,
    special tokens then count only as themselves; a ``tokenizers.Tokenizer``, a fast one of transformers, or what
    has the methods of ``toolgrammar.machine.tokens.Tokenizer``. With ``toolgrammar.machine.tokens.Marks`` instead,
    ``feed`` takes text in which the caller has marked the special tokens.

    Raises ``UnknownModelError``, ``GrammarError``, ``ToolsError``; ``ValueError`` for a start the format lacks.
    """

    def __init__(
        self,
        model: str | None = None,
        tools: Tools | None = None,
        start: Start = "auto",
        prompt: str | None = None,
        repair: bool = True,
        strict: bool = False,
        *,
        grammar: Grammar | str | PathLike[str] | None = None,
        template: Template | None = None,
        tokenizer: Any = None,
    ) -> None:
        from toolgrammar.schema import ToolTable

        if template is not None:
            grammar = _template_grammar(template, model, grammar)
        self.grammar = _grammar(model, grammar)
        self.model = model or self.grammar.name
        self._tools = tools if isinstance(tools, ToolTable) else ToolTable.of(tools)
        self._reader = _token_reader(self.grammar, tokenizer) if tokenizer is not None else None
        tokens = self._reader.marks.tokens if self._reader is not None else ()
        program = _program(self.grammar, tokens, grammar or model)
        name = "content" if start == "auto" else start
        if name not in program.starts:
            raise ValueError(
                f"format {self.grammar.name!r} cannot start in {name!r}; it can in {', '.join(program.starts)}"
            )
        self._session = _session(program, self._tools, repair, strict, name)
        if prompt is not None and start == "auto":
            from toolgrammar.machine.prompt import play_prompt

            play_prompt(self._session, prompt if self._reader is None else self._reader.marks.prompt(prompt))
        self._collector = Collector()
        self._finished = False
        self._reason: str | None = None
        #: An output without calls is looked at for calls of other formats.
        self._looks_further = True
        self._direct()

    # ---- reading ------------------------------------------------------------------------------------------

    def feed(self, delta: str | Sequence[int]) -> list[Event]:
        """Read a piece of output, text or (with a tokenizer) token ids; return what is certain now.

        Amortised linear in the length of ``delta``. Raises only for a use that is wrong: after ``finish``, or
        token ids without a tokenizer.
        """
        # A parser of text hands this name to its session, see ``_direct``: one call less for every delta.
        if self._finished:
            raise RuntimeError("the parser is finished; make a new one, or copy it before finish()")
        if self._reader is None:
            if not isinstance(delta, str):
                raise TypeError("token ids need a tokenizer: Parser(..., tokenizer=...)")
            return self._session.feed(delta)
        read = self._reader.feed_text if isinstance(delta, str) else self._reader.feed
        return read(self._session, delta)  # type: ignore[arg-type]

    def finish(self, reason: Finish | str | None = None) -> list[Event]:
        """The output ended (``reason``: the engine's finish reason, kept in the message)."""
        if self._finished:
            return []
        self._finished = True
        self._reason = reason
        self.__dict__.pop("feed", None)
        events = self._session.finish() if self._reader is None else self._reader.finish(self._session)
        if self._looks_further and not self._session.next_index and self._tools.offered:
            events = events + self._mismatch()
        return events

    def _mismatch(self) -> list[Event]:
        """No call was found although tools were offered: does the text look like one of another format?"""
        from toolgrammar.mismatch import mismatch

        found = mismatch(self.message(), self._tools)
        if found is None:
            return []
        self._collector.add([found], self._tools.known)
        return [found]

    def _direct(self) -> None:
        """Let ``feed`` be the session's own, if it reads text and is not over."""
        if self._finished or type(self).feed is not Parser.feed:
            return
        if self._reader is None:
            self.feed = self._session.feed  # type: ignore[method-assign,assignment]
        elif not self._reader.decodes:
            self.feed = partial(self._reader.feed_text, self._session)  # type: ignore[method-assign]

    async def aiter(self, chunks: AsyncIterable[str | Sequence[int]]) -> AsyncIterator[Event]:
        """The events of an asynchronous stream, ``finish`` included."""
        async for chunk in chunks:
            for event in self.feed(chunk):
                yield event
        for event in self.finish():
            yield event

    # ---- results ------------------------------------------------------------------------------------------

    def message(self) -> Message:
        """What was said so far; the answer once ``finish`` was called."""
        self._fold()
        session = self._session
        length = session.base + len(session.buf)
        tail = "".join(session.tail) if self._finished else ""
        tail_start = session.tail_start if self._finished else -1
        if self._reader is not None:
            length, tail = self._reader.raw_length(length), self._reader.marks.outward(tail)
            tail_start = self._reader.raw_length(tail_start) if tail_start >= 0 else -1
        return self._collector.message(
            model=self.model,
            grammar=self.grammar.name,
            unfinished=session.unfinished,
            tail=tail,
            tail_start=tail_start,
            length=length,
            finish=self._reason,
        )

    def _fold(self) -> None:
        story = self._session.story
        self._collector.add(story if self._reader is None else self._reader.outward(story), self._tools.known)
        self._session.story = []

    @property
    def held(self) -> int:
        """Raw characters fed but neither given out nor decided yet."""
        return self._session.held_characters

    @property
    def calls(self) -> int:
        """How many calls began so far."""
        return self._session.next_index

    @property
    def markers(self) -> tuple[str, ...]:
        """The markers that count at this place, and in the text it leads to; special tokens among them as ``feed``
        takes them."""
        return self._session.markers_here()

    @property
    def in_text(self) -> bool:
        """Whether what comes next is free text until a marker says otherwise."""
        return self._session.in_text

    def copy(self) -> Parser:
        """An independent parser in the same state: for n > 1, beams, and looking ahead."""
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._session = self._session.copy()
        new._collector = self._collector.copy()
        if self._reader is not None:
            new._reader = self._reader.copy()
        new._direct()
        return new

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "feed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._direct()


def parse(
    text: str | Iterable[str],
    model: str | None = None,
    tools: Tools | None = None,
    start: Start = "auto",
    prompt: str | None = None,
    repair: bool = True,
    strict: bool = False,
    *,
    grammar: Grammar | str | PathLike[str] | None = None,
    template: Template | None = None,
    finish: Finish | str | None = None,
) -> Message:
    """The message of a whole output, or of its pieces. See ``Parser`` for the arguments and errors."""
    parser = Parser(model, tools, start, prompt, repair, strict, grammar=grammar, template=template)
    for piece in (text,) if isinstance(text, str) else text:
        parser.feed(piece)
    parser.finish(finish)
    return parser.message()


async def aparse(
    chunks: AsyncIterable[str | Sequence[int]],
    model: str | None = None,
    tools: Tools | None = None,
    **options: Any,
) -> Message:
    """The message of an asynchronous stream. Options as for ``Parser``."""
    parser = Parser(model, tools, **options)
    async for _ in parser.aiter(chunks):
        pass
    return parser.message()


def _program(grammar: Grammar, tokens: tuple[str, ...], source: Any) -> Program:
    """The compiled grammar; a mistake found only now is shown at its place in the file it came from."""
    from toolgrammar import registry
    from toolgrammar.combinators import Grammar
    from toolgrammar.machine.cache import program_of

    try:
        return program_of(grammar, tokens)
    except GrammarError as error:
        if error.where is None and error.rule and not isinstance(source, Grammar):
            where = registry.where(str(source or grammar.name), error.rule)
            raise type(error)(error.message, rule=error.rule, where=where, hint=error.hint) from None
        raise


def _session(program: Program, tools: ToolTable, repair: bool, strict: bool, start: str) -> Session:
    """The session of a new parser: one with stages only if one is asked for."""
    if strict or program.grammar.mend:
        from toolgrammar.machine.staged import StagedSession

        return StagedSession(program, tools, repair, start, strict=strict)
    from toolgrammar.machine.session import Session

    return Session(program, tools, repair, start)


def _token_reader(grammar: Grammar, tokenizer: Any) -> TokenReader:
    from toolgrammar.machine.tokens import TokenReader

    return TokenReader(grammar, tokenizer)


def _grammar(model: str | None, grammar: Grammar | str | PathLike[str] | None) -> Grammar:
    from toolgrammar import registry
    from toolgrammar.combinators import Grammar

    if isinstance(grammar, Grammar):
        return grammar
    if grammar is not None:
        return registry.load(str(grammar))
    if model is None:
        raise TypeError("give a model, or a grammar")
    return registry.load(model)


def _template_grammar(template: Template, model: str | None, grammar: Any) -> Grammar:
    from toolgrammar.templates import load_template, read_template

    if grammar is not None:
        raise TypeError("give a grammar or a template, not both")
    if isinstance(template, Mapping):
        return load_template(template, model or "response-template")
    return read_template(template)
