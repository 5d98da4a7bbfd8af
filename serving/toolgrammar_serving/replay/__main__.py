"""A replay engine as a process of its own.

    python -m toolgrammar_serving.replay --handshake tcp://127.0.0.1:29550 --script SCRIPT.json python -m
    toolgrammar_serving.replay --input ipc://… --output ipc://… --recording CAPTURE.jsonl --tokenizer MODEL_DIR

Also under the command line of a headless engine, so that a front end that starts its engine can start this one;
options then come from TOOLGRAMMAR_REPLAY_ARGS. SIGUSR1 reports the counters and begins to count anew, SIGUSR2
sends ENGINE_CORE_DEAD and exits, SIGTERM and SIGINT end the requests as aborted, report and exit.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from toolgrammar.cli.terminal import Console
from toolgrammar_serving.protocol.engine_side import Bell, EngineSockets, Handshake, HandshakeFailed
from toolgrammar_serving.protocol.headless import HeadlessArguments, is_headless, read_headless
from toolgrammar_serving.protocol.wire import Addresses
from toolgrammar_serving.replay.choice import Choose, Echo, chooser
from toolgrammar_serving.replay.engine import Ending, ReplayEngine
from toolgrammar_serving.replay.options import EngineOptions
from toolgrammar_serving.replay.recordings import RecordingError, RecordingOptions, read_recordings
from toolgrammar_serving.replay.vocabulary import ByteVocabulary, FileVocabulary, Vocabulary, VocabularyError

ARGUMENTS_VARIABLE: Final = "TOOLGRAMMAR_REPLAY_ARGS"


class Speed(click.ParamType[float]):
    """``recorded``, ``max``, or a factor."""

    name = "recorded|max|FACTOR"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        words = {"recorded": 1.0, "max": float("inf")}
        try:
            speed = words[value] if value in words else float(value)
        except (TypeError, ValueError):
            speed = 0.0
        if not speed > 0:
            self.fail(f"{value!r} is none of recorded, max, a factor above 0", param, ctx)
        return speed


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--handshake", metavar="ADDRESS", help="Say HELLO here and learn the sockets' addresses.")
@click.option("--input", "inputs", multiple=True, metavar="ADDRESS", help="A front end's request socket.")
@click.option("--output", "outputs", multiple=True, metavar="ADDRESS", help="Its output socket.")
@click.option("--recording", "recordings", multiple=True, metavar="FILE", help="Text, JSONL, SSE, JSON scripts.")
@click.option("--kind", default="auto", type=click.Choice(["auto", "text", "jsonl", "sse", "json"]))
@click.option("--field", help="Where in a JSONL record the text is.")
@click.option("--select", default="auto", type=click.Choice(["auto", "order", "content"]), show_default=True)
@click.option("--echo", is_flag=True, help="Give back the prompt instead.")
@click.option("--tokenizer", metavar="DIR", help="Of the model. Without: bytes, and --special.")
@click.option("--special", multiple=True, metavar="TEXT", help="A special token of the bytes, from id 256 on.")
@click.option("--speed", type=Speed(), default="recorded", show_default=True, help="Of recorded times.")
@click.option("--interval-ms", type=click.FloatRange(0), default=0.0, help="Between steps; 0: no pause.")
@click.option("--tokens-per-step", type=click.IntRange(1), default=1, show_default=True)
@click.option("--eos", "eos_token_id", type=int, help="For requests that name no end-of-sequence token.")
@click.option("--window", type=click.IntRange(0), default=16, show_default=True, help="Messages that may wait.")
@click.option("--max-num-seqs", type=click.IntRange(1), default=4096, show_default=True)
@click.option("--max-model-len", type=click.IntRange(2), default=32768, show_default=True)
@click.option("--vllm-version", default="0.33.0", show_default=True)
@click.option("--stats/--no-stats", default=True, help="Scheduler statistics in every step.")
@click.option("--rank", type=click.IntRange(0), default=0)
@click.option("--data-parallel-size", type=click.IntRange(1), default=1)
@click.option("--local/--remote", default=False, help="Claim to be on the front end's machine.")
@click.option("--headless/--no-headless", default=True)
@click.option("--report", metavar="FILE", help="Append the counters to this file, instead of stderr.")
def replay(**given: Any) -> None:
    """Answer a front end's requests with recorded outputs, over the EngineCore protocol."""
    if not given["handshake"] and not given["inputs"]:
        raise click.UsageError("give --handshake, or --input and --output")
    if len(given["inputs"]) != len(given["outputs"]):
        raise click.UsageError("every --input needs an --output")
    try:
        ending = _serve(given)
    except (RecordingError, VocabularyError, HandshakeFailed) as error:
        raise click.ClickException(str(error)) from error
    if ending == "gone":
        os._exit(1)
    sys.exit(0 if ending == "stopped" else 1)


