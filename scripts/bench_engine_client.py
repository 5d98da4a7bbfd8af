"""What the engine client costs for each output: from the PULL socket to a sink that does nothing.

    python scripts/bench_engine_client.py

Steps of 1 to 1,024 requests with one token each, taken in as they come or when several wait. The best of many
rounds, in microseconds; decoding alone, which is part of it, beside it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import zmq
from toolgrammar_serving.engine_client.decoding import Message, decode_body
from toolgrammar_serving.engine_client.delivery import Delivery, Flight
from toolgrammar_serving.engine_client.reader import OutputReader
from toolgrammar_serving.errors import EngineLost
from toolgrammar_serving.protocol.wire import EngineCoreOutput, EngineCoreOutputs, SchedulerStats

OUTPUTS_A_CASE = 60_000


class Nothing:
    """A sink that does nothing."""

    def push(self, output: EngineCoreOutput) -> None:
        return

    def lost(self, error: EngineLost) -> None:
        return


async def case(requests: int, waiting: int) -> tuple[float, float]:
    """Best time for each message in seconds, all and decoding alone; ``waiting`` messages are found at a time."""
    context: Any = zmq.Context()
    pull, push = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    pull.rcvhwm = push.sndhwm = 0
    pull.bind("inproc://outputs")
    push.connect("inproc://outputs")
    names = [f"chatcmpl-{i:016x}-0" for i in range(requests)]
    delivery = Delivery(over=lambda flight: None, give_up=lambda request_id, flight: None)
    delivery.flights |= {name: Flight(Nothing(), 0) for name in names}
    outputs = [EngineCoreOutput(name, [1000 + i]) for i, name in enumerate(names)]
    step = EngineCoreOutputs(outputs=outputs, scheduler_stats=SchedulerStats(), weight_version="default")
    body = msgspec.msgpack.encode(step)

    def deliver(messages: Iterator[Message], count: int) -> None:
        if count > 1:
            delivery.deliver_joined(messages)
        for one, frames in messages:
            delivery.deliver(one, frames)

    reader = OutputReader(pull, deliver=deliver, dead=lambda: None)
    decode = decode_body
    whole, alone = [], []
    for _ in range(max(60, OUTPUTS_A_CASE // requests // waiting)):
        for _ in range(waiting):
            push.send(body)
        whole.append(seconds(reader._readable) / waiting)
        alone.append(seconds(lambda: [decode(body) for _ in range(waiting)] and None) / waiting)
    reader.close()
    context.destroy(linger=0)
    return min(whole), min(alone)


def seconds(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> None:
    print("| requests | messages waiting | µs/message | µs/output | decoding, µs/output |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for requests in (1, 64, 256, 1024):
        for waiting in (1, 16, 63):
            whole, alone = (best * 1e6 for best in asyncio.run(case(requests, waiting)))
            cells = f"{whole:.2f} | {whole / requests:.3f} | {alone / requests:.3f}"
            print(f"| {requests} | {waiting} | {cells} |")


if __name__ == "__main__":
    main()
