"""Remembered segments give the ids of the whole text."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import serving_models
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, pre_tokenizers
from toolgrammar_serving.text.segments import SegmentCache, safe_cuts


@functools.cache
def reference(kind: str) -> Tokenizer:
    """A tokenizer with added tokens of all sorts: overlapping, taking blanks, whole words, normalized."""
    with tempfile.TemporaryDirectory() as folder:
        write: Any = getattr(serving_models, kind.removesuffix("_first"))
        tokenizer = Tokenizer.from_file(str(write(Path(folder)) / "tokenizer.json"))
    if kind.endswith("_first"):  # a blank is put before the first word of a text, and there only
        tokenizer.normalizer = None
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.add_special_tokens(
        [
            AddedToken("<|turn|>", normalized=False),
            AddedToken("<|turn|>!", normalized=False),
            AddedToken("<|strip|>", normalized=False, lstrip=True, rstrip=True),
            AddedToken("<|right|>", normalized=False, rstrip=True),
            AddedToken("<|word|>", normalized=False, single_word=True),
            AddedToken("[TURN]", normalized=True),
            AddedToken("aba", normalized=False),
            AddedToken("x<|inner|>", normalized=False),
            AddedToken("!<|inner|>", normalized=False),
            AddedToken("<|turn|>word", normalized=False, single_word=True),
            AddedToken("<|im_end|> b", normalized=False, lstrip=True),
            AddedToken("<|inner|>", normalized=False),
            AddedToken("<|left", normalized=False),
            AddedToken("ft|>", normalized=False),
            AddedToken("ft|><", normalized=False),
            AddedToken("<s>", normalized=False),
        ]
    )
    return tokenizer


TEXTS = st.lists(
    st.one_of(
        st.text(max_size=4),
        st.sampled_from(["<|turn|>", "<|turn|>!", "<|strip|>", "<|right|>", "<|word|>", "[TURN]", "aba"]),
        st.sampled_from(
            [
                "x<|inner|>",
                "!<|inner|>",
                "<|inner|>",
                "<|turn|>word",
                "<|im_end|> b",
                "<|left",
                "ft|>",
                "ft|><",
                "<|im_start|>",
                "<|im_end|>",
            ]
        ),
        st.sampled_from([" ", "\n", "<|", "|>", "user", "<s>", "</s>", "<tool_call>", "a", "b", "x", "é"]),
    ),
    max_size=12,
).map("".join)


@pytest.mark.parametrize("kind", ["byte_level", "byte_fallback", "byte_fallback_first"])
@given(texts=st.lists(TEXTS, min_size=1, max_size=3))
def test_ids_are_those_of_the_whole_text(kind: str, texts: list[str]) -> None:
    tokenizer = reference(kind)

    def plain(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    cache = SegmentCache(plain, safe_cuts(tokenizer.get_added_tokens_decoder().values()), 1 << 20)
    for text in [*texts, *texts, "".join(texts)]:
        assert cache.encode(text) == plain(text)
        assert "".join(cache.split(text)) == text


def token(content: str, **flags: bool) -> SimpleNamespace:
    return SimpleNamespace(
        content=content, **{"special": True, "normalized": False, "lstrip": False, "single_word": False, **flags}
    )


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ([token("<|a|>"), token("<|b|>")], ["<|a|>", "<|b|>"]),
        ([token("<|a|>"), token("<|a|>!")], ["<|a|>", "<|a|>!"]),
        ([token("<|a|>"), token("!<|a|>")], ["!<|a|>"]),
        ([token("_<a>"), token("a<b>"), token("۱!"), token("<c>")], ["<c>"]),
        ([token("<a>"), token("<a>b", single_word=True), token("<b>"), token("<b>b", lstrip=True)], []),
        ([token("<|a|>"), token(">x<|", special=False)], []),
        ([token("<|a|>"), token("!<")], ["!<"]),
        ([token("aba"), token("ab")], []),
        ([token("<|a|>", lstrip=True), token("<|b|>", single_word=True), token("<|c|>", normalized=True)], []),
        ([token("<a>", special=False), token("<b>")], ["<b>"]),
        ([token(" <a>"), token("|"), token("<b>")], ["<b>"]),
        ([], []),
    ],
)
def test_where_a_cut_is_safe(added: list[Any], expected: list[str]) -> None:
    assert safe_cuts(added) == expected


def counting(max_bytes: int, cuts: list[str]) -> tuple[SegmentCache, list[str]]:
    asked: list[str] = []

    def encode(text: str) -> list[int]:
        asked.append(text)
        return [ord(character) for character in text]

    return SegmentCache(encode, cuts, max_bytes), asked


def test_a_beginning_is_encoded_once() -> None:
    cache, asked = counting(1 << 20, ["<a>", "<b>"])
    turns = ["<a>one", "<b>two", "<a>three"]
    assert cache.encode("".join(turns)) == [ord(c) for c in "".join(turns)]
    assert asked == turns
    assert cache.unknown("".join(turns)) == 0
    assert cache.unknown("".join(turns) + "<b>four") == len("<b>four")
    cache.encode("".join(turns) + "<b>four")
    assert asked == [*turns, "<b>four"]


def test_a_text_without_cuts_is_not_remembered() -> None:
    cache, asked = counting(1 << 20, ["<a>"])
    cache.encode("one")
    cache.encode("one")
    assert asked == ["one", "one"]
    assert counting(1 << 20, [])[0].split("<a>b") == ["<a>b"]


def test_what_was_not_used_for_longest_goes() -> None:
    cache, asked = counting(4000, ["<a>"])  # room for two of the segments below, not for three
    first, second, third = ("<a>" + letter * 40 for letter in "123")
    cache.encode(first + second)
    assert cache.unknown(first + second) == 0
    cache.encode(first + third)
    assert cache.unknown(first) == cache.unknown(third) == 0 and cache.unknown(second) == 43
    cache.encode("<a>" + "x" * 1000 + "<a>y")
    assert cache.unknown("<a>" + "x" * 1000) == 1003  # what would push all others out is not kept
    assert asked.count(first) == 1


def test_many_kinds_of_cuts_are_found_too() -> None:
    cuts = [f"{opening}{i}>" for i, opening in enumerate(["<a", "<b", "<c", "<d", "[e", "[f", "<a"])]
    cache, _ = counting(1 << 20, cuts)
    assert cache.split("x<a0>y<b1>[e4>[f<a6>z<a<d3>") == ["x", "<a0>y", "<b1>", "[e4>[f", "<a6>z<a", "<d3>"]
