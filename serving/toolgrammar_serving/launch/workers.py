"""Several API processes, each with an HTTP socket and engine sockets of its own."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence

import msgspec

from toolgrammar_serving.launch.channel import Channel
from toolgrammar_serving.launch.places import Place
from toolgrammar_serving.launch.plan import Plan
from toolgrammar_serving.launch.problems import FAILED, LaunchError
from toolgrammar_serving.launch.processes import Child, Children, describe, start_child
from toolgrammar_serving.launch.telling import Summary


class Job(msgspec.Struct, frozen=True):
    """What an API process is told at its start. ``listen_fd``: the inherited HTTP socket."""

    plan: Plan
    place: Place
    listen_fd: int
    metrics_dir: str | None = None


class _Worker:
    """One of them, as the launcher sees it."""

    def __init__(self, child: Child, channel: Channel) -> None:
        self.child = child
        self.channel = channel
        self.summary: asyncio.Future[Summary] = asyncio.get_running_loop().create_future()
        self.listening = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        while (message := await self.channel.receive()) is not None:
            if self.summary.done():
                continue
            if "failed" in message:
                self.summary.set_exception(LaunchError(**message["failed"]))
            else:
                self.summary.set_result(msgspec.convert(message["ready"], Summary))
        if not self.summary.done():
            code = await self.child.ended
            self.summary.set_exception(LaunchError(f"{self.child.name} ended: {describe(code)}", exit=FAILED))


class Workers:
    """A ``Front`` of API processes."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._workers: list[_Worker] = []

    async def start(
        self, plan: Plan, places: Sequence[Place], listeners: Sequence[socket.socket], metrics_dir: str | None
    ) -> None:
        """Start one process for each place; the listeners are theirs from now on."""
        for place, listener in zip(places, listeners, strict=True):
            ours, theirs = socket.socketpair()
            with theirs:
                argv = [sys.executable, "-m", "toolgrammar_serving.launch.worker", str(theirs.fileno())]
                fds = (theirs.fileno(), listener.fileno(), *(place.fds or ()))
                child = self._children.add(start_child(f"API process {place.index}", argv, pass_fds=fds))
            channel = await Channel.over(ours)
            job = Job(plan, place, listener.fileno(), metrics_dir)
            channel.send({"job": msgspec.to_builtins(job)})
            self._workers.append(_Worker(child, channel))
            for fd in place.fds or ():
                os.close(fd)
        for listener in set(listeners):
            listener.close()

    async def ready(self) -> Summary:
        """All serve. Returns what one of them says of itself."""
        return (await asyncio.gather(*(worker.summary for worker in self._workers)))[0]

    async def ended(self) -> str:
        """How the first that ended by itself did."""
        ends = {worker.child.ended: worker.child for worker in self._workers}
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return "; ".join(f"{ends[end].name}, {describe(end.result())}" for end in done)

    def lose(self, why: str) -> None:
        """An engine is gone."""
        for worker in self._workers:
            worker.channel.send({"lost": why})

    async def drain(self) -> None:
        """Ask all, and wait until they are gone; they keep the limit themselves."""
        for worker in self._workers:
            worker.channel.send({"drain": True})
        await asyncio.gather(*(asyncio.shield(worker.child.ended) for worker in self._workers))
        for worker in self._workers:
            await worker.channel.close()
            worker.listening.cancel()