def _serve(given: dict[str, Any]) -> Ending:
    options = EngineOptions(
        interval_s=given["interval_ms"] / 1000,
        **{name: given[name] for name in EngineOptions.__struct_fields__ if name in given},
    )
    choose = _choose(given)
    bell = Bell()
    engine: ReplayEngine | None = None

    def on_signal(number: int, _frame: object) -> None:
        known = engine
        if known is None:  # nobody has a request yet
            sys.exit(1)
        known.post(lambda: _act(known, number, given["report"]))

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, on_signal)
    sockets = _connect(given, options, bell)
    engine = ReplayEngine(sockets, choose, options)
    ending = engine.run()
    if ending != "gone":
        _report(engine, given["report"])
    return ending


def _act(engine: ReplayEngine, number: int, report: str | None) -> None:
    if number == signal.SIGUSR1:
        _report(engine, report)
    elif number == signal.SIGUSR2:
        engine.end("dead")
    else:
        engine.stop()


def _report(engine: ReplayEngine, path: str | None) -> None:
    """Write the counters and begin anew."""
    line = msgspec.json.encode(engine.report(reset=True)).decode()
    if path is None:
        print(f"replay: {line}", file=sys.stderr, flush=True)
        return
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def _connect(given: dict[str, Any], options: EngineOptions, bell: Bell) -> EngineSockets:
    def connected(addresses: Addresses) -> EngineSockets:
        sockets = EngineSockets(addresses, rank=options.rank, window=options.window, bell=bell)
        sockets.register(options.ready_response())
        return sockets

    if given["inputs"]:
        return connected(Addresses(list(given["inputs"]), list(given["outputs"])))
    with Handshake(
        given["handshake"], rank=options.rank, local=given["local"], headless=given["headless"], bell=bell
    ) as handshake:
        sockets = connected(handshake.hello().addresses)
        handshake.ready()
    return sockets


def _choose(given: dict[str, Any]) -> Choose:
    if given["echo"] or not given["recordings"]:
        return Echo(given["tokens_per_step"])
    vocabulary: Vocabulary = ByteVocabulary(given["special"])
    if given["tokenizer"]:
        vocabulary = FileVocabulary(given["tokenizer"])
    options = RecordingOptions(
        kind=given["kind"], field=given["field"], speed=given["speed"], tokens_per_step=given["tokens_per_step"]
    )
    entries = read_recordings(given["recordings"], vocabulary, options, Console("never"))
    return chooser(entries, vocabulary.decode, given["select"])


def _headless(head: HeadlessArguments) -> list[str]:
    """Our own arguments for those of a headless engine; forks a process for every further rank."""
    rank, *others = head.ranks or (0,)
    for other in others:
        if os.fork() == 0:
            rank = other
            break
    ours = ["--handshake", head.handshake, "--rank", str(rank)]
    ours += ["--data-parallel-size", str(head.data_parallel_size)]
    if head.max_model_len is not None:
        ours += ["--max-model-len", str(head.max_model_len)]
    if head.model and os.path.isfile(os.path.join(head.model, "tokenizer.json")):
        ours += ["--tokenizer", head.model]
    return ours + shlex.split(os.environ.get(ARGUMENTS_VARIABLE, ""))


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; does not return."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if is_headless(given):
        try:
            given = _headless(read_headless(given))
        except ValueError as error:
            sys.exit(f"replay: {error}")
    replay.main(given, prog_name="python -m toolgrammar_serving.replay")


if __name__ == "__main__":
    main()
