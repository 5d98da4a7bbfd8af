"""Stop strings over any cut, against looking at a whole text character by character."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from serving_text_sinks import Listener
from toolgrammar_serving.llm import Finish
from toolgrammar_serving.text.byte_tokenizer import ByteTokenizer
from toolgrammar_serving.text.sequence import Careful, TokenTexts
from toolgrammar_serving.text.stops import Stops

TOKENIZER = ByteTokenizer()


def oracle(text: str, stops: list[str], include: bool, free: int) -> tuple[str, str | None]:
    """Read character by character; the longest stop string that what was read ends with stops it. Within the first
    ``free`` characters nothing does."""
    for end in range(free + 1, len(text) + 1):
        ended = [stop for stop in stops if text[:end].endswith(stop)]
        if ended:
            stop = max(ended, key=len)
            return text[: end if include else end - len(stop)], stop
    return text, None


def run(
    text: str, stops: list[str], ends: list[int], *, include: bool = False, free: int = 0, rest: str = ""
) -> tuple[Listener, list[int]]:
    """Push ``text``, all ASCII, in pieces that end at ``ends``; ``rest`` is the text of the end token."""
    listener, aborted = Listener(), []
    decoder = TOKENIZER.decoder([], skip_special_tokens=True, special_text={})
    sequence = Careful(
        listener,
        decoder,
        TokenTexts(decoder),
        lambda finish: rest,
        TOKENIZER,
        0,
        stops=Stops(stops),
        include_stop=include,
        unsearched=free,
    )
    generation: Any = SimpleNamespace(abort=aborted.append, keep=lambda index, tokens: None)
    sequence.generation = generation
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        if not aborted:
            sequence.push(list(text[start:end].encode()), None)
    if not aborted:
        sequence.finish(Finish("length"))
    return listener, aborted


LETTERS = st.text("ab-^]", max_size=14)


@given(LETTERS, st.lists(st.text("ab-^]", min_size=1, max_size=4), min_size=1, max_size=3), st.data())
@example("aab", ["ab"], None)
@example("abab-", ["ab-"], None)
@example("aabaab]", ["aabaab", "b"], None)
def test_any_cut_is_as_if_read_character_by_character(
    text: str, stops: list[str], data: st.DataObject | None
) -> None:
    ends = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6))) if data else [*range(1, len(text))]
    include = data.draw(st.booleans()) if data else False
    free = data.draw(st.integers(0, 6)) if data else 0
    listener, aborted = run(text, stops, ends, include=include, free=free)
    expected, stop = oracle(text, stops, include, free)
    assert listener.text == expected
    if stop is None:
        assert listener.end == Finish("length") and aborted == []
    else:
        assert listener.end == Finish("stop", stop) and aborted == [0]


@pytest.mark.parametrize(
    ("text", "stops", "expected", "stop"),
    [
        ("abcd", ["abcd", "c"], "ab", "c"),
        ("abcd", ["c", "abcd"], "ab", "c"),
        ("abcd", ["c", "bc", "abc"], "", "abc"),
        ("xaxb", ["b", "a"], "x", "a"),
        ("aaab", ["aab", "aa"], "", "aa"),
    ],
)
def test_of_several_the_one_that_ends_first_and_is_longest(
    text: str, stops: list[str], expected: str, stop: str
) -> None:
    for ends in ([], [1], [2, 3], [1, 2, 3]):
        listener, _ = run(text, stops, ends)
        assert (listener.text, listener.end) == (expected, Finish("stop", stop))


@given(LETTERS, st.lists(st.text("ab-^]", min_size=1, max_size=5), min_size=1, max_size=3))
def test_what_is_held_back_may_become_a_stop_string_and_nothing_more(text: str, stops: list[str]) -> None:
    listener, aborted = run(text, stops, list(range(1, len(text))))
    said = ""
    for i, piece in enumerate(listener.pieces[: len(text)]):
        said += piece
        read = text[: i + 1]
        if aborted and oracle(read, stops, False, 0)[1] is not None:
            break
        held = read[len(said) :]
        starts = [stop[:n] for stop in stops for n in range(1, len(stop))]
        longest = max((s for s in starts if read.endswith(s)), key=len, default="")
        assert held == longest


def test_tokens_come_whether_or_not_their_text_is_here() -> None:
    listener, _ = run("a WXYZ", ["WXYZ"], [1, 3, 5])
    assert listener.heard[:4] == [
        ("push", "a", [97], None),
        ("push", " ", [32, 87], None),
        ("push", "", [88, 89], None),
        ("push", "", [90], None),
    ]


def test_a_stop_string_that_the_end_token_completes() -> None:
    listener, _ = run("a W", ["WX"], [1, 2], rest="X")
    assert (listener.text, listener.end) == ("a ", Finish("stop", "WX"))


def test_long_stop_strings_and_texts_that_almost_have_them() -> None:
    stop = "a" * 2000 + "b"
    text = "a" * 6000 + "c"
    listener, _ = run(text, [stop], list(range(100, 6000, 100)))
    assert listener.text == text
    listener, _ = run(text + stop, [stop], list(range(100, 8000, 100)))
    assert listener.text == text and listener.end == Finish("stop", stop)
