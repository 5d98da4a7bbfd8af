"""Reading a response template: its keys and values checked, its delimiters expanded, nothing compiled yet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from toolgrammar.templates import patterns
from toolgrammar.templates.errors import TemplateError
from toolgrammar.templates.patterns import Capture, PatternError, Shape, Word

TOP: Final = ("version", "defaults", "start_anchor", "start_anchor_pattern", "fields")
FIELD: Final = (
    "open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join", "optional",
    "transform", "transform_each",
)  # fmt: skip
ARGS: Final[dict[str, tuple[str, ...]]] = {
    "text": ("strip",),
    "int": (),
    "float": (),
    "bool": (),
    "json": ("string_delims", "unquoted_keys", "allow_non_json"),
    "xml-inline": ("tag_pattern", "value_parser", "merge_duplicates"),
    "kv-lines": ("line_sep", "kv_sep", "value_parser", "strip"),
}
#: Where the text of a field goes; the calls are ``tool_calls``, all other fields are dropped.
SINKS: Final = {
    "thinking": "reasoning",
    "reasoning": "reasoning",
    "reasoning_content": "reasoning",
    "content": "content",
    "tool_calls": "calls",
}
_PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_]\w*)((?:\.\w+)*)\}")


class Region(NamedTuple):
    """One field, checked."""

    name: str
    sink: str
    #: None: it has no opener.
    open: tuple[Shape, ...] | None
    close: tuple[Shape, ...]
    content: str
    args: Mapping[str, Any]
    #: The named groups of its opener.
    groups: tuple[str, ...]
    transform: Any
    each: bool
    join: str | None

    @property
    def implicit(self) -> bool:
        """It takes what stands outside the other regions."""
        return self.open is None


class Template(NamedTuple):
    """A response template, checked."""

    name: str
    anchors: tuple[str, ...]
    regions: tuple[Region, ...]
    #: What is not done as the template says, for people.
    notes: tuple[str, ...]

    def of(self, sink: str) -> list[Region]:
        """The explicit regions of a sink, in the order of the template."""
        return [region for region in self.regions if region.sink == sink and not region.implicit]


def read(data: Any, name: str) -> Template:
    """Check a template. Raises ``TemplateError``."""
    return _Reader(name).template(data)


def placeholders(value: Any) -> Iterator[str]:
    """The strings of a skeleton that have a placeholder."""
    if isinstance(value, str) and _PLACEHOLDER.search(value):
        yield value
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from placeholders(part)


def path_of(value: Any) -> tuple[str, ...] | None:
    """The names in a placeholder ``"{a.b}"``, None if ``value`` is none."""
    match = _PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else (match[1], *match[2].split(".")[1:])


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.field = ""
        self.notes: list[str] = []

    def fail(self, message: str, key: str = "", hint: str = "") -> TemplateError:
        return TemplateError(message, name=self.name, field=self.field, key=key, hint=hint)

    def known(self, data: Mapping[str, Any], keys: Sequence[str]) -> None:
        for key in data:
            if key not in keys:
                raise self.fail("no such key", str(key), f"known: {', '.join(keys)}" if keys else "it takes none")

    def typed(self, data: Mapping[str, Any], key: str, kind: type, what: str, default: Any) -> Any:
        value = data.get(key, default)
        if value is not default and not isinstance(value, kind):
            raise self.fail(f"it should be {what}", key)
        return value

    # ---- the template

    def template(self, data: Any) -> Template:
        if not isinstance(data, Mapping):
            raise self.fail("it is not a JSON object")
        self.known(data, TOP)
        if data.get("version", 1) != 1:
            raise self.fail(f"version {data['version']!r} is not known", "version", "version 1 is")
        for key in self.typed(data, "defaults", Mapping, "an object", {}):
            if key != "role":
                self.notes.append(f"the default of {key!r} is not used")
        fields = self.typed(data, "fields", Mapping, "an object", None)
        if not fields:
            raise self.fail("a template needs fields", "fields")
        anchors = self.anchors(data)
        regions = []
        for field, value in fields.items():
            self.field = str(field)
            regions.append(self.region(value))
        self.field = ""
        implicit = [region.name for region in regions if region.implicit]
        if len(implicit) > 1:
            self.field = implicit[1]
            hint = "only one field may take the text outside the others"
            raise self.fail(f"it has no opener, as field {implicit[0]!r}", "open", hint)
        return Template(self.name, anchors, tuple(regions), tuple(self.notes))

    def anchors(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        given = [key for key in ("start_anchor", "start_anchor_pattern") if data.get(key) is not None]
        if len(given) != 1:
            raise self.fail("give one of start_anchor and start_anchor_pattern", "start_anchor")
        if given == ["start_anchor"]:
            return self.texts(data, "start_anchor")
        shapes = self.shapes(data, "start_anchor_pattern")
        if not all(len(shape.parts) == 1 and isinstance(shape.parts[0], Word) for shape in shapes) or not shapes:
            raise self.fail(
                "it does not stand for a few fixed texts", "start_anchor_pattern",
                "list them in start_anchor",
            )  # fmt: skip
        return tuple(shape.word for shape in shapes)

    def texts(self, data: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = data[key]
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise self.fail("it should be a string or a list of strings", key)
        if not all(texts):
            raise self.fail("an empty text would match everywhere", key)
        return tuple(texts)

    def shapes(self, data: Mapping[str, Any], key: str) -> tuple[Shape, ...]:
        value = data[key]
        if not isinstance(value, str) or not value:
            raise self.fail("it should be a regular expression", key)
        try:
            return patterns.expand(value)
        except PatternError as error:
            raise self.fail(str(error), key, error.hint) from None

    # ---- a field

    def region(self, data: Any) -> Region:
        if not isinstance(data, Mapping):
            raise self.fail("a field should be an object")
        self.known(data, FIELD)
        for key in ("repeats", "optional", "transform_each"):
            self.typed(data, key, bool, "true or false", None)
        join = self.typed(data, "join", str, "a string", None)
        if join is not None and not data.get("repeats"):
            raise self.fail('it needs "repeats": true', "join")
        content = self.typed(data, "content", str, "a name", "text")
        if content not in ARGS:
            raise self.fail(f"no content parser {content!r}", "content", f"known: {', '.join(ARGS)}")
        opens = self.delimiter(data, "open")
        closes = self.delimiter(data, "close") or ()
        if any(isinstance(part, Capture) for shape in closes for part in shape.parts):
            raise self.fail("it does not stand for a few fixed texts", "close_pattern", "close at one of them")
        if data.get("optional") is False:
            self.notes.append(f"field {self.field!r} is not required: an output without it is read as it is")
        groups = patterns.groups(data["open_pattern"]) if "open_pattern" in data else ()
        region = Region(
            self.field, SINKS.get(self.field, "drop"), opens, closes, content, self.args(data, content), groups,
            data.get("transform"), bool(data.get("transform_each")), join,
        )  # fmt: skip
        self.transform(region)
        if region.sink in ("content", "reasoning"):
            self.text_region(region)
        return region

    def delimiter(self, data: Mapping[str, Any], key: str) -> tuple[Shape, ...] | None:
        pattern = f"{key}_pattern"
        if key in data and pattern in data:
            raise self.fail(f"give {key} or {pattern}, not both", pattern)
        if key in data:
            return patterns.literals(self.texts(data, key))
        if pattern not in data:
            return None
        shapes = self.shapes(data, pattern)
        if any(not shape.parts and not shape.start for shape in shapes):
            raise self.fail("it matches the empty text", pattern, "begin with what is always there")
        return shapes

    def args(self, data: Mapping[str, Any], content: str) -> Mapping[str, Any]:
        args: Mapping[str, Any] = self.typed(data, "content_args", Mapping, "an object", {})
        for key in args:
            if key not in ARGS[content]:
                known = f"known: {', '.join(ARGS[content])}" if ARGS[content] else "it takes none"
                raise self.fail(f"content {content!r} has no argument {key!r}", "content_args", known)
        for key in ("strip", "unquoted_keys", "allow_non_json", "merge_duplicates"):
            if not isinstance(args.get(key, False), bool):
                raise self.fail(f"{key!r} should be true or false", "content_args")
        for key in ("tag_pattern", "line_sep", "kv_sep"):
            if not isinstance(args.get(key, "x"), str) or not args.get(key, "x"):
                raise self.fail(f"{key!r} should be a string", "content_args")
        if content == "xml-inline" and "tag_pattern" not in args:
            raise self.fail("'xml-inline' needs a tag_pattern", "content_args")
        delims = args.get("string_delims", [])
        if not isinstance(delims, list) or not all(_is_pair(pair) for pair in delims):
            raise self.fail("'string_delims' should be pairs of strings", "content_args")
        if args.get("merge_duplicates"):
            self.notes.append(f"field {self.field!r}: of a repeated key the last value counts, no list is made")
        return args

    def transform(self, region: Region) -> None:
        if region.transform is None:
            if region.groups:
                raise self.fail(
                    f"group {region.groups[0]!r} is captured, and no transform uses it", "transform",
                    "add a transform, or use (?:...)",
                )  # fmt: skip
            if region.each:
                raise self.fail("there is no transform to apply", "transform_each")
        for text in placeholders(region.transform):
            path = path_of(text)
            if path is None:
                raise self.fail(f"{text!r} mixes a placeholder with other text", "transform")
            if not region.each and path[0] not in ("content", *region.groups):
                raise self.fail(f"nothing is called {path[0]!r}", "transform", "content and named groups are")

    def text_region(self, region: Region) -> None:
        if region.content != "text":
            raise self.fail(f"{region.name!r} is text, not {region.content!r}", "content")
        if region.transform not in (None, "{content}") or region.each:
            raise self.fail(f"{region.name!r} is text and cannot be transformed", "transform")
        if region.join not in (None, "", "\n"):
            self.notes.append(f"field {region.name!r}: joined with one line feed, not with {region.join!r}")


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(text, str) and text for text in value)
