"""The command line by which a front end starts a headless engine.

    <python> -m vllm.entrypoints.cli.main serve MODEL --headless --data-parallel-address 127.0.0.1
        --data-parallel-rpc-port 29550 --data-parallel-size 1 ...
    <python> -m vllm.entrypoints.cli.headless_engine --model MODEL --data-parallel-address ...

An executable that is named as the interpreter gets all of it. What is not known is left alone: it is meant for
other engines.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec


class HeadlessArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What every engine has to know. ``ranks``: those to be started on this machine, one process for each."""

    handshake: str
    model: str | None
    ranks: tuple[int, ...] = (0,)
    data_parallel_size: int = 1
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    served_model_name: str | None = None
    #: All arguments, for an engine that understands more of them.
    arguments: tuple[str, ...] = ()


def is_headless(arguments: Sequence[str]) -> bool:
    """Whether ``arguments`` (without the program) are a front end's."""
    flags = (part.split("=")[0] for part in arguments)
    return list(arguments[:1]) == ["-m"] and "--data-parallel-rpc-port" in flags


def read_headless(arguments: Sequence[str]) -> HeadlessArguments:
    """The command line as data. Raises ``ValueError`` for a known option with an impossible value."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False, exit_on_error=False)
    parser.add_argument("--data-parallel-address", default="127.0.0.1")
    parser.add_argument("--data-parallel-rpc-port", type=int, default=29550)
    parser.add_argument("--data-parallel-size", type=int, default=1)
    parser.add_argument("--data-parallel-size-local", type=int)
    parser.add_argument("--data-parallel-start-rank", type=int, default=0)
    parser.add_argument("--max-model-len")
    parser.add_argument("--max-num-seqs", type=int)
    parser.add_argument("--model")
    parser.add_argument("--served-model-name")
    try:
        known, _ = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from error
    local = known.data_parallel_size_local
    first = known.data_parallel_start_rank
    count = known.data_parallel_size - first if local is None else local
    return HeadlessArguments(
        handshake=f"tcp://{known.data_parallel_address}:{known.data_parallel_rpc_port}",
        model=known.model or _positional_model(arguments),
        ranks=tuple(range(first, first + count)),
        data_parallel_size=known.data_parallel_size,
        max_model_len=_length(known.max_model_len),
        max_num_seqs=known.max_num_seqs,
        served_model_name=known.served_model_name,
        arguments=tuple(arguments),
    )


def _positional_model(arguments: Sequence[str]) -> str | None:
    """The word behind ``serve``."""
    if "serve" not in arguments:
        return None
    behind = arguments[arguments.index("serve") + 1 :]
    return behind[0] if behind and not behind[0].startswith("-") else None


def _length(text: str | None) -> int | None:
    """A number of tokens: also ``8k`` (thousands) and ``8K`` (1024), ``auto`` and -1 (the model's own)."""
    if text is None or text in ("auto", "-1"):
        return None
    scale = {"k": 1000, "K": 1024, "m": 10**6, "M": 1 << 20}.get(text[-1:], 1)
    try:
        return int(float(text[:-1]) * scale) if scale > 1 else int(text)
    except ValueError as error:
        raise ValueError(f"--max-model-len: {text!r} is no number of tokens") from error
