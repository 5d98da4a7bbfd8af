"""``python -m toolgrammar_serving.bench``: front ends side by side, as a Markdown table."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from toolgrammar_serving.bench.load import Result
from toolgrammar_serving.bench.runs import Setting, run
from toolgrammar_serving.bench.scenarios import SCENARIOS
from toolgrammar_serving.bench.scripts import write_scripts

_NAMES = ", ".join(scenario.name for scenario in SCENARIOS)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", required=True, type=click.Path(exists=True, file_okay=False), help="Model directory.")
@click.option("--peer", "peers", multiple=True, metavar="NAME=BINARY", help="Another front end; may be repeated.")
@click.option("--ours/--no-ours", default=True, help="Measure toolgrammar-frontend.")
@click.option("--only", help=f"Scenarios, with commas between: {_NAMES}.")
@click.option("--rounds", default=1, show_default=True, help="Runs of each, systems in turn; the median is shown.")
@click.option("--front-cpu", default=0, show_default=True)
@click.option("--load-cpu", default=1, show_default=True)
@click.option("--json", "json_file", type=click.Path(), help="Append every run to this file, a JSON line each.")
def bench(
    model: str, peers: tuple[str, ...], ours: bool, only: str | None, rounds: int, front_cpu: int, load_cpu: int,
    json_file: str | None,
) -> None:  # fmt: skip
    """CPU per token, tokens per second and memory of front ends, behind the same scripted engine.

    Example: python -m toolgrammar_serving.bench --model MODEL_DIR --peer vllm-rs=./vllm-rs --only decode-c64-paced
    """
    systems = _systems(peers, ours)
    wanted = only.split(",") if only else [scenario.name for scenario in SCENARIOS]
    unknown = set(wanted) - {scenario.name for scenario in SCENARIOS}
    if unknown:
        raise click.UsageError(f"no scenario {', '.join(sorted(unknown))}; there are {_NAMES}")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        write_scripts(model, Path(folder))
        print(
            "| scenario | " + " | ".join(f"{name} µs/token, k tok/s, ms/request, MB" for name in systems), end=" |"
        )
        print(" ratio µs |\n|" + " --- |" * (len(systems) + 2), flush=True)
        for scenario in (scenario for scenario in SCENARIOS if scenario.name in wanted):
            runs: dict[str, list[Result]] = {name: [] for name in systems}
            for number in range(rounds):
                for name, binary in systems.items():
                    log = Path(tempfile.gettempdir()) / f"bench-{name}.log"
                    setting = Setting(
                        system=name, binary=binary, model=model, scripts=Path(folder), log=log,
                        front_cpu=front_cpu, load_cpu=load_cpu,
                    )  # fmt: skip
                    result = run(setting, scenario, seed=number + 1)
                    runs[name].append(result)
                    if json_file:
                        with open(json_file, "a") as file:
                            file.write(msgspec.json.encode(result).decode() + "\n")
            _row(scenario.name, runs)


def _systems(peers: tuple[str, ...], ours: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    if ours:
        beside = Path(sys.executable).parent / "toolgrammar-frontend"
        own = str(beside) if beside.exists() else shutil.which("toolgrammar-frontend")
        if own is None:
            raise click.UsageError("toolgrammar-frontend is not on the path; is the package installed?")
        found["ours"] = own
    for peer in peers:
        name, _, binary = peer.partition("=")
        if not binary or not Path(binary).exists():
            raise click.BadParameter(f"{peer!r} is not NAME=BINARY, or there is no such file", param_hint="--peer")
        found[name] = binary
    return found


def _row(name: str, runs: dict[str, list[Result]]) -> None:
    cells, cost = [], []
    for results in runs.values():
        one = sorted(results, key=lambda result: result.cpu_us_per_token)[len(results) // 2]
        broken = f" ({one.errors} errors)" if one.errors else ""
        cost.append(one.cpu_us_per_token)
        speed = f"{one.cpu_us_per_token:.1f}, {one.tokens_per_s / 1000:.1f}"
        cells.append(f"{speed}, {one.cpu_ms_per_request:.2f}, {one.rss_mb:.0f}{broken}")
    ratio = f"{cost[0] / cost[1]:.2f}" if len(cost) > 1 and cost[1] else ""
    print(f"| {name} | " + " | ".join(cells) + f" | {ratio} |", flush=True)


if __name__ == "__main__":
    bench()
