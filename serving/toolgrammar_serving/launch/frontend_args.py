"""What ``vllm serve`` gives the front end that it starts: an argument vector, and its own options as JSON.

The JSON holds whatever options of ``vllm serve`` are not at their defaults, of any version: keys that mean nothing
to us are ignored.
"""

from __future__ import annotations

import argparse
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

import msgspec

from toolgrammar import registry
from toolgrammar.errors import UnknownModelError
from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.problems import LaunchError

_SECRET: Final = ("key", "token", "secret", "password")
#: Keys with these words are no secrets.
_PLAIN: Final = ("keyfile", "tokenizer", "tokens", "keep_alive")


class FrontendArgs(msgspec.Struct, frozen=True):
    """The argument vector. Descriptors are inherited: HTTP bound, the two ZeroMQ listeners bound and listening."""

    listen_fd: int
    input_fd: int
    output_fd: int
    first_rank: int
    engine_count: int
    data_parallel_size: int
    coordinator: str | None
    args: dict[str, Any]


class _Parser(argparse.ArgumentParser):
    """One that raises in every case."""

    def error(self, message: str) -> NoReturn:
        hint = "this program is started by 'vllm serve': toolgrammar-frontend --help"
        raise LaunchError(f"not a front end's arguments: {message}", hint)


def parse_argv(argv: Sequence[str]) -> FrontendArgs:
    """Read ``frontend --listen-fd N …``; unknown options are ignored.

    Raises ``LaunchError`` if something is missing or wrong.
    """
    parser = _Parser(
        prog="toolgrammar-frontend",
        description="The front end that 'vllm serve' starts; not for the command line: set "
        "VLLM_USE_RUST_FRONTEND=1 and VLLM_RUST_FRONTEND_PATH=$(command -v toolgrammar-frontend), then "
        "run 'vllm serve MODEL'.",
        allow_abbrev=False,
    )
    parser.add_argument("command", choices=["frontend"])
    for name in ("--listen-fd", "--input-listener-fd", "--output-listener-fd"):
        parser.add_argument(name, type=int, required=True)
    for name, default in (("--engine-start-index", 0), ("--engine-count", 1), ("--data-parallel-size", 1)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--grpc-listen-fd", type=int)
    parser.add_argument("--coordinator-address")
    parser.add_argument("--args-json", default="{}")
    found, _ = parser.parse_known_args(argv)
    try:
        args = msgspec.json.decode(found.args_json, type=dict[str, Any])
    except msgspec.DecodeError as error:
        parser.error(f"--args-json: {error}")
    return FrontendArgs(
        listen_fd=found.listen_fd,
        input_fd=found.input_listener_fd,
        output_fd=found.output_listener_fd,
        first_rank=found.engine_start_index,
        engine_count=found.engine_count,
        data_parallel_size=found.data_parallel_size,
        coordinator=found.coordinator_address,
        args=args,
    )


def _format(args: Mapping[str, Any]) -> str:
    """A tool parser that was named decides; ``none`` for both parsers means that nothing is read; else auto."""
    calls, reasoning = args.get("tool_call_parser"), args.get("reasoning_parser")
    if calls == "none" and reasoning in (None, "none"):
        return "identity"
    if calls in (None, "none", "auto"):
        return "auto"
    try:
        return registry.resolve(str(calls))
    except UnknownModelError:
        return "auto"


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else (str(value),)


#: Key of ``vllm serve``, our option, and how one becomes the other.
_MEANINGS: Final[tuple[tuple[str, str, Callable[[Any], Any]], ...]] = (
    ("served_model_name", "served_model_name", _strings),
    ("tokenizer", "tokenizer", str),
    ("max_model_len", "max_model_len", int),
    ("chat_template", "chat_template", str),
    ("default_chat_template_kwargs", "chat_template_kwargs", dict),
    ("tool_strict_level", "tool_strict_level", str),
    ("trust_request_chat_template", "trust_chat_template", bool),
    ("enable_force_include_usage", "force_usage", bool),
    ("sse_keep_alive_interval", "sse_keep_alive", float),
    ("disable_fastapi_docs", "docs", operator.not_),
    ("root_path", "root_path", str),
    ("api_key", "api_key", _strings),
    ("allowed_origins", "allowed_origins", _strings),
    ("ssl_keyfile", "ssl_keyfile", str),
    ("ssl_certfile", "ssl_certfile", str),
    ("ssl_ca_certs", "ssl_ca_certs", str),
    ("http_timeout_keep_alive", "keep_alive", float),
    ("engine_ready_timeout_secs", "engine_ready_timeout", float),
    ("shutdown_timeout", "drain_timeout", float),
    ("data_parallel_size", "data_parallel_size", int),
)


def to_options(args: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Options:
    """The options that ``vllm serve``'s arguments amount to. ``VLLM_API_KEY`` counts where no key is given.

    Raises ``LaunchError`` for a value that cannot be used.
    """
    model = args.get("model") or args.get("model_tag")
    values: dict[str, Any] = {"model": model, "format": _format(args), "drain_timeout": 0.0}
    for key, name, convert in _MEANINGS:
        value = args.get(key)
        if value is None:
            continue
        try:
            values[name] = convert(value)
        except (TypeError, ValueError):
            raise LaunchError(f"{key}={value!r} cannot be used") from None
    if "api_key" not in values and environ.get("VLLM_API_KEY"):
        values["api_key"] = (environ["VLLM_API_KEY"],)
    return Options(**values)


def redacted(args: Mapping[str, Any]) -> dict[str, Any]:
    """``args`` for a log: no keys, tokens or passwords, at any depth."""
    return {name: _hidden(name, value) for name, value in args.items()}


def _hidden(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return redacted(value)
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [_hidden(name, item) for item in value]
    low = name.lower()
    secret = any(word in low for word in _SECRET) and not any(word in low for word in _PLAIN)
    return "***" if secret and value is not None else value
