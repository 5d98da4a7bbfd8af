"""Bodies of calls that are keys with raw values, typed by the schema: ``xml-inline`` and ``kv-lines``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from toolgrammar import combinators as c
from toolgrammar.templates import patterns
from toolgrammar.templates.checks import Region
from toolgrammar.templates.errors import TemplateError
from toolgrammar.templates.nodes import Markers, begins, either, sequence
from toolgrammar.templates.patterns import Capture, Part, PatternError, White, Word

Fail = Callable[..., TemplateError]
_FORM: Final = "it should be text, (?P<key>...), text, (?P<value>.*?), text"


def tagged_values(
    region: Region, inner: Sequence[c.Node], follow: Sequence[str], fail: Fail, markers: Markers
) -> tuple[c.Node, c.Node]:
    """One parameter of ``xml-inline``, and what may stand between two.

    ``inner``: end tags of what the call's opener opened. ``follow``: what may stand behind the last parameter.
    """
    before, after = _halves(region, fail)
    trims = (before, after)
    before, after = _trimmed(before, -1), _trimmed(after, 0)
    while after and isinstance(after[-1], White):
        after.pop()
    if not before or not after or not isinstance(before[0], Word) or not isinstance(after[0], Word):
        raise fail("content_args", "tag_pattern has no fixed text around the value", _FORM)
    opener = sequence(before, {}, markers)
    closer = c.Lit((after[0].text,))
    behind = sequence(after[1:], {}, markers)
    tag = after[0].text.startswith("</") and len(after) == 1
    if tag:
        behind.append(c.Peek(c.seq(c.ws, c.Lit((before[0].text, *follow)))))
    typed = c.Typed(
        trim="\n" if any(_has_white(half, end) for half, end in zip(trims, (-1, 0), strict=True)) else "",
        reopen=_reopeners(before, inner, follow) if tag else (),
    )
    return c.seq(*opener, typed, closer, *behind), c.ws if tag else c.drop


def _halves(region: Region, fail: Fail) -> tuple[list[Part], list[Part]]:
    """The parts in front of the value and behind it."""
    try:
        shapes = patterns.expand(region.args["tag_pattern"])
    except PatternError as error:
        raise fail("content_args", f"tag_pattern: {error}", error.hint) from None
    parts = list(shapes[0].parts) if len(shapes) == 1 else []
    names = [part.name for part in parts if isinstance(part, Capture) and part.name]
    if names != ["key", "value"]:
        raise fail("content_args", "tag_pattern cannot be read as it comes", _FORM)
    at = next(n for n, part in enumerate(parts) if isinstance(part, Capture) and part.name == "value")
    return parts[:at], parts[at + 1 :]


def _has_white(parts: Sequence[Part], end: int) -> bool:
    part = parts[end] if parts else None
    return isinstance(part, White) or (isinstance(part, Word) and part.text[end].isspace())


def _trimmed(parts: Sequence[Part], end: int) -> list[Part]:
    """Without the white space next to the value."""
    parts = list(parts)
    while parts and isinstance(parts[end], White):
        parts.pop(end)
    if parts and isinstance(parts[end], Word):
        text = parts[end].text  # type: ignore[union-attr]
        parts[end] = Word(text.rstrip("\n") if end else text.lstrip("\n"))
    return [part for part in parts if part != Word("")]


def _reopeners(before: Sequence[Part], inner: Sequence[c.Node], follow: Sequence[str]) -> tuple[c.Node, ...]:
    """What ends a value whose closer is missing, at the start of a line."""
    found: list[c.Node] = []
    match before:
        case [Word(text), Capture(), Word(behind), *_]:
            found.append(c.seq(c.Lit((text,), line_start=True), c.Field("key"), c.Lit((behind,))))
    tags = [text for node in inner for text in begins(node)]
    rest = tuple(text for text in follow if text not in tags)
    if rest:
        found += [c.seq(c.Lit((tag,), line_start=True), c.Peek(c.seq(c.ws, c.Lit(rest)))) for tag in tags]
    return tuple(found)


def key_values(region: Region, closers: Sequence[c.Node], fail: Fail) -> c.Node:
    """The rule ``lines``: lines of key and value, up to the closer; a line without a separator is passed over."""
    texts = tuple(text for node in closers for text in begins(node))
    if not texts:
        raise fail("close", "kv-lines need a closer")
    separator, line = region.args.get("kv_sep", ":"), region.args.get("line_sep", "\n")
    again, closed = c.seq(c.lit(line), c.Ref("lines")), c.Peek(c.Lit(texts))
    pair = c.seq(c.lit(separator), c.Ws(" \t"), c.Typed(trim=" "), either([again, closed]))
    return c.seq(c.ws, c.alt(closed, c.seq(c.Field("key", empty=True), c.alt(pair, again, closed))))
