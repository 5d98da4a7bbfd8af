"""Constraints on outputs: JSON schemas, regular expressions, choices, grammars, structural tags.

xgrammar compiles and follows all but Lark grammars, which llguidance takes where it is installed. A constraint
compiles on a thread of its own, and its request waits outside the scheduler meanwhile; what cannot be compiled is
the request's error and nobody else's. Both libraries are loaded when the first constraint comes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import torch
from torch import Tensor

from toolgrammar_serving.engine.legal import MOST_WHITESPACE, Legal, bounded_whitespace
from toolgrammar_serving.engine.request import Matcher, Request
from toolgrammar_serving.protocol.wire import StructuredOutputs

_MAX_BITS: Final = 32
_SOURCE: Final = re.compile(r"^\[[0-9:]+\] \S+:[0-9]+: ")


class BadConstraint(ValueError):
    """The constraint cannot be used; the message is for the client."""


def new_bitmask(rows: int, vocab_size: int) -> Tensor:
    """A mask of tokens, one bit each: [rows, vocab_size / 32 rounded up], int32, all allowed, on the host."""
    return torch.full((rows, (vocab_size + _MAX_BITS - 1) // _MAX_BITS), -1, dtype=torch.int32)


def apply_bitmask(logits: Tensor, bitmask: Tensor, rows: list[int]) -> None:
    """Forbid in ``rows`` of ``logits`` what the same rows of ``bitmask`` do not allow, in place."""
    if logits.device.type == "cpu":
        import xgrammar

        xgrammar.apply_token_bitmask_inplace(logits, bitmask, indices=rows)
        return
    # Elsewhere in plain tensor operations: xgrammar's kernels would need Triton or a compiler beside them.
    bits = torch.arange(_MAX_BITS, device=logits.device, dtype=torch.int32)
    allowed = (bitmask[rows].to(logits.device).unsqueeze(-1) >> bits) & 1
    index = torch.tensor(rows, device=logits.device)
    forbidden = allowed.flatten(1)[:, : logits.shape[1]] == 0
    logits[index] = logits[index].masked_fill(forbidden, -torch.inf)


class Constraints:
    """Compiles constraints for one model. ``wake`` is called, from another thread, when one is done."""

    def __init__(
        self, tokenizer: Callable[[], Any], vocab_size: int, reasoning_end: str | None, wake: Callable[[], None]
    ) -> None:
        self._load_tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._reasoning_end = reasoning_end
        self._wake = wake
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="constraints")
        self._tokenizer: Any = None
        self._compiler: Any = None
        self._legal: Legal | None = None

    def start(self, request: Request, reasoning_ended: bool | None) -> Future[None]:
        """Compile in the background; when the future is done without error the request has its matcher.

        ``reasoning_ended`` False: the constraint begins after the reasoning; None: look into the prompt. Only
        where the engine was told how reasoning ends, else every constraint begins at once.
        """
        future = self._pool.submit(self._prepare, request, reasoning_ended)
        future.add_done_callback(lambda _: self._wake())
        return future

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _prepare(self, request: Request, reasoning_ended: bool | None) -> None:
        wanted = request.params.structured_outputs
        assert wanted is not None
        try:
            if self._tokenizer is None:
                self._tokenizer = self._load_tokenizer()
            stop_ids = sorted(token for token in request.stop_ids if 0 <= token < self._vocab_size)
            request.matcher = self._compile(wanted, stop_ids)
            request.grammar_from = self._begins_after(request.prompt, reasoning_ended)
        except BadConstraint:
            raise
        except Exception as error:  # whatever a compiler raises: types of xgrammar, llguidance, pydantic, ...
            why = _first_lines(error)
            raise BadConstraint(f"The constraint on the output cannot be compiled: {why}") from error

    def _begins_after(self, prompt: Sequence[int], reasoning_ended: bool | None) -> int | None:
        if self._reasoning_end is None or reasoning_ended:
            return None
        token = self._tokenizer.convert_tokens_to_ids(self._reasoning_end)
        if token is None or token == self._tokenizer.unk_token_id:
            return None
        if reasoning_ended is None and token in prompt:
            return None
        return int(token)

    def _compile(self, wanted: StructuredOutputs, stop_ids: list[int]) -> Matcher:
        if wanted.whitespace_pattern is not None:
            raise BadConstraint("whitespace_pattern is not supported.")
        if wanted.grammar is not None and _is_lark(wanted.grammar):
            from toolgrammar_serving.engine.guided_lark import LarkMatcher

            return LarkMatcher(wanted.grammar, self._tokenizer, self._vocab_size, stop_ids)
        import xgrammar

        compiled = self._grammar(wanted)
        legal = None
        if self._legal is not None:
            if wanted.json is not None or wanted.json_object:
                legal = self._legal.json
            elif wanted.structural_tag is not None:
                legal = self._legal.tags
        end = {"override_stop_tokens": stop_ids} if stop_ids else {"terminate_without_stop_token": True}
        return XgrammarMatcher(xgrammar.GrammarMatcher(compiled, **end), legal)

    def _grammar(self, wanted: StructuredOutputs) -> Any:
        import xgrammar

        if self._compiler is None:
            info = xgrammar.TokenizerInfo.from_huggingface(self._tokenizer, vocab_size=self._vocab_size)
            self._legal = Legal(info.decoded_vocab, self._vocab_size)
            self._compiler = xgrammar.GrammarCompiler(info, max_threads=2, cache_limit_bytes=512 * 2**20)
        compiler = self._compiler
        spaces = {"any_whitespace": not wanted.disable_any_whitespace, "max_whitespace_cnt": MOST_WHITESPACE}
        if wanted.json is not None:
            schema = wanted.json if isinstance(wanted.json, str) else json.dumps(wanted.json)
            return compiler.compile_json_schema(schema, **spaces)
        if wanted.json_object:
            return compiler.compile_json_schema('{"type": "object"}', strict_mode=False, **spaces)
        if wanted.regex is not None:
            return compiler.compile_regex(wanted.regex)
        if wanted.choice:
            return compiler.compile_grammar("root ::= " + " | ".join(_quoted(text) for text in wanted.choice))
        if wanted.grammar is not None:
            return compiler.compile_grammar(wanted.grammar)
        if wanted.structural_tag is not None:
            return _structural_tag(compiler, wanted.structural_tag)
        raise BadConstraint("structured_outputs names no constraint.")


class XgrammarMatcher:
    """One output followed by xgrammar, among the tokens that are ``legal`` at all."""

    __slots__ = ("_legal", "_matcher")

    def __init__(self, matcher: Any, legal: Tensor | None) -> None:
        self._matcher = matcher
        self._legal = legal

    def fill(self, bitmask: Tensor, row: int) -> None:
        self._matcher.fill_next_token_bitmask(bitmask, row)
        if self._legal is not None:
            bitmask[row] &= self._legal

    def accept(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))

    @property
    def finished(self) -> bool:
        return bool(self._matcher.is_terminated())


def _structural_tag(compiler: Any, text: str) -> Any:
    """Both forms: ``{"format": ...}`` and the older ``{"structures": [...], "triggers": [...]}``."""
    try:
        tag = json.loads(text)
    except ValueError as error:
        raise BadConstraint(f"structural_tag is not JSON: {error}") from error
    if not isinstance(tag, dict):
        raise BadConstraint("structural_tag is not a JSON object.")
    if "structures" in tag:
        import xgrammar

        items = [
            xgrammar.StructuralTagItem(begin=one["begin"], schema=json.dumps(one["schema"]), end=one["end"])
            for one in tag["structures"]
        ]
        return compiler.compile_structural_tag(items, tag["triggers"])
    return compiler.compile_structural_tag(json.dumps(bounded_whitespace(tag)))


def _is_lark(grammar: str) -> bool:
    """Lark has ``rule: ...`` where (E)BNF has ``rule ::= ...``."""
    return "::=" not in grammar


def _quoted(text: str) -> str:
    """A literal of EBNF."""
    return json.dumps(text)


def _first_lines(error: Exception) -> str:
    """What a client is told: not the clock and source file before it."""
    lines = [_SOURCE.sub("", line) for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:500] or type(error).__name__
