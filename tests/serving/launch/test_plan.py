"""What is asked for is checked before anything starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import serving_models
from toolgrammar_serving.launch.engines import own_command, vllm_command
from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.plan import Plan, adopted_plan, make_plan
from toolgrammar_serving.launch.problems import LaunchError
from toolgrammar_serving.launch.telling import request_line


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(serving_models.byte_level(tmp_path_factory.mktemp("plan") / "tiny"))


@pytest.fixture
def captures(tmp_path: Path) -> str:
    path = tmp_path / "captures.jsonl"
    path.write_text('{"text": "Hello"}\n')
    return str(path)


def test_captures_need_no_model(captures: str, model: str) -> None:
    options = Options(replay=captures, format="hermes")
    assert make_plan(options) == Plan(
        way="replay", options=options, model_dir=None, names=("captures",), format="hermes"
    )
    with_model = make_plan(Options(replay=captures, model=model))
    assert (with_model.way, with_model.model_dir, with_model.names) == ("replay", model, (model,))


@pytest.mark.parametrize(
    "more,way",
    [({}, "own"), ({"engine": "vllm"}, "vllm"), ({"engine_address": "tcp://0.0.0.0:29550"}, "attached")],
)
def test_the_way_follows_from_the_options(more: dict[str, Any], way: str, model: str) -> None:
    plan = make_plan(Options(model=model, served_model_name=("a", "b"), **more))
    assert (plan.way, plan.model_dir, plan.names) == (way, model, ("a", "b"))


def test_engines_that_report_need_a_tokenizer_only(model: str) -> None:
    plan = make_plan(Options(tokenizer=model, engine_address="tcp://127.0.0.1:1"))
    assert (plan.way, plan.model_dir, plan.names) == ("attached", model, ("model",))


@pytest.mark.parametrize(
    "options,rest,message",
    [
        ({}, (), "there is nothing to serve: no MODEL and no --replay"),
        ({"replay": "no.jsonl"}, (), "--replay no.jsonl: there is no such file"),
        ({"model": "/no/model"}, (), "there is no model directory /no/model"),
        (
            {"replay": "CAPTURES", "engine_address": "tcp://a:1"},
            (),
            "--replay and --engine-address exclude each other",
        ),
        ({"replay": "CAPTURES"}, ("--x",), "nothing takes the options behind '--': --x"),
        ({"model": "MODEL", "engine_address": "ipc:///x"}, (), "it is tcp://HOST:PORT, where engines report"),
        ({"model": "MODEL", "ssl_keyfile": "k"}, (), "--ssl-keyfile goes with --ssl-certfile"),
        ({"model": "MODEL", "ssl_certfile": "/no/c"}, (), "--ssl-certfile /no/c: there is no such file"),
        ({"model": "MODEL", "chat_template": "/no/t"}, (), "--chat-template /no/t: there is no such file"),
    ],
)
def test_what_cannot_be_is_told(
    options: dict[str, Any], rest: tuple[str, ...], message: str, captures: str, model: str
) -> None:
    real = {"CAPTURES": captures, "MODEL": model}
    with pytest.raises(LaunchError) as caught:
        make_plan(Options(**{name: real.get(value, value) for name, value in options.items()}), rest)
    assert message in caught.value.message
    assert caught.value.exit == 2


def test_a_front_end_of_vllm_may_start_before_the_model_is_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: str
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert adopted_plan(Options(model="org/name")).model_dir is None
    assert adopted_plan(Options(model=model)).model_dir == model
    with pytest.raises(LaunchError, match="name no model"):
        adopted_plan(Options())


def test_the_command_of_vllm() -> None:
    options = Options(
        model="m",
        engine_command=f"{sys.executable} -m vllm",
        data_parallel_size=2,
        dtype="float32",
        max_model_len=99,
    )
    assert vllm_command(options, 29000, ["--tensor-parallel-size", "2"]) == [
        sys.executable, "-m", "vllm", "serve", "m", "--headless", "--data-parallel-address", "127.0.0.1",
        "--data-parallel-rpc-port", "29000", "--data-parallel-size", "2", "--data-parallel-size-local", "2",
        "--dtype", "float32", "--max-model-len", "99", "--tensor-parallel-size", "2",
    ]  # fmt: skip


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(LaunchError) as caught:
        vllm_command(Options(model="m", engine_command="no-such-vllm serve"), 1, [])
    assert caught.value.message == "there is no program 'no-such-vllm serve'"
    assert "--engine-command" in caught.value.hint


def test_the_command_of_our_engine() -> None:
    options = Options(model="m", data_parallel_size=2, kv_memory="1GiB", device="cpu", max_num_seqs=4)
    assert own_command(options, "tcp://127.0.0.1:1", 1, 9, ["--threads", "2"]) == [
        sys.executable, "-m", "toolgrammar_serving.engine", "m", "--handshake", "tcp://127.0.0.1:1", "--local",
        "--exit-with-parent", "--rank", "1", "--data-parallel-size", "2", "--progress-fd", "9",
        "--dtype", "auto", "--device", "cpu", "--max-num-seqs", "4", "--kv-memory", "1GiB", "--threads", "2",
    ]  # fmt: skip


def test_the_engine_understands_the_command() -> None:
    parse = pytest.importorskip("toolgrammar_serving.engine.options").parse
    options = Options(model="m", data_parallel_size=2, kv_memory="1GiB", device="cpu", max_num_seqs=4)
    found = parse(own_command(options, "tcp://127.0.0.1:1", 1, 9, ["--threads", "2"])[3:])
    assert (found.model, found.handshake, found.rank, found.data_parallel_size) == ("m", "tcp://127.0.0.1:1", 1, 2)
    assert (found.kv_memory, found.device, found.max_num_seqs, found.threads) == (2**30, "cpu", 4, 2)
    assert (found.progress_fd, found.exit_with_parent, found.local, found.ignored) == (9, True, True, ())


@pytest.mark.parametrize(
    "url,key,expected",
    [
        ("http://127.0.0.1:8000", False, "curl -s http://127.0.0.1:8000/v1/chat/completions -H 'content-type: "),
        ("http+unix:///run/s", False, "curl -s --unix-socket /run/s http://localhost/v1/chat/completions -H "),
        ("https://h:1", True, '-H "authorization: Bearer $TOOLGRAMMAR_API_KEY" -d '),
    ],
)
def test_the_next_step_is_a_line_to_copy(url: str, key: bool, expected: str) -> None:
    assert expected in request_line(url, "it's", key)
    assert '"model":"it\'\\\'\'s"' in request_line(url, "it's", key)
