"""`toolgrammar-frontend` as `vllm serve` starts it: inherited sockets, a supervisor that owns the handshake."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import launch_running
import openai
import pytest
import serving_models
from launch_running import Served
from toolgrammar_serving.protocol.wire import Addresses
from toolgrammar_serving.replay.choice import InOrder
from toolgrammar_serving.replay.embedded import EmbeddedReplay
from toolgrammar_serving.replay.options import EngineOptions
from toolgrammar_serving.replay.scripts import Script
from toolgrammar_serving.replay.vocabulary import FileVocabulary

TEXT = '<think>\nHm.\n</think>\n\nHere:\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
SECRET = "sk-very-secret"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(serving_models.byte_level(tmp_path_factory.mktemp("frontend") / "tiny"))


class Supervisor:
    """What a front end sees of `vllm serve`: three bound sockets, and engines that know their addresses."""

    def __init__(self, folder: Path) -> None:
        self.http = socket.socket()
        self.http.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.http.getsockname()[1]}"
        self.listeners = [self._listener(folder / name) for name in ("in", "out")]
        self.addresses = Addresses([f"ipc://{folder}/in"], [f"ipc://{folder}/out"])

    def _listener(self, path: Path) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.bind(str(path))
        made.listen(128)
        return made

    def argv(self, args: dict[str, Any], ranks: Sequence[int] = (0,)) -> list[str]:
        http, inputs, outputs = (str(each.fileno()) for each in (self.http, *self.listeners))
        return [
            "frontend", "--listen-fd", http, "--input-listener-fd", inputs, "--output-listener-fd", outputs,
            "--engine-start-index", str(ranks[0]), "--engine-count", str(len(ranks)), "--data-parallel-size", "8",
            "--args-json", json.dumps(args),
        ]  # fmt: skip

    @contextmanager
    def start(self, args: dict[str, Any], ranks: Sequence[int] = (0,)) -> Iterator[Served]:
        """Start it, with our ends of the sockets closed, as its parent does."""
        sockets = (self.http, *self.listeners)
        fds = [each.fileno() for each in sockets]
        with launch_running.serving(*self.argv(args, ranks), module="frontend", pass_fds=fds) as served:
            for each in sockets:
                each.close()
            yield served

    @contextmanager
    def engines(self, script: Script, ranks: Sequence[int] = (0,)) -> Iterator[list[EmbeddedReplay]]:
        with ExitStack() as stack:
            yield [
                stack.enter_context(
                    EmbeddedReplay(
                        InOrder([script]),
                        EngineOptions(rank=rank, max_model_len=1024, vllm_version="0.32.0"),
                        addresses=self.addresses,
                    )
                )
                for rank in ranks
            ]


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path)
    yield made
    for each in (made.http, *made.listeners):
        each.close()


def script(model: str, **more: Any) -> Script:
    return Script.of_tokens(FileVocabulary(model).encode(TEXT), eos=True, **more)


def args(directory: str, **more: Any) -> dict[str, Any]:
    return {
        "model": directory,
        "model_tag": directory,
        "served_model_name": ["tiny", "other"],
        "tool_call_parser": "hermes",
        "reasoning_parser": "qwen3",
        "some_config_of_tomorrow": {"nested": [1, None]},
        **more,
    }


def test_it_serves_on_the_inherited_sockets(supervisor: Supervisor, model: str) -> None:
    with (
        supervisor.start(args(model, api_key=[SECRET])) as served,
        supervisor.engines(script(model)) as (engine,),
        launch_running.client(supervisor.url) as client,
    ):
        served.wait_for(r"serving tiny, other as hermes \(named\)")
        client = client.with_options(api_key=SECRET)
        answer = client.chat.completions.create(model="other", messages=[{"role": "user", "content": "go"}])
        assert answer.choices[0].message.content == "Here:"
        assert answer.choices[0].message.tool_calls is not None
        assert answer.choices[0].message.tool_calls[0].model_dump()["function"]["name"] == "f"
        (request,) = engine.requests
        assert request.client_index == 0
        assert request.sampling_params is not None
        assert request.sampling_params.max_tokens == 1024 - len(request.prompt_token_ids or ())
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="wrong").models.list()
        assert served.stop() == 0
        assert "'api_key': '***'" in served.said
        assert SECRET not in served.said
        assert "Traceback" not in served.said


def test_until_the_engines_register_clients_are_refused(supervisor: Supervisor, model: str) -> None:
    with supervisor.start(args(model)) as served:
        served.wait_for("started with")
        with pytest.raises(httpx.ConnectError):
            httpx.get(supervisor.url + "/health")
        with supervisor.engines(script(model)):
            served.wait_for("serving tiny")
            assert httpx.get(supervisor.url + "/health").status_code == 200
            assert served.stop(signal.SIGINT) == 0


def test_ranks_of_the_middle_are_addressed_by_their_numbers(supervisor: Supervisor, model: str) -> None:
    ranks = (2, 3)
    with (
        supervisor.start(args(model), ranks) as served,
        supervisor.engines(script(model), ranks) as engines,
        launch_running.client(supervisor.url) as client,
    ):
        served.wait_for("serving tiny")
        for rank in (3, 2, 3):
            client.chat.completions.create(
                model="tiny",
                messages=[{"role": "user", "content": "go"}],
                extra_headers={"x-data-parallel-rank": str(rank)},
            )
        assert [len(engine.requests) for engine in engines] == [1, 2]
        with pytest.raises(openai.BadRequestError, match="rank"):
            client.chat.completions.create(
                model="tiny",
                messages=[{"role": "user", "content": "go"}],
                extra_headers={"x-data-parallel-rank": "1"},
            )
        assert served.stop() == 0


def test_a_dead_engine_ends_it_with_a_code_of_failure(supervisor: Supervisor, model: str) -> None:
    dying = Script.of([72, 105], [], finish=None, then="dead")
    with (
        supervisor.start(args(model)) as served,
        supervisor.engines(dying),
        launch_running.client(supervisor.url) as client,
    ):
        served.wait_for("serving tiny")
        with pytest.raises(openai.APIError):
            for _chunk in client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "go"}], stream=True
            ):
                pass
        assert served.ends() == 1


def test_a_stop_before_the_engines_are_there_is_a_stop(supervisor: Supervisor, model: str) -> None:
    with supervisor.start(args(model)) as served:
        served.wait_for("started with")
        assert served.stop() == 0


@pytest.mark.parametrize(
    "change,message",
    [
        ({"model": "/no/model"}, "there is no model directory /no/model"),
        ({"chat_template": "/no/template.jinja"}, "cannot be read"),
    ],
)
def test_what_cannot_start_is_no_success(
    supervisor: Supervisor, model: str, change: dict[str, Any], message: str
) -> None:
    with supervisor.start(args(model, **change)) as served:
        assert served.ends() == 2
        assert message in served.said
        assert "Traceback" not in served.said


def test_engines_that_do_not_come_are_no_success(supervisor: Supervisor, model: str) -> None:
    with supervisor.start(args(model, engine_ready_timeout_secs=1)) as served:
        assert served.ends() == 1
        assert "engine" in served.said


def test_wrong_arguments_are_no_success() -> None:
    with launch_running.serving("frontend", "--listen-fd", "3", module="frontend") as served:
        assert served.ends() == 2
        assert "this program is started by 'vllm serve'" in served.said
