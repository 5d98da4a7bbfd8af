"""The engine's options, read leniently.

Two callers: a person or launcher (``python -m toolgrammar_serving.engine MODEL_DIR --handshake ADDRESS ...``), and
a front end that believes it starts a Python interpreter with vLLM in it (``protocol.headless``). The latter brings
any of vLLM's options: those that mean something here are used, the others are named in the log and ignored.
"""

from __future__ import annotations

import argparse
import re
from typing import Any, Final, NamedTuple

from toolgrammar_serving.protocol.headless import is_headless, read_headless

_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


class Options(NamedTuple):
    """``kv_memory`` in bytes. ``ignored`` are arguments that mean nothing to this engine."""

    model: str
    handshake: str
    rank: int = 0
    data_parallel_size: int = 1
    local: bool = False
    dtype: str = "auto"
    device: str = "auto"
    attention: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int = 64
    max_num_batched_tokens: int | None = None
    kv_memory: int | None = None
    prefix_sharing: bool = True
    threads: int | None = None
    seed: int | None = None
    reasoning_end: str | None = None
    trust_remote_code: bool = False
    stats: bool = True
    shutdown_timeout_s: float = 0.0
    progress_fd: int | None = None
    exit_with_parent: bool = False
    ignored: tuple[str, ...] = ()


def byte_count(text: str) -> int:
    """``8GiB``, ``500M``, ``1073741824``. Raises ``ValueError``."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmg]i?)?b?\s*", text.lower())
    if match is None:
        raise ValueError(f"expected a size such as 8GiB, found {text!r}")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def token_count(text: str) -> int:
    """``4096``, ``32k`` (thousands), ``32K`` (of 1024). Raises ``ValueError``."""
    return int(text[:-1]) * {"k": 1000, "K": 1024}[text[-1]] if text[-1:] in ("k", "K") else int(text)


def parse(argv: list[str]) -> Options:
    """Read the command line; ends the process with a message if it makes no sense."""
    parser = _parser()
    if is_headless(argv):
        return _headless(parser, argv)
    seen = parser.parse_args(argv)
    if seen.model is None or seen.handshake is None:
        parser.error("MODEL and --handshake tcp://HOST:PORT are needed")
    return Options(**vars(seen))


def _headless(parser: argparse.ArgumentParser, argv: list[str]) -> Options:
    """A front end's argv: its own part is read as every engine reads it, the rest as far as it is known here."""
    try:
        known = read_headless(argv)
    except ValueError as problem:
        parser.error(str(problem))
    if known.model is None:
        parser.error("no model directory")
    if len(known.ranks) != 1:
        parser.error(f"one process runs one engine, {len(known.ranks)} are wanted: start one for each rank")
    seen, rest = parser.parse_known_args(argv[2:])
    values = vars(seen) | {
        "model": known.model,
        "handshake": known.handshake,
        "rank": known.ranks[0],
        "data_parallel_size": known.data_parallel_size,
        "max_model_len": known.max_model_len,
        "ignored": tuple(word for word in rest if word.startswith("-")),
    }
    if values["reasoning_end"] is None and any(word.startswith("--reasoning-parser") for word in rest):
        values["reasoning_end"] = "</think>"
    return Options(**values)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "toolgrammar-engine", allow_abbrev=False, description="An EngineCore over a local model."
    )
    add: Any = parser.add_argument
    add("model", nargs="?", metavar="MODEL", help="model directory, or a .gguf file")
    add("--handshake", metavar="ADDRESS", help="tcp://HOST:PORT of the front end that owns the start-up")
    add("--rank", type=int, default=0, help="which of several engines this is")
    add("--data-parallel-size", type=int, default=1, help="how many engines there are")
    add("--local", action="store_true", help="tell the front end that this is its child, not a headless engine")
    add("--dtype", default="auto", help="auto (as stored), float32, float16, bfloat16")
    add("--device", default="auto", help="auto (CUDA if there is one), cpu, cuda, cuda:1")
    add("--attention", default="auto", help="auto, sdpa, eager, flash_attention_2")
    add("--max-model-len", type=token_count, help="tokens of prompt and output together, at most")
    add("--max-num-seqs", type=int, default=64, help="requests that run at a time")
    add("--max-num-batched-tokens", type=token_count, help="tokens in one step")
    memory = "for the KV cache and what grows with it: 8GiB"
    add("--kv-memory", "--kv-cache-memory-bytes", type=byte_count, metavar="SIZE", help=memory)
    sharing = ("--prefix-sharing", "--enable-prefix-caching")
    add(*sharing, action=argparse.BooleanOptionalAction, default=True, help="reuse equal beginnings of prompts")
    add("--threads", type=int, help="CPU threads of the model")
    add("--seed", type=int, help="of requests that bring none")
    add("--reasoning-end", metavar="TOKEN", help="constraints begin after this token: </think>")
    add("--trust-remote-code", action="store_true", help="run Python code in the model directory")
    add("--disable-log-stats", dest="stats", action="store_false", help="send no statistics")
    grace = "let running requests finish for so long after SIGTERM"
    add("--shutdown-timeout", dest="shutdown_timeout_s", type=float, default=0.0, metavar="SECONDS", help=grace)
    add("--progress-fd", type=int, metavar="FD", help="tell the progress of the start there, a JSON object a line")
    add("--exit-with-parent", action="store_true", help="end with the process that started this one (Linux)")
    return parser
