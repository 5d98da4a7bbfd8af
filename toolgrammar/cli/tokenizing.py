"""A ``tokenizer.json`` as the parser wants it: the only use of the package ``tokenizers``, if asked for."""

from __future__ import annotations

import os
from typing import Any

from toolgrammar.cli.errors import CliError
from toolgrammar.machine.tokenizers_adapter import FastTokenizer


class FileTokenizer(FastTokenizer):
    """A tokenizer that can say which ids it has: those of a record come from anywhere."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self._known: set[int] = set()

    def has(self, number: int) -> bool:
        """Whether ``number`` is the id of a token; the package raises for one that is not 32 bits wide."""
        if number in self._known:
            return True
        if not 0 <= number < 2**32 or self._tokenizer.id_to_token(number) is None:
            return False
        self._known.add(number)
        return True


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
