"""What the routes share: the layers below, the settings, the requests in work, and whether new ones are taken."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from toolgrammar_serving.chat import ChatRequest, ChatSink
from toolgrammar_serving.errors import EngineLost, NotFound, Overloaded
from toolgrammar_serving.server.answer import Answer, Generation, Gone, StreamAnswer
from toolgrammar_serving.server.config import ServerConfig
from toolgrammar_serving.server.meter import Meter
from toolgrammar_serving.server.problems import ShuttingDown
from toolgrammar_serving.server.shared_metrics import INTERVAL_S, Folder, Numbers, engine_numbers
from toolgrammar_serving.server.tracing import Span, Tracer
from toolgrammar_serving.text import TextRequest, TextSink, TokenLogprob

log: Final = logging.getLogger(__name__)


class PreparedText(Protocol):
    """A prompt that is ready to start."""

    @property
    def prompt_token_ids(self) -> list[int]: ...


class PreparedChat(Protocol):
    """A conversation that is ready to start."""

    @property
    def text(self) -> PreparedText: ...
    @property
    def held(self) -> int: ...


class ChatLayer(Protocol):
    """What the server asks of the chat layer."""

    async def prepare(self, request: ChatRequest) -> Any: ...
    def start(self, prepared: Any, sinks: Sequence[ChatSink]) -> Generation: ...


class TextLayer(Protocol):
    """What the server asks of the text layer."""

    async def prepare(self, request: TextRequest) -> Any: ...
    def start(self, prepared: Any, sinks: Sequence[TextSink]) -> Any: ...
    def prompt_logprobs(self, generation: Any) -> list[TokenLogprob | None] | None: ...
    async def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]: ...
    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str: ...
    def token_strings(self, ids: Sequence[int]) -> list[str]: ...

    @property
    def tokenizer(self) -> Any: ...


class EngineView(Protocol):
    """What the server asks of the engine client: how it is, never what it does."""

    info: Any
    alive: bool

    def in_flight(self) -> int: ...
    def stats(self) -> list[Any]: ...


class Service:
    """State of one server process; used on its event loop only."""

    def __init__(self, chat: ChatLayer, text: TextLayer, client: EngineView, config: ServerConfig) -> None:
        self.chat = chat
        self.text = text
        self.client = client
        self.config = config
        self.meter = Meter()
        self.tracer = Tracer()
        self.started = int(time.time())
        self.running = 0
        self.draining = False
        self.folder = Folder(config.metrics_dir, config.process_index) if config.metrics_dir else None
        self._answers: set[Answer] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._hurried = asyncio.Event()
        self._ticker: asyncio.TimerHandle | None = None

    def numbers(self) -> Numbers:
        """What there is to be told of this process; the meter itself, not a copy."""
        held = sum([answer.held for answer in self._answers])
        return Numbers(self.meter, engine_numbers(self.client.stats()), held)

    def share_numbers(self) -> None:
        """From now on leave them in the common folder, if there is one. On the event loop."""
        if self.folder is not None:
            self.folder.write(self.numbers())
            asyncio.get_running_loop().call_later(INTERVAL_S, self.share_numbers)

    @property
    def max_model_len(self) -> int | None:
        """Tokens of prompt and output together, as far as known."""
        return self.config.max_model_len or getattr(self.client.info, "max_model_len", None) or None

    def model(self, name: str | None) -> str:
        """The model's name to be told. Errors: NotFound."""
        models = self.config.models
        if name is None or name in models:
            return name or models[0]
        raise NotFound(f"The model '{name[:128]}' does not exist.", param="model")

    def admit(self) -> None:
        """Errors, if no request may begin now: ShuttingDown, EngineLost, Overloaded."""
        if self.draining:
            raise ShuttingDown("The server is shutting down.")
        if not self.client.alive:
            raise EngineLost("The engine is not available.")
        config = self.config
        if config.max_requests is not None and self.running >= config.max_requests:
            self._reject("concurrency", "The server is busy: too many requests in work.")
        if config.max_waiting is not None:
            waiting = sum(found.num_waiting_reqs for found in self.client.stats())
            if waiting >= config.max_waiting:
                self._reject("queue", "The server is busy: too many requests are waiting.")

    def _reject(self, why: str, message: str) -> None:
        self.meter.rejected[why] = self.meter.rejected.get(why, 0) + 1
        raise Overloaded(message, retry_after_s=self.config.retry_after_s)

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request in work, from its admission to the end of its response."""
        self.admit()
        self.running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.running -= 1
            if self.running == 0:
                self._idle.set()

    @contextmanager
    def answering(self, answer: Answer, span: Span) -> Iterator[None]:
        """An answer that may have to be ended from outside, kept alive meanwhile, and accounted for. A client that
        left is no error."""
        self._answers.add(answer)
        if self._ticker is None and self.config.keep_alive_s > 0:
            self._schedule()
        try:
            yield
        except Gone:
            pass
        finally:
            self._answers.discard(answer)
            for usage in answer.usages():
                self.meter.prompt_read(usage.prompt_tokens, usage.cached_tokens)
            span.answered(answer)
            answer.close()

    def hurry(self) -> None:
        """Wait for no request any more. On the event loop."""
        self._hurried.set()

    async def drained(self, limit_s: float) -> bool:
        """Wait until no request is in work, for ``limit_s`` at most; then end what is left with an error.

        True if none had to be ended so. Comes after ``draining`` was set.
        """
        waits = [asyncio.ensure_future(event.wait()) for event in (self._idle, self._hurried)]
        await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self._idle.is_set():
            return True
        log.warning("%d requests did not end in time and are broken off", self.running)
        for answer in list(self._answers):
            answer.break_off(ShuttingDown("The server is shutting down."))
        return False

    def _schedule(self) -> None:
        interval = self.config.keep_alive_s
        self._ticker = asyncio.get_running_loop().call_later(interval / 2, self._tick)

    def _tick(self) -> None:
        self._ticker = None
        now = time.monotonic()
        for answer in self._answers:
            if isinstance(answer, StreamAnswer):
                answer.keep_alive(now, self.config.keep_alive_s)
        if self._answers:
            self._schedule()
