"""An engine process from HELLO to its end.

    HELLO, INIT -> load the model -> register at every front end -> READY -> serve -> end

Exit status: 0 after SIGTERM or SIGINT, 1 if the engine cannot start or go on (front ends hear ENGINE_CORE_DEAD), 2
for a command line that makes no sense. An engine is never restarted from within: its requests are lost with its
memory, and who started it decides.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import sys
import uuid
from types import FrameType
from typing import Any

import torch

from toolgrammar_serving.engine import capacity
from toolgrammar_serving.engine.admission import Admission
from toolgrammar_serving.engine.core import Engine
from toolgrammar_serving.engine.executor import Executor
from toolgrammar_serving.engine.guided import Constraints
from toolgrammar_serving.engine.loading import CannotLoad, Loaded, choose_device, choose_dtype, load
from toolgrammar_serving.engine.options import Options
from toolgrammar_serving.protocol.engine_side import Bell, EngineSockets, Handshake, HandshakeFailed
from toolgrammar_serving.protocol.wire import ReadyResponse

log = logging.getLogger(__name__)

#: What the engine says it is: the newest release whose protocol it speaks.
SPOKEN = "0.33.0"
_PR_SET_PDEATHSIG = 1


class Progress:
    """Start-up, told to a person (log) and to a program (``fd``: a JSON object a line).

    Stages in order: ``handshake``, ``model``, ``cache``, ``register``, ``ready``; ``failed`` may follow each.
    """

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def tell(self, stage: str, **facts: Any) -> None:
        log.info("%s %s", stage, " ".join(f"{key}={value}" for key, value in facts.items()))
        if self._fd is not None:
            try:
                os.write(self._fd, json.dumps({"stage": stage, **facts}).encode() + b"\n")
            except OSError:  # nobody listens any more
                self._fd = None


def serve(options: Options) -> int:
    """Run an engine until it is stopped; the exit status."""
    progress = Progress(options.progress_fd)
    bell = Bell()
    stopping = _Stopping(bell, options.shutdown_timeout_s)
    if options.ignored:
        log.info("ignored: %s", " ".join(options.ignored))
    if options.exit_with_parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    sockets: EngineSockets | None = None
    try:
        progress.tell("handshake", address=options.handshake)
        with Handshake(
            options.handshake, rank=options.rank, local=options.local, headless=not options.local, bell=bell
        ) as handshake:
            addresses = handshake.hello().addresses
            # Connected before the model is loaded, so that a failure can be told to every front end.
            sockets = EngineSockets(addresses, rank=options.rank, bell=bell)
            engine, ready = build(options, sockets, progress)
            progress.tell("register", front_ends=sockets.clients)
            sockets.register(ready)
            handshake.ready()
        progress.tell("ready", max_model_len=ready.max_model_len, kv_tokens=ready.kv_cache_size_tokens)
        stopping.watch(engine)
        engine.run()
        return 0
    except (CannotLoad, capacity.NoRoom, HandshakeFailed) as problem:
        if stopping.asked:
            return 0
        progress.tell("failed", problem=str(problem))
        print(f"engine: {problem}", file=sys.stderr)
    except Exception as problem:
        progress.tell("failed", problem=f"{type(problem).__name__}: {problem}")
        log.exception("the engine ends")
    finally:
        if sockets is not None:
            if sys.exc_info()[0] is None and stopping.asked:
                sockets.close()
            else:
                sockets.die()
                sockets.close()
    return 1


def build(options: Options, sockets: EngineSockets, progress: Progress) -> tuple[Engine, ReadyResponse]:
    """The engine over a loaded model, and what it says of itself."""
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    device = choose_device(options.device)
    progress.tell("model", path=options.model, device=str(device), dtype=options.dtype)
    loaded = load(
        options.model,
        device=device,
        dtype=choose_dtype(options.dtype),
        attention=options.attention,
        trust=options.trust_remote_code,
    )
    wanted_len = min(loaded.max_model_len, options.max_model_len or loaded.max_model_len)
    progress.tell("cache", dtype=str(loaded.model.dtype).removeprefix("torch."), threads=torch.get_num_threads())
    executor = _executor(options, loaded, wanted_len)
    max_model_len = min(wanted_len, executor.capacity)
    if max_model_len < wanted_len:
        log.warning("the KV cache holds %d tokens: that is the longest request now", max_model_len)
    engine = Engine(
        executor,
        Admission(loaded.vocab_size, max_model_len, device, options.seed),
        Constraints(loaded.tokenizer, loaded.vocab_size, options.reasoning_end, sockets.bell.ring),
        sockets,
        stats=options.stats,
        engines=options.data_parallel_size,
    )
    return engine, _ready_response(options, executor, str(loaded.model.dtype), max_model_len)


def _executor(options: Options, loaded: Loaded, max_model_len: int) -> Executor:
    model = loaded.model
    try:
        plan = capacity.plan(
            model.config.get_text_config(),
            dtype=model.dtype,
            device=model.device,
            flash="flash" in model.config._attn_implementation,
            budget=options.kv_memory,
            max_batch_tokens=options.max_num_batched_tokens,
            max_num_seqs=options.max_num_seqs,
            max_model_len=max_model_len,
        )
        share = options.prefix_sharing
        executor = Executor(model, loaded.vocab_size, plan, max_num_seqs=options.max_num_seqs, share=share)
        executor.try_out()
    except capacity.NoRoom:
        raise
    except Exception as problem:  # whatever comes of a model that transformers cannot page
        log.debug("no continuous batching", exc_info=True)
        what = f"{type(model).__name__}: {type(problem).__name__}: {problem}"
        raise CannotLoad(f"this model cannot be run with continuous batching: {what}") from problem
    return executor


def _ready_response(options: Options, executor: Executor, dtype: str, max_model_len: int) -> ReadyResponse:
    return ReadyResponse(
        max_model_len=max_model_len,
        num_gpu_blocks=executor.num_blocks,
        block_size=executor.block_size,
        dtype=dtype.removeprefix("torch."),
        vllm_version=SPOKEN,
        data_parallel_size=options.data_parallel_size,
        data_parallel_rank=options.rank,
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=executor.max_batch_tokens,
        instance_id=uuid.uuid4().hex,
        kv_cache_size_tokens=executor.num_blocks * executor.block_size,
        kv_cache_max_concurrency=executor.num_blocks * executor.block_size / max_model_len,
    )


class _Stopping:
    """SIGTERM and SIGINT: before the engine runs they end the wait for INIT, then they stop the engine."""

    def __init__(self, bell: Bell, grace_s: float) -> None:
        self.asked = False
        self._bell = bell
        self._grace_s = grace_s
        self._engine: Engine | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def watch(self, engine: Engine) -> None:
        self._engine = engine
        if self.asked:
            engine.stop(self._grace_s)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._bell.ring()
        if self._engine is not None:
            self._engine.stop(self._grace_s)
