"""The algebra: what a model's output is made of, as immutable data. No parsing code lives here.

A grammar is a set of named rules over the nodes below. Grammar files (``toolgrammar.language``) elaborate to
them, ``toolgrammar.machine`` compiles and runs them, ``toolgrammar.readings`` uses them in other ways. They
can be built from Python as well:

    >>> call_ = attempt(lit("<tool_call>"), ws, Envelope(), ws, lit("</tool_call>"))
    >>> turn = seq(content, many(call_, content))

Text names no delimiter: ``Text`` and ``Field`` end where what follows them begins, and the compiler works
that out. One table with every node, its input and its events is ``docs/combinators.md``.

Nodes by theme
    characters   Lit  Ws  Text  Field  Peek
    values       Json  Envelope  Typed  PyArgs  Quoted  Elements  Verbatim
    structure    Seq  Alt  Many  Opt  Ref  Choose  Let
    calls        Call  Section  Attempt  Draft
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

WHITE: str = " \t\r\n"
#: Characters a field may hold before the text is no name or key any more.
FIELD_LIMIT: int = 512


class _Node(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Base: frozen data, equal by value, hashable, serialisable."""


class Lit(_Node, frozen=True, tag=True):
    """One of several literal spellings; the first is canonical (the renderer writes it)."""

    spellings: tuple[str, ...]
    #: The marker counts only at the start of a line.
    line_start: bool = False
    #: The marker counts only where no letter, digit, ``_`` or ``.`` stands before it.
    word_start: bool = False


class Ws(_Node, frozen=True, tag=True):
    """Framing white space: a run of ``chars`` (at least ``least``), or ``exact``, that very string or nothing."""

    chars: str = WHITE
    least: int = 0
    exact: str = ""
    #: What the renderer writes here.
    canonical: str = ""


class Text(_Node, frozen=True, tag=True):
    """Free text up to where its successor begins. A stretch of white space next to framing is dropped.

    ``strip``: "none" exact · "all" both ends of each stretch are framing · "first" the start is framing while
    nothing of this sink has been said, the end always.
    """

    sink: Literal["content", "reasoning", "drop"]
    strip: Literal["none", "all", "first"] = "none"
    #: A message or block of its own: joined to what its sink said before with one line feed.
    block: bool = False


class Field(_Node, frozen=True, tag=True):
    """Captured text (a name, key, id, attribute, header) up to where its successor begins.

    White space around it is dropped. It never holds more than ``limit`` characters, nor a control token of the
    grammar other than those of ``holds``. With ``chars`` it ends where that class ends, whatever follows.
    """

    register: str
    #: A regular-expression character class the field is made of, e.g. ``[^\\s<>]``; "" is any character.
    chars: str = ""
    #: One pair of quotes around the text is dropped.
    quoted: bool = False
    #: It must be the name of a tool of the request.
    offered: bool = False
    #: It may be empty.
    empty: bool = False
    #: The text is escaped: "xml" for ``&quot;`` and ``&amp;``.
    unescape: Literal["", "xml"] = ""
    #: Control tokens that may stand in it.
    holds: tuple[str, ...] = ()
    limit: int = FIELD_LIMIT


class Peek(_Node, frozen=True, tag=True):
    """What must follow, without consuming it. Behind a literal it is part of that marker."""

    item: Node


class Json(_Node, frozen=True, tag=True):
    """The call's arguments: one JSON object, passed through as written, repaired if almost JSON."""


class Envelope(_Node, frozen=True, tag=True):
    """One JSON object that is a call: members for name, arguments and id, in any order.

    ``decide``: when the object counts as a call, see ``EnvelopeSpec`` of the machine.
    """

    names: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments", "parameters")
    ids: tuple[str, ...] = ("id",)
    wrappers: tuple[str, ...] = ("function",)
    other: Literal["ignore", "reject"] = "ignore"
    allowed: tuple[str, ...] = ()
    type_value: str = ""
    decide: Literal["begun", "strong", "weak", "offered"] = "begun"
    #: The object has one member: its key is the tool's name, its value the arguments.
    tool_key: bool = False


class Typed(_Node, frozen=True, tag=True):
    """The raw value of parameter ``key``, typed by the tool's schema; ends at its closer.

    ``trim``: one such string is framing at either end. ``kind``: the register that says ``true`` for a string
    and ``false`` for JSON, where the notation carries the type. ``reopen``: openers that, at the start of a
    line, end a value whose closer is missing.
    """

    trim: str = ""
    kind: str = ""
    reopen: tuple[Node, ...] = ()


class PyArgs(_Node, frozen=True, tag=True):
    """Python keyword arguments, from behind ``(`` to and with ``)``."""


class Quoted(_Node, frozen=True, tag=True):
    """An object with bare keys and strings between ``quote`` delimiters, from ``{`` (or ``(``) to its end."""

    quote: str


class Elements(_Node, frozen=True, tag=True):
    """The call's arguments as elements that nest, ``PREFIX<KEY>...PREFIX</KEY>``, typed by the tool's schema.

    From behind the call's own tag up to a closer, ``PREFIX</``, when no element is open.
    """

    prefix: str


class Verbatim(_Node, frozen=True, tag=True):
    """Text up to where its successor begins, as the one string argument ``key`` of the call."""

    key: str


class Seq(_Node, frozen=True, tag=True):
    """One after the other."""

    items: tuple[Node, ...]


class Alt(_Node, frozen=True, tag=True):
    """The first arm whose beginning fits; an arm that can be empty comes last."""

    arms: tuple[Node, ...]


class Many(_Node, frozen=True, tag=True):
    """``item`` repeated, at least ``least`` times."""

    item: Node
    least: int = 0


