"""tml-renderers' own parsers and ours read the same from the same tokens, where the peer's are exact."""

from __future__ import annotations

import pytest
from differential import tml, turns
from hypothesis import given
from hypothesis import strategies as st
from readings.feeding import examples

pytest.importorskip("tml_renderers", reason="the peer is not installed: pip install '.[differential]'")
# Left out, as the peer does not read back there what it writes itself: GLM, Nemotron, Qwen3.5 and Qwen3.8 have no
# tools, so a string that looks like a number becomes one and True a string; the Qwens and Nemotron keep the line
# feeds around calls as content.
_INEXACT = ("glm", "nemotron", "qwen")


@pytest.mark.parametrize(
    "renderer",
    [pytest.param(each, id=each.label) for each in tml.renderers() if not each.label.startswith(_INEXACT)],
)
@given(data=st.data())
@examples(20)
def test_same(renderer: tml.Renderer, data: st.DataObject) -> None:
    """The same reasoning, content and calls."""
    turn = data.draw(renderer.turns())
    ids = tml.render(renderer.peer, turn).ids
    message = turns.read(renderer.format, [ids], start=renderer.start, tokenizer=renderer.tokenizer)
    assert not turns.difference(message, tml.read(renderer.peer, ids)), renderer.peer.tokenizer.decode(ids)
