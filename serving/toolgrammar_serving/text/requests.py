"""What the text layer takes and gives: text in (or token ids), text out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.llm import Finish, Sampling

if TYPE_CHECKING:
    from toolgrammar_serving.text.sequence import TokenTexts


class TextRequest(msgspec.Struct):
    """``n`` continuations of ``prompt``, text or token ids.

    ``stop``: strings that end a sequence, found across tokens, held back until certain; not part of the text
    unless ``include_stop``. ``special_text``: what special tokens are in the text: id to text; others give none,
    unless ``skip_special_tokens`` is false, then all give their own. A token that ended the sequence is text only
    if it is in ``special_text``, or with ``include_stop``. ``bad_words`` become token ids here.
    ``truncate_prompt_tokens``: so many are kept, -1 for what fits; ``truncation_side`` loses the others.
    ``add_special_tokens``: the tokenizer's own beginning (BOS); chat templates write theirs themselves.
    """

    request_id: str
    prompt: str | list[int]
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    n: int = 1
    stream: bool = True
    stop: list[str] = []
    include_stop: bool = False
    skip_special_tokens: bool = True
    special_text: Mapping[int, str] = {}
    add_special_tokens: bool = True
    bad_words: list[str] = []
    truncate_prompt_tokens: int | None = None
    truncation_side: Literal["left", "right"] = "left"
    priority: int = 0
    cache_salt: str | None = None
    data_parallel_rank: int | None = None
    trace_headers: dict[str, str] | None = None
    session_id: str | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: dict[str, Any] | None = None


class Alternative(msgspec.Struct, gc=False):
    """A token as text: ``text`` may hold U+FFFD for part of a character, ``bytes`` are exact."""

    token_id: int
    text: str
    bytes: bytes
    logprob: float


class TokenLogprob(msgspec.Struct, gc=False):
    """The sampled token of one position, and the best ones, as many as asked for."""

    token: Alternative
    rank: int
    top: list[Alternative]


class TextSink(Protocol):
    """Takes the text of one sequence. ``push`` any number of times, then ``finish`` or ``fail`` exactly once."""

    def push(self, text: str, token_ids: list[int], logprobs: list[TokenLogprob] | None) -> None:
        """New text, which may be empty: text that may be part of a stop string or of a character waits. The tokens
        are all that came, whether or not their text is here yet."""

    def finish(self, finish: Finish) -> None:
        """The sequence is over; all its text was pushed."""

    def fail(self, error: ServingError) -> None:
        """There will be no more: the engine died or refused."""


@runtime_checkable
class Dividing(Protocol):
    """A text sink that tells the tokens of a push apart. Who starts it sets ``token_texts`` before the first
    push."""

    token_texts: TokenTexts | None
