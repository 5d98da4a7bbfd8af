"""The tokenizer of a model directory: ``tokenizer.json``, and what ``tokenizer_config.json`` says about ends.

Encoding is by ``fastokens`` if it is installed, can read the file, and gives the same ids as ``tokenizers`` in a
trial; else by ``tokenizers``. Decoding is by tables, or by the tokenizer's own decoder where there are none.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from toolgrammar_serving.text import trial
from toolgrammar_serving.text.facts import Facts
from toolgrammar_serving.text.segments import SegmentCache
from toolgrammar_serving.text.tokenizer import IncrementalDecoder, Tabled
from toolgrammar_serving.text.vocabulary import Vocabulary
from toolgrammar_serving.text.window import WindowDecoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Reference

log: Final = logging.getLogger(__name__)

#: What may be remembered of texts that were encoded.
CACHE_BYTES: Final = 32 << 20

#: Characters that are encoded in one or two milliseconds; a thread is not worth asking.
_QUICK: Final = 4_096
_QUICK_FAST: Final = 65_536


class HuggingFaceTokenizer(Tabled):
    """``facts`` of a tokenizer with an encoder: a ``tokenizers.Tokenizer``, or a ``fastokens.Tokenizer`` that has
    stood its trial (``fast``). A vocabulary without tables needs the former."""

    def __init__(self, facts: Facts, encoder: Any, *, fast: bool = False) -> None:
        self.added_tokens = facts.added_tokens
        self.special_tokens = facts.special_tokens
        self.bos_token_id = facts.bos_token_id
        self.eos_token_id = facts.eos_token_id
        self.is_fast = fast
        self._before, self._behind = facts.before, facts.behind
        self._encoder = encoder
        self._tabled = facts.vocabulary is not None
        self.vocabulary = facts.vocabulary or Vocabulary([], {}, facts.special_tokens)
        self._cache: SegmentCache | None = None
        self._plain: Callable[[str], list[int]]
        if fast:
            encoder.enable_segment_cache(CACHE_BYTES)
            self._plain = lambda text: encoder.encode(text).ids
        else:
            self._cache = SegmentCache(
                lambda text: encoder.encode(text, add_special_tokens=False).ids, facts.cuts, CACHE_BYTES
            )
            self._plain = self._cache.encode

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """The ids of ``text``; a surrogate that stands alone is a question mark."""
        try:
            ids = self._plain(text)
        except (TypeError, UnicodeEncodeError):  # what the one and the other encoder say to a lone surrogate
            ids = self._plain(text.encode("utf-8", "replace").decode())
        return [*self._before, *ids, *self._behind] if add_special_tokens else ids

    def is_quick(self, text: str) -> bool:
        """Whether ``text`` is encoded in about the time it takes to ask a thread."""
        if self._cache is None:
            return len(text) <= _QUICK_FAST
        return len(text) <= _QUICK or self._cache.unknown(text) <= _QUICK

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of ``ids``."""
        if self._tabled:
            return super().decode(ids, skip_special_tokens=skip_special_tokens)
        return str(self._encoder.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def decoder(
        self, prompt: Sequence[int], *, skip_special_tokens: bool, special_text: Mapping[int, str]
    ) -> IncrementalDecoder:
        """A decoder of what follows ``prompt``."""
        if self._tabled:
            return super().decoder(prompt, skip_special_tokens=skip_special_tokens, special_text=special_text)
        return WindowDecoder(self._encoder, prompt, skip_special_tokens, special_text)

    def token(self, id_: int) -> tuple[str, bytes]:
        """One token alone: as text, and exactly."""
        if self._tabled:
            return super().token(id_)
        text = str(self._encoder.decode([id_], skip_special_tokens=False))
        return text, text.encode()

    def token_string(self, id_: int) -> str:
        """One token as the vocabulary spells it; empty for an id it has not."""
        return self._encoder.id_to_token(id_) or ""

    def token_id(self, string: str) -> int | None:
        """The id of the token that the vocabulary spells so."""
        found: int | None = self._encoder.token_to_id(string)
        return found


def load_tokenizer(model_dir: str | Path, *, fast: bool = True) -> HuggingFaceTokenizer:
    """Load the tokenizer of a model directory. ``fast``: with ``fastokens``, if it will do. Raises ``ValueError``
    if there is none, or it cannot be read."""
    path = Path(model_dir) / "tokenizer.json"
    encoder: Any = _reference(path)
    facts = Facts.of(encoder, _config(path.with_name("tokenizer_config.json")))
    fastokens = _fastokens() if fast and facts.vocabulary is not None else None
    is_fast = False
    if fastokens is not None:
        answers = trial.answers(encoder)
        del encoder  # one after the other: each takes more than 100 MB while it loads
        _give_back_memory()
        encoder = _tried(fastokens, path, answers)
        is_fast = encoder is not None
        encoder = encoder or _reference(path)
    loaded = HuggingFaceTokenizer(facts, encoder, fast=is_fast)
    _give_back_memory()
    return loaded


def _reference(path: Path) -> Reference:
    from tokenizers import Tokenizer

    if not path.is_file():
        raise ValueError(f"{path.parent.name} has no tokenizer.json")
    try:
        reference = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare exceptions
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    reference.no_truncation()
    reference.no_padding()
    return reference


def _fastokens() -> Any:
    try:
        return importlib.import_module("fastokens")
    except ImportError:
        return None


def _tried(fastokens: Any, path: Path, answers: Mapping[str, list[int]]) -> Any:
    """A ``fastokens.Tokenizer`` that gives ``answers``, or None."""
    try:
        fast = fastokens.Tokenizer.from_file(str(path))
        fast.no_truncation()
        fast.no_padding()
    except Exception as error:
        log.warning("fastokens cannot read this tokenizer, tokenizers encodes: %s", error)
        return None
    if trial.stood(fast, answers):
        return fast
    log.warning("fastokens does not give the same ids for this tokenizer, tokenizers encodes")
    return None


def _config(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise ValueError(f"{path.name}: {error}") from error


def _give_back_memory() -> None:
    """Return what loading took to the system; a C library keeps it otherwise."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
