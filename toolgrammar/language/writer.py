"""A ``Grammar`` to text that reads back equal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toolgrammar import combinators as c
from toolgrammar.language.forms import FORMS, SYNTAX, reserved
from toolgrammar.language.headers import LITERALS

_NAME = re.compile(r"[A-Za-z_]\w*(?:-\w+)*")
_WORD = re.compile(r'[^\s#"]+')
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_WIDTH = 100
_ANYTHING = "(?s:.*)"

# How tightly an expression binds.
_ALT, _SEQ, _ATOM = range(3)


def write_grammar(grammar: c.Grammar) -> str:
    """The text of a grammar file. Read under the file name ``NAME.tg`` it gives ``grammar`` again."""
    blocks = ["\n".join(_headers(grammar)), *(_rule(name, node) for name, node in grammar.rules.items())]
    return "\n\n".join(filter(None, blocks)) + "\n"


def write_inline(node: c.Node) -> str:
    """One node on one line, to be shown to a person."""
    return _write(node, _ALT)


def literal(text: str) -> str:
    """A literal with its quotes."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char.isprintable() or ord(char) > 0xFFFF else f"\\u{ord(char):04x}"


# ---- headers -----------------------------------------------------------------------------------------------


def _headers(grammar: c.Grammar) -> Iterator[str]:
    if grammar.title:
        yield f"@title {literal(grammar.title)}"
    for word, texts in (("names", grammar.names), ("models", grammar.models)):
        if texts:
            yield f"@{word} {' '.join(text if _WORD.fullmatch(text) else literal(text) for text in texts)}"
    for state, rule in grammar.starts.items():
        yield f"@start {state} = {_name(rule)}"
    for word, field in LITERALS.items():
        if texts := getattr(grammar, field):
            yield f"@{word} {' '.join(map(literal, texts))}"
    if grammar.joined:
        yield f"@join {' '.join(grammar.joined)}"
    if grammar.ids != "call":
        yield f"@ids {grammar.ids}"
    if grammar.mend:
        yield f"@mend {grammar.mend}"
    for word, lines in grammar.facts.items():
        yield from (f"@{word} {line}".rstrip() for line in lines)


# ---- rules -------------------------------------------------------------------------------------------------


def _rule(name: str, node: c.Node) -> str:
    head = f"{_name(name)} : "
    if isinstance(node, c.Alt):
        arms = [_write(arm, _SEQ) for arm in node.arms]
        if len(head) + len(" | ".join(arms)) > _WIDTH:
            return head + "\n    | ".join(arms)
    return head + _write(node, _ALT)


def _name(name: str) -> str:
    """The name of a rule, between backquotes if it could be taken for something else."""
    return f"`{name}`" if reserved(name, applied=False) else _quoted(name)


def _quoted(name: str) -> str:
    return name if _NAME.fullmatch(name) and name not in SYNTAX else f"`{name}`"


def _write(node: c.Node, tight: int) -> str:
    text, binds = _expression(node)
    return f"({text})" if binds < tight else text


def _expression(node: c.Node) -> tuple[str, int]:
    """The text of a node, and how tightly it binds."""
    match node:
        case c.Lit(_, True, True):
            raise ValueError("the language has no marker at the start of a line and of a word")
        case c.Lit(spellings, line_start, word_start):
            return _literals(spellings, "bol" if line_start else "bow" if word_start else "")
        case c.Seq(()):
            return "()", _ATOM
        case c.Seq(items):
            return " ".join(_write(item, _ATOM) for item in items), _SEQ
        case c.Alt(arms):
            return " | ".join(_write(arm, _SEQ) for arm in arms), _ALT
        case c.Opt(item):
            return _repeated(item, "?")
        case c.Many(_, least) if least > 1:
            raise ValueError(f"the language has no repeat of at least {least}")
        case c.Many(item, least):
            return _repeated(item, "+" if least else "*")
        case c.Peek(item):
            return f"&({_write(item, _ALT)})", _ATOM
        case c.Ref(rule):
            return _name(rule), _ATOM
        case c.Choose(register, arms):
            return f"choose {_quoted(register)} {{ {' ; '.join(map(_arm, arms))} }}", _ATOM
    return _word(node), _ATOM


def _repeated(item: c.Node, quantifier: str) -> tuple[str, int]:
    text = _write(item, _ATOM)
    return (f"({text})" if isinstance(item, c.Opt | c.Many) else text) + quantifier, _ATOM


def _literals(spellings: tuple[str, ...], place: str) -> tuple[str, int]:
    text = " | ".join(map(literal, spellings))
    if place:
        return (f"{place} {text}" if len(spellings) == 1 else f"{place} ({text})"), _ATOM
    return text, _ATOM if len(spellings) == 1 else _ALT


