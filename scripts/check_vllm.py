#!/usr/bin/env python3
"""Three ways in front of a real vLLM, proved with a running one.

    python scripts/check_vllm.py --vllm "vllm" --model MODEL_DIR [--ways drop-in,serve,attach] [-- VLLM OPTIONS]

``drop-in``: ``vllm serve`` starts toolgrammar-frontend. ``serve``: toolgrammar-serve --engine vllm. ``attach``: a
headless engine that was started by hand reports to toolgrammar-serve --engine-address. ``--vllm`` is what starts
vLLM, e.g. "PYTHON -m vllm.entrypoints.cli.main"; its environment is ours. Needs the packages openai and httpx.
Exit code 0 if every check passed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai

BIN = Path(sys.executable).parent
PATIENCE_S = 600.0
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "set_lamp",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"on": {"type": "boolean"}, "room": {"type": "string", "enum": ["hall", "kitchen"]}},
                "required": ["on", "room"],
                "additionalProperties": False,
            },
        },
    }
]
#: No thinking first.
DIRECT = {"chat_template_kwargs": {"enable_thinking": False}}
#: Several, sampled: a model of random weights comes to an end by chance only.
SEVERAL: dict[str, Any] = {"n": 8, "max_tokens": 160, "temperature": 1, "seed": 3, "extra_body": DIRECT}
ASK: list[Any] = [{"role": "user", "content": "Turn the lamp in the hall on."}]


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(command: list[str], log: Path, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process and what it starts; all of it is gone afterwards."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **(env or {})}, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for_health(url: str, process: subprocess.Popen[bytes], log: Path) -> float:
    """Seconds until it serves."""
    start = time.monotonic()
    while time.monotonic() - start < PATIENCE_S:
        if process.poll() is not None:
            raise SystemExit(f"it ended with {process.returncode}:\n{log.read_text(errors='replace')[-3000:]}")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health").status_code == 200:
                return time.monotonic() - start
        time.sleep(0.2)
    raise SystemExit(f"it did not serve within {PATIENCE_S:g} s:\n{log.read_text(errors='replace')[-3000:]}")


class Checks:
    """Named checks against one running server; prints as it goes."""

    def __init__(self, url: str, model: str) -> None:
        self.failed = 0
        self._url = url
        self._model = model
        self._client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120)

    def check(self, name: str, run: Callable[[], Any]) -> None:
        """Run one; it fails by an exception or by returning False."""
        try:
            found = run()
        except Exception as error:
            found = False
            name = f"{name}: {type(error).__name__}: {str(error)[:300]}"
        self.failed += found is False
        more = f": {found}" if isinstance(found, str) else ""
        print(f"  {'FAILED' if found is False else 'ok':<7} {name}{more}", flush=True)

    def all(self) -> None:
        """Everything that is asked of a server in front of a real engine."""
        self.check("models", lambda: self._client.models.list().data[0].id == self._model)
        self.check("version", lambda: httpx.get(f"{self._url}/version").json()["version"])
        self.check("chat, whole and streamed alike", self._chat)
        self.check("logprobs, whole and streamed alike", self._logprobs)
        self.check("completions, n=2 with seeds", self._completions)
        self.check("stop string", self._stop)
        self.check("tool_choice required: answers that end are calls that fit", lambda: self._forced("required"))
        named = {"type": "function", "function": {"name": "set_lamp"}}
        self.check("tool_choice named: answers that end are calls that fit", lambda: self._forced(named))
        self.check("response_format json_schema: answers that end fit", self._schema)
        self.check("structured_outputs choice is one of the choices", self._choice)
        self.check("structured_outputs regex of a completion fits", self._regex)
        self.check("a prompt that is too long is refused with 400", self._too_long)
        self.check("64 requests at a time", self._many)
        self.check("metrics", lambda: "vllm:generation_tokens_total" in httpx.get(f"{self._url}/metrics").text)

    def _settings(self, **more: Any) -> dict[str, Any]:
        return {"model": self._model, "messages": ASK, "max_tokens": 48, "temperature": 0} | more

    def _chat(self) -> bool:
        whole = self._client.chat.completions.create(**self._settings()).choices[0]
        content, reasoning, finish = "", "", None
        for chunk in self._client.chat.completions.create(**self._settings(stream=True)):
            for choice in chunk.choices:
                content += choice.delta.content or ""
                reasoning += choice.delta.model_dump().get("reasoning") or ""
                finish = choice.finish_reason or finish
        said = whole.message
        return (said.content or "", said.model_dump().get("reasoning") or "", whole.finish_reason) == (
            content,
            reasoning,
            finish,
        )

    def _logprobs(self) -> bool:
        settings = self._settings(logprobs=True, top_logprobs=3, max_tokens=8)
        whole = self._client.chat.completions.create(**settings).choices[0].logprobs
        streamed = []
        for chunk in self._client.chat.completions.create(**settings, stream=True):
            for choice in chunk.choices:
                streamed += (choice.logprobs.content or []) if choice.logprobs else []
        assert whole is not None and whole.content is not None
        tokens = [(entry.token, len(entry.top_logprobs)) for entry in whole.content]
        return len(tokens) >= 1 and tokens == [(entry.token, len(entry.top_logprobs)) for entry in streamed]

    def _completions(self) -> bool:
        def texts() -> list[str]:
            answer = self._client.completions.create(
                model=self._model, prompt="The lamp", max_tokens=8, n=2, seed=7, temperature=1
            )
            return [choice.text for choice in answer.choices]

        first = texts()
        return first == texts() and len(set(first)) == 2

    def _stop(self) -> bool:
        whole = self._client.completions.create(model=self._model, prompt="The", max_tokens=24, temperature=0)
        text = whole.choices[0].text
        stop = text[4:7]
        cut = self._client.completions.create(
            model=self._model, prompt="The", max_tokens=24, temperature=0, stop=[stop]
        ).choices[0]
        return cut.finish_reason == "stop" and cut.text == text[: text.index(stop)]

    def _forced(self, choice: Any) -> str | bool:
        """Of several answers: all that came to an end are calls that fit."""
        answer = self._client.chat.completions.create(**self._settings(tools=TOOLS, tool_choice=choice, **SEVERAL))
        ended = [each.message.tool_calls or [] for each in answer.choices if each.finish_reason != "length"]
        arguments = [json.loads(call.function.arguments) for calls in ended for call in calls]  # type: ignore[union-attr]
        fit = [isinstance(each["on"], bool) and each["room"] in ("hall", "kitchen") for each in arguments]
        return all(ended) and all(fit) and f"{len(ended)} of {len(answer.choices)} came to an end"

    def _schema(self) -> str | bool:
        """Of several answers: all that came to an end fit."""
        schema = {
            "type": "object",
            "properties": {"room": {"enum": ["hall", "kitchen"]}},
            "required": ["room"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "r", "schema": schema}}
        answer = self._client.chat.completions.create(**self._settings(response_format=form, **SEVERAL))
        ended = [each.message.content or "" for each in answer.choices if each.finish_reason != "length"]
        fit = [json.loads(each)["room"] in ("hall", "kitchen") for each in ended]
        return all(fit) and any(fit) and f"{len(ended)} of {len(answer.choices)} came to an end"

    def _choice(self) -> bool:
        words = ["ferry", "lamp"]
        more = {**DIRECT, "structured_outputs": {"choice": words}}
        answer = self._client.chat.completions.create(**self._settings(extra_body=more))
        return answer.choices[0].message.content in words

    def _regex(self) -> bool:
        more = {"structured_outputs": {"regex": "(ab)+c"}}
        answer = self._client.completions.create(model=self._model, prompt="a", max_tokens=64, extra_body=more)
        return bool(
            re.match("(ab)+c$" if answer.choices[0].finish_reason == "stop" else "(ab)+", answer.choices[0].text)
        )

    def _too_long(self) -> bool:
        try:
            self._client.completions.create(model=self._model, prompt="lamp " * 200_000, max_tokens=1)
        except openai.BadRequestError:
            return True
        return False

    def _many(self) -> bool:
        from concurrent.futures import ThreadPoolExecutor

        def one(number: int) -> int:
            answer = self._client.completions.create(
                model=self._model,
                prompt=f"{number}",
                max_tokens=16,
                temperature=0,
                extra_body={"ignore_eos": True},
            )
            return answer.usage.completion_tokens if answer.usage else 0

        with ThreadPoolExecutor(64) as pool:
            return set(pool.map(one, range(64))) == {16}


def stopped(process: subprocess.Popen[bytes], expected: tuple[int, ...] = (0,)) -> bool | str:
    """SIGTERM ends it, with an expected exit code."""
    process.terminate()
    start = time.monotonic()
    code = process.wait(60)
    return f"exit code {code} after {time.monotonic() - start:.1f} s" if code in expected else False


def drop_in(given: argparse.Namespace) -> int:
    """``vllm serve`` with our front end."""
    port, log = free_port(), Path(given.logs) / "drop-in.log"
    env = {"VLLM_USE_RUST_FRONTEND": "1", "VLLM_RUST_FRONTEND_PATH": str(BIN / "toolgrammar-frontend")}
    command = [*given.vllm, "serve", given.model, "--port", str(port), "--served-model-name", "m", *given.rest]
    command += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--reasoning-parser", "qwen3"]
    return _prove(command, log, port, env)


def serve(given: argparse.Namespace) -> int:
    """``toolgrammar-serve --engine vllm``."""
    port, log = free_port(), Path(given.logs) / "serve.log"
    command = [str(BIN / "toolgrammar-serve"), given.model, "--engine", "vllm"]
    command += ["--engine-command", shlex.join(given.vllm), "--port", str(port), "--served-model-name", "m"]
    return _prove([*command, "--", "--reasoning-parser", "qwen3", *given.rest], log, port, {})


def attach(given: argparse.Namespace) -> int:
    """``toolgrammar-serve --engine-address``, two API processes, and a headless engine started by hand."""
    port, engines, log = free_port(), free_port(), Path(given.logs) / "attach.log"
    command = [str(BIN / "toolgrammar-serve"), given.model, "--engine-address", f"tcp://127.0.0.1:{engines}"]
    command += ["--port", str(port), "--served-model-name", "m", "--api-server-count", "2"]
    engine = [*given.vllm, "serve", given.model, "--headless", "--data-parallel-address", "127.0.0.1"]
    engine += ["--data-parallel-rpc-port", str(engines), "--data-parallel-size", "1", *given.rest]
    with running([*engine, "--reasoning-parser", "qwen3"], Path(given.logs) / "attach-engine.log"):
        return _prove(command, log, port, {})


def _prove(command: list[str], log: Path, port: int, env: dict[str, str]) -> int:
    url = f"http://127.0.0.1:{port}"
    with running(command, log, env) as process:
        print(f"  ready after {wait_for_health(url, process, log):.0f} s")
        checks = Checks(url, "m")
        checks.all()
        checks.check("SIGTERM ends it", lambda: stopped(process, (0, -signal.SIGTERM)))
        return checks.failed


WAYS = {"drop-in": drop_in, "serve": serve, "attach": attach}


def main() -> None:
    """Run the ways that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", type=shlex.split, default=["vllm"], help="what starts vLLM")
    parser.add_argument("--model", required=True)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--logs", help="directory for the logs; by default a new temporary one")
    parser.add_argument("rest", nargs="*", help="options for vLLM, behind --")
    given = parser.parse_args()
    given.logs = given.logs or tempfile.mkdtemp(prefix="check-vllm-")
    failed = 0
    for way in given.ways.split(","):
        print(f"{way}: {WAYS[way].__doc__}")
        failed += WAYS[way](given)
    print(f"{failed} checks failed; logs in {given.logs}" if failed else "all checks passed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
