"""Whether an encoder gives the ids of another, by trial: texts with all that is known to be difficult, and texts
made of the vocabulary's own tokens."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

#: Where encoders differ, if they do: blanks in rows, digits, contractions, cases, combining and rare characters.
_DIFFICULT: Final = (
    "",
    " ",
    "Hello, World!  It's 21:45 -- they'RE NOT 'd'accord', are we'll?\n",
    "  two\n\n three\n\n\n   \t four \r\n\r\n five\u00a0six\u3000seven \n",
    "0 12 345 6789 12345678901234567890 3.14159 1,000,000 0x1F ²³ ½ ४५",
    "def f(self, *args):\n    if x<=3 and not (y!=z):\n\t\treturn {'a': [1, 2.5e-10], \"b\": None}  # ok\n",
    '{"name":"set_lamp","arguments":{"room":"hall\\n","on":true,"level":0.75}}',
    "größer naïve Ångström cafe\u0301 e\u0301\u0323 ﬁ İstanbul ǅ ẞ",
    "Лампа включена. 走廊里的灯亮着。廊下の電気はついています。 불이 켜져 있다 दीपक जल रहा है ไฟเปิดอยู่ مصباح",
    "🌿🏳️‍🌈👩‍👩‍👧‍👦🇩🇪 𝔘𝔫𝔦 \u200b\u200d\ufeff\u2028\u0000\u0007\u001b[0m\ufffd \U0010ffff",
    "a" * 300 + " " * 300 + "\n" * 50 + "=-" * 100,
)

#: Texts made of the vocabulary's own tokens, and tokens in each.
_TEXTS: Final = 24
_TOKENS: Final = 120


def answers(reference: Any) -> dict[str, list[int]]:
    """Texts and the ids that ``reference``, a ``tokenizers.Tokenizer``, gives them."""
    texts = (*_DIFFICULT, *_of_tokens(reference))
    return {text: reference.encode(text, add_special_tokens=False).ids for text in texts}


def stood(other: Any, answers: Mapping[str, list[int]]) -> bool:
    """Whether ``other``, a ``fastokens.Tokenizer``, gives the same."""
    try:
        return all(other.encode(text).ids == ids for text, ids in answers.items())
    except Exception:  # whatever an encoder raises, it does not do
        return False


def _of_tokens(reference: Any) -> list[str]:
    """Texts of tokens picked at random, always the same ones; each special token in one of them."""
    pick = random.Random(0)
    size = reference.get_vocab_size()
    added = [token.content for token in reference.get_added_tokens_decoder().values()]
    texts = []
    for i in range(_TEXTS):
        ids = [pick.randrange(size) for _ in range(_TOKENS)]
        text = reference.decode(ids, skip_special_tokens=True)
        texts.append(text)
        marked = added[i::_TEXTS]
        cuts = sorted(pick.randrange(len(text) + 1) for _ in marked)
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        texts.append("".join(piece + mark for piece, mark in zip(pieces, [*marked, ""], strict=True)))
    return texts
