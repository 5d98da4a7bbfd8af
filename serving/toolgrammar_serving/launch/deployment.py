"""A whole server by its plan: sockets, API processes, engines, in this order, and all of it gone at the end."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import msgspec
import zmq

from toolgrammar_serving.engine_client import Handshake
from toolgrammar_serving.launch.api import Api
from toolgrammar_serving.launch.launcher import Front, Stop, run
from toolgrammar_serving.launch.listening import bind, url
from toolgrammar_serving.launch.places import Place, handshake_place, places
from toolgrammar_serving.launch.plan import Plan
from toolgrammar_serving.launch.problems import LaunchError
from toolgrammar_serving.launch.processes import Children
from toolgrammar_serving.launch.replaying import choose_format, choose_start
from toolgrammar_serving.launch.sources import start_source
from toolgrammar_serving.launch.telling import Summary, Teller
from toolgrammar_serving.launch.workers import Workers
from toolgrammar_serving.protocol.wire import Addresses

#: How long a child may take to end after SIGTERM, in seconds.
_GRACE_S = 10.0


def _as_captured(plan: Plan) -> Plan:
    """``plan`` with the format and the start of its captures, where nothing else says them."""
    if plan.way != "replay" or plan.model_dir is not None:
        return plan
    if plan.format == "auto":
        chosen = choose_format(plan)
        plan = msgspec.structs.replace(plan, format=chosen.format, why=chosen.why)
    if plan.start == "auto" and plan.options.chat_template is None:
        found = choose_start(plan)
        plan = msgspec.structs.replace(plan, start=found.start, start_why=found.why)
    return plan


async def deploy(plan: Plan) -> int:
    """Serve until a signal. Returns the exit code; raises ``LaunchError``."""
    options = plan.options
    teller = Teller(options)
    listeners = bind(options)
    plan = _as_captured(plan)
    address = url(options, listeners[0])

    def announce(summary: Summary) -> None:
        teller.announce(summary, address, bool(options.api_key))

    with tempfile.TemporaryDirectory(prefix="toolgrammar-", ignore_cleanup_errors=True) as folder:
        async with Children(_GRACE_S) as children:
            stop = Stop(children.kill)
            where = places(plan, folder)
            handshake = _handshake(plan, where)
            try:
                front = await _front(plan, where, listeners, children, folder)
                source = start_source(plan, handshake, children, teller)
                ready = handshake.wait(options.engine_ready_timeout)
                return await run(front, source, stop, ready, announce)
            finally:
                teller.clear()
                handshake.close()
                if options.uds is not None:
                    Path(options.uds).unlink(missing_ok=True)


def _handshake(plan: Plan, where: list[Place]) -> Handshake:
    host, port = handshake_place(plan)
    addresses = Addresses([place.input_address for place in where], [place.output_address for place in where])
    try:
        return Handshake(addresses, host=host, port=port, count=plan.options.data_parallel_size)
    except zmq.ZMQError as error:
        raise LaunchError(f"engines cannot report at tcp://{host}:{port}: {error}") from None


async def _front(
    plan: Plan, where: list[Place], listeners: list[socket.socket], children: Children, folder: str
) -> Front:
    if len(where) == 1:
        return Api(plan, where[0].endpoint, listeners[0])
    metrics = Path(folder) / "metrics"
    metrics.mkdir()
    workers = Workers(children)
    await workers.start(plan, where, listeners, str(metrics))
    return workers
