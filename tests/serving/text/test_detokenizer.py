"""Ids to text in any cut, against the tokenizers' own decoders and against bytes joined and decoded."""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import serving_models
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models
from toolgrammar_serving.text.byte_tokenizer import ByteTokenizer
from toolgrammar_serving.text.detokenizer import Detokenizer
from toolgrammar_serving.text.facts import Facts
from toolgrammar_serving.text.huggingface import HuggingFaceTokenizer
from toolgrammar_serving.text.tokenizer import IncrementalDecoder
from toolgrammar_serving.text.vocabulary import Vocabulary

Both = tuple[HuggingFaceTokenizer, Tokenizer]


@functools.cache
def loaded(kind: str) -> Both:
    with tempfile.TemporaryDirectory() as folder:
        write: Callable[[Path], Path] = getattr(serving_models, kind)
        reference = Tokenizer.from_file(str(write(Path(folder)) / "tokenizer.json"))
    # Added tokens that are not all ASCII, and one that reads like a spelling of bytes.
    reference.add_special_tokens(["<｜end｜>", "«fin»"])
    reference.add_tokens([AddedToken("two words", normalized=False), AddedToken("走廊里", normalized=False)])
    return HuggingFaceTokenizer(Facts.of(reference, {}), reference), reference


def pushed(decoder: IncrementalDecoder, ids: Sequence[int], ends: Sequence[int]) -> str:
    """The text of ``ids``, pushed in pieces that end at ``ends``."""
    text = ""
    for start, end in zip([0, *ends], [*ends, len(ids)], strict=True):
        push = list(ids[start:end])
        new = decoder.push(push)
        assert "".join(decoder.pieces(push)) == new
        text += new
    return text + decoder.flush()


def ids_of(kind: str) -> st.SearchStrategy[list[int]]:
    """Ids as a model writes them (a text's), and as none should (any)."""
    tokenizer, reference = loaded(kind)
    anything = st.integers(0, reference.get_vocab_size() + 3)
    partial = st.sampled_from(sorted(tokenizer.vocabulary.partial))
    texts = st.text(max_size=8).map(tokenizer.encode)
    some = st.lists(st.one_of(anything, partial, st.sampled_from(sorted(tokenizer.added_tokens))), max_size=6)
    return st.lists(st.one_of(texts, some), max_size=4).map(lambda parts: [id_ for part in parts for id_ in part])


@st.composite
def cut(draw: st.DrawFn, kind: str) -> tuple[list[int], list[int]]:
    ids = draw(ids_of(kind))
    return ids, sorted(draw(st.lists(st.integers(0, len(ids)), max_size=8)))


@given(cut("byte_level"), st.booleans())
def test_byte_level_is_the_tokenizers_decode(case: tuple[list[int], list[int]], skip: bool) -> None:
    ids, ends = case
    tokenizer, reference = loaded("byte_level")
    decoder = tokenizer.decoder([], skip_special_tokens=skip, special_text={})
    expected = reference.decode(ids, skip_special_tokens=skip)
    assert pushed(decoder, ids, ends) == expected
    assert tokenizer.decode(ids, skip_special_tokens=skip) == expected


def bytes_of_fallback(reference: Tokenizer, ids: Sequence[int], skip: bool) -> bytes:
    added = reference.get_added_tokens_decoder()
    data = b""
    for id_ in ids:
        token = reference.id_to_token(id_)
        if token is None or (skip and id_ in added and added[id_].special):
            continue
        byte = re.fullmatch("<0x(..)>", token)
        data += bytes.fromhex(byte[1]) if byte else token.replace("▁", " ").encode()
    return data


