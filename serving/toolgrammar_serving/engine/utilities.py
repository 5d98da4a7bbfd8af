"""Utility calls: methods of the engine that front ends call by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from toolgrammar_serving.engine import outputs
from toolgrammar_serving.protocol.wire import UtilityCall

if TYPE_CHECKING:
    from toolgrammar_serving.engine.core import Engine

_LATER: Final = object()
_UNSUPPORTED: Final = frozenset(
    [
        "add_lora",
        "collective_rpc",
        "compute_weight_checksums",
        "pin_lora",
        "profile",
        "release_kv_cache_memory",
        "remove_lora",
        "save_sharded_state",
        "sleep",
        "wake_up",
    ]
)


class Utilities:
    """Answers every call, with a result or with why not."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._weight_version = "default"
        self._methods: dict[str, Callable[..., Any]] = {
            "get_supported_tasks": lambda: ["generate"],
            "reset_prefix_cache": self._reset_prefix_cache,
            "reset_mm_cache": lambda: None,
            "reset_encoder_cache": lambda: None,
            "execute_dummy_batch": lambda: None,
            "is_sleeping": lambda: False,
            "is_scheduler_paused": lambda: engine.pause.paused,
            "resume_scheduler": self._resume,
            "list_loras": lambda: [],
            "get_kv_cache_group_metadata": lambda: [],
            "get_weight_version": lambda: self._weight_version,
            "set_weight_version": self._set_weight_version,
        }

    def call(self, call: UtilityCall) -> None:
        rank = self._engine.rank
        if not self._engine.knows(call.client_index):
            return
        try:
            result = self._result(call)
        except Exception as problem:
            failure = f"Call to {call.method} method failed: {problem}"
            self._engine.reply(call.client_index, outputs.answer(rank, call.call_id, failure=failure))
            return
        if result is not _LATER:
            self._engine.reply(call.client_index, outputs.answer(rank, call.call_id, result))

    def _result(self, call: UtilityCall) -> Any:
        if call.method in ("pause_scheduler", "pause_generation"):
            return self._pause(call, *call.args)
        method = self._methods.get(call.method)
        if method is None:
            raise NotImplementedError(
                "this engine does not support it" if call.method in _UNSUPPORTED else "there is no such method"
            )
        return method(*call.args)

    def _reset_prefix_cache(self, reset_running: bool = False, reset_connector: bool = False) -> bool:
        done = self._engine.executor.forget_prefixes()
        if done:
            self._engine.prefixes.reset()
        return done

    def _pause(self, call: UtilityCall, mode: str = "abort", clear_cache: bool = True) -> Any:
        engine = self._engine
        engine.pause.begin(mode, rejects=call.method == "pause_generation")
        if mode == "abort":
            engine.abort_all()
        if mode == "wait" and engine.executor.busy:
            engine.pause.waiting.append((call.client_index, call.call_id))
            return _LATER
        if clear_cache and mode != "keep":
            engine.executor.forget_prefixes()
        return None

    def _resume(self) -> None:
        self._engine.pause.end()
        self._engine.release_held()

    def _set_weight_version(self, version: str) -> None:
        self._weight_version = version
