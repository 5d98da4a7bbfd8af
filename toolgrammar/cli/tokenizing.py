"""A ``tokenizer.json`` as the parser wants it: the only use of the package ``tokenizers``, if asked for."""

from __future__ import annotations

import os
from typing import Any

from toolgrammar.cli.errors import CliError


class FileTokenizer:
    """Special tokens by id, and incremental decoders for the others."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: set[int] = set()
        self._special = {
            number: token.content
            for number, token in tokenizer.get_added_tokens_decoder().items()
            if token.special
        }

    def special_tokens(self) -> dict[int, str]:
        """Special tokens: id to text."""
        return self._special

    def has(self, number: int) -> bool:
        """Whether ``number`` is the id of a token; the package raises for one that is not 32 bits wide."""
        if number in self._known:
            return True
        if not 0 <= number < 2**32 or self._tokenizer.id_to_token(number) is None:
            return False
        self._known.add(number)
        return True

    def decoder(self) -> Decoder:
        """A decoder for one stream."""
        return Decoder(self._tokenizer)


class Decoder:
    """Ids to text, one at a time; holds what may be half a character. Copyable."""

    def __init__(self, tokenizer: Any, ids: tuple[int, ...] = (), done: int = 0) -> None:
        self._tokenizer = tokenizer
        self._ids = list(ids)
        self._done = done

    def step(self, number: int) -> str | None:
        """The text that ``number`` completes."""
        self._ids.append(number)
        before = self._text(self._ids[: self._done])
        text = self._text(self._ids)
        if len(text) <= len(before) or text.endswith("\ufffd"):
            return None
        self._ids, self._done = self._ids[self._done :], len(self._ids) - self._done
        return text[len(before) :]

    def copy(self) -> Decoder:
        """An independent decoder in the same state."""
        return Decoder(self._tokenizer, tuple(self._ids), self._done)

    def _text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False)) if ids else ""


def read_tokenizer(path: str | None) -> FileTokenizer | None:
    """The tokenizer of ``--tokenizer DIR``."""
    if path is None:
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        hint = "pip install tokenizers"
        raise CliError("E005", "--tokenizer needs the package 'tokenizers'", hint) from error
    file = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path
    if not os.path.isfile(file):
        raise CliError("E005", f"no tokenizer.json in {path}")
    try:
        return FileTokenizer(Tokenizer.from_file(file))
    except Exception as error:  # the package raises bare Exception
        raise CliError("E005", f"{file} is no usable tokenizer: {error}") from error
