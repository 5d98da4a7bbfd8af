"""What is to be known of a tokenizer beside how it encodes; no reference to it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolgrammar_serving.text.segments import safe_cuts
from toolgrammar_serving.text.tables import vocabulary_of
from toolgrammar_serving.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Reference


class Facts(msgspec.Struct, frozen=True):
    """``vocabulary``: None if the decoder has no tables. ``before`` and ``behind``: the ids put around any text,
    if asked for. ``cuts``: see ``safe_cuts``."""

    added_tokens: dict[int, str]
    special_tokens: dict[int, str]
    bos_token_id: int | None
    eos_token_id: int | None
    before: list[int]
    behind: list[int]
    cuts: list[str]
    vocabulary: Vocabulary | None

    @classmethod
    def of(cls, reference: Reference, config: Mapping[str, Any]) -> Facts:
        """Read them. ``config``: what ``tokenizer_config.json`` says."""
        added = reference.get_added_tokens_decoder()
        bos = _id(reference, config.get("bos_token"))
        before, behind = _ends(reference, config.get("add_bos_token"), bos)
        return cls(
            {id_: token.content for id_, token in added.items()},
            {id_: token.content for id_, token in added.items() if token.special},
            bos,
            _id(reference, config.get("eos_token")),
            before,
            behind,
            safe_cuts(added.values()),
            vocabulary_of(reference),
        )


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
