"""The workloads: *paced* ones, where every token is a chunk and CPU per token is the figure, and *max* ones."""

from __future__ import annotations

from typing import Final, Literal

import msgspec


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """``words``: of the prompt. ``tokens``: of an answer. ``step_ms``: between engine steps, 0 for no pause.

    ``tool_parser``: by vLLM's name, with a reasoning parser and a tool in the request. ``prompts``: ``common``
    words, ``rare`` ones (40 % pseudo-words, so that no word cache hides the tokenizer), or ``repeated``: one long
    conversation that goes on, as an agent's does.
    """

    name: str
    words: int = 24
    tokens: int = 512
    concurrency: int
    requests: int
    step_ms: int
    script: Literal["plain", "hermes", "qwen3coder"] = "plain"
    tool_parser: str | None = None
    prompts: Literal["common", "rare", "repeated"] = "common"


def _with_calls(name: str, parser: str) -> list[Scenario]:
    common = {"script": name, "tool_parser": parser}
    short = "q3coder" if name == "qwen3coder" else name
    return [
        Scenario(name=f"{short}-c64-paced", concurrency=64, requests=64, step_ms=20, **common),  # type: ignore[arg-type]
        Scenario(name=f"{short}-c256-paced", concurrency=256, requests=256, step_ms=50, **common),  # type: ignore[arg-type]
        Scenario(name=f"{short}-c256-max", concurrency=256, requests=512, step_ms=0, **common),  # type: ignore[arg-type]
    ]


SCENARIOS: Final = (
    Scenario(name="decode-c64-paced", concurrency=64, requests=64, step_ms=20),
    Scenario(name="decode-c256-paced", concurrency=256, requests=256, step_ms=50),
    Scenario(name="decode-c1024-paced", tokens=256, concurrency=1024, requests=1024, step_ms=200),
    Scenario(name="decode-c64-max", concurrency=64, requests=192, step_ms=0),
    Scenario(name="decode-c256-max", concurrency=256, requests=512, step_ms=0),
    Scenario(name="decode-c1024-max", tokens=256, concurrency=1024, requests=1024, step_ms=0),
    *_with_calls("hermes", "hermes"),
    *_with_calls("qwen3coder", "qwen3_coder"),
    Scenario(name="prefill10k", words=9500, tokens=16, concurrency=16, requests=96, step_ms=5),
    Scenario(
        name="prefill10k-rare", words=6200, tokens=16, concurrency=16, requests=96, step_ms=5, prompts="rare"
    ),
    Scenario(
        name="prefill10k-repeated",
        words=9500,
        tokens=16,
        concurrency=16,
        requests=96,
        step_ms=5,
        prompts="repeated",
    ),
)