class Opt(_Node, frozen=True, tag=True):
    """``item`` or nothing."""

    item: Node


class Ref(_Node, frozen=True, tag=True):
    """A named rule of the grammar."""

    rule: str


class Arm(_Node, frozen=True, tag=True):
    """One way to go on by a register's text: all of it must match ``pattern``; groups become registers.

    ``when``: "" always · "offered" the register ``name`` must be an offered tool · "sole" exactly one tool is
    offered, which becomes the name · "mangled" the text is an offered name with other characters than
    ``[A-Za-z0-9_-]`` replaced, which becomes the name.
    """

    pattern: str
    item: Node
    when: Literal["", "offered", "sole", "mangled"] = ""


class Choose(_Node, frozen=True, tag=True):
    """Branch by the text of a register; no arm fits: a flaw."""

    register: str
    arms: tuple[Arm, ...]


class Let(_Node, frozen=True, tag=True):
    """Set a register to a text of the grammar's own."""

    register: str
    value: str


class Call(_Node, frozen=True, tag=True):
    """The extent of one call. Announced when its arguments begin or it ends, ended with ``item``."""

    item: Node


class Section(_Node, frozen=True, tag=True):
    """A call section: a stream that ends inside it is unfinished. ``closed``: a section may be left open."""

    item: Node


class Attempt(_Node, frozen=True, tag=True):
    """Speculation, and a section: held from its opener until a call inside is announced.

    Disproved before that, the held text is text where it stood (control tokens in it are consumed).
    ``word``: a word-like opener; the end of the stream releases it as text. A tag-like one shows nothing.
    ``until``: "announced", or "offered" (an announced call counts only if offered, else the whole item must
    close), or "closed".
    """

    item: Node
    word: bool = False
    #: The opener may well be prose: at the end of the stream anything behind it but white space shows that it was.
    unsure: bool = False
    #: No call section: cut by the end of the stream it shows nothing, but leaves no turn unfinished.
    aside: bool = False
    until: Literal["announced", "offered", "closed"] = "announced"


class Draft(_Node, frozen=True, tag=True):
    """A call section spelled with plain text while reasoning is open: a candidate, decided by what follows it.

    ``closer`` ends reasoning. Reading convention 7 of the formats.
    """

    item: Node
    closer: Node


Node: TypeAlias = (
    Lit | Ws | Text | Field | Peek | Json | Envelope | Typed | PyArgs | Quoted | Elements | Verbatim
    | Seq | Alt | Many | Opt | Ref | Choose | Let | Call | Section | Attempt | Draft
)  # fmt: skip


class Grammar(msgspec.Struct, frozen=True, omit_defaults=True):
    """A format: rules, where generation may start, and what is known about it."""

    name: str
    rules: dict[str, Node]
    #: Start state ("content", "reasoning", "section") to rule name; "content" is always there.
    starts: dict[str, str]
    #: Control tokens that end the turn; what follows them is not read.
    stops: tuple[str, ...] = ()
    #: Further special tokens of the format, beyond those that look like ``<|...|>``.
    tokens: tuple[str, ...] = ()
    #: Control tokens that are consumed wherever they stand in text.
    skips: tuple[str, ...] = ()
    #: Sinks whose separate stretches are joined with one line feed.
    joined: tuple[str, ...] = ()
    #: What begins the model's turn in a prompt; the last one counts.
    anchors: tuple[str, ...] = ()
    #: Other names: peers' parser names and aliases.
    names: tuple[str, ...] = ()
    #: Model-name patterns (lower case substrings, most specific first by length).
    models: tuple[str, ...] = ()
    title: str = ""
    #: Shape of the ids we make: "call" (``call_`` + 24 hex) or "alnum9".
    ids: str = "call"
    #: What is mended in the text of the channels: "line-feeds", or nothing.
    mend: str = ""
    #: Detection evidence and other header lines as written: word -> lines.
    facts: Mapping[str, tuple[str, ...]] = {}


# ---- smart constructors ---------------------------------------------------------------------------------------


def lit(*spellings: str, line_start: bool = False) -> Lit:
    """A literal; the first spelling is canonical."""
    return Lit(tuple(spellings), line_start)


def seq(*items: Node) -> Node:
    """One after the other; nested sequences are flattened."""
    flat: list[Node] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Seq) else (item,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def alt(*arms: Node) -> Node:
    """The first arm that fits; nested alternatives are flattened."""
    flat: list[Node] = []
    for arm in arms:
        flat.extend(arm.arms if isinstance(arm, Alt) else (arm,))
    return flat[0] if len(flat) == 1 else Alt(tuple(flat))


def many(*items: Node, least: int = 0) -> Many:
    """A repeated sequence."""
    return Many(seq(*items), least)


def opt(*items: Node) -> Opt:
    """An optional sequence."""
    return Opt(seq(*items))


def call(*items: Node) -> Call:
    """The extent of one call."""
    return Call(seq(*items))


def section(*items: Node) -> Section:
    """A call section."""
    return Section(seq(*items))


def attempt(*items: Node, word: bool = False) -> Attempt:
    """Speculation up to the announcement of a call."""
    return Attempt(seq(*items), word)


ws = Ws()
nl = Ws(chars="\n")
content = Text("content")
reasoning = Text("reasoning")
drop = Text("drop")


def children(node: Any) -> tuple[Any, ...]:
    """The nodes directly inside ``node``."""
    match node:
        case Seq(items):
            return items
        case Alt(arms):
            return arms
        case Choose(_, arms):
            return tuple(arm.item for arm in arms)
        case Draft(item, closer):
            return (item, closer)
        case Typed(reopen=reopen):
            return reopen
        case Many() | Opt() | Peek() | Call() | Section() | Attempt():
            return (node.item,)
    return ()
