"""Characters for private use in plane 15, as icon fonts have, which some peers write as ``\\udb80\\udc01``."""

from __future__ import annotations

import pytest
from differential import tml, turns

pytest.importorskip("tml_renderers", reason="the peer is not installed: pip install '.[differential]'")
RENDERERS = tml.renderers()


@pytest.mark.parametrize("renderer", [pytest.param(each, id=each.label) for each in RENDERERS])
def test_as_text(renderer: tml.Renderer) -> None:
    """Read from text, it is that character."""
    turn = _turn(renderer)
    text = renderer.peer.tokenizer.decode(tml.render(renderer.peer, turn).ids)
    assert not turns.difference(turns.read(renderer.format, list(text), start=renderer.start), turn)


@pytest.mark.parametrize("renderer", [pytest.param(each, id=each.label) for each in RENDERERS])
def test_as_token_ids(renderer: tml.Renderer) -> None:
    """Read from token ids, too."""
    turn = _turn(renderer)
    ids = tml.render(renderer.peer, turn).ids
    message = turns.read(renderer.format, [ids], start=renderer.start, tokenizer=renderer.tokenizer)
    assert not turns.difference(message, turn)


def _turn(renderer: tml.Renderer) -> turns.Turn:
    return turns.Turn("x" if renderer.reasons else None, None, (("get_weather-2", {"string": "\U000f0001"}),))
