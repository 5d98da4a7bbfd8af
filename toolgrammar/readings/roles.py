"""What each marker of a grammar does, worked out from what stands around it.

    >>> [(marker.text, marker.does) for marker in markers(registry.load("hermes"))][0]
    ('<tool_call>', 'opens a call, also in open reasoning; in front of the call object')

Every way through the grammar is looked at: which literal or value may stand directly in front of which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from toolgrammar import combinators as c
from toolgrammar.readings.first import is_control

_WORDS = {
    "Json": "the arguments",
    "Envelope": "the call object",
    "Typed": "a value",
    "PyArgs": "the arguments",
    "Quoted": "the arguments",
    "Elements": "the arguments",
    "Verbatim": "the code",
}
_FIELDS = {"name": "the tool's name", "key": "a parameter's name", "id": "the call's id"}
#: What stands in front of these is inside a call, and neither opens nor ends one.
_INNER = {"the arguments", "a value", "a parameter's name", "the code"}


@dataclass(frozen=True)
class Marker:
    """A marker, its other spellings, whether it is a control token, and what it does."""

    text: str
    more: tuple[str, ...]
    kind: str
    does: str


class _Ends(NamedTuple):
    """What a node may begin and end with, and whether it may be nothing: literals as tuples of one, and words."""

    first: frozenset[Any] = frozenset()
    last: frozenset[Any] = frozenset()
    empty: bool = False


_NOTHING = _Ends(empty=True)


@dataclass
class _Around:
    """What is known so far. ``opens``, ``ends``: "call" or "section" to literals."""

    rules: dict[str, c.Node]
    known: dict[str, _Ends] = field(default_factory=dict)
    behind: dict[Any, set[Any]] = field(default_factory=dict)
    opens: dict[str, set[Any]] = field(default_factory=lambda: {"call": set(), "section": set()})
    ends: dict[str, set[Any]] = field(default_factory=lambda: {"call": set(), "section": set()})
    lines: set[Any] = field(default_factory=set)
    anywhere: set[Any] = field(default_factory=set)
    calling: set[str] = field(default_factory=set)

    def settle(self) -> None:
        """Go over the rules until nothing new is found."""
        before: Any = None
        while before != (before := (dict(self.known), sum(map(len, self.behind.values())), len(self.calling))):
            for name, node in self.rules.items():
                self.known[name] = self.ends_of(node)
                if self.calls(node):
                    self.calling.add(name)

    def calls(self, node: Any) -> bool:
        """Whether a call stands in it."""
        if isinstance(node, c.Call | c.Envelope) or (isinstance(node, c.Ref) and node.rule in self.calling):
            return True
        return any(map(self.calls, c.children(node)))

    def ends_of(self, node: Any) -> _Ends:
        """What a node begins and ends with; what follows what inside it is noted."""
        match node:
            case c.Lit():
                each = frozenset((text,) for text in node.spellings)
                (self.lines if node.line_start else self.anywhere).update(each)
                return _Ends(each, each)
            case c.Ws() | c.Peek() | c.Let():
                return _NOTHING
            case c.Text(sink):
                return _Ends(frozenset({sink}), frozenset({sink}), True)
            case c.Seq(items):
                return self._sequence(items)
            case c.Alt() | c.Choose():
                return self._either(c.children(node))
            case c.Opt(item):
                return self.ends_of(item)._replace(empty=True)
            case c.Many(item, least):
                found = self.ends_of(item)
                self._follows(found.last, found.first)
                return found._replace(empty=found.empty or not least)
            case c.Ref(rule):
                return self.known.get(rule, _Ends())
            case c.Call(item) | c.Section(item) | c.Attempt(item):
                found = self.ends_of(item)
                kind = "call" if isinstance(node, c.Call) else "section"
                if self.calls(node) and not getattr(node, "aside", False):
                    self.opens[kind] |= found.first
                    self.ends[kind] |= found.last
                return found
            case c.Draft(item):
                return self.ends_of(item)
            case c.Field(register):
                return _one(_FIELDS.get(register, f"the {register}"))
        return _one(_WORDS[type(node).__name__])

    def _sequence(self, items: tuple[Any, ...]) -> _Ends:
        whole = _NOTHING
        for item in items:
            found = self.ends_of(item)
            self._follows(whole.last, found.first)
            first = whole.first | (found.first if whole.empty else frozenset())
            whole = _Ends(
                first, found.last | (whole.last if found.empty else frozenset()), whole.empty and found.empty
            )
        return whole

    def _either(self, arms: tuple[Any, ...]) -> _Ends:
        each = [self.ends_of(arm) for arm in arms]
        first, last = (frozenset().union(*sides) for sides in list(zip(*each, strict=True))[:2])
        return _Ends(first, last, any(found.empty for found in each))

    def _follows(self, before: frozenset[Any], after: frozenset[Any]) -> None:
        for each in before:
            self.behind.setdefault(each, set()).update(after)


def _one(text: str) -> _Ends:
    return _Ends(frozenset({text}), frozenset({text}))


def markers(grammar: c.Grammar) -> list[Marker]:
    """The markers in the order of the rules, then the tokens that end the turn or are dropped."""
    around = _Around(dict(grammar.rules))
    around.settle()
    for start in grammar.starts.values():
        around.behind.setdefault("", set()).update(around.known[start].first)
    found: dict[str, bool] = {}
    together: dict[str, tuple[str, ...]] = {}
    for node in grammar.rules.values():
        _literals(node, False, found, together)
    also = dict.fromkeys(grammar.skips, "dropped where it stands in text")
    also |= dict.fromkeys(grammar.stops, "ends the turn; what follows is not read")
    rows: dict[tuple[Any, ...], list[str]] = {}
    for text in [*found, *(text for text in also if text not in found)]:
        kind = _kind(grammar, text)
        if len(text.strip()) > 1 or kind != "text":
            does = "; ".join(filter(None, [_does((text,), around, found.get(text)), also.get(text, "")]))
            rows.setdefault((together.get(text, (does,)), kind, does), []).append(text)
    return [Marker(texts[0], tuple(texts[1:]), kind, does) for (_, kind, does), texts in rows.items()]


def _literals(node: Any, ahead: bool, found: dict[str, bool], together: dict[str, tuple[str, ...]]) -> None:
    """Every literal, whether it is nothing but looked for, and what it is a spelling of."""
    if isinstance(node, c.Lit):
        for text in node.spellings:
            found[text] = found.get(text, True) and ahead
            if not ahead:
                together.setdefault(text, node.spellings)
    for child in c.children(node):
        _literals(child, ahead or isinstance(node, c.Peek | c.Typed), found, together)


def _kind(grammar: c.Grammar, text: str) -> str:
    if is_control(grammar, text):
        return "control token"
    return "holds a control token" if any(token in text for token in grammar.tokens) else "text"


def _does(text: tuple[str], around: _Around, ahead: bool | None) -> str:
    """What one marker does; ``ahead``: it is looked for only, None: it stands in no rule."""
    if ahead is None:
        return ""
    if ahead:
        return "never taken: it shows that what stands in front of it is over"
    after = {each for each in around.behind.get(text, ()) if each != "drop"}
    before = {each for each, following in around.behind.items() if text in following}
    inner = after & _INNER
    words = sorted(each for each in after if isinstance(each, str))
    closes = text in around.ends["call"] | around.ends["section"] and bool(
        before & {*_INNER, "the call object", *around.ends["call"], *around.ends["section"]}
    )
    opens = text in around.opens["section"] or (text in around.opens["call"] and bool(after & {*_FIELDS.values()}))
    said = []
    if opens and not (closes and words in ([], ["content"])) and (not inner or "the arguments" in inner):
        said.append("opens a call section" if _outer(text, around.opens, after) else "opens a call")
        said[0] += ", also in open reasoning" if "reasoning" in before else ""
    ends = closes and not inner and not said
    if ends:
        said.append("ends a call section" if _outer(text, around.ends, before) else "ends a call")
    elif not said and "reasoning" in before and after != {"reasoning"} and (words or (">",) not in before):
        said.append("ends reasoning or content" if "content" in before else "ends reasoning")
    elif {"a value", "the code"} & before:
        said.append("ends a value")
    if words == ["reasoning"] and not said:
        said.append("opens reasoning")
    elif words and not ends and (words != ["content"] or not said):
        said.append(f"in front of {_listed(words)}")
    if not said:
        behind = sorted(each for each in before if isinstance(each, str) and each not in ("", "drop"))
        said.append(f"behind {_listed(behind)}" if behind else "part of the frame around a call")
    if text in around.lines - around.anywhere:
        said.append("at the start of a line")
    return "; ".join(said)


def _outer(text: tuple[str], edges: dict[str, set[Any]], neighbours: set[Any]) -> bool:
    """Whether it is a section's edge with the edge of a call, or of a section, right inside it."""
    every = edges["call"] | edges["section"]
    return text in edges["section"] and any(
        each in every and each != text for each in neighbours if isinstance(each, tuple)
    )


def _listed(words: list[str]) -> str:
    return ", ".join(words[:-1]) + " or " * (len(words) > 1) + words[-1]