@given(cut("byte_fallback"), st.booleans())
@example(([311, 311, 75], [1, 2]), True)
def test_byte_fallback_is_bytes_decoded(case: tuple[list[int], list[int]], skip: bool) -> None:
    ids, ends = case
    tokenizer, reference = loaded("byte_fallback")
    decoder = tokenizer.decoder([], skip_special_tokens=skip, special_text={})
    text = pushed(decoder, ids, ends)
    data = bytes_of_fallback(reference, ids, skip)
    expected = data.decode("utf-8", "replace")
    assert text == expected.removeprefix(" ")
    # The library's own decoder makes a whole row of bytes U+FFFD if any of it is wrong: it cannot be streamed.
    if "\ufffd" not in expected:
        assert text == reference.decode(ids, skip_special_tokens=skip)


def same_pieces(make: Callable[[], IncrementalDecoder], ids: Sequence[int], ends: Sequence[int]) -> None:
    """What each id of a push brought is what it brings alone; and what is left of a push says the same."""
    alone, joined = make(), make()
    for start, end in zip([0, *ends], [*ends, len(ids)], strict=True):
        push = list(ids[start:end])
        joined.push(push)
        expected = [alone.push([id_]) for id_ in push]
        assert joined.pieces(push) == expected
        del push[len(push) // 2 :]
        assert joined.pieces(push) == expected[: len(push)]


@pytest.mark.parametrize("kind", ["byte_level", "byte_fallback"])
@given(data=st.data())
def test_what_each_token_brought(kind: str, data: st.DataObject) -> None:
    ids, ends = data.draw(cut(kind))
    tokenizer, _ = loaded(kind)
    same_pieces(lambda: tokenizer.decoder([], skip_special_tokens=True, special_text={}), ids, ends)


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 3), st.data())
def test_what_each_token_brought_where_blanks_are_dropped(
    ids: list[int], blanks: int, data: st.DataObject
) -> None:
    vocabulary = Vocabulary([" ", "a", " b", "   ", "", "<s>"], {}, {5: "<s>"}, leading_blanks=blanks)
    ends = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=4)))
    same_pieces(lambda: Detokenizer(vocabulary, vocabulary.view(True)), ids, ends)


@pytest.mark.parametrize("kind", ["byte_level", "byte_fallback"])
@given(data=st.data())
def test_behind_a_prompt_the_rest_of_the_text_comes(kind: str, data: st.DataObject) -> None:
    tokenizer, _ = loaded(kind)
    text = data.draw(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\ufffd"), max_size=12))
    ids = tokenizer.encode(text)
    at = data.draw(st.integers(0, len(ids)))
    ends = sorted(data.draw(st.lists(st.integers(0, len(ids) - at), max_size=5)))
    decoder = tokenizer.decoder(ids[:at], skip_special_tokens=True, special_text={})
    # Half a character at the prompt's end is U+FFFD there, and whole in what follows.
    before = tokenizer.decode(ids[:at]).rstrip("\ufffd")
    assert before + pushed(decoder, ids[at:], ends) == tokenizer.decode(ids)


BYTES = ByteTokenizer(["<a>", "<b>"])


@pytest.mark.parametrize(
    ("prompt", "ids", "expected"),
    [
        (b"x\xe8\xb5", b"\xb0!", "走!"),
        (b"x\xe8\xb5", b"!", "!"),  # the prompt's half is not the output's
        (b"x\xe8", b"\xb5", "\ufffd"),  # but what the output adds to it is
        (b"x\xe8\xb5", b"\xe8\xb5\xb0", "走"),
        (b"x\xe8\xb5", b"\xff!", "\ufffd!"),
        (b"x\xef\xbf", b"\xbd!", "\ufffd!"),  # a U+FFFD that is spelled
        (b"x\xf0\x9f\x8c", b"\xbf", "🌿"),
        (b"x\xf0\x9f", b"", ""),
        (b"\xb0\xb0\xb0\xb0", b"\xb0", "\ufffd"),
        (b"", b"\xf0\x9f\x8c\xbf", "🌿"),
    ],
)
def test_a_prompt_that_ends_within_a_character(prompt: bytes, ids: bytes, expected: str) -> None:
    for ends in ([], list(range(1, len(ids)))):
        decoder = BYTES.decoder(list(prompt), skip_special_tokens=True, special_text={})
        assert pushed(decoder, list(ids), ends) == expected


def test_a_character_comes_with_its_last_token() -> None:
    decoder = BYTES.decoder([], skip_special_tokens=True, special_text={})
    pieces = [decoder.push([byte]) for byte in "a🌿é".encode()]
    assert pieces == ["a", "", "", "", "🌿", "", "é"]


@pytest.mark.parametrize(
    ("skip", "special_text", "expected"),
    [
        (True, {}, "xyé"),
        (False, {}, "x<a>y<b>\ufffd<a>\ufffd"),
        (True, {256: "\udb80"}, "x\udb80y\ufffd\udb80\ufffd"),
        (False, {257: "", 120: "X"}, "X<a>y\ufffd<a>\ufffd"),
        (True, {999: "far"}, "xyéfar"),
    ],
)
def test_special_tokens(skip: bool, special_text: dict[int, str], expected: str) -> None:
    ids = [120, 256, 121, 257, 0xC3, 256, 0xA9, 999, 998]
    decoder = BYTES.decoder([], skip_special_tokens=skip, special_text=special_text)
    assert pushed(decoder, ids, range(1, len(ids))) == expected
    decoder = BYTES.decoder([], skip_special_tokens=skip, special_text=special_text)
    assert pushed(decoder, ids, []) == expected


@given(st.text(" ab", max_size=8), st.integers(0, 3), st.data())
def test_blanks_at_the_very_beginning_are_dropped(text: str, blanks: int, data: st.DataObject) -> None:
    vocabulary = Vocabulary([" ", "a", "b", "   ", "", "<s>"], {}, {5: "<s>"}, leading_blanks=blanks)
    ids = [" ab".index(character) for character in text]
    ends = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=4)))
    dropped = min(blanks, len(text) - len(text.lstrip(" ")))
    assert pushed(Detokenizer(vocabulary, vocabulary.view(True), [5, 4, 9]), ids, ends) == text[dropped:]
    assert pushed(Detokenizer(vocabulary, vocabulary.view(True), [1]), ids, ends) == text


