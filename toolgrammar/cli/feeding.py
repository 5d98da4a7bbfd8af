"""Records to parsers: which grammar, tools and start a record gets, and in which pieces it is fed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from toolgrammar import Parser
from toolgrammar.cli.errors import CliError, RecordError
from toolgrammar.cli.grammars import given_grammar, named_file, placed
from toolgrammar.cli.inputs import Record
from toolgrammar.cli.options import Cut
from toolgrammar.cli.tokenizing import read_tokenizer
from toolgrammar.errors import GrammarError, ToolsError, UnknownModelError
from toolgrammar.parser import Start

if TYPE_CHECKING:
    import random

    from toolgrammar.combinators import Grammar


def cut(pieces: Iterable[str], how: Cut) -> Iterator[str]:
    """``pieces`` (as recorded) in the cuts that ``how`` asks for."""
    if how.how == "recorded":
        yield from pieces
    elif how.how == "char":
        for piece in pieces:
            yield from piece
    elif how.how == "whole":
        yield "".join(pieces)
    else:
        import random

        source = random.Random(how.number)
        rest, size = "", _next(how, source)
        for piece in pieces:
            rest += piece
            at = 0
            while len(rest) - at >= size:
                yield rest[at : at + size]
                at, size = at + size, _next(how, source)
            rest = rest[at:]
        if rest:
            yield rest


def _next(how: Cut, source: random.Random) -> int:
    return how.number if how.how == "every" else source.choice((1, 1, 2, 3, 4, 5, 8, 13, 30))


def read_tools(path: str | None) -> list[Any] | None:
    """The list of tools of ``--tools FILE``."""
    if path is None:
        return None
    import json

    try:
        with open(path, encoding="utf-8-sig") as file:
            tools = json.load(file)
    except OSError as error:
        raise CliError("E003", f"cannot read tools file {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}:{error.colno}"
        raise CliError("E003", f"tools file is not JSON: {where}: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise CliError("E003", f"tools file {path} cannot be read: {error}") from error
    if isinstance(tools, dict) and isinstance(tools.get("tools"), list):
        tools = tools["tools"]
    if not isinstance(tools, list):
        raise CliError("E003", f"tools file {path} should hold a JSON list", "toolgrammar help E003")
    return tools


def read_prompt(path: str | None) -> str | None:
    """The text of ``--prompt FILE``."""
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except OSError as error:
        raise CliError("E004", f"cannot read prompt file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CliError("E004", f"prompt file {path} is not UTF-8 at byte {error.start}") from error


class Parsers:
    """Makes the parser of each record. Options of the command line replace what the record says."""

    def __init__(
        self,
        *,
        model: str | None,
        grammar: str | None,
        template: str | None = None,
        tools: str | None,
        start: str | None,
        prompt: str | None,
        repair: bool = True,
        strict: bool = False,
        tokenizer: str | None = None,
    ) -> None:
        if sum(each is not None for each in (model, grammar, template)) > 1:
            raise CliError("E001", "--model, --grammar and --template exclude each other")
        if start not in (None, "auto") and prompt is not None:
            raise CliError("E001", "--start and --prompt exclude each other")
        self._model = model
        self._grammar = given_grammar(grammar, template)
        self._path = grammar
        self.tools = read_tools(tools)
        self._start = start
        self._prompt = read_prompt(prompt)
        self._repair = repair
        self._strict = strict
        self.tokenizer = read_tokenizer(tokenizer)
        self._fresh: tuple[tuple[Any, ...], Parser] | None = None
        if model is not None or self._grammar is not None:
            self.make(Record("", ()))

    def make(self, record: Record) -> Parser:
        """A fresh parser for ``record``. Raises ``RecordError`` for what the record lacks or says wrong, another
        ``CliError`` or ``GrammarError`` for what an option does."""
        name = self._model or record.format
        if not name and self._grammar is None:
            raise RecordError(
                "E007",
                f"no model given for {record.label}",
                "--model NAME, --grammar FILE or --template FILE; 'toolgrammar detect FILE' ranks the formats",
            )
        tools = self.tools if self.tools is not None else record.tools
        start = self._start or (record.start if self._prompt is None else "") or "auto"
        prompt = self._prompt if self._prompt is not None else record.prompt
        key = (name, start, tools, prompt)
        if self._fresh is None or self._fresh[0] != key:
            self._fresh = (key, self._new(name, tools, start, prompt, record))
        return self._fresh[1].copy()

    def _new(self, name: str, tools: Any, start: str, prompt: str | None, record: Record) -> Parser:
        grammar = self._grammar if self._grammar is not None else self._file_grammar(name, record)
        try:
            return Parser(
                name or None,
                tools=tools,
                start=cast(Start, start),
                prompt=prompt,
                repair=self._repair,
                strict=self._strict,
                grammar=grammar,
                tokenizer=self.tokenizer,
            )
        except UnknownModelError as error:
            where = "" if self._model is not None else f"{record.label}: "
            raise RecordError("E012", f"{where}{error}", error.hint) from error
        except ToolsError as error:
            if self.tools is not None:
                raise CliError("E003", str(error), error.hint) from error
            raise RecordError("E027", f"{record.label}: {error}", error.hint) from error
        except GrammarError as error:
            raise placed(error, self._path) if self._path is not None else error from None
        except ValueError as error:
            if self._start is not None or not record.start:
                raise CliError("E001", str(error)) from error
            raise RecordError("E027", f"{record.label}: {error}") from error

    def _file_grammar(self, name: str, record: Record) -> Grammar | None:
        """The grammar of a model name that is a grammar file, None for any other name."""
        try:
            return named_file(name)
        except CliError as error:
            if self._model is not None:
                raise
            raise RecordError(error.code, f"{record.label}: {error.message}", error.hint) from error


def pieces_of(record: Record, how: Cut, tokenizer: Any) -> Iterator[Any]:
    """What to feed for ``record``: pieces of text, or lists of token ids. Raises ``RecordError`` before the first
    piece, for ids without a tokenizer and ids it does not have."""
    if record.token_ids is not None and tokenizer is not None:
        for at, number in enumerate(record.token_ids):
            if not tokenizer.has(number):
                raise RecordError("E027", f"{record.label}: token_ids.{at} is {number}, which the tokenizer lacks")
        for number in record.token_ids:
            yield [number]
        return
    if record.token_ids is not None and not record.pieces:
        raise RecordError("E005", f"{record.label} has token_ids and no text", "give --tokenizer DIR")
    yield from cut(record.pieces, how)
