"""What is to be started, decided and checked before anything is: which way, which directory, which names."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from toolgrammar.parser import Start
from toolgrammar_serving.launch.model_dir import find_model, need_model
from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.problems import LaunchError

#: Whose tokens: captured outputs; our engine's; vLLM's, started by us; engines that report to us; those of a
#: ``vllm serve`` that started us.
Way: TypeAlias = Literal["replay", "own", "vllm", "attached", "adopted"]
_NO_MODEL: Final = "toolgrammar-serve MODEL_DIR, or without any model: toolgrammar-serve --replay FILE"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Options, and what follows from them.

    ``model_dir``: of tokenizer and template; None: there is no model, or it is not on this machine yet. ``names``:
    what clients may call the model. ``format``: of the output, or auto; ``why`` it. ``rest``: options for the
    engine alone. ``revision``: of a model in the cache. ``start``: of outputs, unless a request knows better, and
    what is to be said of it.
    """

    way: Way
    options: Options
    model_dir: str | None
    names: tuple[str, ...]
    format: str = "auto"
    why: str = ""
    rest: tuple[str, ...] = ()
    revision: str | None = None
    start: Start = "auto"
    start_why: str = ""


def make_plan(options: Options, rest: tuple[str, ...] = ()) -> Plan:
    """The plan for ``toolgrammar-serve``. Raises ``LaunchError`` for what cannot go together or is not there."""
    way = _way(options)
    if rest and way not in ("own", "vllm"):
        raise LaunchError(f"nothing takes the options behind '--': {' '.join(rest)}", "they are for --engine vllm")
    if way == "replay" and not Path(str(options.replay)).is_file():
        raise LaunchError(
            f"--replay {options.replay}: there is no such file", "toolgrammar help parse: what it may be"
        )
    if bool(options.ssl_keyfile) and not options.ssl_certfile:
        raise LaunchError("--ssl-keyfile goes with --ssl-certfile")
    _readable_files(options)
    return Plan(
        way=way,
        options=options,
        model_dir=_model_dir(options),
        names=_names(options),
        format=options.format,
        rest=rest,
        start=options.start,
    )


def adopted_plan(options: Options, revision: str | None = None) -> Plan:
    """The plan of a front end that ``vllm serve`` starts: the model may still be on its way to this machine."""
    if options.model is None:
        raise LaunchError("the arguments name no model")
    found = find_model(options.tokenizer or options.model, revision)
    return Plan(
        way="adopted",
        options=options,
        model_dir=None if found is None else str(found),
        names=_names(options),
        format=options.format,
        revision=revision,
        start=options.start,
    )


def found_later(plan: Plan) -> Plan:
    """The plan, when the engine has fetched the model. Raises ``LaunchError`` if it is still not there."""
    name = plan.options.tokenizer or plan.options.model
    return msgspec.structs.replace(plan, model_dir=str(need_model(str(name), plan.revision)))


def _way(options: Options) -> Way:
    if options.replay is not None:
        if options.engine_address is not None:
            raise LaunchError("--replay and --engine-address exclude each other")
        return "replay"
    if options.model is None and not (options.engine_address and options.tokenizer):
        raise LaunchError("there is nothing to serve: no MODEL and no --replay", _NO_MODEL)
    if options.engine_address is not None:
        scheme, _, place = options.engine_address.partition("://")
        if scheme != "tcp" or not place.rpartition(":")[2].isdecimal():
            raise LaunchError(
                f"--engine-address {options.engine_address}: it is tcp://HOST:PORT, where engines report",
                "--engine-address tcp://0.0.0.0:29550",
            )
        return "attached"
    return "vllm" if options.engine == "vllm" else "own"


def _model_dir(options: Options) -> str | None:
    name = options.tokenizer or options.model
    if name is None:
        return None
    return str(need_model(name))


def _names(options: Options) -> tuple[str, ...]:
    if options.served_model_name:
        return options.served_model_name
    return (options.model or Path(options.replay or "model").stem,)


def _readable_files(options: Options) -> None:
    """Files that are read late, or only when a client connects."""
    for flag, path in (
        ("--ssl-keyfile", options.ssl_keyfile),
        ("--ssl-certfile", options.ssl_certfile),
        ("--ssl-ca-certs", options.ssl_ca_certs),
        ("--chat-template", options.chat_template),
    ):
        if path is not None and not Path(path).is_file():
            raise LaunchError(f"{flag} {path}: there is no such file")
