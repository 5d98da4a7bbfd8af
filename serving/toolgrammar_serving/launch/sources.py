"""The engines of each way of running, started and watched."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from toolgrammar_serving.engine_client import Handshake
from toolgrammar_serving.launch.engine_process import EngineProcess, start_engines
from toolgrammar_serving.launch.engines import vllm_command
from toolgrammar_serving.launch.launcher import Elsewhere, Source
from toolgrammar_serving.launch.plan import Plan
from toolgrammar_serving.launch.processes import Child, Children, describe, start_child
from toolgrammar_serving.launch.replaying import ReplaySource
from toolgrammar_serving.launch.telling import Teller


class _Own:
    """Our engine, a process for each rank."""

    def __init__(self, engines: Sequence[EngineProcess]) -> None:
        self._engines = engines

    async def ended(self) -> str:
        """How the first of them ended."""
        ends = [asyncio.ensure_future(engine.ended()) for engine in self._engines]
        done, left = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in left:
            end.cancel()
        return done.pop().result()


class _Vllm:
    """``vllm serve --headless``, one process and what it starts itself."""

    def __init__(self, child: Child) -> None:
        self._child = child

    async def ended(self) -> str:
        """How it ended."""
        return describe(await asyncio.shield(self._child.ended))


def start_source(plan: Plan, handshake: Handshake, children: Children, teller: Teller) -> Source:
    """Start what gives the tokens; it reports to ``handshake``. Raises ``LaunchError``."""
    options = plan.options
    if plan.way == "replay":
        teller.stage(f"reading {options.replay}")
        replay = ReplaySource(plan, handshake.address)
        replay.start()
        children.then(replay.stop)
        teller.hello = replay.hello
        return replay
    if plan.way == "vllm":
        teller.stage("starting vllm serve --headless")
        command = vllm_command(options, handshake.port, plan.rest)
        return _Vllm(children.add(start_child("vllm", command)))
    if plan.way == "own":
        stage, line = teller.stage, teller.line
        return _Own(start_engines(options, handshake.address, plan.rest, children, stage, line))
    teller.stage(f"waiting for {options.data_parallel_size} engine(s) at {handshake.address}")
    return Elsewhere()
