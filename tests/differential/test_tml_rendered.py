"""What tml-renderers writes for a turn, we read back as that turn, however the stream is cut."""

from __future__ import annotations

import pytest
from differential import tml, turns
from hypothesis import given
from hypothesis import strategies as st
from readings.feeding import examples

pytest.importorskip("tml_renderers", reason="the peer is not installed: pip install '.[differential]'")
RENDERERS = tml.renderers()
each = pytest.mark.parametrize("renderer", [pytest.param(each, id=each.label) for each in RENDERERS])


@each
@given(data=st.data())
@examples(20)
def test_text(renderer: tml.Renderer, data: st.DataObject) -> None:
    """In one piece, per character, in pairs, and cut where the model's own tokenizer cuts."""
    turn = data.draw(renderer.turns())
    ids = tml.render(renderer.peer, turn).ids
    text = renderer.peer.tokenizer.decode(ids)
    tokens = renderer.tokenizer.pieces(ids)
    assert "".join(tokens) == text
    for pieces in ([text], list(text), turns.in_pairs(text), tokens):
        assert not turns.difference(turns.read(renderer.format, pieces, start=renderer.start), turn), text


@each
@given(data=st.data())
@examples(20)
def test_token_ids(renderer: tml.Renderer, data: st.DataObject) -> None:
    """As token ids, one by one and at once; whole markers in strings and in what is said are data then."""
    turn = data.draw(renderer.turns(renderer.markers, renderer.markers))
    ids = tml.render(renderer.peer, turn).ids
    for pieces in ([ids], [[number] for number in ids]):
        message = turns.read(renderer.format, pieces, start=renderer.start, tokenizer=renderer.tokenizer)
        assert not turns.difference(message, turn), renderer.peer.tokenizer.decode(ids)


@pytest.mark.parametrize("renderer", [pytest.param(each, id=each.label) for each in RENDERERS if each.json])
@given(data=st.data())
@examples(20)
def test_markers_in_strings(renderer: tml.Renderer, data: st.DataObject) -> None:
    """As text, a whole marker in a JSON string is data, too."""
    turn = data.draw(renderer.turns(values=renderer.markers))
    text = renderer.peer.tokenizer.decode(tml.render(renderer.peer, turn).ids)
    for pieces in ([text], list(text)):
        assert not turns.difference(turns.read(renderer.format, pieces, start=renderer.start), turn), text


@each
@given(data=st.data())
@examples(5)
def test_prompt(renderer: tml.Renderer, data: st.DataObject) -> None:
    """The peer's prompt says what it leaves open; no start need be named."""
    turn = data.draw(renderer.turns())
    rendered = tml.render(renderer.peer, turn)
    prompt, text = (renderer.peer.tokenizer.decode(ids) for ids in (rendered.prompt, rendered.ids))
    assert not turns.difference(turns.read(renderer.format, [text], prompt=prompt), turn), prompt[-80:] + text


def test_every_renderer() -> None:
    """No renderer of text that the peer has is left out, but for the variants named here."""
    peer = pytest.importorskip("tml_renderers.renderers")
    made = {type(each.peer).__name__ for each in RENDERERS} - {"Renderer"}
    assert made == set(peer.__all__)
