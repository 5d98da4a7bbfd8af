"""The examples of ``docs/grammar-language.md`` do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolgrammar import combinators as c
from toolgrammar.errors import GrammarError
from toolgrammar.language import read_grammar, write_grammar
from toolgrammar.language.forms import FORMS
from toolgrammar.language.given import choices
from toolgrammar.language.headers import STRUCTURED

PAGE = Path(__file__).parents[2] / "docs" / "grammar-language.md"
_BLOCK = re.compile(r"^```(tg-error|tg|text)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

BLOCKS = [match.groups() for match in _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
NAMED = {name: text for _, name, text in BLOCKS if name}
EXAMPLES = [text for kind, name, text in BLOCKS if kind == "tg" and not (name or "").startswith("families/")]
MISTAKES = [
    (text, BLOCKS[index + 1][2].rstrip("\n")) for index, (kind, _, text) in enumerate(BLOCKS) if kind == "tg-error"
]


def load(path: str, importer: str) -> tuple[str, str] | None:
    """Named examples can be imported."""
    file = f"{path}.tg"
    return (file, NAMED[file]) if file in NAMED else None


def started(text: str) -> str:
    """An example without ``@start`` begins at its first rule."""
    if "@start" in text or "@like" in text:
        return text
    first = re.search(r"^\w+(?= *:)", text, re.MULTILINE)
    assert first is not None
    return f"{text}@start content = {first[0]}\n"


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_read(text: str) -> None:
    grammar = read_grammar(started(text), loader=load)
    assert read_grammar(write_grammar(grammar)) == grammar


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes_show_their_message(text: str, message: str) -> None:
    with pytest.raises(GrammarError) as caught:
        read_grammar(text, loader=load)
    assert str(caught.value) == message


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 10
    assert len(MISTAKES) >= 4


def test_the_page_names_every_word() -> None:
    words = {word for name, form in FORMS.items() for word in (name, *form.flags, *form.options)}
    words |= {*choices(c.Arm, "when")[1:], *choices(c.Attempt, "until")[1:], *choices(c.Envelope, "decide")}
    words |= {f"@{word}" for word in (*STRUCTURED, "start")}
    page = PAGE.read_text(encoding="utf-8")
    assert sorted(word for word in words if not re.search(rf"(?<![\w-]){word}(?![\w-])", page)) == []
