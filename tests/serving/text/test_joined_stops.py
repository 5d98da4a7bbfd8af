"""Stop strings where tokens come several at once: the answer is that of one token at a time, to the last count."""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from serving_text_sinks import Listener, ScriptedClient, Tokens, joinings
from toolgrammar_serving.llm import LLM, Finish, ModelDefaults, Sampling
from toolgrammar_serving.protocol.arrays import Logprobs
from toolgrammar_serving.protocol.wire import LENGTH, STOP
from toolgrammar_serving.text import TextModel, TextRequest

SPELLED = ["p", "a", "b", "ab", "ba-", "a-b", "-", "é"]
PIECES = [*[text.encode() for text in SPELLED], b"\xc3", b"\xa9", b"a\xc3", b"<pad>", b"<end>"]
PAD, END = 11, 12
TOKENIZER = Tokens(PIECES, {PAD: "<pad>", END: "<end>"})
DEFAULTS = ModelDefaults(eos_token_id=END, max_model_len=100, vocab_size=len(PIECES))


def texts_of(ids: list[int]) -> list[str]:
    """The text that is complete after each number of tokens, none included; special tokens have none."""
    decoder = getincrementaldecoder("utf-8")("replace")
    found = [""]
    for id_ in ids:
        found.append(found[-1] + decoder.decode(b"" if id_ in (PAD, END) else PIECES[id_]))
    return found


def stopped(text: str, stops: list[str], free: int) -> tuple[int, str] | None:
    """Read character by character: where the first stop string ends, and the longest that does."""
    for end in range(free + 1, len(text) + 1):
        ended = [stop for stop in stops if text[:end].endswith(stop)]
        if ended:
            return end, max(ended, key=len)
    return None


def right(
    ids: list[int], stops: list[str], include: bool, least: int, ended: bool
) -> tuple[str, list[int], int, Finish]:
    """Text, ids, count of tokens and finish: a search in the whole text, and in the text after each token."""
    texts = texts_of(ids)
    whole = b"".join(PIECES[id_] for id_ in ids if id_ != PAD).decode("utf-8", "replace")
    free = len(texts[min(least, len(ids))])
    found = stopped(whole, stops, free)
    if found is None:
        return whole, ids, len(ids) + ended, Finish("stop" if ended else "length")
    end, stop = found
    text = whole[: end if include else end - len(stop)]
    count = next((n for n, text in enumerate(texts) if stopped(text, stops, free)), None)
    kept = len(ids) if count is None else count
    return text, ids[:kept], len(ids) + ended if count is None else kept, Finish("stop", stop)


def answered(
    groups: list[list[int]], *, ended: bool, pause: int | None = None, **fields: Any
) -> tuple[str, list[int], int, Finish, list[float]]:
    """The same of a request whose tokens came in ``groups``, and its logprobs: token i has -i. ``pause``: the
    reader is slow from that group on."""
    client, listener = ScriptedClient(), Listener()
    model = TextModel(LLM(client, DEFAULTS), TOKENIZER)
    prepared = asyncio.run(model.prepare(TextRequest("r", "x", **fields)))
    generation = model.start(prepared, [listener])
    numbers = fields["sampling"].logprobs is not None
    at = 0
    for i, group in enumerate(groups):
        if i == pause:
            generation.pause(0)
        last = i == len(groups) - 1
        ids = [*group, END] if last and ended else group
        ranks = range(at, at + len(ids))
        logprobs = Logprobs([[id_] for id_ in ids], [[-float(n)] for n in ranks], [1] * len(ids))
        finish = (STOP if ended else LENGTH) if last else None
        client.send(list(ids), finish=finish, new_logprobs=logprobs if numbers else None)
        at += len(ids)
    generation.resume(0)
    entries = [entry for what, *pushed in listener.heard if what == "push" for entry in pushed[2] or ()]
    assert [entry.token.token_id for entry in entries] == (listener.ids if numbers else [])
    values = [entry.token.logprob for entry in entries]
    return listener.text, listener.ids, generation.usage.completion_tokens, listener.end, values


@given(
    ids=st.lists(st.integers(1, PAD), min_size=1, max_size=6),
    stops=st.lists(st.text("ab-é\ufffd", min_size=1, max_size=4), min_size=1, max_size=2),
    include=st.booleans(),
    least=st.integers(0, 3),
    ended=st.booleans(),
    numbers=st.booleans(),
    pause=st.none() | st.integers(0, 3),
)
@example([3, 5, 1], ["b"], False, 0, True, True, None)  # the stop string begins in the first of two joined tokens
@example([1, 4, 4], ["ab", "a-ba"], True, 2, False, True, None)
@example([8, 11, 9, 1], ["é"], False, 0, False, True, 0)  # halves of a character, and a token of no text between
@example([1, 8], ["\ufffd"], False, 0, True, True, None)  # half of one at the end
def test_tokens_end_with_the_stop_string_however_they_are_joined(
    ids: list[int], stops: list[str], include: bool, least: int, ended: bool, numbers: bool, pause: int | None
) -> None:
    expected = right(ids, stops, include, least, ended)
    sampling = Sampling(min_tokens=least, logprobs=0 if numbers else None)
    logprobs = [-float(n) for n in range(len(expected[1]))] if numbers else []
    for groups in joinings(ids):
        found = answered(groups, ended=ended, pause=pause, stop=stops, include_stop=include, sampling=sampling)
        assert found == (*expected, logprobs), groups


@pytest.mark.parametrize("include", [False, True])
def test_the_count_is_right_when_the_last_text_is_pushed(include: bool) -> None:
    client = ScriptedClient()
    model = TextModel(LLM(client, DEFAULTS), TOKENIZER)
    listener = Listener()
    seen: list[int] = []
    listener.push = lambda *pushed: seen.append(generation.usage.completion_tokens)  # type: ignore[method-assign]
    prepared = asyncio.run(model.prepare(TextRequest("r", "x", stop=["ab"], include_stop=include)))
    generation = model.start(prepared, [listener])
    client.send([6, 1, 2, 6, 6])
    assert seen == [3] and generation.usage.completion_tokens == 3
    assert client.aborted == [client.requests[0].request_id]