def _arm(arm: c.Arm) -> str:
    taken = "else" if arm.pattern == _ANYTHING else _regex(arm.pattern)
    when = f" when {arm.when}" if arm.when else ""
    return f"{taken}{when} -> {_write(arm.item, _ALT)}"


def _regex(pattern: str) -> str:
    """A pattern between slashes; bare slashes and line feeds are escaped."""
    escaped = re.sub(r"\\[\s\S]|/", lambda match: "\\/" if match[0] == "/" else match[0], pattern)
    return "/" + escaped.replace("\n", "\\n") + "/"


def _word(node: c.Node) -> str:
    """The word of a node with what it is given."""
    match node:
        case c.Ws():
            return _white(node)
        case c.Text(sink, strip, block):
            return _given(sink, "block" if block else "", strip=strip if strip != "none" else "")
        case c.Field():
            return _field(node)
        case c.Let(register, value):
            return f"let({_register(register)}, {literal(value)})"
        case c.Json():
            return "json"
        case c.PyArgs():
            return "pyargs"
        case c.Quoted(quote):
            return f"quoted({literal(quote)})"
        case c.Elements(prefix):
            return f"elements({literal(prefix)})"
        case c.Verbatim(key):
            return f"verbatim({_register(key)})"
        case c.Envelope():
            return _envelope(node)
        case c.Typed(trim=trim, kind=kind, reopen=reopen):
            openers = " | ".join(
                f"({_write(item, _ALT)})" if isinstance(item, c.Alt | c.Lit) and _expression(item)[1] == _ALT
                else _write(item, _SEQ) for item in reopen
            )  # fmt: skip
            return _given(
                "typed",
                trim=literal(trim) if trim else "",
                kind=_quoted(kind) if kind else "",
                reopen=openers,
            )
        case c.Call(item):
            return _given("call", _write(item, _ALT))
        case c.Section(item):
            return _given("section", _write(item, _ALT))
        case c.Attempt(item):
            flags = [flag for flag in ("word", "unsure", "aside") if getattr(node, flag)]
            return _given(
                "attempt", _write(item, _ALT), *flags, until=node.until if node.until != "announced" else ""
            )
        case c.Draft(item=item, closer=closer):
            return _given("draft", _write(item, _ALT), closer=_write(closer, _ALT))
    raise TypeError(f"{node!r} is no grammar node")


def _given(word: str, *arguments: str, **options: str) -> str:
    """``word(arguments, option: value)``, what is empty left out."""
    parts = [*filter(None, arguments), *(f"{name}: {value}" for name, value in options.items() if value)]
    return f"{word}({', '.join(parts)})" if parts else word


def _white(node: c.Ws) -> str:
    canonical = literal(node.canonical) if node.canonical else ""
    if node.exact:
        return _given("gap", literal(node.exact), canonical)
    words = {(c.WHITE, 0): "ws", (c.WHITE, 1): "ws1", ("\n", 0): "nl", (" \t", 0): "blank"}
    word = words.get((node.chars, node.least))
    if word:
        return _given(word, canonical)
    chars = literal(node.chars) if node.chars != c.WHITE else ""
    return _given("ws", canonical, chars=chars, least=str(node.least or ""))


def _register(name: str) -> str:
    """A register's name as an argument, as a literal if it could be taken for something else."""
    plain = _NAME.fullmatch(name) and name not in SYNTAX and name not in FORMS["field"].flags
    return name if plain else literal(name)


def _field(node: c.Field) -> str:
    word = (
        [node.register] if node.register in ("name", "key", "id", "kind") else ["field", _register(node.register)]
    )
    return _given(
        *word,
        *(flag for flag in ("quoted", "offered", "empty") if getattr(node, flag)),
        chars=_regex(node.chars) if node.chars else "",
        unescape=node.unescape,
        holds=" | ".join(map(literal, node.holds)),
        limit=str(node.limit) if node.limit != c.FIELD_LIMIT else "",
    )


def _envelope(node: c.Envelope) -> str:
    plain = c.Envelope()

    def listed(texts: Iterable[str]) -> str:
        return " | ".join(map(literal, texts)) or "()"

    options = {
        word: listed(getattr(node, word))
        for word in ("names", "arguments", "ids", "wrappers", "allowed")
        if getattr(node, word) != getattr(plain, word)
    }
    if node.other != plain.other:
        options["other"] = node.other
    if node.type_value:
        options["type"] = literal(node.type_value)
    if node.decide != plain.decide:
        options["decide"] = node.decide
    return _given("envelope", "tool_key" if node.tool_key else "", **options)
