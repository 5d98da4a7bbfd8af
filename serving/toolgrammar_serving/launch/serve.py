"""``toolgrammar-serve``: an OpenAI-compatible server in front of captured outputs, our engine, or vLLM's."""

from __future__ import annotations

import sys
from typing import Final

from toolgrammar_serving.launch.command import make_command
from toolgrammar_serving.launch.extras import need_serving
from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.problems import guarded
from toolgrammar_serving.launch.tuning import many_descriptors, one_arena

_HELP: Final = """Serve a model's output with its reasoning and tool calls read out, over OpenAI's API.

The tokens come from captured outputs (--replay), from our own engine (MODEL), from vLLM's (--engine vllm), or from
engines that report to an address (--engine-address). Options of the engine itself go behind '--'."""

_EXAMPLES: Final = """
toolgrammar-serve --replay captures.jsonl --speed max
toolgrammar-serve models/Qwen3-0.6B --port 8080
toolgrammar-serve models/Qwen3-0.6B --engine vllm -- --tensor-parallel-size 2
toolgrammar-serve models/Qwen3-0.6B --engine-address tcp://0.0.0.0:29550 --data-parallel-size 4
"""


def main() -> None:
    """The console script."""
    one_arena()
    many_descriptors()
    command = make_command("toolgrammar-serve", _serve, _HELP, _EXAMPLES)
    sys.exit(guarded(lambda: command.main(prog_name="toolgrammar-serve", standalone_mode=False)))


def _serve(options: Options, rest: tuple[str, ...]) -> int:
    from toolgrammar_serving.launch.plan import make_plan

    plan = make_plan(options, rest)
    need_serving()
    from toolgrammar_serving.launch.api import log_to_stderr, run_loop
    from toolgrammar_serving.launch.deployment import deploy

    log_to_stderr(options.log_level)
    return run_loop(deploy(plan))


if __name__ == "__main__":
    main()
