"""What a checkpoint says about itself, as far as token ids are concerned: its ends, its context, how to sample.

Read from ``generation_config.json``, ``config.json`` and ``tokenizer_config.json``; each may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec


class ModelDefaults(msgspec.Struct, frozen=True):
    """Of one model. None: not known, or left to the protocol.

    ``eos_token_id``: the main end of sequence. ``stop_token_ids``: further ids that end one. ``max_model_len``: in
    tokens, prompt and output together; the engine may allow less. ``vocab_size``: ids are below it.
    ``max_new_tokens``: the output's limit where a request gives none.
    """

    eos_token_id: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    max_model_len: int | None = None
    vocab_size: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None

    @classmethod
    def load(cls, model_dir: str | Path, *, eos_token_id: int | None = None) -> ModelDefaults:
        """Read a model directory. ``eos_token_id``: the tokenizer's, if the caller knows it. Raises ``ValueError``
        for a file that is no JSON object of the right types."""
        directory = Path(model_dir)
        config = _object(directory / "config.json")
        text = config.get("text_config")  # what a model of several kinds of input says about text
        if isinstance(text, dict):
            config = {**config, **{key: value for key, value in text.items() if value is not None}}
        generation = _object(directory / "generation_config.json")
        ends = _ids(generation.get("eos_token_id")) or _ids(config.get("eos_token_id"))
        main = eos_token_id
        if main is None:
            main = _tokenizer_eos(_object(directory / "tokenizer_config.json"))
        if main is None and ends:
            main = ends[0]
        sampling = {name: generation.get(name) for name in _SAMPLING}
        fields = {
            "eos_token_id": main,
            "stop_token_ids": [id_ for id_ in dict.fromkeys(ends) if id_ != main],
            "max_model_len": config.get("max_position_embeddings"),
            "vocab_size": config.get("vocab_size"),
            **sampling,
        }
        try:
            return msgspec.convert(fields, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"{directory.name}: {error}") from error


_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens")


def _object(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise ValueError(f"{path.name}: {error}") from error


def _ids(value: Any) -> list[int]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def _tokenizer_eos(config: Mapping[str, Any]) -> int | None:
    """The id of the tokenizer's end of sequence: an engine reports the others by id, this one not."""
    token = config.get("eos_token")
    text = token.get("content") if isinstance(token, dict) else token
    added = config.get("added_tokens_decoder")
    if not isinstance(text, str) or not isinstance(added, dict):
        return None
    return next((int(id_) for id_, entry in added.items() if entry.get("content") == text), None)
