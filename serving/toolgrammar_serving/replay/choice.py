"""Which script a request gets: ``InOrder``, ``ByContent``, or any function of the request.

A request may also bring its own, whatever the engine was started with: ``extra_args`` (``vllm_xargs`` in the API
of a front end) with the key ``replay``: a list of token ids, or the JSON form of a script as an object or as
text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from toolgrammar_serving.protocol.wire import ERROR, EngineCoreRequest, RequestError
from toolgrammar_serving.replay.scripts import Script, ScriptError, read_script

Choose: TypeAlias = Callable[[EngineCoreRequest], Script]
REPLAY_KEY: Final = "replay"


def refusal(message: str, code: str = "validation_error") -> Script:
    """A script that only says why there is none."""
    return Script(finish=ERROR, error=RequestError(code, message))


class InOrder:
    """One script after the other, from the first again after the last."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        if not scripts:
            raise ValueError("no scripts")
        self._scripts = tuple(scripts)
        self._next = 0

    def __call__(self, request: EngineCoreRequest) -> Script:
        script = self._scripts[self._next]
        self._next = (self._next + 1) % len(self._scripts)
        return script


class Echo:
    """The prompt's own tokens, over and over until the request's limit."""

    def __init__(self, per_step: int = 1) -> None:
        self._per_step = per_step

    def __call__(self, request: EngineCoreRequest) -> Script:
        if not request.prompt_token_ids:
            return refusal("nothing to echo")
        return Script.of_tokens(request.prompt_token_ids, per_step=self._per_step, repeat=True)


class Entry(msgspec.Struct, frozen=True):
    """A script for prompts that contain ``match``; None: for any."""

    match: str | None
    script: Script


class ByContent:
    """The entry whose ``match`` ends last in the prompt's text, of those the longest: the newest turn decides.

    Entries with the same ``match`` take turns. A prompt that no entry matches gets the entries without ``match``
    in order, and a refusal if there are none.
    """

    def __init__(self, entries: Sequence[Entry], decode: Callable[[Sequence[int]], str]) -> None:
        by_match: dict[str, list[Script]] = {}
        others = []
        for entry in entries:
            if entry.match:
                by_match.setdefault(entry.match, []).append(entry.script)
            else:
                others.append(entry.script)
        self._matches = {match: InOrder(scripts) for match, scripts in by_match.items()}
        self._others = InOrder(others) if others else None
        self._decode = decode

    def __call__(self, request: EngineCoreRequest) -> Script:
        found = None
        if self._matches:
            text = self._decode(request.prompt_token_ids or ())
            places = [(text.rfind(match), match) for match in self._matches]
            found = max(((at + len(match), len(match), match) for at, match in places if at >= 0), default=None)
        if found is not None:
            return self._matches[found[2]](request)
        if self._others is not None:
            return self._others(request)
        return refusal("no recording matches this prompt")


def chooser(
    entries: Sequence[Entry],
    decode: Callable[[Sequence[int]], str],
    select: Literal["auto", "order", "content"] = "auto",
) -> Choose:
    """By content if any entry says for which (``auto``), else in order."""
    if select == "content" or (select == "auto" and any(entry.match for entry in entries)):
        return ByContent(entries, decode)
    return InOrder([entry.script for entry in entries])


def own_script(request: EngineCoreRequest, tokens_per_step: int) -> Script | None:
    """The script that ``request`` brings; a refusal if it cannot be read; None if it brings none."""
    params = request.sampling_params
    if params is None or not params.extra_args or REPLAY_KEY not in params.extra_args:
        return None
    document: Any = params.extra_args[REPLAY_KEY]
    try:
        if isinstance(document, str):
            document = msgspec.json.decode(document)
        return read_script(document, tokens_per_step=tokens_per_step)
    except (ScriptError, msgspec.DecodeError) as error:
        return refusal(f"extra argument {REPLAY_KEY!r}: {error}")
