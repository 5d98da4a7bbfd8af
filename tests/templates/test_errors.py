"""A template that cannot be used is refused: one message that names field and key."""

from __future__ import annotations

from typing import Any

import pytest

from toolgrammar.errors import GrammarError
from toolgrammar.templates import TemplateError, load_template

CALL = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
OPEN = {"open_pattern": r"<c (?P<name>\w+)>", "close": "</c>", "content": "json", "transform": CALL}


def one(name: str = "thinking", **field: Any) -> dict[str, Any]:
    return {"start_anchor": "A:", "fields": {name: field}}


def call(**more: Any) -> dict[str, Any]:
    return one("tool_calls", **{key: value for key, value in (OPEN | more).items() if value is not None})


def opened(pattern: str) -> dict[str, Any]:
    return one(open_pattern=pattern, close="</c>")


def tagged(pattern: str) -> dict[str, Any]:
    return call(content="xml-inline", content_args={"tag_pattern": pattern})


FEW = "it stands for more than 16 different texts"
NESTED = "it repeats a group without bound"
FORM = "tag_pattern cannot be read as it comes"
NO_CALL = "function.arguments comes from no group and no content"

#: Template, field, key, message.
MISTAKES: list[tuple[Any, str, str, str]] = [
    ([], "", "", "it is not a JSON object"),
    # The template.
    ({"start_anchor": "A:", "fields": {"content": {}}, "field": {}}, "", "field", "no such key"),
    ({"version": 2, "start_anchor": "A:", "fields": {"content": {}}}, "", "version", "version 2 is not known"),
    ({"start_anchor": "A:", "defaults": [], "fields": {"content": {}}}, "", "defaults", "it should be an object"),
    ({"start_anchor": "A:"}, "", "fields", "a template needs fields"),
    ({"start_anchor": "A:", "fields": {}}, "", "fields", "a template needs fields"),
    ({"fields": {"content": {}}}, "", "start_anchor", "give one of start_anchor and start_anchor_pattern"),
    (
        {"start_anchor": [], "fields": {"content": {}}},
        "",
        "start_anchor",
        "it should be a string or a list of strings",
    ),
    (
        {"start_anchor": ["A", ""], "fields": {"content": {}}},
        "",
        "start_anchor",
        "an empty text would match everywhere",
    ),
    (
        {"start_anchor": "A:", "start_anchor_pattern": "A:", "fields": {"content": {}}},
        "",
        "start_anchor",
        "give one of start_anchor and start_anchor_pattern",
    ),
    (
        {"start_anchor_pattern": r"A\w+:", "fields": {"content": {}}},
        "",
        "start_anchor_pattern",
        "it does not stand for a few fixed texts",
    ),
    # A field.
    ({"start_anchor": "A:", "fields": {"content": "text"}}, "content", "", "a field should be an object"),
    (one(open="a", opens="b"), "thinking", "opens", "no such key"),
    (one(open="a", open_pattern="b"), "thinking", "open_pattern", "give open or open_pattern, not both"),
    (
        one(open="a", close="b", close_pattern="b"),
        "thinking",
        "close_pattern",
        "give close or close_pattern, not both",
    ),
    (one(open=""), "thinking", "open", "an empty text would match everywhere"),
    (one(open=3), "thinking", "open", "it should be a string or a list of strings"),
    (one(open_pattern=["a"]), "thinking", "open_pattern", "it should be a regular expression"),
    (one(open="a", repeats="yes"), "thinking", "repeats", "it should be true or false"),
    (one(open="a", join="\n"), "thinking", "join", 'it needs "repeats": true'),
    (one(open="a", content="yaml"), "thinking", "content", "no content parser 'yaml'"),
    (one(open="a", content="json"), "thinking", "content", "'thinking' is text, not 'json'"),
    (
        one(open="a", transform={"a": "{content}"}),
        "thinking",
        "transform",
        "'thinking' is text and cannot be transformed",
    ),
    (
        one(open="a", content_args={"trim": True}),
        "thinking",
        "content_args",
        "content 'text' has no argument 'trim'",
    ),
    (one(open="a", content_args={"strip": 1}), "thinking", "content_args", "'strip' should be true or false"),
    (
        {"start_anchor": "A:", "fields": {"content": {}, "thinking": {"close": "b"}}},
        "thinking",
        "open",
        "it has no opener, as field 'content'",
    ),
    # Patterns.
    (
        opened("a("),
        "thinking",
        "open_pattern",
        "/a(/ is not a regular expression: missing ), unterminated subpattern at position 1",
    ),
    (opened("(?i)a"), "thinking", "open_pattern", "/(?i)a/ sets flags"),
    (opened("(?<=x)a"), "thinking", "open_pattern", "it looks behind"),
    (opened("(?<!x)a"), "thinking", "open_pattern", "it looks for what must not be there"),
    (opened("a(?!b)"), "thinking", "open_pattern", "it looks for what must not be there"),
    (opened("a(?=b)c"), "thinking", "open_pattern", "it looks ahead in the middle"),
    (opened(r"a(?=\w+)"), "thinking", "open_pattern", "what it looks ahead for is not a few fixed texts"),
    (opened(r"(a)\1"), "thinking", "open_pattern", "it refers back to a group"),
    (opened("(a)?(?(1)b|c)"), "thinking", "open_pattern", "it refers back to a group"),
    (opened("x(?:a+b)+"), "thinking", "open_pattern", NESTED),
    (opened("a{1,40}"), "thinking", "open_pattern", FEW),
    (opened("(?:a|b)(?:a|b)(?:a|b)(?:a|b)(?:a|b)"), "thinking", "open_pattern", FEW),
    (opened("(?:a|b){60}"), "thinking", "open_pattern", FEW),
    (opened("(?>a)b"), "thinking", "open_pattern", "it uses atomic_group, which cannot be read as it comes"),
    (opened("(?:a)?"), "thinking", "open_pattern", "it matches the empty text"),
    (opened(r"\w+"), "thinking", "open_pattern", "it does not begin with a fixed text"),
    (opened("a(?P<x>b)"), "thinking", "transform", "group 'x' is captured, and no transform uses it"),
    (
        one(open="a", close_pattern=r"</\w+>"),
        "thinking",
        "close_pattern",
        "it does not stand for a few fixed texts",
    ),
    (
        {"start_anchor": "A:", "fields": {"thinking": {"open_pattern": r"\w+x"}, "content": {}}},
        "thinking",
        "open_pattern",
        "it does not begin with a fixed text",
    ),
    # Calls.
    (one("tool_calls", content="json"), "tool_calls", "open", "calls need an opener"),
    (call(open_pattern=r"(?P<name>\w+)"), "tool_calls", "open_pattern", "it does not begin with a fixed text"),
    (call(open_pattern=r"<(?P<name>\w+(?:\.\w+)*)>"), "tool_calls", "open_pattern", f"group 'name': {NESTED}"),
    (call(transform=None), "tool_calls", "transform", "group 'name' is captured, and no transform uses it"),
    (
        call(transform={"function": {"name": "f-{name}"}}),
        "tool_calls",
        "transform",
        "'f-{name}' mixes a placeholder with other text",
    ),
    (call(transform={"function": {"name": "{tool}"}}), "tool_calls", "transform", "nothing is called 'tool'"),
    (call(transform=["{name}"]), "tool_calls", "transform", "it makes no call"),
    (call(transform={"n": "{name}"}), "tool_calls", "transform", "it has no function.name"),
    (call(transform={"function": "{name}"}), "tool_calls", "transform", "'{name}' is text, not a function"),
    (call(transform={"function": {"name": "{name}"}}), "tool_calls", "transform", NO_CALL),
    (call(transform={"function": {"name": "{name}", "arguments": {"a": 1}}}), "tool_calls", "transform", NO_CALL),
    (
        call(transform={"function": {"name": "{name}", "arguments": "{content.a}"}}),
        "tool_calls",
        "transform",
        "with the name in the opener, the arguments are the whole body",
    ),
    (
        call(transform={"function": {"name": "{content.n}", "arguments": "{name}"}}),
        "tool_calls",
        "transform",
        "with the name in the body, the arguments must be in it, too",
    ),
    (
        call(transform={"function": "{content}"}, content="text"),
        "tool_calls",
        "content",
        "'text' holds no name of a call",
    ),
    (
        call(transform_each=True, transform=None, open_pattern="<c>"),
        "tool_calls",
        "transform_each",
        "there is no transform to apply",
    ),
    (call(content="text"), "tool_calls", "content", "arguments cannot be 'text'"),
    (call(content="int"), "tool_calls", "content", "arguments cannot be 'int'"),
    (call(content="xml-inline"), "tool_calls", "content_args", "'xml-inline' needs a tag_pattern"),
    (
        call(content_args={"string_delims": "'"}),
        "tool_calls",
        "content_args",
        "'string_delims' should be pairs of strings",
    ),
    (
        call(content_args={"string_delims": [["«", "»"]], "unquoted_keys": True}),
        "tool_calls",
        "content_args",
        "string_delims may name one delimiter, the same on both sides",
    ),
    (call(content_args={"unquoted_keys": True}), "tool_calls", "content_args", "unquoted_keys need string_delims"),
    (
        call(open_pattern="<c>", transform={"function": "{content}"}, content_args={"unquoted_keys": True}),
        "tool_calls",
        "content_args",
        "string_delims and unquoted_keys need the name in the opener",
    ),
    (
        tagged(r"<(?P<key>\w+)>(?P<value>.*?)"),
        "tool_calls",
        "content_args",
        "tag_pattern has no fixed text around the value",
    ),
    (
        tagged(r"<(?P<key>\w+)>(?P<value>.*?)</(?P=key)>"),
        "tool_calls",
        "content_args",
        "tag_pattern: it refers back to a group",
    ),
    (tagged(r"<p>(?P<value>.*?)</p>"), "tool_calls", "content_args", FORM),
    (
        tagged(r"(?P<key>\w+)=(?P<value>\w+)"),
        "tool_calls",
        "content_args",
        "tag_pattern has no fixed text around the value",
    ),
    (call(content="kv-lines", close=None), "tool_calls", "close", "kv-lines need a closer"),
]


@pytest.mark.parametrize(
    ("data", "field", "key", "message"), MISTAKES, ids=[f"{m[1]}-{m[2]}-{m[3]}" for m in MISTAKES]
)
def test_mistake(data: Any, field: str, key: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        load_template(data, "mine")
    error = caught.value
    assert (error.reason, error.field, error.key) == (message, field, key)
    assert isinstance(error, GrammarError)
    places = [
        "response template 'mine'",
        *([f"field {field!r}"] if field else []),
        *([f"key {key!r}"] if key else []),
    ]
    assert str(error).splitlines()[0] == f"{', '.join(places)}: {message}"


def test_two_ways_on_behind_one_marker() -> None:
    """What only the compiler finds out is the template's mistake, too."""
    fields = {"thinking": {"open": "<|a|>"}, "plan": {"open": "<|a|>"}, "content": {}}
    with pytest.raises(TemplateError, match=r"two ways to go on begin with '<\|a\|>'"):
        load_template({"start_anchor": "A:", "fields": fields})
