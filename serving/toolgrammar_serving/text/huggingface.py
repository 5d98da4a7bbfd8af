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

from toolgrammar_serving.text.segments import SegmentCache, safe_cuts
from toolgrammar_serving.text.tables import vocabulary_of
from toolgrammar_serving.text.tokenizer import IncrementalDecoder, Tabled
from toolgrammar_serving.text.trial import agree
from toolgrammar_serving.text.vocabulary import Vocabulary
from toolgrammar_serving.text.window import WindowDecoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Reference

log: Final = logging.getLogger(__name__)

#: What may be remembered of texts that were encoded.
CACHE_BYTES: Final = 32 << 20

#: Characters that are encoded in less than a millisecond, about what a thread costs its caller.
_QUICK: Final = 4_096
_QUICK_FAST: Final = 65_536


def load_tokenizer(model_dir: str | Path, *, fast: bool = True) -> HuggingFaceTokenizer:
    """Load the tokenizer of a model directory. ``fast``: with ``fastokens``, if it will do. Raises ``ValueError``
    if there is none, or it cannot be read."""
    from tokenizers import Tokenizer

    path = Path(model_dir) / "tokenizer.json"
    if not path.is_file():
        raise ValueError(f"{path.parent.name} has no tokenizer.json")
    try:
        reference = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare exceptions
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    reference.no_truncation()
    reference.no_padding()
    config = _config(path.with_name("tokenizer_config.json"))
    fast_one = _fastokens(path, reference) if fast else None
    loaded = HuggingFaceTokenizer(reference, config, fast_one)
    del reference
    _give_back_memory()
    return loaded


class HuggingFaceTokenizer(Tabled):
    """A ``tokenizers.Tokenizer``, or a ``fastokens.Tokenizer`` that stands in for it in all but odd decoders."""

    def __init__(self, reference: Reference, config: Mapping[str, Any], fast: Any = None) -> None:
        added = reference.get_added_tokens_decoder()
        self.added_tokens = {id_: token.content for id_, token in added.items()}
        self.special_tokens = {id_: token.content for id_, token in added.items() if token.special}
        self.is_fast = fast is not None
        self.bos_token_id = _id(reference, config.get("bos_token"))
        self.eos_token_id = _id(reference, config.get("eos_token"))
        self._before, self._behind = _ends(reference, config.get("add_bos_token"), self.bos_token_id)
        vocabulary = vocabulary_of(reference)
        #: For a vocabulary that has no tables.
        self._reference = reference if vocabulary is None else None
        self.vocabulary = vocabulary or Vocabulary([], {}, self.special_tokens)
        self._names = reference if fast is None else fast
        self._plain: Callable[[str], list[int]]
        self._cache: SegmentCache | None = None
        if fast is not None:
            fast.enable_segment_cache(CACHE_BYTES)
            self._plain = lambda text: fast.encode(text).ids
        else:
            self._cache = SegmentCache(
                lambda text: reference.encode(text, add_special_tokens=False).ids,
                safe_cuts(added.values()),
                CACHE_BYTES,
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
        if self._reference is not None:
            return str(self._reference.decode(list(ids), skip_special_tokens=skip_special_tokens))
        return super().decode(ids, skip_special_tokens=skip_special_tokens)

    def decoder(
        self, prompt: Sequence[int], *, skip_special_tokens: bool, special_text: Mapping[int, str]
    ) -> IncrementalDecoder:
        """A decoder of what follows ``prompt``."""
        if self._reference is not None:
            return WindowDecoder(self._reference, prompt, skip_special_tokens, special_text)
        return super().decoder(prompt, skip_special_tokens=skip_special_tokens, special_text=special_text)

    def token_text(self, id_: int) -> str:
        """One token alone, as text."""
        if self._reference is not None:
            return str(self._reference.decode([id_], skip_special_tokens=False))
        return super().token_text(id_)

    def token_bytes(self, id_: int) -> bytes:
        """One token alone, exactly."""
        return self.token_text(id_).encode() if self._reference is not None else super().token_bytes(id_)

    def token_string(self, id_: int) -> str:
        """One token as the vocabulary spells it; empty for an id it has not."""
        return self._names.id_to_token(id_) or ""

    def token_id(self, string: str) -> int | None:
        """The id of the token that the vocabulary spells so."""
        found: int | None = self._names.token_to_id(string)
        return found


def _fastokens(path: Path, reference: Reference) -> Any:
    try:
        fastokens = importlib.import_module("fastokens")
    except ImportError:
        return None
    try:
        fast = fastokens.Tokenizer.from_file(str(path))
        fast.no_truncation()
        fast.no_padding()
    except Exception as error:
        log.warning("fastokens cannot read this tokenizer, tokenizers encodes: %s", error)
        return None
    if agree(reference, fast):
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


def _id(reference: Reference, token: Any) -> int | None:
    text = token.get("content") if isinstance(token, dict) else token
    return reference.token_to_id(text) if isinstance(text, str) else None


def _ends(reference: Reference, add_bos: bool | None, bos: int | None) -> tuple[list[int], list[int]]:
    """The ids that the tokenizer puts before and behind any text. ``add_bos``, if set, has the last word."""
    plain = reference.encode("a", add_special_tokens=False).ids
    whole = reference.encode("a", add_special_tokens=True).ids
    start = next((i for i in range(len(whole)) if whole[i : i + len(plain)] == plain), 0)
    before, behind = whole[:start], whole[start + len(plain) :]
    if add_bos is not None and bos is not None:
        rest = [id_ for id_ in before if id_ != bos]
        before = [bos, *rest] if add_bos else rest
    return before, behind


def _give_back_memory() -> None:
    """Return what loading took to the system; a C library keeps it otherwise."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
