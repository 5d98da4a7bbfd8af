"""Text requests on an ``LLM``: prompts encoded, outputs decoded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import msgspec

from toolgrammar_serving.errors import BadRequest, TooLong
from toolgrammar_serving.llm import LLM, Finish, GenerateRequest, Generation
from toolgrammar_serving.text.logprobs import with_texts
from toolgrammar_serving.text.requests import Dividing, TextRequest, TextSink, TokenLogprob
from toolgrammar_serving.text.sequence import Careful, Plain, TokenTexts
from toolgrammar_serving.text.stops import Stops
from toolgrammar_serving.text.tokenizer import Tokenizer

_T = TypeVar("_T")


class Prepared(msgspec.Struct):
    """A request whose prompt is token ids, and fits."""

    request: TextRequest
    prompt_token_ids: list[int]
    generate: GenerateRequest


class TextModel:
    """One loop, one thread; long texts are encoded in a few threads of its own."""

    def __init__(self, llm: LLM, tokenizer: Tokenizer) -> None:
        self.llm = llm
        self.tokenizer = tokenizer
        # Few: an encoder keeps some MB for each thread that used it.
        self._threads = ThreadPoolExecutor(min(4, os.cpu_count() or 1), "encode")

    @property
    def max_model_len(self) -> int | None:
        """Tokens of prompt and output together."""
        return self.llm.max_model_len

    async def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """The ids of ``text``; off the loop if that takes long."""
        return await self._where_it_fits(
            text, lambda: self.tokenizer.encode(text, add_special_tokens=add_special_tokens)
        )

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of ``ids``. Raises ``BadRequest`` for what is no id."""
        self._check_ids(ids)
        return self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

    def token_strings(self, ids: Sequence[int]) -> list[str]:
        """Each token as the vocabulary spells it."""
        return [self.tokenizer.token_string(id_) for id_ in ids]

    async def prepare(self, request: TextRequest) -> Prepared:
        """Encode the prompt, cut it if asked to, check everything. Raises ``BadRequest``, ``TooLong``."""
        if any(not string for string in request.stop):
            raise BadRequest("a stop string is empty", param="stop")
        if isinstance(request.prompt, str):
            ids = await self.encode(request.prompt, add_special_tokens=request.add_special_tokens)
        else:
            ids = request.prompt
            self._check_ids(ids)
        ids = self._truncated(request, ids)
        sampling = request.sampling
        if request.bad_words:
            words = [*(sampling.bad_words_token_ids or ()), *self._bad_words(request.bad_words)]
            sampling = msgspec.structs.replace(sampling, bad_words_token_ids=words)
        generate = GenerateRequest(
            request.request_id,
            ids,
            sampling,
            n=request.n,
            stream=request.stream,
            priority=request.priority,
            cache_salt=request.cache_salt,
            data_parallel_rank=request.data_parallel_rank,
            trace_headers=request.trace_headers,
            session_id=request.session_id,
            reasoning_ended=request.reasoning_ended,
            reasoning_parser_kwargs=request.reasoning_parser_kwargs,
        )
        self.llm.check(generate)
        return Prepared(request, ids, generate)

    def start(self, prepared: Prepared, sinks: Sequence[TextSink]) -> Generation:
        """Send it; ``sinks[i]`` takes sequence i, none is called before this returns. Raises ``EngineLost``."""
        request = prepared.request
        end_text = self._end_text(request)
        careful = bool(request.stop) or request.sampling.logprobs is not None
        stops = _stops(tuple(request.stop)) if request.stop else None
        sequences: list[Plain | Careful] = []
        for index, sink in enumerate(sinks):
            decoder = self.tokenizer.decoder(
                prepared.prompt_token_ids,
                skip_special_tokens=request.skip_special_tokens,
                special_text=request.special_text,
            )
            texts = TokenTexts(decoder, stops is not None)
            if isinstance(sink, Dividing):
                sink.token_texts = texts
            if not careful:
                sequences.append(Plain(sink, decoder, end_text))
                continue
            sequences.append(
                Careful(
                    sink,
                    decoder,
                    texts,
                    end_text,
                    self.tokenizer,
                    index,
                    stops=stops,
                    include_stop=request.include_stop,
                    unsearched=request.sampling.min_tokens,
                )
            )
        generation = self.llm.start(prepared.generate, sequences)
        for sequence in sequences:
            if isinstance(sequence, Careful):
                sequence.generation = generation
        return generation

    def prompt_logprobs(self, generation: Generation) -> list[TokenLogprob | None] | None:
        """The logprobs of the prompt, once the first output is here; the first token has none."""
        positions = generation.prompt_logprobs
        if positions is None:
            return None
        return [None if position is None else with_texts(self.tokenizer, [position])[0] for position in positions]

    async def _where_it_fits(self, text: str, encode: Callable[[], _T]) -> _T:
        if self.tokenizer.is_quick(text):
            return encode()
        return await asyncio.get_running_loop().run_in_executor(self._threads, encode)

    def _truncated(self, request: TextRequest, ids: list[int]) -> list[int]:
        keep = request.truncate_prompt_tokens
        if keep is None:
            return ids
        limit = self.max_model_len
        if keep == -1 and limit is not None:
            keep = max(1, limit - (request.sampling.max_tokens or 1))
        elif keep < 1:
            raise BadRequest(
                f"truncate_prompt_tokens must be at least 1, or -1 for what fits, and is {keep}",
                param="truncate_prompt_tokens",
            )
        elif limit is not None and keep > limit:
            raise TooLong(
                f"truncate_prompt_tokens is {keep}, and the model takes {limit} tokens",
                param="truncate_prompt_tokens",
            )
        if len(ids) <= keep:
            return ids
        return ids[:keep] if request.truncation_side == "right" else ids[-keep:]

    def _bad_words(self, words: Sequence[str]) -> list[list[int]]:
        """Each word as it is, and as it is behind a blank."""
        found = []
        for word in words:
            bare = self.tokenizer.encode(word.lstrip())
            if not bare:
                raise BadRequest("a bad word is empty", param="bad_words")
            spaced = self.tokenizer.encode(" " + word.lstrip())
            found.append(bare)
            if spaced[-len(bare) :] != bare:
                found.append(spaced)
        return found

    def _check_ids(self, ids: Sequence[int]) -> None:
        size = self.llm.defaults.vocab_size
        if ids and (min(ids) < 0 or (size is not None and max(ids) >= size)):
            wrong = next(id_ for id_ in ids if id_ < 0 or (size is not None and id_ >= size))
            raise BadRequest(f"{wrong} is no token id of this model", param="prompt")

    def _end_text(self, request: TextRequest) -> Callable[[Finish], str]:
        """See ``EndText``: of the token that ended a sequence."""
        special_text = request.special_text
        if not special_text and not request.include_stop:
            return _no_text
        hidden = self.tokenizer.special_tokens if request.skip_special_tokens else {}

        def end_text(finish: Finish) -> str:
            if finish.reason != "stop":
                return ""
            id_ = self.llm.defaults.eos_token_id if finish.stop_reason is None else finish.stop_reason
            if not isinstance(id_, int):
                return ""
            own = special_text.get(id_)
            if own is None and request.include_stop and id_ not in hidden:
                own = self.tokenizer.token_text(id_)
            return own or ""

        return end_text


def _no_text(finish: Finish) -> str:
    return ""


@lru_cache(256)
def _stops(strings: tuple[str, ...]) -> Stops:
    return Stops(strings)
