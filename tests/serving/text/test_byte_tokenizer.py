"""Ids of bytes and markers: any text goes there and back."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from toolgrammar_serving.text.byte_tokenizer import FIRST_MARKER, ByteTokenizer

MARKERS = ["<|im_end|>", "<tool_call>", "<tool_call>!", "｜"]


@given(st.lists(st.one_of(st.text(max_size=4), st.sampled_from(MARKERS)), max_size=6).map("".join))
@example("a<tool_call>!b")
def test_there_and_back(text: str) -> None:
    tokenizer = ByteTokenizer(MARKERS, eos="<|im_end|>")
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    bare = b"".join(bytes((id_,)) for id_ in ids if id_ < FIRST_MARKER)
    assert tokenizer.decode(ids) == bare.decode("utf-8", "replace")


def test_ids_are_bytes_and_positions_in_the_list() -> None:
    tokenizer = ByteTokenizer(MARKERS, eos="<|im_end|>")
    assert tokenizer.encode("é<tool_call>!<|im_end|>\n") == [0xC3, 0xA9, 258, 256, 10]
    assert tokenizer.eos_token_id == 256
    assert [tokenizer.token(id_) for id_ in (65, 0xC3, 257, 999, -1)] == [
        ("A", b"A"),
        ("\ufffd", b"\xc3"),
        ("<tool_call>", b"<tool_call>"),
        ("", b""),
        ("", b""),
    ]
    assert [tokenizer.token_id(s) for s in ("A", "é", "｜")] == [65, None, 259]


def test_without_markers_all_is_bytes() -> None:
    assert ByteTokenizer().encode("<|im_end|>") == list(b"<|im_end|>")


def test_a_surrogate_that_stands_alone_is_a_question_mark() -> None:
    assert ByteTokenizer().encode("a\ud800") == [97, 63]
