"""What the engine client costs for each output: from the bytes of a step to a sink that does nothing.

    python scripts/bench_engine_client.py

Steps of 1 to 1,024 requests with one token each, taken in as they come or when several wait. The best of many
rounds, in microseconds; decoding alone, which is part of it, beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
from toolgrammar_serving.engine_client.decoding import decode_body
from toolgrammar_serving.engine_client.delivery import Delivery, Flight
from toolgrammar_serving.engine_client.zmtp import HELLO, PullStream
from toolgrammar_serving.errors import EngineLost
from toolgrammar_serving.protocol.wire import EngineCoreOutput, EngineCoreOutputs, SchedulerStats

OUTPUTS_A_CASE = 60_000
PUSH_HELLO = HELLO.replace(b"PULL", b"PUSH")


class Nothing:
    """A sink that does nothing."""

    def push(self, output: EngineCoreOutput) -> None:
        return

    def lost(self, error: EngineLost) -> None:
        return


def case(requests: int, waiting: int) -> tuple[float, float]:
    """Best time for each message in seconds, all and decoding alone; ``waiting`` messages are found at a time."""
    names = [f"chatcmpl-{i:016x}-0" for i in range(requests)]
    delivery = Delivery(over=lambda flight: None, give_up=lambda request_id, flight: None)
    delivery.flights |= {name: Flight(Nothing(), 0) for name in names}
    outputs = [EngineCoreOutput(name, [1000 + i]) for i, name in enumerate(names)]
    step = EngineCoreOutputs(outputs=outputs, scheduler_stats=SchedulerStats(), weight_version="default")
    body = msgspec.msgpack.encode(step)

    def deliver(messages: list[list[bytes]]) -> None:
        if len(messages) > 1:
            delivery.deliver_joined((decode_body(frames[0]), frames) for frames in messages)
            return
        for frames in messages:
            delivery.deliver(decode_body(frames[0]), frames)

    data = b"\x02" + len(body).to_bytes(8, "big") + body
    stream = PullStream()
    feed(stream, PUSH_HELLO)
    whole, alone = [], []
    for _ in range(max(60, OUTPUTS_A_CASE // requests // waiting)):
        whole.append(seconds(lambda: deliver(feed(stream, data * waiting))) / waiting)
        alone.append(seconds(lambda: [decode_body(body) for _ in range(waiting)] and None) / waiting)
    return min(whole), min(alone)


def feed(stream: PullStream, data: bytes) -> list[list[bytes]]:
    """As it comes from a socket."""
    messages = []
    at = 0
    while at < len(data):
        space = stream.space()
        count = min(len(space), len(data) - at)
        space[:count] = data[at : at + count]
        del space
        messages += stream.received(count)
        at += count
    return messages


def seconds(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> None:
    print("| requests | messages waiting | µs/message | µs/output | decoding, µs/output |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for requests in (1, 64, 256, 1024):
        for waiting in (1, 16, 63):
            whole, alone = (best * 1e6 for best in case(requests, waiting))
            cells = f"{whole:.2f} | {whole / requests:.3f} | {alone / requests:.3f}"
            print(f"| {requests} | {waiting} | {cells} |")


if __name__ == "__main__":
    main()
