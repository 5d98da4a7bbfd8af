"""An engine that says what scripts say, over the real wire.

It keeps the rules of a real one: one message per step and front end, the stop tokens and limits of a request,
silence after an ABORT, one statistics record per step, an aborted finish for everybody when it is shut down.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from toolgrammar_serving.protocol.engine_side import Abort, Add, Damaged, EngineSockets, Message
from toolgrammar_serving.protocol.wire import (
    ERROR,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    RequestError,
    UtilityCall,
    UtilityOutput,
)
from toolgrammar_serving.replay.choice import Choose, own_script, refusal
from toolgrammar_serving.replay.counters import Counters, Tally
from toolgrammar_serving.replay.laying_out import Plans, encode
from toolgrammar_serving.replay.options import WEIGHT_VERSION, EngineOptions
from toolgrammar_serving.replay.outbox import Outbox
from toolgrammar_serving.replay.running import Running
from toolgrammar_serving.replay.schedule import Schedule
from toolgrammar_serving.replay.utilities import Utilities

#: How an engine ended: told to, with ENGINE_CORE_DEAD, or without a word.
Ending: TypeAlias = Literal["stopped", "dead", "gone"]


class ReplayEngine:
    """Runs on the thread that calls ``run``; from others only ``post`` may be called."""

    def __init__(self, sockets: EngineSockets, choose: Choose, options: EngineOptions) -> None:
        self.options = options
        self.tally = Tally()
        #: Steps that may be made when ``interval_s`` is None.
        self.credits = 0
        #: Every request and every aborted id, in order of arrival, if somebody wants to know.
        self.seen: list[EngineCoreRequest] | None = None
        self.seen_aborts: list[str] | None = None
        #: Called on the engine's thread when all that came was taken and all that was due is sent.
        self.after_turn: Callable[[], None] = lambda: None
        self._sockets = sockets
        self._choose = choose
        self._plans = Plans(options.max_model_len, options.eos_token_id)
        self._schedule = Schedule(sockets.clients, options.max_num_seqs, self.tally, options.keep_delays)
        self._utilities = Utilities(self)
        self._posted: deque[Callable[[], Any]] = deque()
        self._ending: Ending | None = None
        self._frozen = False
        self._due = 0.0
        self._outbox = Outbox(sockets, self._schedule, self.tally, options)

    def post(self, action: Callable[[], Any]) -> None:
        """Have the engine's thread call ``action`` soon. From any thread, and from signal handlers."""
        self._posted.append(action)
        self._sockets.bell.ring()

    def run(self) -> Ending:
        """Serve until told to stop, or until a script ends the engine. Closes the sockets."""
        while self._ending is None:
            for message in self._sockets.receive(self._wait_s()):
                self._take(message)
            while self._posted:
                self._posted.popleft()()
            self._step_if_due()
            self._outbox.tell_load()
            self.after_turn()
        if self._ending == "dead":
            self._sockets.die()
        self._sockets.close(*((0,) if self._ending == "gone" else ()))
        return self._ending

    # ---- what may be posted ------------------------------------------------------------------------------

    def stop(self) -> None:
        """End all requests as aborted, then the engine."""
        self._end_all()
        self._ending = self._ending or "stopped"

    def end(self, how: Literal["dead", "gone"]) -> None:
        """Die now: with ENGINE_CORE_DEAD, or without a word."""
        self._ending = how

    def release(self, steps: int) -> None:
        """Allow ``steps`` more engine steps (``interval_s`` None). A step needs a request to step."""
        self.credits += steps

    def report(self, reset: bool = False) -> Counters:
        """The counters; with ``reset`` they begin anew."""
        schedule = self._schedule
        counters = self.tally.report(
            running=schedule.running, waiting=schedule.waiting, unfinished_tokens=schedule.unfinished_tokens
        )
        if reset:
            schedule.count_afresh()
            self.tally.reset()
        return counters

    def pause(self, mode: str) -> None:
        if mode == "abort":
            self._end_all()
        self._schedule.admits = False
        self._frozen = mode == "keep"

    def resume(self) -> None:
        self._frozen = False
        self._schedule.admits = True
        self._schedule.admit(time.monotonic())

    def _end_all(self) -> None:
        for client, output in self._schedule.abort_all():
            self._outbox.send(client, [output, b""])

    # ---- messages ----------------------------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        if isinstance(message, Add):
            self._add(message.request)
        elif isinstance(message, Abort):
            if self.seen_aborts is not None:
                self.seen_aborts.extend(message.request_ids)
            self._schedule.abort(message.request_ids)
            self._schedule.admit(time.monotonic())
            self._outbox.send_ended()
        elif isinstance(message, UtilityCall):
            self.tally.counters.utility_calls += 1
            self._sockets.send(message.client_index, self._answer(message))
        elif isinstance(message, Damaged):
            self.tally.counters.damaged += 1
            if message.request_id is not None:
                self._refuse(message.request_id, message.client_index, message.problem)

    def _add(self, request: EngineCoreRequest) -> None:
        if self.seen is not None:
            self.seen.append(request)
        counters = self.tally.counters
        counters.requests += 1
        counters.prompt_tokens += len(request.prompt_token_ids or ())
        if not 0 <= request.client_index < self._sockets.clients or request.request_id in self._schedule.known:
            counters.damaged += 1
            return
        if self._utilities.refuses:
            script = refusal("generation is paused", "engine_paused")
        else:
            script = own_script(request, self.options.tokens_per_step) or self._choose(request)
        one = Running(request, self._plans.plan(script, request))
        self._outbox.prefix_cache.requests += 1
        self._outbox.prefix_cache.queries += len(one.prompt)
        self._outbox.prefix_cache.hits += one.cached_tokens
        if script.error is not None and not script.steps:  # a refusal does not wait for its turn
            self._refuse(request.request_id, request.client_index, script.error)
            return
        self._schedule.add(one, time.monotonic())

    def _refuse(self, request_id: str, client: int, problem: str | RequestError) -> None:
        error = RequestError("validation_error", problem) if isinstance(problem, str) else problem
        if 0 <= client < self._sockets.clients:
            self.tally.counters.refused += 1
            output = EngineCoreOutput(request_id, [], finish_reason=ERROR, error=error)
            self._outbox.send(client, [encode(output), b""])

    def _answer(self, call: UtilityCall) -> EngineCoreOutputs:
        answer = UtilityOutput(call.call_id)
        try:
            answer.result = [None, self._utilities.call(call.method, call.args)]
        except ValueError as error:
            answer.failure_message = f"Call to {call.method} method failed: {error}"
        return EngineCoreOutputs(
            engine_index=self.options.rank,
            timestamp=time.monotonic(),
            utility_output=answer,
            weight_version=WEIGHT_VERSION,
        )

    # ---- steps -------------------------------------------------------------------------------------------

    def _wait_s(self) -> float | None:
        """How long nothing can be due."""
        if self._ending is not None or self._posted:
            return 0.0
        if self._frozen:
            return None
        due = self._schedule.next_due()
        if self._lockstep_possible():
            due = self._due if due is None else min(due, self._due)
        if due is None:
            return None
        return max(0.0, due - time.monotonic()) if due else 0.0

    def _lockstep_possible(self) -> bool:
        if self.options.interval_s is None and not self.credits:
            return False
        return self._schedule.ready(self._sockets.full)

    def _step_if_due(self) -> None:
        if self._frozen:
            return
        now = time.monotonic()
        given: dict[int, list[bytes]] = {}
        if self._lockstep_possible() and now >= self._due:
            given = self._schedule.lockstep(self._sockets.full)
            self._count_step(now)
        due = self._schedule.next_due()
        if due is not None and due <= now:
            self._schedule.clocked(now, given)
        if not given:
            return
        tally = self.tally
        tally.counters.steps += 1
        tally.last_step_at = now
        tally.first_step_at = tally.first_step_at or now
        self._schedule.admit(now)
        self._outbox.send_step(given)
        if self._schedule.fate:
            self._ending = self._schedule.fate

    def _count_step(self, now: float) -> None:
        interval_s = self.options.interval_s
        if interval_s is None:
            self.credits -= 1
        elif interval_s:
            # Late by more than one step: the time is lost, as it is in a real engine.
            self._due = self._due + interval_s if now - self._due < interval_s else now + interval_s
