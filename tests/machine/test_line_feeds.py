"""``@mend line-feeds``: what the machine says of a channel is what one expression over its whole text says."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgrammar import Parser, registry
from toolgrammar.readings.turns import mended
from toolgrammar.testing import every_split

FORMAT = registry.load("minicpmv")
PIECES = ["\\", "\\n", "\\r", "\\r\\n", "n", "r", "`", "``", "```", "$", "$$", "\\(", "\\)", "\\[", "\\]", "x"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map(lambda parts: "a" + "".join(parts) + "z")


@given(TEXTS)
def test_content_over_every_cut(text: str) -> None:
    wanted = mended(FORMAT, text)
    for pieces in every_split(text):
        parser = Parser("minicpmv")
        for piece in pieces:
            parser.feed(piece)
        parser.finish()
        assert parser.message().content == wanted


@given(TEXTS, TEXTS)
def test_channels_are_read_apart(thought: str, said: str) -> None:
    parser = Parser("minicpmv", start="reasoning")
    for char in f"{thought}</think>{said}":
        parser.feed(char)
    parser.finish()
    message = parser.message()
    assert (message.reasoning, message.content) == (mended(FORMAT, thought), mended(FORMAT, said))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("First\\nSecond\\r\\nThird\\rEnd", "First\nSecond\nThird\nEnd"),
        ("a\\n\\nb", "a\n\nb"),
        ("C:\\\\new", "C:\\\\new"),
        ("\\\\\\nx", "\\\\\\nx"),
        ("`a\\nb`\\nc", "`a\\nb`\nc"),
        ("$\\nu$\\n", "$\\nu$\n"),
        ("\\[\\nu\\]\\n.", "\\[\\nu\\]\n."),
        ("```\\n", "```\\n"),
        ("a\\q", "a\\q"),
        ("a\\", "a\\"),
    ],
)
def test_texts(text: str, wanted: str) -> None:
    assert mended(FORMAT, text) == wanted
    parser = Parser("minicpmv")
    parser.feed(text)
    parser.finish()
    assert parser.message().content == wanted


def test_what_is_held_is_counted_and_copied() -> None:
    parser = Parser("minicpmv")
    assert [event.text for event in parser.feed("a\\")] == ["a"]
    assert parser.held == 1
    for other in (parser.copy(), pickle.loads(pickle.dumps(parser))):
        assert [event.text for event in other.feed("nb")] == ["\nb"]
        assert other.held == 0
    parser.finish()
    assert parser.message().content == "a\\"
