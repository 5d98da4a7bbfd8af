"""For tests of the llm and text layers: a client without an engine, sinks that write down what they hear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from toolgrammar_serving.errors import EngineLost, ServingError
from toolgrammar_serving.protocol.wire import EngineCoreOutput, EngineCoreRequest
from toolgrammar_serving.text.tokenizer import Tabled
from toolgrammar_serving.text.vocabulary import Vocabulary


class ScriptedClient:
    """Takes requests as an engine client does; the test says what the engine sends."""

    def __init__(self, max_model_len: int = 0) -> None:
        self.info = SimpleNamespace(max_model_len=max_model_len)
        self.requests: list[EngineCoreRequest] = []
        self.aborted: list[str] = []
        self.refuse: ServingError | None = None
        self._sinks: dict[str, Any] = {}

    def add(self, request: EngineCoreRequest, sink: Any) -> None:
        if self.refuse is not None and self.requests:
            raise self.refuse
        self.requests.append(request)
        self._sinks[request.request_id] = sink

    def abort(self, request_ids: Iterable[str]) -> None:
        for id_ in request_ids:
            self.aborted.append(id_)
            self._sinks.pop(id_, None)

    def send(self, ids: list[int], *, index: int = 0, finish: int | None = None, **fields: Any) -> None:
        """An output for the ``index``-th request that was added; nothing if it is over."""
        id_ = self.requests[index].request_id
        sink = self._sinks.get(id_) if finish is None else self._sinks.pop(id_, None)
        if sink is not None:
            sink.push(EngineCoreOutput(id_, ids, finish_reason=finish, **fields))

    def die(self) -> None:
        sinks, self._sinks = self._sinks, {}
        for sink in sinks.values():
            sink.lost(EngineLost("the engine died"))


class Listener:
    """A sink of either layer: ``heard`` has every call in order, ``ids`` and ``text`` what was pushed, joined."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def push(self, *pushed: Any) -> None:
        self.heard.append(("push", *pushed))

    def finish(self, finish: Any) -> None:
        self.heard.append(("finish", finish))

    def fail(self, error: ServingError) -> None:
        self.heard.append(("fail", error))

    @property
    def ids(self) -> list[int]:
        return [id_ for what, *pushed in self.heard if what == "push" for id_ in pushed[-2]]

    @property
    def pieces(self) -> list[str]:
        return [pushed[0] for what, *pushed in self.heard if what == "push"]

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def end(self) -> Any:
        """What it ended with, once."""
        ends = [what for what in self.heard if what[0] != "push"]
        assert len(ends) == 1 and self.heard[-1] is ends[0], ends
        return ends[0][1]


class Tokens(Tabled):
    """A tokenizer whose tokens are whatever a test says: id ``i`` is ``pieces[i]``, bytes that need be no whole
    characters. ``special``: those that are special tokens, id to text."""

    def __init__(self, pieces: Sequence[bytes], special: Mapping[int, str] | None = None) -> None:
        self.special_tokens = self.added_tokens = dict(special or {})
        self.eos_token_id = None
        self.bos_token_id = None
        texts: list[str | None] = []
        for piece in pieces:
            try:
                texts.append(piece.decode())
            except UnicodeDecodeError:
                texts.append(None)
        partial = {id_: piece for id_, piece in enumerate(pieces) if texts[id_] is None}
        self.vocabulary = Vocabulary(texts, partial, self.special_tokens)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """A prompt is one token, whatever it says."""
        return [0]

    def is_quick(self, text: str) -> bool:
        return True

    def token_string(self, id_: int) -> str:
        return self.token_text(id_)

    def token_id(self, string: str) -> int | None:
        return None


def joinings(items: Sequence[Any]) -> Iterator[list[list[Any]]]:
    """Every way to join neighbours: 2 to the power of how many gaps there are."""
    if not items:
        yield []
        return
    for bits in range(1 << (len(items) - 1)):
        groups = [[items[0]]]
        for i, item in enumerate(items[1:]):
            if bits >> i & 1:
                groups[-1].append(item)
            else:
                groups.append([item])
        yield groups
