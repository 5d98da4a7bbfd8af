"""The one table of options: of ``toolgrammar-serve``, its help, environment, ``--config`` file and documentation.

A field of ``Options`` is an option: its type and default here, group, metavar and help in the ``About`` beside it.
Option ``max_model_len`` is ``--max-model-len``, ``TOOLGRAMMAR_MAX_MODEL_LEN`` and the key ``max_model_len`` (or
``max-model-len``) of a config file. The command line wins over the environment, that over the file.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

ENV_PREFIX: Final = "TOOLGRAMMAR_"

WAYS: Final = "Where the tokens come from"
ENGINE: Final = "Engine"
REPLAY: Final = "Replay"
READING: Final = "Prompts and output"
HTTP: Final = "HTTP"
LIMITS: Final = "Limits"
RUNNING: Final = "Running"


class About(NamedTuple):
    """What a person has to know of an option. ``secret``: its value is never shown."""

    group: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: int | None = None
    secret: bool = False
    argument: bool = False
    flag: str = ""


class Row(NamedTuple):
    """An option as its readers need it: ``kind`` is the plain type, ``many`` whether it may be repeated."""

    name: str
    kind: type
    many: bool
    default: Any
    about: About

    @property
    def flag(self) -> str:
        """``--max-model-len``."""
        return self.about.flag or "--" + self.name.replace("_", "-")

    @property
    def env(self) -> str:
        """``TOOLGRAMMAR_MAX_MODEL_LEN``."""
        return ENV_PREFIX + self.name.upper()


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be said about a server."""

    model: Annotated[
        str | None,
        About(WAYS, "Model directory; with --engine vllm whatever vLLM takes.", "MODEL", argument=True),
    ] = None
    replay: Annotated[
        str | None, About(WAYS, "Serve captured outputs: text, JSONL or SSE. No model is needed.", "FILE")
    ] = None
    engine: Annotated[
        str,
        About(
            WAYS, "own: our engine, as a child process; vllm: vLLM's, started headless.", "NAME", ("own", "vllm")
        ),
    ] = "own"
    engine_address: Annotated[
        str | None,
        About(WAYS, "Start no engine: wait at this address, tcp://HOST:PORT, for engines to report.", "ADDRESS"),
    ] = None

    data_parallel_size: Annotated[int, About(ENGINE, "How many engines share the requests.", "N", minimum=1)] = 1
    max_model_len: Annotated[
        int | None, About(ENGINE, "Longest prompt plus output, in tokens.  [default: the model's]", "N", minimum=1)
    ] = None
    dtype: Annotated[
        str,
        About(ENGINE, "auto, float32, bfloat16 or float16.", "NAME", ("auto", "float32", "bfloat16", "float16")),
    ] = "auto"
    device: Annotated[str, About(ENGINE, "auto, cpu or cuda[:N]. Own engine only.", "NAME")] = "auto"
    max_num_seqs: Annotated[
        int | None, About(ENGINE, "Most sequences in one step.  [default: the engine's]", "N", minimum=1)
    ] = None
    kv_memory: Annotated[
        str | None, About(ENGINE, "Memory for the KV cache, e.g. 2GiB. Own engine only.", "SIZE")
    ] = None
    engine_command: Annotated[
        str | None,
        About(ENGINE, "What starts the engine.  [default: vllm, or our engine's module]", "COMMAND"),
    ] = None
    engine_ready_timeout: Annotated[
        float, About(ENGINE, "Longest wait for the engines, in seconds.", "SECONDS", minimum=1)
    ] = 600.0

    speed: Annotated[
        str, About(REPLAY, "recorded; max; or a factor: 2 is twice as fast as recorded.", "SPEED")
    ] = "recorded"
    start: Annotated[
        Literal["auto", "reasoning", "content", "section"],
        About(
            REPLAY,
            "Where captured outputs start: auto, reasoning, content or section.",
            "STATE",
            ("auto", "reasoning", "content", "section"),
        ),
    ] = "auto"

    served_model_name: Annotated[
        tuple[str, ...],
        About(READING, "Name(s) clients may use; the first is told back.  [default: the model's path]", "NAME"),
    ] = ()
    tokenizer: Annotated[
        str | None, About(READING, "Directory of tokenizer and template.  [default: the model's]", "DIR")
    ] = None
    format: Annotated[
        str, About(READING, "The model's output format ('toolgrammar formats'), or auto.", "NAME")
    ] = "auto"
    chat_template: Annotated[
        str | None, About(READING, "A Jinja chat template.  [default: the model's]", "FILE")
    ] = None
    chat_template_kwargs: Annotated[
        dict[str, Any],
        About(READING, "What every template is given, e.g. '{\"enable_thinking\": false}'.", "JSON"),
    ] = {}
    tool_strict_level: Annotated[
        Literal["auto", "function", "parameter"],
        About(
            READING,
            "What engines enforce of calls that are not forced: auto, the arguments of strict tools; function, "
            "the form of all calls; parameter, the arguments of all tools.",
            "LEVEL",
            ("auto", "function", "parameter"),
        ),
    ] = "auto"
    trust_chat_template: Annotated[bool, About(READING, "Requests may bring a chat template.")] = False
    force_usage: Annotated[bool, About(READING, "Streams tell their usage whether or not they ask for it.")] = (
        False
    )

    host: Annotated[str, About(HTTP, "Address to listen at; 0.0.0.0 for all.", "HOST")] = "127.0.0.1"
    port: Annotated[
        int, About(HTTP, "Port to listen at; 0 takes a free one.", "PORT", minimum=0, maximum=65535)
    ] = 8000
    uds: Annotated[str | None, About(HTTP, "Unix socket to listen at, instead.", "PATH")] = None
    root_path: Annotated[str, About(HTTP, "Path prefix that a proxy strips.", "PATH")] = ""
    api_key: Annotated[
        tuple[str, ...],
        About(HTTP, "Key(s) that clients must send; better in the environment.", "KEY", secret=True),
    ] = ()
    allowed_origins: Annotated[
        tuple[str, ...], About(HTTP, "Origin(s) that browsers may call from; * for all.", "ORIGIN")
    ] = ()
    ssl_keyfile: Annotated[str | None, About(HTTP, "Private key of the certificate.", "FILE")] = None
    ssl_certfile: Annotated[str | None, About(HTTP, "Certificate: serves HTTPS.", "FILE")] = None
    ssl_ca_certs: Annotated[str | None, About(HTTP, "CAs whose client certificates are required.", "FILE")] = None
    keep_alive: Annotated[
        float, About(HTTP, "How long an idle connection stays open, in seconds.", "SECONDS", minimum=0)
    ] = 5.0
    sse_keep_alive: Annotated[
        float,
        About(HTTP, "A stream that is silent this long gets a comment; 0: never.", "SECONDS", minimum=0),
    ] = 15.0
    docs: Annotated[bool, About(HTTP, "Serve /docs and /openapi.json.")] = True

    max_requests: Annotated[
        int | None,
        About(
            LIMITS, "Most requests in work, per API process; more get 429.  [default: no limit]", "N", minimum=1
        ),
    ] = None
    max_waiting: Annotated[
        int | None,
        About(LIMITS, "Most requests waiting in the engines; more get 429.  [default: no limit]", "N", minimum=1),
    ] = None
    max_body_mib: Annotated[float, About(LIMITS, "Largest request body, in MiB.", "MIB", minimum=0)] = 32.0
    slow_reader: Annotated[
        float,
        About(LIMITS, "A client that reads nothing of its answer this long is cut off.", "SECONDS", minimum=0),
    ] = 60.0
    drain_timeout: Annotated[
        float, About(LIMITS, "How long open requests may go on after SIGTERM, in seconds.", "SECONDS", minimum=0)
    ] = 30.0

    api_server_count: Annotated[
        int, About(RUNNING, "API processes that share port and engines.", "N", minimum=1)
    ] = 1
    log_level: Annotated[
        str,
        About(RUNNING, "debug, info, warning or error.", "LEVEL", ("debug", "info", "warning", "error")),
    ] = "warning"
    access_log: Annotated[bool, About(RUNNING, "Log every request.")] = False
    quiet: Annotated[bool, About(RUNNING, "No progress and no summary at start.")] = False
    color: Annotated[str, About(RUNNING, "auto, always or never.", "WHEN", ("auto", "always", "never"))] = "auto"


def rows() -> Iterator[Row]:
    """The table, in its order."""
    hints = typing.get_type_hints(Options, include_extras=True)
    for field in msgspec.structs.fields(Options):
        kind, about = typing.get_args(hints[field.name])
        default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        many = typing.get_origin(kind) is tuple
        if typing.get_origin(kind) is Literal:
            kind = str
        plain = next(part for part in (typing.get_args(kind) or (kind,)) if part not in (type(None), ...))
        yield Row(field.name, dict if typing.get_origin(kind) is dict else plain, many, default, about)


def groups() -> dict[str, list[Row]]:
    """The table by group, in the order in which groups first appear."""
    result: dict[str, list[Row]] = {}
    for row in rows():
        result.setdefault(row.about.group, []).append(row)
    return result
