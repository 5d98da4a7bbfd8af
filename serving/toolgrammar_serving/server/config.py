"""How the server behaves: names, limits, keys, timeouts. Every field has a default; ``launch`` fills them from its
options."""

from __future__ import annotations

from typing import Literal

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on what one request may ask for; beyond them it is refused with 400 (413 for the body) and never
    encoded."""

    body_bytes: int = 32 * 1024 * 1024
    messages: int = 4096
    tools: int = 1024
    n: int = 128
    prompts: int = 1024
    #: Prompts times ``n`` of one completions request.
    sequences: int = 1024
    stop_strings: int = 64
    stop_chars: int = 1024
    bad_words: int = 1024
    token_ids: int = 1024
    logit_bias: int = 1024
    #: Alternatives a position may have; -1: as many as the vocabulary has, and clients may ask for all with -1.
    logprobs: int = 20
    id_chars: int = 256


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The server's settings.

    ``models``: the names it answers to, the first is the one it calls itself. ``max_requests``: requests in work
    at a time in this process, ``max_waiting``: requests waiting in the engines; beyond them 429. Times in seconds;
    0 turns ``keep_alive_s`` off. ``reasoning_fields``: under which names reasoning is sent. ``force_usage``:
    streams have token counts, asked for or not. ``metrics_dir``: a folder shared by the processes of one server; a
    scrape of any of them then adds up all of them.
    """

    models: tuple[str, ...] = ("model",)
    root: str | None = None
    format: str | None = None
    max_model_len: int | None = None
    api_keys: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    allowed_methods: tuple[str, ...] = ("*",)
    allowed_headers: tuple[str, ...] = ("*",)
    allow_credentials: bool = False
    limits: Limits = Limits()
    max_requests: int | None = None
    max_waiting: int | None = None
    retry_after_s: int = 1
    keep_alive_s: float = 15.0
    slow_reader_s: float = 60.0
    drain_s: float = 30.0
    reasoning_fields: tuple[Literal["reasoning", "reasoning_content"], ...] = ("reasoning", "reasoning_content")
    force_usage: bool = False
    trust_chat_template: bool = False
    system_fingerprint: str | None = None
    root_path: str = ""
    docs: bool = True
    metrics_dir: str | None = None
    process_index: int = 0
