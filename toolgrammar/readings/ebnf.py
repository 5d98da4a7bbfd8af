"""A grammar as EBNF.

    >>> print(ebnf(registry.load("glm-4.7")))
    begin    ::= "</think>"? ( "<think>" thinking | answer )
    ...

Literals stand between quotes, the first spelling is the usual one; rules are in lower case; words in upper case
are what ``legend`` explains; ``SIGNS`` says what the rest means.
"""

from __future__ import annotations

from toolgrammar.combinators import Grammar
from toolgrammar.language.writer import literal
from toolgrammar.readings.figures import (
    AHEAD,
    NOTHING,
    Figure,
    Figures,
    Frame,
    Leaf,
    Loop,
    Row,
    Ways,
    figures,
    leaves,
    row,
    shown_spellings,
    ways,
)

#: How to read the rules, in Markdown.
SIGNS = """`a | b`: one of them. `x?`: perhaps. `x*`: any number. `x+`: at least one. `&( x )`: must follow,
is not taken. `"x"…`: with more spellings much like it. `⟨…⟩`: a condition on what was read before, or a note of
it. `bol`: at the start of a line only. `bow`: not behind a letter, digit, `_` or `.`. White space that may be
missing is left out."""
_WIDTH = 110
# How tightly an expression binds.
_ALT, _ROW, _ATOM = range(3)


def ebnf(grammar: Grammar) -> str:
    """The rules as text, one below the other."""
    return written(figures(grammar))


def written(found: Figures) -> str:
    """Figures as text."""
    width = min(max(map(len, found.rules)), 16)
    return "".join(_rule(name, body, width) for name, body in found.rules.items())


def legend(found: Figures) -> dict[str, str]:
    """The words of the rules, sorted, and what each stands for."""
    means: dict[str, list[str]] = {}
    for leaf in leaves(Row(tuple(found.rules.values()))):
        if leaf.kind == "word" and leaf.means not in means.setdefault(leaf.text, []):
            means[leaf.text].append(leaf.means)
    return {text: "; or ".join(means[text]) for text in sorted(means)}


def _rule(name: str, body: Figure, width: int) -> str:
    head = f"{name:<{width}} ::= "
    return f"{head}{_laid(_bare(body), _ALT, len(head))}\n"


def _bare(figure: Figure) -> Figure:
    """The figure without the frames that EBNF has no sign for."""
    match figure:
        case Row(items):
            return row(*map(_bare, items))
        case Ways(arms):
            return ways(*map(_bare, arms))
        case Loop(item, between):
            return Loop(_bare(item), _bare(between))
        case Frame(item, label):
            return Frame(_bare(item), label) if label == AHEAD else _bare(item)
    return figure


def _laid(figure: Figure, place: int, column: int) -> str:
    """A figure as text that begins in ``column``: on one line if it fits there, else broken."""
    text = _write(figure, place)
    if column + len(text) <= _WIDTH:
        return text
    match figure:
        case Ways(arms) if place == _ALT and NOTHING not in arms:
            return f"\n{' ' * (column - 2)}| ".join(_laid(arm, _ROW, column) for arm in arms)
        case Ways(arms):
            each = [_laid(arm, _ROW, column + 2) for arm in arms if arm != NOTHING]
            if len(each) == 1 and isinstance(arms[0], Loop) and arms[0].between == NOTHING:
                return _laid(arms[0].item, _ATOM, column) + "*"
            return "( " + f"\n{' ' * column}| ".join(each) + (" )?" if NOTHING in arms else " )")
        case Row(items) if place <= _ROW:
            return _filled(items, column)
        case Row(items):
            return f"( {_filled(items, column + 2)} )"
        case Loop(item, between) if between == NOTHING:
            return _laid(item, _ATOM, column) + "+"
        case Loop(item, between):
            again = ways(Loop(row(between, item), NOTHING), NOTHING)
            return _laid(Row((item, again)), place, column)
        case Frame(item):
            return f"&( {_laid(item, _ALT, column + 3)} )"
    return text


def _filled(items: tuple[Figure, ...], column: int) -> str:
    """A row with line feeds where it grows too long."""
    lines = [""]
    for item in items:
        at = column + len(lines[-1]) + 1 if lines[-1] else column
        if lines[-1] and at + len(_write(item, _place(item))) > _WIDTH:
            lines.append("")
            at = column
        *before, last = _laid(item, _place(item), at).split("\n")
        lines[-1] += (" " if lines[-1] else "") + "\n".join([*before, ""])
        lines[-1] = (lines[-1] + last) if not before else lines[-1]
        if before:
            lines.append(last[column:] if last[:column].isspace() else last)
            lines[-2] = lines[-2].rstrip("\n")
    return f"\n{' ' * column}".join(lines)


def _place(item: Figure) -> int:
    """How tightly an item of a row must bind: loops with something between are rows themselves."""
    return _ROW if isinstance(item, Loop) else _ATOM


def _write(figure: Figure, place: int) -> str:
    """A figure as text, in parentheses if it binds more loosely than its place wants."""
    text, binds = _expression(figure)
    return f"( {text} )" if binds < place else text


def _expression(figure: Figure) -> tuple[str, int]:
    match figure:
        case Leaf():
            return _leaf(figure)
        case Row(items):
            return " ".join(_write(item, _place(item)) for item in items) or "()", _ROW if items else _ATOM
        case Ways(arms):
            return _ways(arms)
        case Loop(item, between):
            if between == NOTHING:
                return _write(item, _ATOM) + "+", _ATOM
            return f"{_write(item, _ATOM)} {_write(row(between, item), _ATOM)}*", _ROW
        case Frame(item):
            return f"&( {_write(item, _ALT)} )", _ATOM


def _ways(arms: tuple[Figure, ...]) -> tuple[str, int]:
    some = tuple(arm for arm in arms if arm != NOTHING)
    if len(some) == len(arms):
        return " | ".join(_write(arm, _ROW) for arm in arms), _ALT
    if len(some) > 1:
        return _write(Ways(some), _ATOM) + "?", _ATOM
    if isinstance(some[0], Loop) and some[0].between == NOTHING:
        return _write(some[0].item, _ATOM) + "*", _ATOM
    text, binds = _expression(some[0])
    return (f"( {text} )?" if binds < _ATOM or text[-1] in "+*?" else f"{text}?"), _ATOM


def _leaf(leaf: Leaf) -> tuple[str, int]:
    if leaf.kind == "guard":
        return f"⟨{leaf.text}⟩", _ATOM
    if leaf.kind != "literal":
        return leaf.text, _ATOM
    spellings = [literal(text) for text in shown_spellings(leaf)]
    text = " | ".join(spellings) + ("…" if len(spellings) <= len(leaf.more) else "")
    if leaf.place:
        return (f"{leaf.place} ( {text} )" if len(spellings) > 1 else f"{leaf.place} {text}"), _ATOM
    return text, _ALT if len(spellings) > 1 else _ATOM
