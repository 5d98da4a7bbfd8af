"""Calls of an engine's methods by name, and their answers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from toolgrammar_serving.errors import EngineFailed, EngineLost
from toolgrammar_serving.protocol.wire import UtilityCall, UtilityOutput


class UtilityCalls:
    """Open calls by number. ``send(position, body)`` brings one to the rank at that position."""

    def __init__(self, client_index: int, send: Callable[[int, bytes], None]) -> None:
        self._client_index = client_index
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[Any]] = {}

    async def call(self, method: str, args: Sequence[Any], positions: Sequence[int]) -> Any:
        """Ask all of them. Booleans are ANDed; of other results the first rank's is returned.

        EngineFailed with the engine's words if one fails, EngineLost if it dies meanwhile.
        """
        numbers = [next(self._numbers) for _ in positions]
        loop = asyncio.get_running_loop()
        futures = [self._open.setdefault(number, loop.create_future()) for number in numbers]
        try:
            for number, position in zip(numbers, positions, strict=True):
                body = UtilityCall(self._client_index, number, method, list(args))
                self._send(position, msgspec.msgpack.encode(body))
            results = await asyncio.gather(*futures)
        finally:
            for number, future in zip(numbers, futures, strict=True):
                self._open.pop(number, None)
                if not future.cancel() and not future.cancelled():
                    future.exception()  # seen, even if another one's was raised
        return all(results) if all(isinstance(result, bool) for result in results) else results[0]

    def answered(self, output: UtilityOutput) -> None:
        """An answer; one that nobody waits for (given up, or a notification of the engine's own) is ignored."""
        future = self._open.pop(output.call_id, None)
        if future is None or future.done():
            return
        if output.failure_message is not None:
            future.set_exception(EngineFailed(output.failure_message))
            return
        result = output.result
        future.set_result(result[1] if isinstance(result, list) and len(result) > 1 else None)

    def lose(self, error: EngineLost) -> None:
        """No answer will come any more."""
        waiting, self._open = self._open, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)
