"""Every mistake has its own message, whole: what, where with a caret, and what would be right."""

from __future__ import annotations

import re

import pytest
from language.cases import DATA, load, mistakes

from toolgrammar import errors
from toolgrammar.language import read_grammar


@pytest.mark.parametrize(("kind", "text", "message"), mistakes())
def test_message(kind: str, text: str, message: str) -> None:
    with pytest.raises(errors.GrammarError) as caught:
        read_grammar(text, file="x.tg", loader=load)
    assert type(caught.value) is getattr(errors, kind)
    assert str(caught.value) == message


@pytest.mark.parametrize(("kind", "text", "message"), mistakes())
def test_no_message_speaks_of_terminals(kind: str, text: str, message: str) -> None:
    said = message.splitlines()[0]
    assert not re.search(r"\b(?:RPAR|LPAR|VBAR|NAME|APPLY|STRING|RULE|HEADER|QUANTIFIER|__ANON)\b|\$END", said)


@pytest.mark.parametrize("cut", range(0, 2600, 13))
def test_any_cut_of_a_file_reads_or_says_why(cut: int) -> None:
    text = (DATA / "kinds.tg").read_text(encoding="utf-8")[:cut]
    try:
        read_grammar(text, file="kinds.tg")
    except errors.GrammarError as error:
        assert error.where is not None
        assert error.where.caret()
