"""Tokenizers of model directories: both encoders, ends of texts, what is no tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import serving_models
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from toolgrammar_serving.text import huggingface, trial
from toolgrammar_serving.text.huggingface import HuggingFaceTokenizer, load_tokenizer

KINDS = ["byte_level", "byte_fallback"]


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return getattr(serving_models, request.param)(tmp_path_factory.mktemp(request.param))  # type: ignore[no-any-return]


@pytest.fixture(scope="module", params=[True, False], ids=["fastokens", "tokenizers"])
def tokenizer(request: pytest.FixtureRequest, model: Path) -> HuggingFaceTokenizer:
    loaded = load_tokenizer(model, fast=request.param)
    assert loaded.is_fast is request.param
    return loaded


@pytest.fixture(scope="module")
def reference(model: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model / "tokenizer.json"))


MARKS = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</think>", "<s>", "</s>", " ", "\n\n", "user", "'re", "123"]
TEXTS = st.lists(st.one_of(st.text(max_size=6), st.sampled_from(MARKS)), max_size=10).map("".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS, ends=st.booleans())
def test_encodes_as_the_reference(
    tokenizer: HuggingFaceTokenizer, reference: Tokenizer, text: str, ends: bool
) -> None:
    assert tokenizer.encode(text, add_special_tokens=ends) == reference.encode(text, add_special_tokens=ends).ids


def test_names_of_tokens(tokenizer: HuggingFaceTokenizer, reference: Tokenizer) -> None:
    for id_ in range(reference.get_vocab_size()):
        name = reference.id_to_token(id_)
        assert tokenizer.token_string(id_) == name
        assert tokenizer.token_id(name) == id_
    assert tokenizer.token_string(99_999) == "" and tokenizer.token_id("no such token") is None


def test_tokens_alone(tokenizer: HuggingFaceTokenizer, reference: Tokenizer) -> None:
    leading = " " if tokenizer.vocabulary.leading_blanks else ""
    for id_ in range(reference.get_vocab_size()):
        alone = reference.decode([id_], skip_special_tokens=False)
        text, data = tokenizer.token(id_)
        assert text == alone or (leading and text == leading + alone)
        assert data.decode("utf-8", "replace") == text


def test_a_surrogate_that_stands_alone(tokenizer: HuggingFaceTokenizer) -> None:
    assert tokenizer.encode("a\ud800b") == tokenizer.encode("a?b")


def test_ends(tmp_path: Path) -> None:
    level = load_tokenizer(serving_models.byte_level(tmp_path / "a"))
    assert level.eos_token_id == level.token_id("<|im_end|>") and level.bos_token_id is None
    assert set(level.special_tokens.values()) == {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
    assert set(level.added_tokens.values()) - set(level.special_tokens.values()) == set(serving_models.MARKERS)
    fallback = load_tokenizer(serving_models.byte_fallback(tmp_path / "b"))
    assert (fallback.bos_token_id, fallback.eos_token_id) == (1, 2)
    assert fallback.encode("", add_special_tokens=True) == [1]


@pytest.mark.parametrize(("add_bos", "before"), [(None, [1]), (True, [1]), (False, [])])
def test_the_configuration_has_the_last_word_on_the_beginning(
    tmp_path: Path, add_bos: bool | None, before: list[int]
) -> None:
    model = serving_models.byte_fallback(tmp_path)
    rewrite(model / "tokenizer_config.json", add_bos_token=add_bos)
    tokenizer = load_tokenizer(model)
    assert tokenizer.encode("the lamp", add_special_tokens=True) == [*before, *tokenizer.encode("the lamp")]


def test_a_beginning_that_only_the_configuration_knows(tmp_path: Path) -> None:
    model = serving_models.byte_level(tmp_path)
    rewrite(model / "tokenizer_config.json", add_bos_token=True, bos_token="<|endoftext|>")
    tokenizer = load_tokenizer(model)
    assert tokenizer.encode("a", add_special_tokens=True) == [tokenizer.bos_token_id, *tokenizer.encode("a")]


def test_a_length_in_the_file_cuts_nothing(tmp_path: Path) -> None:
    model = serving_models.byte_level(tmp_path)
    length = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    padding = {
        "strategy": {"Fixed": 64},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "!",
    }
    text = "the lamp in the hall is on"
    expected = load_tokenizer(model).encode(text)
    rewrite(model / "tokenizer.json", truncation=length, padding=padding)
    for fast in (True, False):
        assert load_tokenizer(model, fast=fast).encode(text) == expected


def rewrite(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_an_encoder_that_differs_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = serving_models.byte_level(tmp_path)

    class Other:
        """Another tokenizer's ids for one contraction."""

        def __init__(self, real: Any) -> None:
            self.real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

        def encode(self, text: str) -> Any:
            return self.real.encode(text.replace("we'll", "we 'll"))

    import fastokens

    real = fastokens.Tokenizer.from_file(str(model / "tokenizer.json"))
    reference = Tokenizer.from_file(str(model / "tokenizer.json"))
    answers = trial.answers(reference)
    assert trial.stood(real, answers)
    assert not trial.stood(Other(real), answers)
    assert not trial.stood(object(), answers)


def test_without_fastokens_tokenizers_encodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(huggingface.importlib, "import_module", missing)
    tokenizer = load_tokenizer(serving_models.byte_level(tmp_path))
    assert not tokenizer.is_fast and tokenizer.decode(tokenizer.encode("größer")) == "größer"


def test_what_is_no_model_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no tokenizer\.json"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json cannot be read"):
        load_tokenizer(tmp_path)


def test_what_is_quick(tmp_path: Path) -> None:
    model = serving_models.byte_level(tmp_path)
    plain = load_tokenizer(model, fast=False)
    turns = "".join(f"<|im_start|>user\nquestion {i} {'x ' * 600}<|im_end|>\n" for i in range(10))
    assert plain.is_quick("x" * 4000) and not plain.is_quick(turns)
    ids = plain.encode(turns)
    assert plain.is_quick(turns)  # all of it is remembered now
    assert plain.encode(turns) == ids
    assert load_tokenizer(model).is_quick(turns)
