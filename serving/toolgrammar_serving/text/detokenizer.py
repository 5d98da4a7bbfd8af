"""Token ids to text, as they come.

Exact: whatever the cuts, the pieces joined are the text of all ids at once, which is the ids' bytes joined and
decoded with U+FFFD for what is no UTF-8. A character spread over tokens comes with its last one; half of one comes
as U+FFFD when something else follows, or at the end.
"""

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Sequence
from typing import Final

from toolgrammar_serving.text.vocabulary import Texts, Vocabulary

#: Bytes at a prompt's end that can begin one character without ending it.
_HALF: Final = 3


class Detokenizer:
    """One sequence. ``texts``: ``vocabulary.view(...)``."""

    __slots__ = ("_blanks", "_ids", "_partial", "_pieces", "_prompts", "_texts", "_waiting")

    def __init__(self, vocabulary: Vocabulary, texts: Texts, prompt: Sequence[int] = ()) -> None:
        """``prompt``: the ids before the sequence, which give no text here. Half a character at their end is
        completed by the sequence. Only if they are no text at all is the sequence's beginning a text's beginning,
        where blanks may be dropped.
        """
        self._texts = texts
        self._partial = vocabulary.partial
        #: The beginning of a character, not yet whole.
        self._waiting = _half_at_end(vocabulary, prompt)
        #: Whether all that waits is the prompt's.
        self._prompts = bool(self._waiting)
        #: The latest ids that were read one by one, and what each brought.
        self._ids: Sequence[int] = ()
        self._pieces: list[str] = []
        self._blanks = 0
        if vocabulary.leading_blanks and not _has_text(vocabulary.view(True), prompt):
            self._blanks = vocabulary.leading_blanks

    def push(self, ids: Sequence[int]) -> str:
        """The text that is complete with ``ids``, often one token's; empty if none is."""
        if not self._waiting and not self._blanks:
            texts = self._texts
            try:
                if len(ids) == 1:
                    text = texts[ids[0]]
                    if text is not None:
                        return text
                else:
                    return "".join([texts[id_] for id_ in ids])  # type: ignore[misc]  # None raises TypeError
            except (IndexError, TypeError):
                pass
        return self._one_by_one(ids)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each of ``ids`` brought. They are the list that was pushed last, or what is left of it."""
        if ids is self._ids:
            return self._pieces[: len(ids)]
        return [self._texts[id_] or "" for id_ in ids]  # read at once: each is a text

    def flush(self) -> str:
        """What waits still, at the end: U+FFFD for half a character of the sequence's own, or nothing."""
        waiting, self._waiting = self._waiting, b""
        return "" if self._prompts else waiting.decode("utf-8", "replace")

    def _one_by_one(self, ids: Sequence[int]) -> str:
        texts = self._texts
        pieces: list[str] = []
        for id_ in ids:
            text = texts[id_] if id_ < len(texts) else ""
            if text is None:
                pieces.append(self._bytes(self._partial[id_]))
            elif text and self._waiting:  # whole characters: what waits cannot be completed by them
                pieces.append(self.flush() + text)
                self._prompts = False
            else:
                pieces.append(text)
        if self._blanks:
            self._drop_blanks(pieces)
        self._ids, self._pieces = ids, pieces
        return "".join(pieces)

    def _drop_blanks(self, pieces: list[str]) -> None:
        """Take what may be dropped from the beginning of the text."""
        for i, piece in enumerate(pieces):
            kept = piece.lstrip(" ")
            kept = piece[min(self._blanks, len(piece) - len(kept)) :]
            self._blanks = 0 if kept else self._blanks - len(piece)
            pieces[i] = kept
            if not self._blanks:
                return

    def _bytes(self, new: bytes) -> str:
        waiting = self._waiting
        if self._prompts:
            self._prompts = False
            text, used = utf_8_decode(waiting + new[:1], "replace", False)
            if text and (len(text) > 1 or used <= len(waiting)):  # not this character's next byte
                waiting = b""
        data = waiting + new
        text, used = utf_8_decode(data, "replace", False)
        self._waiting = data[used:]
        return text


def decode(vocabulary: Vocabulary, ids: Sequence[int], *, skip_special: bool = True) -> str:
    """The text of ``ids``, all of them."""
    whole = Detokenizer(vocabulary, vocabulary.view(skip_special))
    return whole.push(ids) + whole.flush()


def _half_at_end(vocabulary: Vocabulary, prompt: Sequence[int]) -> bytes:
    partial = vocabulary.partial
    data = b""
    for id_ in reversed(prompt):
        if len(data) > _HALF or id_ not in partial:
            break
        data = partial[id_] + data
    return data[utf_8_decode(data, "replace", False)[1] :] if data else b""


def _has_text(texts: Texts, prompt: Sequence[int]) -> bool:
    return any(id_ < len(texts) and texts[id_] != "" for id_ in prompt)
