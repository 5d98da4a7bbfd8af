"""Text to syntax tree, with lark. This is the one module that imports it.

Comments and line breaks carry no meaning but for the start of a line: there ``@`` begins a header and a name
begins a rule. Everything that is wrong raises a ``GrammarSyntaxError`` in the words of ``mistakes``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput
from lark.exceptions import VisitError

from toolgrammar.errors import GrammarError
from toolgrammar.language import headers as head
from toolgrammar.language import tree as t
from toolgrammar.language.forms import reserved
from toolgrammar.language.mistakes import explain
from toolgrammar.language.pages import Page

#: The pattern of ``else``.
ANYTHING = "(?s:.*)"


@cache
def _lark() -> Lark:
    syntax = (Path(__file__).parent / "syntax.lark").read_text(encoding="utf-8")
    return Lark(syntax, parser="lalr", lexer="basic", maybe_placeholders=True)


def read_tree(text: str, file: str) -> t.Tree:
    """The tree of one grammar file."""
    page = Page(file, text)
    try:
        built: t.Tree = _Build(page).transform(_lark().parse(text))
    except UnexpectedInput as error:
        raise explain(error, page) from None
    except VisitError as error:
        if isinstance(error.orig_exc, GrammarError):
            raise error.orig_exc from None
        raise
    return built


class _Build(Transformer[Token, t.Tree]):
    """lark's tree to ours. Methods are named by the rules of ``syntax.lark``."""

    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page = page

    def _at(self, token: Token) -> Any:
        return self.page.where(token.start_pos or 0)

    # ---- the file

    def start(self, parts: list[Any]) -> t.Tree:
        rules: dict[str, t.Rule] = {}
        for rule in parts:
            if isinstance(rule, t.Rule):
                if rule.name in rules:
                    line = rules[rule.name].where.line
                    raise GrammarError(
                        f"rule '{rule.name}' is already defined in line {line}",
                        where=rule.where,
                        hint="join the two with '|' or rename one",
                    )
                rules[rule.name] = rule
        return t.Tree(
            self.page.file,
            tuple(part for part in parts if isinstance(part, t.Header)),
            tuple(part for part in parts if isinstance(part, t.Start)),
            rules,
            self.page.where(0),
        )

    def HEADER(self, token: Token) -> t.Header:
        return head.header(self.page, token.start_pos or 0, str(token))

    def start_line(self, parts: list[Any]) -> t.Start:
        word, state, item = parts
        return t.Start(str(state), item, self._at(word), self._at(state))

    def rule(self, parts: list[Any]) -> t.Rule:
        name, parameters, body = parts
        self._free(name, applied=parameters is not None)
        return t.Rule(name.strip("`"), parameters or (), body, self._at(name))

    def parameters(self, parts: list[Token]) -> tuple[str, ...]:
        names = tuple(str(part) for part in parts)
        for index, name in enumerate(names):
            self._free(parts[index])
            if name in names[:index]:
                raise GrammarError(f"parameter '{name}' appears twice", where=self._at(parts[index]))
        return names

    def _free(self, name: Token, applied: bool = False) -> None:
        """Refuse a word of the language as the name of a rule or parameter."""
        if reserved(name, applied):
            raise GrammarError(
                f"'{name}' is a word of the language, it cannot name a rule or parameter",
                where=self._at(name),
            )

    # ---- expressions

    def alternatives(self, parts: list[t.Expression]) -> t.Expression:
        return parts[0] if len(parts) == 1 else t.Alternatives(tuple(parts), parts[0].where)

    def sequence(self, parts: list[t.Expression]) -> t.Expression:
        return parts[0] if len(parts) == 1 else t.Sequence(tuple(parts), parts[0].where)

    def repeat(self, parts: list[Any]) -> t.Expression:
        item, quantifier = parts
        return item if quantifier is None else t.Repeat(item, quantifier.value, item.where)

    def literal(self, parts: list[Token]) -> t.String:
        return t.String((self._unquote(parts[0]),), self._at(parts[0]))

    def bol(self, parts: list[Token]) -> t.String:
        return t.String(tuple(map(self._unquote, parts[1:])), self._at(parts[0]), line_start=True)

    def bow(self, parts: list[Token]) -> t.String:
        return t.String(tuple(map(self._unquote, parts[1:])), self._at(parts[0]), word_start=True)

    def word(self, parts: list[Token]) -> t.Word:
        name = str(parts[0])
        return t.Word(name.strip("`"), self._at(parts[0]), quoted=name[0] == "`")

    def apply(self, parts: list[Any]) -> t.Apply:
        head_, *rest = parts
        name = str(head_)[:-1]
        options = tuple(part for part in rest if isinstance(part, t.Option))
        arguments = tuple(part for part in rest if part is not None and not isinstance(part, t.Option))
        return t.Apply(name.strip("`"), arguments, options, self._at(head_), quoted=name[0] == "`")

    def option(self, parts: list[Any]) -> t.Option:
        return t.Option(str(parts[0]), parts[1], self._at(parts[0]))

    def number(self, parts: list[Token]) -> t.Number:
        return t.Number(int(parts[0]), self._at(parts[0]))

    def regex(self, parts: list[Token]) -> t.Regex:
        return t.Regex(_pattern(parts[0]), self._at(parts[0]))

    def group(self, parts: list[t.Expression | None]) -> t.Expression:
        item = parts[0]
        assert item is not None
        return t.Group(item, item.where)

    def nothing(self, parts: list[Token]) -> t.Expression:
        return t.Group(None, self._at(parts[0]))

    def peek(self, parts: list[t.Expression]) -> t.PeekAt:
        return t.PeekAt(parts[0], parts[0].where)

    def choose(self, parts: list[Any]) -> t.ChooseBy:
        word, register, *arms = parts
        return t.ChooseBy(register.strip("`"), tuple(arms), self._at(word))

    def arm(self, parts: list[Any]) -> t.ChooseArm:
        taken, when, item = parts
        where = self._at(taken)
        pattern = ANYTHING if taken.type == "ELSE" else _pattern(taken)
        word, when_where = when or ("", where)
        return t.ChooseArm(pattern, word, item, where, when_where)

    def when(self, parts: list[Token]) -> tuple[str, Any]:
        return str(parts[1]), self._at(parts[1])

    def _unquote(self, token: Token) -> str:
        return head.unquote(str(token), self.page, token.start_pos or 0)


def _pattern(token: Token) -> str:
    """A regular expression between slashes; ``\\/`` is a slash."""
    return str(token)[1:-1].replace("\\/", "/")
