"""``toolgrammar-frontend``: the front end that ``vllm serve`` starts in the place of its own.

Exit code 0 only after SIGTERM or SIGINT: anything else has to end the deployment, and only another code does.
"""

from __future__ import annotations

import logging
import signal
import socket
import sys

from toolgrammar_serving.launch.extras import need_serving
from toolgrammar_serving.launch.frontend_args import FrontendArgs, parse_argv, redacted, to_options
from toolgrammar_serving.launch.problems import OK, guarded
from toolgrammar_serving.launch.tuning import many_descriptors, one_arena

log = logging.getLogger("toolgrammar.frontend")


def main() -> None:
    """The console script."""
    one_arena()
    many_descriptors()
    sys.exit(guarded(lambda: _run(sys.argv[1:])))


def _run(argv: list[str]) -> int:
    found = parse_argv(argv)
    for number in (signal.SIGTERM, signal.SIGINT):  # while everything is imported; then the loop takes over
        signal.signal(number, lambda *_: sys.exit(OK))
    need_serving()
    from toolgrammar_serving.launch.api import log_to_stderr, run_loop

    log_to_stderr("info")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    log.info("started with %s", redacted(found.args))
    return run_loop(_serve(found))


async def _serve(found: FrontendArgs) -> int:
    from toolgrammar_serving.engine_client import Adopted
    from toolgrammar_serving.launch.api import Api
    from toolgrammar_serving.launch.launcher import Elsewhere, Stop, run
    from toolgrammar_serving.launch.plan import adopted_plan
    from toolgrammar_serving.launch.telling import Summary

    options = to_options(found.args)
    plan = adopted_plan(options, found.args.get("tokenizer_revision") or found.args.get("revision"))
    stop = Stop(lambda: None)
    endpoint = Adopted(found.input_fd, found.output_fd, found.first_rank, found.engine_count, found.coordinator)
    api = Api(plan, endpoint, socket.socket(fileno=found.listen_fd))

    def announce(summary: Summary) -> None:
        log.info("serving %s as %s (%s)", ", ".join(summary.models), summary.format, summary.why)

    async def nothing() -> None:
        """The handshake is the supervisor's."""

    return await run(api, Elsewhere(), stop, nothing(), announce)


if __name__ == "__main__":
    main()
