"""Tokenizers of the packages ``tokenizers`` and ``transformers`` are taken as they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from toolgrammar import Parser
from toolgrammar.machine.tokenizers_adapter import FastDecoder, adapted

TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}]
SPECIAL = ("<tool_call>", "</tool_call>", "<|im_end|>")
CALL = '<tool_call>\n{"name": "f", "arguments": {"q": "Größe 🎈"}}\n</tool_call><|im_end|>'
#: The marker is spelled here, by ordinary tokens.
SPELLED = 'é <tool_call>{"name": "f", "arguments": {}}</tool_call>'


class Bytes:
    """The methods of ``tokenizers.Tokenizer`` that are used; a token a byte."""

    def get_added_tokens_decoder(self) -> dict[int, Any]:
        plain = {400: SimpleNamespace(content="plain", special=False)}
        return plain | {300 + at: SimpleNamespace(content=text, special=True) for at, text in enumerate(SPECIAL)}

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        assert not skip_special_tokens
        return bytes(ids).decode("utf-8", "replace")


def ids(text: str, special: bool) -> list[int]:
    """The ids of ``Bytes`` for a text."""
    out: list[int] = []
    while text:
        token = next((token for token in SPECIAL if special and text.startswith(token)), text[0])
        out += [300 + SPECIAL.index(token)] if len(token) > 1 else token.encode()
        text = text[len(token) :]
    return out


def read(tokenizer: Any, numbers: list[int]) -> tuple[str | None, list[Any]]:
    """Content, and name and arguments of the calls, read one id at a time."""
    parser = Parser("hermes", TOOLS, tokenizer=tokenizer)
    for number in numbers:
        parser.feed([number])
    parser.finish()
    message = parser.message()
    return message.content, [(call.name, call.arguments) for call in message.calls]


@pytest.mark.parametrize("wrap", [lambda inner: inner, lambda inner: SimpleNamespace(backend_tokenizer=inner)])
def test_what_has_the_methods_is_taken(wrap: Any) -> None:
    tokenizer = wrap(Bytes())
    assert read(tokenizer, ids(CALL, special=True)) == (None, [("f", {"q": "Größe 🎈"})])
    assert read(tokenizer, ids(SPELLED, special=False)) == (SPELLED, [])


def test_what_has_the_protocol_is_left_alone() -> None:
    own = adapted(Bytes())
    assert adapted(own) is own
    assert own.special_tokens() == dict(enumerate(SPECIAL, 300))


@pytest.mark.parametrize("wrong", [object(), "tokenizer.json", SimpleNamespace(backend_tokenizer=None)])
def test_what_is_no_tokenizer_is_said(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"is no tokenizer that is known here: it takes a tokenizers\.Tokenizer"):
        Parser("hermes", tokenizer=wrong)


def test_half_a_character_waits_and_is_told_at_the_end() -> None:
    decoder = FastDecoder(Bytes())
    assert [decoder.step(byte) for byte in "aé".encode()] == ["a", None, "é"]
    assert decoder.step(0xF0) is None
    other = decoder.copy()
    assert [other.step(byte) for byte in "🎈".encode()[1:]] == [None, None, "🎈"]
    assert (decoder.flush(), decoder.flush(), other.flush()) == ("\ufffd", "", "")


def test_what_never_becomes_a_character_does_not_wait_for_ever() -> None:
    decoder = FastDecoder(Bytes())
    said = [decoder.step(0xFF) for _ in range(1000)]
    assert "".join(filter(None, [*said, decoder.flush()])) == "\ufffd" * 1000
    assert len(decoder._ids) < 32


@pytest.fixture
def fast() -> Any:
    """A byte-level ``tokenizers.Tokenizer``."""
    tokenizers = pytest.importorskip("tokenizers")
    level = tokenizers.pre_tokenizers.ByteLevel
    alphabet = {char: number for number, char in enumerate(sorted(level.alphabet()))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(alphabet, []))
    tokenizer.pre_tokenizer = level(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def spelled(tokenizer: Any, text: str) -> list[int]:
    """Ids without special tokens."""
    return [number for char in text for number in tokenizer.encode(char).ids]


def test_a_tokenizer_of_tokenizers(fast: Any) -> None:
    assert read(fast, fast.encode(CALL).ids) == (None, [("f", {"q": "Größe 🎈"})])
    assert read(fast, spelled(fast, SPELLED)) == (SPELLED, [])


def test_a_fast_tokenizer_of_transformers(fast: Any) -> None:
    transformers = pytest.importorskip("transformers")
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=fast)
    assert read(wrapped, wrapped.encode(CALL)) == (None, [("f", {"q": "Größe 🎈"})])
    assert read(wrapped, spelled(fast, SPELLED)) == (SPELLED, [])
