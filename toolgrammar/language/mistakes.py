"""Why a text is not in the grammar language, in words: what was expected there, and what was found."""

from __future__ import annotations

import re

from lark import Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from toolgrammar.errors import GrammarSyntaxError
from toolgrammar.language.pages import Page

#: What an expression can begin with; the whole set is called "an item".
_ITEM = frozenset({"STRING", "NAME", "APPLY", "LPAR", "NOTHING", "AMPERSAND", "BOL", "BOW", "CHOOSE"})
_SAID = {
    "STRING": "a literal",
    "NAME": "a name",
    "APPLY": "a name",
    "RULE": "a new rule",
    "HEADER": "a header",
    "START": "a header",
    "REGEX": "a /pattern/",
    "NUMBER": "a number",
    "QUANTIFIER": "'?', '*' or '+'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "VBAR": "'|'",
    "COLON": "':'",
    "EQUAL": "'='",
    "COMMA": "','",
    "SEMICOLON": "';'",
    "_ARROW": "'->'",
    "ELSE": "'else'",
    "WHEN": "'when'",
}
#: After a complete item these can always follow; naming them helps nobody.
_ALWAYS = _ITEM | {"QUANTIFIER", "VBAR"}
_CLOSERS = {"LPAR": "')'", "APPLY": "')'", "LBRACE": "'}'"}


def explain(error: UnexpectedInput, page: Page) -> GrammarSyntaxError:
    """The error that tells a person what lark found."""
    if isinstance(error, UnexpectedCharacters):
        return _bad_character(page, error.pos_in_stream or 0)
    assert isinstance(error, UnexpectedToken)
    token = error.token
    accepted = set(error.accepts or ())
    offset = len(page.text.rstrip()) if token.type == "$END" else token.start_pos or 0
    if token.type in ("RULE", "HEADER", "START", "$END") and (opener := _open(error)) is not None:
        closer = _CLOSERS[opener.type]
        return GrammarSyntaxError(
            f"this {opener[-1]!r} is never closed: expected {closer} before {_found(token)}",
            where=page.where((opener.start_pos or 0) + len(opener) - 1),
        )
    return GrammarSyntaxError(
        f"expected {_expected(accepted)}, found {_found(token)}",
        where=page.where(offset),
        hint=_hint(token, accepted),
    )


def _open(error: UnexpectedToken) -> Token | None:
    """The innermost bracket that is open where the error is."""
    for value in reversed(error.interactive_parser.parser_state.value_stack):
        if isinstance(value, Token) and value.type in _CLOSERS:
            return value
    return None


def _expected(accepted: set[str]) -> str:
    said: list[str] = []
    if accepted >= _ITEM and "VBAR" not in accepted:
        said.append("an item (a literal, a name or a group)")
        accepted = accepted - _ITEM
    elif accepted >= _ITEM:
        accepted = accepted - _ALWAYS
    if "$END" in accepted:
        accepted = accepted - {"$END", "HEADER", "START"} | {"RULE"}
        said.append("another item" if not said and "RPAR" not in accepted else "")
    said += [_SAID[name] for name in _SAID if name in accepted]
    said = list(dict.fromkeys(filter(None, said)))
    return " or ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said) or "the end of the file"


def _found(token: Token) -> str:
    match token.type:
        case "$END":
            return "the end of the file"
        case "RULE":
            return f"the rule '{str(token).strip('`')}'"
        case "HEADER" | "START":
            return f"the header {str(token).split()[0]}"
        case "STRING" | "REGEX":
            return f"the {'literal' if token.type == 'STRING' else 'pattern'} {token}"
        case "APPLY":
            return f"'{token}'"
    return f"'{token}'"


def _hint(token: Token, accepted: set[str]) -> str:
    if token.type == "COLON":
        if "_ARROW" in accepted:
            return "an arm is written /pattern/ -> ..."
        if "RPAR" in accepted:
            return "an option is written name: value"
        return "a rule is written 'name : ...', from the start of its line"
    if token.type in ("RPAR", "RBRACE"):
        return f"nothing is open that '{token}' could close" if "$END" in accepted else ""
    if token.type == "QUANTIFIER":
        return "'?', '*' and '+' follow one item; use parentheses to repeat a repeat"
    if token.type == "REGEX" and accepted >= _ITEM:
        return "a /pattern/ is the value of an option, as in chars: /[a-z]/, or begins an arm of choose"
    if token.type == "EQUAL" and "COLON" in accepted:
        return "a rule is written 'name : ...'"
    if token.type in ("ELSE", "WHEN", "BOL", "BOW", "CHOOSE"):
        return f"'{token}' is a word of the language; to use it as a name write `{token}`"
    return ""


def _bad_character(page: Page, offset: int) -> GrammarSyntaxError:
    where = page.where(offset)
    char = page.text[offset]
    if char == '"':
        return GrammarSyntaxError("this literal has no closing '\"' on its line", where=where)
    if char == "/":
        return GrammarSyntaxError("this pattern has no closing '/' on its line", where=where)
    if char == "'":
        return GrammarSyntaxError("literals stand between double quotes", where=where)
    if char == "`":
        return GrammarSyntaxError("this name has no closing '`' on its line", where=where)
    if char == "@":
        return GrammarSyntaxError("a header begins at the start of its line", where=where)
    if re.match(r"[^\W\d]", char):
        return GrammarSyntaxError(f"{char!r} cannot begin a name", where=where)
    return GrammarSyntaxError(f"{char!r} means nothing here", where=where, hint="is it part of a literal?")
