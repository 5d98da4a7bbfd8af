"""Utility calls to an engine without a model: what has a state keeps it, the rest succeeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from toolgrammar_serving.replay.counters import Counters


class Controls(Protocol):
    """What a call may do to the engine."""

    def pause(self, mode: str) -> None:
        """``abort``: end all requests; ``keep``: stop stepping; ``wait``: begin no further request."""

    def resume(self) -> None:
        """Go on."""

    def report(self, reset: bool) -> Counters:
        """The counters, and begin anew if ``reset``."""


_CONSTANT: Final[Mapping[str, Any]] = {
    "get_supported_tasks": ["generate"],
    "reset_mm_cache": None,
    "reset_prefix_cache": True,
    "reset_encoder_cache": None,
    "release_kv_cache_memory": None,
    "profile": None,
    "pin_lora": True,
    "collective_rpc": [],
    "save_sharded_state": None,
    "get_kv_cache_group_metadata": [],
    "execute_dummy_batch": None,
    "compute_weight_checksums": [],
}


class Utilities:
    """The methods of an EngineCore. ``replay_counters`` (argument: reset, default false) is this engine's own."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls
        self.paused = False
        #: New requests are refused while this says so (0.33).
        self.refuses = False
        self._sleeping = False
        self._weight_version = "default"
        self._loras: set[int] = set()
        self._methods: Mapping[str, Callable[..., Any]] = {
            "is_sleeping": lambda: self._sleeping,
            "sleep": self._sleep,
            "wake_up": self._wake_up,
            "is_scheduler_paused": lambda: self.paused,
            "pause_scheduler": self._pause,
            "pause_generation": self._pause_generation,
            "resume_scheduler": self._resume,
            "set_weight_version": self._set_weight_version,
            "get_weight_version": lambda: self._weight_version,
            "add_lora": self._add_lora,
            "remove_lora": self._remove_lora,
            "list_loras": lambda: sorted(self._loras),
            "replay_counters": lambda reset=False: msgspec.to_builtins(self._controls.report(reset)),
        }

    def call(self, method: str, args: list[Any]) -> Any:
        """The result of a method. Raises ``ValueError`` for one that fails or that there is not."""
        if method in _CONSTANT:
            return _CONSTANT[method]
        known = self._methods.get(method)
        if known is None:
            raise ValueError(f"EngineCore has no method {method!r}")
        try:
            return known(*args)
        except (TypeError, LookupError) as error:  # wrong arguments of a caller
            raise ValueError(str(error)) from error

    def _sleep(self, level: int = 1, mode: str = "abort") -> None:
        self._sleeping = True
        self._pause(mode)

    def _wake_up(self, tags: list[str] | None = None) -> bool:
        self._sleeping = False
        self._resume()
        return True

    def _pause(self, mode: str = "abort", clear_cache: bool = True) -> None:
        self.paused = True
        self._controls.pause(mode)

    def _pause_generation(self, mode: str = "abort", clear_cache: bool = True) -> None:
        self.refuses = True
        self._pause(mode, clear_cache)

    def _resume(self) -> None:
        self.paused = self.refuses = False
        self._controls.resume()

    def _set_weight_version(self, version: str) -> None:
        self._weight_version = version

    def _add_lora(self, lora: list[Any]) -> bool:
        self._loras.add(int(lora[1]))
        return True

    def _remove_lora(self, number: int) -> bool:
        known = number in self._loras
        self._loras.discard(number)
        return known
