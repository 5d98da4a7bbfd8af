"""How an engine is started: the command of each kind, and what is missing for it."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import Final

from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.problems import LaunchError

_ENGINE_NEEDS: Final = ("torch", "transformers")


def vllm_command(options: Options, port: int, rest: Sequence[str]) -> list[str]:
    """One ``vllm serve --headless`` for all ranks, whose handshake comes to ``port``. ``rest`` is vLLM's own.

    Raises ``LaunchError`` if there is no such program.
    """
    program = _program(options.engine_command or "vllm", "pip install vllm")
    ranks = str(options.data_parallel_size)
    command = [
        *program, "serve", str(options.model), "--headless",
        "--data-parallel-address", "127.0.0.1", "--data-parallel-rpc-port", str(port),
        "--data-parallel-size", ranks, "--data-parallel-size-local", ranks,
    ]  # fmt: skip
    if options.dtype != "auto":
        command += ["--dtype", options.dtype]
    return [*command, *_sizes(options), *rest]


def own_command(options: Options, address: str, rank: int, progress_fd: int, rest: Sequence[str]) -> list[str]:
    """The engine of ``rank``, whose handshake comes to ``address``; it writes its progress to ``progress_fd``.

    Raises ``LaunchError`` if a package is missing.
    """
    if options.engine_command is None:
        missing = [name for name in _ENGINE_NEEDS if importlib.util.find_spec(name) is None]
        if missing:
            raise LaunchError(
                f"our engine needs {' and '.join(missing)}",
                "pip install 'toolgrammar[engine]', or --engine vllm, or no model at all: --replay FILE",
            )
        program = [sys.executable, "-m", "toolgrammar_serving.engine"]
    else:
        program = _program(options.engine_command, "")
    command = [
        *program, str(options.model), "--handshake", address, "--local", "--exit-with-parent",
        "--rank", str(rank), "--data-parallel-size", str(options.data_parallel_size),
        "--progress-fd", str(progress_fd), "--dtype", options.dtype, "--device", options.device, *_sizes(options),
    ]  # fmt: skip
    if options.kv_memory is not None:
        command += ["--kv-memory", options.kv_memory]
    return [*command, *rest]


def _program(text: str, hint: str) -> list[str]:
    words = shlex.split(text)
    if not words or shutil.which(words[0]) is None:
        more = "or name what starts it: --engine-command 'PYTHON -m vllm.entrypoints.cli.main'"
        raise LaunchError(f"there is no program {text!r}", ", ".join(filter(None, [hint, more])))
    return words


def _sizes(options: Options) -> list[str]:
    words = []
    if options.max_model_len is not None:
        words += ["--max-model-len", str(options.max_model_len)]
    if options.max_num_seqs is not None:
        words += ["--max-num-seqs", str(options.max_num_seqs)]
    return words
