"""Records to parsers: which grammar, tools and start a record gets, and in which pieces it is fed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from toolgrammar import Parser
from toolgrammar.cli.errors import CliError
from toolgrammar.cli.grammars import given_grammar
from toolgrammar.cli.inputs import Record
from toolgrammar.cli.options import Cut
from toolgrammar.cli.tokenizing import read_tokenizer
from toolgrammar.errors import GrammarError, ToolsError, UnknownModelError
from toolgrammar.parser import Start

if TYPE_CHECKING:
    import random


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
        """A fresh parser for ``record``."""
        name = self._model or record.format
        if not name and self._grammar is None:
            raise CliError(
                "E007",
                f"no model given for {record.label}",
                "--model NAME, --grammar FILE or --template FILE; 'toolgrammar detect FILE' ranks the formats",
            )
        tools = self.tools if self.tools is not None else record.tools
        start = self._start or (record.start if self._prompt is None else "") or "auto"
        key = (name, start, tools)
        if self._fresh is None or self._fresh[0] != key:
            self._fresh = (key, self._new(name, tools, start, record))
        return self._fresh[1].copy()

    def _new(self, name: str, tools: Any, start: str, record: Record) -> Parser:
        try:
            return Parser(
                name or None,
                tools=tools,
                start=cast(Start, start),
                prompt=self._prompt,
                repair=self._repair,
                strict=self._strict,
                grammar=self._grammar,
                tokenizer=self.tokenizer,
            )
        except UnknownModelError as error:
            where = "" if self._model is not None else f"{record.label}: "
            raise CliError("E012", f"{where}{error}", error.hint) from error
        except ToolsError as error:
            if self.tools is not None:
                raise CliError("E003", str(error), error.hint) from error
            raise CliError("E027", f"{record.label}: {error}", error.hint) from error
        except GrammarError:
            raise
        except ValueError as error:
            if self._start is not None or not record.start:
                raise CliError("E001", str(error)) from error
            raise CliError("E027", f"{record.label}: {error}") from error


def pieces_of(record: Record, how: Cut, tokenizer: Any) -> Iterator[Any]:
    """What to feed for ``record``: pieces of text, or lists of token ids."""
    if record.token_ids is not None and tokenizer is not None:
        for number in record.token_ids:
            yield [number]
        return
    if record.token_ids is not None and not record.pieces:
        raise CliError("E005", f"{record.label} has token_ids and no text", "give --tokenizer DIR")
    yield from cut(record.pieces, how)
