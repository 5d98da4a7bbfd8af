"""Where engines find each API process: sockets of this machine, or TCP where engines may be on others."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import msgspec

from toolgrammar_serving.engine_client import Adopted, Bound, ipc_addresses, listen
from toolgrammar_serving.launch.plan import Plan
from toolgrammar_serving.launch.problems import LaunchError

_ANY = ("0.0.0.0", "::", "*")


class Place(msgspec.Struct, frozen=True):
    """Of one API process among its equals: its number, of how many; the addresses engines are told.

    ``fds``: the sockets, already listening, to be inherited; None: to be bound by the process.
    """

    index: int
    count: int
    ranks: int
    input_address: str
    output_address: str
    fds: tuple[int, int] | None = None

    @property
    def endpoint(self) -> Adopted | Bound:
        """For ``connect``."""
        if self.fds is not None:
            return Adopted(*self.fds, 0, self.ranks, client_index=self.index, client_count=self.count)
        return Bound(self.input_address, self.output_address, 0, self.ranks, self.index, self.count)


def places(plan: Plan, folder: str) -> list[Place]:
    """One for each API process. ``folder`` is for sockets. Raises ``LaunchError``."""
    count, ranks = plan.options.api_server_count, plan.options.data_parallel_size
    if plan.way != "attached":
        try:
            pairs = ipc_addresses(folder, count)
        except ValueError as error:
            raise LaunchError(str(error), "TMPDIR=/tmp toolgrammar-serve …") from None
        return [Place(index, count, ranks, *pair) for index, pair in enumerate(pairs)]
    host, _ = handshake_place(plan)
    made = []
    for index in range(count):
        (input_fd, inputs), (output_fd, outputs) = listen(host), listen(host)
        if host in _ANY:
            inputs, outputs = inputs.replace(host, _reachable(host)), outputs.replace(host, _reachable(host))
        made.append(Place(index, count, ranks, inputs, outputs, (input_fd, output_fd)))
    return made


def handshake_place(plan: Plan) -> tuple[str, int]:
    """Host and port at which engines report."""
    if plan.way != "attached":
        return "127.0.0.1", 0
    parts = urlsplit(str(plan.options.engine_address))
    return parts.hostname or "127.0.0.1", parts.port or 0


def _reachable(host: str) -> str:
    """An address of this machine that others can use; no packet is sent to find it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("2001:db8::1", 9) if family == socket.AF_INET6 else ("192.0.2.1", 9))
            return f"[{probe.getsockname()[0]}]" if family == socket.AF_INET6 else str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
