"""The argument vector that `vllm serve` gives its front end, and what its own options become."""

from __future__ import annotations

import json

import pytest
from toolgrammar_serving.launch.frontend_args import FrontendArgs, parse_argv, redacted, to_options
from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.problems import LaunchError

ARGS = {
    "model": "/m",
    "model_tag": "/m",
    "served_model_name": ["tiny"],
    "port": 18202,
    "tool_call_parser": "hermes",
    "reasoning_parser": "qwen3",
    "enable_auto_tool_choice": True,
    "profiler_config": {"profiler": None},
    "engine_ready_timeout_secs": 600,
    "http_timeout_keep_alive": 5,
    "key_of_tomorrow": [1, {"a": None}],
}


def argv(*more: str, args: object = None) -> list[str]:
    return [
        "frontend", "--listen-fd", "3", "--input-listener-fd", "4", "--output-listener-fd", "5",
        "--engine-start-index", "2", "--engine-count", "4", "--data-parallel-size", "8", *more,
        "--args-json", json.dumps(ARGS if args is None else args),
    ]  # fmt: skip


def test_the_vector_is_read() -> None:
    assert parse_argv(argv()) == FrontendArgs(3, 4, 5, 2, 4, 8, None, ARGS)


def test_optional_and_unknown_options_are_taken() -> None:
    found = parse_argv(
        argv("--grpc-listen-fd", "6", "--coordinator-address", "ipc:///c", "--tomorrow", "7", "--flag")
    )
    assert found == FrontendArgs(3, 4, 5, 2, 4, 8, "ipc:///c", ARGS)


@pytest.mark.parametrize(
    "args,message",
    [
        ([], "the following arguments are required"),
        (["frontend", "--listen-fd", "x"], "invalid int value: 'x'"),
        (["backend"], "invalid choice: 'backend'"),
        ([*argv()[:-1], "{"], "Input data was truncated"),
        ([*argv()[:-1], "[]"], "Expected `object`, got `array`"),
    ],
)
def test_a_wrong_vector_is_told(args: list[str], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        parse_argv(args)
    assert message in caught.value.message
    assert caught.value.exit == 2


def test_options_are_translated() -> None:
    args = {
        **ARGS,
        "max_model_len": 4096,
        "tokenizer": "/t",
        "chat_template": "/t/x.jinja",
        "default_chat_template_kwargs": {"enable_thinking": False},
        "api_key": ["k1", "k2"],
        "allowed_origins": ["*"],
        "root_path": "/p",
        "shutdown_timeout": 20,
        "ssl_certfile": "/c",
        "ssl_keyfile": "/k",
        "tool_strict_level": "parameter",
        "trust_request_chat_template": True,
        "enable_force_include_usage": True,
        "sse_keep_alive_interval": 7,
        "disable_fastapi_docs": True,
    }
    assert to_options(args, {"VLLM_API_KEY": "unused"}) == Options(
        model="/m",
        format="hermes",
        served_model_name=("tiny",),
        max_model_len=4096,
        tokenizer="/t",
        chat_template="/t/x.jinja",
        chat_template_kwargs={"enable_thinking": False},
        api_key=("k1", "k2"),
        allowed_origins=("*",),
        root_path="/p",
        drain_timeout=20.0,
        ssl_certfile="/c",
        ssl_keyfile="/k",
        keep_alive=5.0,
        engine_ready_timeout=600.0,
        tool_strict_level="parameter",
        trust_chat_template=True,
        force_usage=True,
        sse_keep_alive=7.0,
        docs=False,
    )


def test_little_is_enough() -> None:
    assert to_options({"model_tag": "/m"}, {"VLLM_API_KEY": "k"}) == Options(
        model="/m", api_key=("k",), drain_timeout=0.0
    )


@pytest.mark.parametrize(
    "parsers,expected",
    [
        ({}, "auto"),
        ({"tool_call_parser": "qwen3_xml"}, "qwen3-coder"),
        ({"tool_call_parser": "deepseek_v32", "reasoning_parser": "deepseek_v3"}, "deepseek-v3.2"),
        ({"tool_call_parser": "a_plugin_of_mine"}, "auto"),
        ({"reasoning_parser": "qwen3"}, "auto"),
        ({"tool_call_parser": "none", "reasoning_parser": "qwen3"}, "auto"),
        ({"tool_call_parser": "none", "reasoning_parser": "none"}, "identity"),
        ({"tool_call_parser": "none"}, "identity"),
    ],
)
def test_a_named_tool_parser_chooses_the_format(parsers: dict[str, str], expected: str) -> None:
    assert to_options({"model": "/m", **parsers}, {}).format == expected


def test_a_value_that_cannot_be_used_is_told() -> None:
    with pytest.raises(LaunchError, match=r"max_model_len='much' cannot be used"):
        to_options({"model": "/m", "max_model_len": "much"}, {})


def test_secrets_are_not_logged() -> None:
    args = {
        "model": "/m",
        "api_key": ["k1"],
        "hf_token": "t",
        "hf_token_unset": None,
        "tokenizer": "/t",
        "ssl_keyfile": "/k",
        "max_num_batched_tokens": 8,
        "kv_transfer_config": {"extra": [{"password": "p", "port": 1}]},
    }
    assert redacted(args) == {
        "model": "/m",
        "api_key": "***",
        "hf_token": "***",
        "hf_token_unset": None,
        "tokenizer": "/t",
        "ssl_keyfile": "/k",
        "max_num_batched_tokens": 8,
        "kv_transfer_config": {"extra": [{"password": "***", "port": 1}]},
    }
