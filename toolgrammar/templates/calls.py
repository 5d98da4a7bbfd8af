"""The field ``tool_calls`` as nodes: where name, arguments and id of a call stand decides what reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from toolgrammar import combinators as c
from toolgrammar.templates.checks import Region, path_of
from toolgrammar.templates.errors import TemplateError
from toolgrammar.templates.nodes import Markers, begins, closers, either, sequence
from toolgrammar.templates.parameters import key_values, tagged_values
from toolgrammar.templates.patterns import Capture, Part, Shape, White, Word

_ALIASES: Final = ("arguments", "parameters")
_SHAPE: Final = 'as in {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}'
_TAG: Final = re.compile(r"<([A-Za-z_][\w:.-]*)")


class Calls(NamedTuple):
    """How calls are read."""

    item: c.Node
    rules: dict[str, c.Node]


class Asked(NamedTuple):
    """What a transform makes of a region: a path in it, or fixed text, for each part of a call."""

    name: tuple[str, ...] | str
    arguments: tuple[str, ...] | str
    id: tuple[str, ...] = ()
    #: The parsed object is the call as it stands.
    whole: bool = False


def compile_calls(region: Region, template: str, markers: Markers, ends: Sequence[str]) -> Calls:
    """The nodes of one call, or section of calls. ``ends``: closers of the text around it, which end it too."""
    return _Compiler(region, template, markers, ends).calls()


class _Compiler:
    def __init__(self, region: Region, template: str, markers: Markers, ends: Sequence[str]) -> None:
        self.region = region
        self.template = template
        self.markers = markers
        own = [_first(word.rstrip(), markers) for shape in region.open or () if (word := shape.word)]
        self.ends = tuple(dict.fromkeys((*ends, *own)))
        self.closers = closers(region.close, framed=True)
        self.rules: dict[str, c.Node] = {}

    def fail(self, key: str, message: str, hint: str = "") -> TemplateError:
        return TemplateError(message, name=self.template, field=self.region.name, key=key, hint=hint)

    def calls(self) -> Calls:
        if not self.region.open or not all(shape.word for shape in self.region.open):
            raise self.fail("open", "calls need an opener with a fixed text", "give open or open_pattern")
        asked = self.asked()
        item = self.listed(asked) if self.in_content(asked) else self.captured(asked)
        word = all(shape.word.lstrip()[:1].isalnum() for shape in self.region.open)
        return Calls(c.Attempt(item, word=word), self.rules)

    # ---- the transform

    def asked(self) -> Asked:
        transform = self.region.transform
        if transform is None or path_of(transform) == ("content",):
            return Asked(("name",), _ALIASES[:1], ("id",), whole=True)
        if not isinstance(transform, Mapping):
            raise self.fail("transform", "it makes no call", _SHAPE)
        function = transform.get("function", transform)
        given = path_of(transform.get("id"))
        if (path := path_of(function)) is not None:
            inside = path if self.region.each or path[:1] != ("content",) else path[1:]
            if path[0] in self.region.groups and not self.region.each:
                raise self.fail("transform", f"{function!r} is text, not a function", _SHAPE)
            return Asked((*inside, "name"), (*inside, "arguments"), given or (), whole=True)
        if not isinstance(function, Mapping) or "name" not in function:
            raise self.fail("transform", "it has no function.name", _SHAPE)
        name, arguments = function["name"], function.get("arguments", function.get("parameters"))
        return Asked(self.source(name, "name"), self.source(arguments, "arguments"), given or ())

    def source(self, value: Any, what: str) -> tuple[str, ...] | str:
        """Where a part of the call comes from: a path, or text."""
        if (path := path_of(value)) is not None:
            return path
        if what == "name" and isinstance(value, str) and value:
            return value
        if what == "arguments" and isinstance(value, Mapping) and len(value) == 1:
            key, inner = next(iter(value.items()))
            if path_of(inner) == ("content",) and self.region.content == "text":
                return str(key)
        raise self.fail("transform", f"function.{what} comes from no group and no content", _SHAPE)

    def in_content(self, asked: Asked) -> bool:
        """Whether the name stands in the body, so that one object is the whole call."""
        if asked.whole or self.region.each:
            return True
        return isinstance(asked.name, tuple) and asked.name[0] == "content" and len(asked.name) > 1

    # ---- the name in the body

    def listed(self, asked: Asked) -> c.Node:
        if self.region.content != "json":
            raise self.fail("content", f"{self.region.content!r} holds no name of a call", "use 'json'")
        if self.region.args.get("string_delims") or self.region.args.get("unquoted_keys"):
            raise self.fail("content_args", "string_delims and unquoted_keys need the name in the opener")
        envelope = self.envelope(asked)
        value: c.Node = envelope
        if self.region.each:
            more = c.Ref("calls-more")
            behind = c.alt(c.seq(c.lit(","), c.ws, more), c.lit("]"))
            self.rules["calls-more"] = c.alt(c.seq(envelope, c.ws, behind), c.lit("]"))
            value = c.alt(c.seq(c.lit("["), c.ws, more), envelope)
        return c.seq(self.opener({}), c.ws, value, *self.closing())

    def envelope(self, asked: Asked) -> c.Envelope:
        skip = 0 if self.region.each or asked.whole else 1
        name, arguments, ids = (path[skip:] if isinstance(path, tuple) else () for path in asked[:3])
        if not name or not arguments:
            raise self.fail("transform", "with the name in the body, the arguments must be in it, too", _SHAPE)
        last = arguments[-1]
        aliases = (last, *(alias for alias in _ALIASES if alias != last)) if last in _ALIASES else (last,)
        wrappers = tuple(dict.fromkeys((*name[:-1], *arguments[:-1], *(("function",) if asked.whole else ()))))
        return c.Envelope(names=name[-1:], arguments=aliases, ids=ids[-1:], wrappers=wrappers)

    # ---- the name in the opener

    def captured(self, asked: Asked) -> c.Node:
        registers: dict[str, str] = {}
        fixed: list[c.Node] = []
        if isinstance(asked.name, str):
            fixed.append(c.Let("name", asked.name))
        elif asked.name == ("content",):
            raise self.fail("transform", "the whole body is the name", _SHAPE)
        else:
            registers[asked.name[0]] = "name"
        if asked.id and asked.id[0] in self.region.groups:
            registers[asked.id[0]] = "id"
        opener = c.seq(self.opener(registers), *fixed)
        if isinstance(asked.arguments, str):
            return self.code(opener, asked.arguments)
        if asked.arguments != ("content",):
            raise self.fail("transform", "with the name in the opener, the arguments are the whole body", _SHAPE)
        match self.region.content:
            case "json":
                return c.seq(c.call(opener, c.ws, self.json()), *self.closing())
            case "xml-inline" | "kv-lines":
                return self.values(opener)
        hint = "use json, xml-inline or kv-lines"
        raise self.fail("content", f"arguments cannot be {self.region.content!r}", hint)

    def json(self) -> c.Node:
        args = self.region.args
        delims = args.get("string_delims", [])
        if len(delims) > 1 or any(left != right for left, right in delims):
            raise self.fail("content_args", "string_delims may name one delimiter, the same on both sides")
        if delims:
            return c.Quoted(delims[0][0])
        if args.get("unquoted_keys"):
            hint = "bare keys beside JSON strings are not read"
            raise self.fail("content_args", "unquoted_keys need string_delims", hint)
        ends_bare = any(isinstance(shape.parts[-1], Capture) for shape in self.region.open or ())
        return c.seq(c.Peek(c.lit("{")), c.Json()) if ends_bare else c.Json()

    def code(self, opener: c.Node, key: str) -> c.Node:
        framing = [c.ws] if self.region.args.get("strip", True) else []
        return c.seq(c.call(opener, *framing, c.Verbatim(key)), *self.closing(*framing))

    def values(self, opener: c.Node) -> c.Node:
        if self.region.content == "kv-lines":
            lines = key_values(self.region, self.closers, self.fail)
            self.rules["lines"] = lines
            return c.seq(c.call(opener, c.Ref("lines")), *self.closing(required=True))
        inner, outer = self.end_tags()
        follow = tuple(text for node in [*inner, *outer] for text in begins(node)) or self.ends
        parameter, between = tagged_values(self.region, inner, follow, self.fail, self.markers)
        self.rules["parameter"] = parameter
        loop = (
            c.seq(c.many(c.ws, c.Ref("parameter")), c.ws)
            if between is c.ws else c.seq(between, c.many(c.Ref("parameter"), between))
        )  # fmt: skip
        body = c.call(opener, loop, *([c.opt(either(inner))] if inner else []))
        return c.seq(body, c.ws, either(outer)) if outer else body

    def end_tags(self) -> tuple[list[c.Node], list[c.Node]]:
        """End tags of what the opener opens, inside the closer; and the closer."""
        if len(self.closers) == 1 and isinstance(self.closers[0], c.Seq):
            first, *rest = self.closers[0].items
            while rest and isinstance(rest[0], c.Ws):
                rest = rest[1:]
            if rest and isinstance(first, c.Lit):
                return [first], [c.seq(*rest)]
        parts = [part for shape in self.region.open or () for part in shape.parts]
        opened = _TAG.findall("".join(part.text for part in parts if isinstance(part, Word)))
        tags = [f"</{tag}>" for tag in reversed(dict.fromkeys(opened))]
        known = "".join(text for node in self.closers for text in begins(node))
        return [c.Lit((tag,)) for tag in tags if tag not in known and self.closers], self.closers

    # ---- around the body

    def opener(self, registers: dict[str, str]) -> c.Node:
        ways = [sequence(_body_follows(shape), registers, self.markers) for shape in self.region.open or ()]
        if all(len(way) == 1 and isinstance(way[0], c.Lit) for way in ways):
            return either([way[0] for way in ways])
        return c.alt(*(c.seq(*way) for way in ways))

    def closing(self, *framing: c.Node, required: bool = False) -> list[c.Node]:
        """The closer; in its place, the end of what is around the call may stand, or the next opener."""
        only_seen = all(isinstance(node, c.Peek) for node in self.closers)
        if not self.closers or (only_seen and self.region.content == "json"):
            return []  # the body delimits itself, or lasts to the end
        taken = [text for node in self.closers for text in begins(node)]
        ends = tuple(text for text in self.ends if text not in taken)
        peeks = [c.Peek(c.Lit(ends))] if ends and not required else []
        return [*(framing or (c.ws,)), either([*self.closers, *peeks])]


def _first(text: str, markers: Markers) -> str:
    head = markers.head(text)
    return text if head in markers.shared else head or text


def _body_follows(shape: Shape) -> list[Part]:
    """The parts of an opener, the white space at its end left to the framing of the body."""
    parts = list(shape.parts)
    while parts and isinstance(parts[-1], White):
        parts.pop()
    if parts and isinstance(parts[-1], Word) and parts[-1].text.strip():
        parts[-1] = Word(parts[-1].text.rstrip())
    return parts
