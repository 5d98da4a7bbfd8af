"""One of several API processes: ``python -m toolgrammar_serving.launch.worker FD``, told everything over FD."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys

import msgspec

from toolgrammar_serving.launch.api import Api, run_loop
from toolgrammar_serving.launch.channel import Channel
from toolgrammar_serving.launch.problems import FAILED, OK, LaunchError, guarded
from toolgrammar_serving.launch.tuning import many_descriptors, one_arena
from toolgrammar_serving.launch.workers import Job


def main() -> None:
    """Serve until the launcher says so, or is gone."""
    one_arena()
    many_descriptors()
    # A terminal's Ctrl-C is the launcher's, which asks for what it wants over the channel.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end = socket.socket(fileno=int(sys.argv[1]))
    sys.exit(guarded(lambda: run_loop(_serve(end))))


async def _serve(end: socket.socket) -> int:
    channel = await Channel.over(end)
    first = await channel.receive()
    if first is None:
        return FAILED
    job = msgspec.convert(first["job"], Job)
    api = Api(
        job.plan,
        job.place.endpoint,
        socket.socket(fileno=job.listen_fd),
        index=job.place.index,
        metrics_dir=job.metrics_dir,
    )
    told = asyncio.ensure_future(_obey(channel, api))
    terminated = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminated.set)
    waits = [told, asyncio.ensure_future(terminated.wait())]
    try:
        starting = asyncio.ensure_future(api.ready())
        await asyncio.wait([starting, *waits], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return OK
        channel.send({"ready": msgspec.to_builtins(starting.result())})
        await asyncio.wait([*waits, asyncio.ensure_future(api.ended())], return_when=asyncio.FIRST_COMPLETED)
        await api.drain()
        return OK
    except LaunchError as error:
        channel.send({"failed": {"message": error.message, "hint": error.hint, "exit": error.exit}})
        return FAILED
    finally:
        await channel.close()


async def _obey(channel: Channel, api: Api) -> None:
    """Do what the launcher says, until it wants an end."""
    while (message := await channel.receive()) is not None and "drain" not in message:
        if "lost" in message:
            api.lose(message["lost"])


if __name__ == "__main__":
    main()