@functools.cache
def word_pieces() -> Both:
    words = ["[UNK]", "lamp", "the", "##s", "##ing", "'", "s", "don", "t", ".", "[SEP]"]
    reference = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    reference.decoder = decoders.WordPiece()
    reference.add_special_tokens(["[SEP]"])
    return HuggingFaceTokenizer(Facts.of(reference, {}), reference), reference


@functools.cache
def metaspace() -> Both:
    words = ["<unk>", "▁the", "▁lamp", "s", "▁", "é", "</s>"]
    reference = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    reference.decoder = decoders.Metaspace()
    reference.add_special_tokens(["</s>"])
    return HuggingFaceTokenizer(Facts.of(reference, {}), reference), reference


@pytest.mark.parametrize("make", [word_pieces, metaspace])
@given(data=st.data())
def test_decoders_without_tables(make: Callable[[], Both], data: st.DataObject) -> None:
    tokenizer, reference = make()
    ids = data.draw(st.lists(st.integers(1, reference.get_vocab_size() - 1), max_size=12))
    ends = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=5)))
    decoder = tokenizer.decoder([], skip_special_tokens=True, special_text={})
    assert pushed(decoder, ids, ends) == reference.decode(ids) == tokenizer.decode(ids)
    same_pieces(lambda: tokenizer.decoder([], skip_special_tokens=True, special_text={10: "S"}), ids, ends)


def test_special_text_without_tables() -> None:
    tokenizer, _ = word_pieces()
    decoder = tokenizer.decoder([2], skip_special_tokens=True, special_text={10: "\udb80"})
    assert [decoder.push([1]), decoder.push([3, 10]), decoder.push([1]), decoder.flush()] == [
        " lamp",
        "s\udb80",
        " lamp",
        "",
    ]
    assert (tokenizer.token(3), tokenizer.token_string(3)) == (("##s", b"##s"), "##s")
