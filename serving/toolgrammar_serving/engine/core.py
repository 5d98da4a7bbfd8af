"""The engine's loop: hear what front ends want, make a step, send what came of it.

    engine = Engine(executor, admission, constraints, sockets, ...)
    engine.run()            # until `stop` is called, from a signal handler or another thread

Requests whose constraint still compiles, and those that came while the engine pauses, wait here; all others are
the executor's. One thread; nothing is done per token but what `outputs.output_of` does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from concurrent.futures import Future

from toolgrammar_serving.engine import outputs
from toolgrammar_serving.engine.admission import VALIDATION, Admission, Refused
from toolgrammar_serving.engine.executor import Executor
from toolgrammar_serving.engine.guided import BadConstraint, Constraints
from toolgrammar_serving.engine.pause import Pause
from toolgrammar_serving.engine.request import Request
from toolgrammar_serving.engine.utilities import Utilities
from toolgrammar_serving.protocol import wire
from toolgrammar_serving.protocol.engine_side import Abort, Add, Damaged, EngineSockets, Message, UtilityCall

log = logging.getLogger(__name__)

_FAILURES_IN_A_ROW = 3


class Engine:
    """``stats``: send SchedulerStats. ``engines``: how many data-parallel ranks there are."""

    def __init__(
        self,
        executor: Executor,
        admission: Admission,
        constraints: Constraints,
        sockets: EngineSockets,
        *,
        stats: bool = True,
        engines: int = 1,
    ) -> None:
        self.executor = executor
        self.pause = Pause()
        self.prefixes = outputs.PrefixCounts()
        self._admission = admission
        self._constraints = constraints
        self._sockets = sockets
        self._stats = stats
        self._many = engines > 1
        self._requests: dict[str, Request] = {}
        self._compiling: dict[str, Future[None]] = {}
        self._held: dict[str, Request] = {}  # ready, but the engine pauses
        self._utilities = Utilities(self)
        self._stopping: float | None = None  # seconds that running requests still have
        self._steps = 0
        self._load = (0, 0)  # what the coordinator knows: at first that nothing runs
        self._failures = 0

    # ---- the loop ------------------------------------------------------------------------------------------

    def stop(self, grace_s: float = 0.0) -> None:
        """End `run` soon: at once, or when what runs is finished, after ``grace_s`` at the latest."""
        self._stopping = grace_s
        self._sockets.bell.ring()

    def close(self) -> None:
        """After `run`: end the thread that compiles."""
        self._constraints.close()

    def run(self) -> None:
        """Serve until stopped. Raises what makes going on impossible."""
        while self._stopping is None:
            self._turn(None)
        deadline = time.monotonic() + self._stopping
        while self._requests and (left := deadline - time.monotonic()) > 0:
            self._turn(left)
        self.abort_all()

    def _turn(self, wait_s: float | None) -> None:
        working = self.executor.busy and not self.pause.frozen
        for message in self._sockets.receive(0 if working else wait_s):
            self._hear(message)
        if self._compiling:
            self._take_compiled()
        if self.executor.busy and not self.pause.frozen:
            self._step()
        if self._sockets.coordinated:
            self._tell_coordinator()
        if self.pause.waiting and not self._running():
            for client, call_id in self.pause.settled():
                self.reply(client, outputs.answer(self._sockets.rank, call_id))

    def _hear(self, message: Message) -> None:
        if isinstance(message, Add):
            self._add(message.request)
        elif isinstance(message, Abort):
            self._forget(message.request_ids)
        elif isinstance(message, UtilityCall):
            self._utilities.call(message)
        elif isinstance(message, Damaged):
            log.warning("message that cannot be read: %s", message.problem)
            if message.request_id is not None:
                self._refuse(message.client_index, message.request_id, message.problem, VALIDATION)

    # ---- requests ------------------------------------------------------------------------------------------

    def _add(self, asked: wire.EngineCoreRequest) -> None:
        client, request_id = asked.client_index, asked.request_id
        if not self.knows(client):
            return
        if self._stopping is not None:
            self._send(client, [wire.EngineCoreOutput(request_id, [], finish_reason=wire.ABORTED)])
            return
        if request_id in self._requests:
            self._refuse(client, request_id, f"Request id {request_id} is in use.", VALIDATION)
            return
        if self.pause.rejects:
            self._refuse(client, request_id, "The engine pauses.", "engine_paused")
            return
        try:
            request = self._admission.admit(asked)
        except Refused as problem:
            self._refuse(client, request_id, str(problem), VALIDATION)
            return
        request.arrived_at = time.monotonic()
        self._requests[request_id] = request
        if request.params.structured_outputs is not None:
            self._compiling[request_id] = self._constraints.start(request, asked.reasoning_ended)
        else:
            self._ready(request)

    def _ready(self, request: Request) -> None:
        if self.pause.paused:
            self._held[request.id] = request
        else:
            self.executor.add(request)

    def _take_compiled(self) -> None:
        for request_id, future in [pair for pair in self._compiling.items() if pair[1].done()]:
            del self._compiling[request_id]
            request = self._requests[request_id]
            problem = future.exception()
            if problem is None:
                self._ready(request)
                continue
            if not isinstance(problem, BadConstraint):
                log.error("constraint of request %s", request_id, exc_info=problem)
            del self._requests[request_id]
            self._refuse(request.client, request_id, str(problem), VALIDATION)

    def _forget(self, request_ids: Iterable[str]) -> None:
        """Front ends want nothing more of these, and are told nothing."""
        running = []
        for request_id in request_ids:
            if self._requests.pop(request_id, None) is None:
                continue
            if (future := self._compiling.pop(request_id, None)) is not None:
                future.cancel()
            elif self._held.pop(request_id, None) is None:
                running.append(request_id)
        if running:
            self.executor.cancel(running)
            if not self.executor.busy:
                self._send_stats()

    def abort_all(self) -> None:
        """End every request with finish reason 2."""
        ended = list(self._requests.values())
        self._forget([request.id for request in ended])
        self._send_ended(ended, wire.ABORTED)

    def release_held(self) -> None:
        """After a pause: what came meanwhile may run."""
        held, self._held = self._held, {}
        for request in held.values():
            self.executor.add(request)

    def _running(self) -> bool:
        return self.executor.busy or bool(self._compiling)

    # ---- a step --------------------------------------------------------------------------------------------

    def _step(self) -> None:
        try:
            changed = self.executor.step()
        except Exception as problem:
            self._failures += 1
            if self._failures >= _FAILURES_IN_A_ROW:
                raise
            log.exception("a step failed; its requests end")
            failed = self.executor.fail_batch()
            for request in failed:
                request.fail(f"The engine failed: {type(problem).__name__}.")
                self._requests.pop(request.id, None)
            self._send_ended(failed, wire.ERROR)
            return
        self._failures = 0
        self._steps += 1
        self.prefixes.count([request for request in changed if request.restarts or not request.started])
        by_client: dict[int, list[wire.EngineCoreOutput]] = {}
        for request in changed:
            by_client.setdefault(request.client, []).append(outputs.output_of(request))
            if request.finish_reason is not None:
                self._requests.pop(request.id, None)
        for client, made in by_client.items():
            self._send(client, made, with_stats=True)

    def _send_ended(self, requests: list[Request], reason: int) -> None:
        by_client: dict[int, list[wire.EngineCoreOutput]] = {}
        for request in requests:
            request.finish_reason = reason
            by_client.setdefault(request.client, []).append(outputs.output_of(request))
        for client, made in by_client.items():
            self._send(client, made)

    # ---- sending -------------------------------------------------------------------------------------------

    def reply(self, client: int, message: wire.EngineCoreOutputs) -> None:
        self._sockets.send(client, message)

    def knows(self, client: int) -> bool:
        """Whether there is such a front end; what others send is dropped."""
        known = 0 <= client < self._sockets.clients
        if not known:
            log.warning("a message of front end %d, which does not exist", client)
        return known

    @property
    def rank(self) -> int:
        return self._sockets.rank

    def _refuse(self, client: int, request_id: str, message: str, code: str) -> None:
        if self.knows(client):
            self._send(client, [outputs.refusal(request_id, message, code)])

    def _send(self, client: int, made: list[wire.EngineCoreOutput], with_stats: bool = False) -> None:
        message = outputs.batch(self._sockets.rank, made, self._many)
        if with_stats and self._stats:
            message.scheduler_stats = self._scheduler_stats()
        self._sockets.send(client, message)

    def _send_stats(self) -> None:
        """The state has changed without an output."""
        if self._stats:
            self._send(0, [], with_stats=True)

    def _scheduler_stats(self) -> wire.SchedulerStats:
        executor = self.executor
        return wire.SchedulerStats(
            num_running_reqs=executor.running,
            num_waiting_reqs=executor.waiting + len(self._held),
            num_skipped_waiting_reqs=len(self._compiling),
            step_counter=self._steps,
            kv_cache_usage=executor.cache_usage(),
            prefix_cache_stats=self.prefixes.take(),
        )

    def _tell_coordinator(self) -> None:
        waiting, running = load = (self.executor.waiting, self.executor.running)
        if load != self._load:
            self._load = load
            # Not the whole statistics: what has been counted since the last time is for the front ends.
            stats = wire.SchedulerStats(num_running_reqs=running, num_waiting_reqs=waiting)
            self._sockets.send_coordinator(wire.EngineCoreOutputs(self._sockets.rank, scheduler_stats=stats))
