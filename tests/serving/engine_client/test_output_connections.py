"""When the end of an output connection is an engine's loss: by what was asked of it then, not later."""

from __future__ import annotations

import asyncio

import pytest
from toolgrammar_serving.engine_client.connections import OutputConnections

LOST = ["a connection for outputs ended with requests in flight"]
#: Requests at the end and when it is decided; connections then; whether anything had come. What is lost.
CASES = {
    "idle, and back": (0, 0, 1, True, []),
    "idle, then asked": (0, 1, 1, True, []),
    "busy, and back": (1, 1, 1, True, LOST),
    "busy, answered meanwhile": (1, 0, 1, True, []),
    "busy, a stranger": (1, 1, 1, False, []),
    "busy, and missing": (1, 1, 0, False, LOST),
}


@pytest.mark.parametrize(("before", "after", "connected", "heard", "lost"), CASES.values(), ids=CASES)
def test_what_an_end_means(before: int, after: int, connected: int, heard: bool, lost: list[str]) -> None:
    said: list[str] = []
    requests = before

    async def main() -> None:
        nonlocal requests
        outputs = OutputConnections(1, connected=lambda: connected, busy=lambda: requests > 0, lose=said.append)
        outputs.gone(heard)
        requests = after
        while outputs._look is not None:
            await asyncio.sleep(0)
        outputs.close()

    asyncio.run(main())
    assert said == lost
