"""Who is cut off: a client that takes nothing for the whole of a limit, whenever that is."""

from __future__ import annotations

import asyncio

import pytest
from toolgrammar_serving.server.stall import Stall


class Holding:
    """As a transport: how much it holds at each look, and whether it was given up."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = list(sizes)
        self.is_given_up = False

    def get_write_buffer_size(self) -> int:
        return self.sizes.pop(0)

    def get_extra_info(self, name: str) -> None:
        """No socket."""

    def abort(self) -> None:
        self.is_given_up = True


CASES = {
    "nothing held": ((0,), False),
    "nothing taken": ((9, 9), True),
    # Each look that finds a change begins anew, and reads the size once more.
    "taken slowly, then no more": ((9, 8, 8, 7, 7, 7), True),
    "taken slowly, to the end": ((9, 8, 8, 0, 0), False),
    "more is written, nothing taken": ((9, 12, 12, 12), True),
}


@pytest.mark.parametrize(("sizes", "given_up"), CASES.values(), ids=CASES)
def test_who_is_cut_off(sizes: tuple[int, ...], given_up: bool) -> None:
    transport = Holding(*sizes)

    async def watch() -> None:
        stall = Stall(transport, 0)  # type: ignore[arg-type]
        stall.begin()
        for _ in range(20):
            await asyncio.sleep(0)

    asyncio.run(watch())
    assert (transport.is_given_up, transport.sizes) == (given_up, [])


def test_who_catches_up_is_left_alone() -> None:
    transport = Holding(9)

    async def watch() -> None:
        stall = Stall(transport, 0)  # type: ignore[arg-type]
        stall.begin()
        stall.end()
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(watch())
    assert (transport.is_given_up, transport.sizes) == (False, [])
