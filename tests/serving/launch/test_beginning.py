"""Where captured outputs begin, where only their texts say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from launch_running import captures, serving
from toolgrammar_serving.launch.beginning import Beginning
from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.plan import make_plan
from toolgrammar_serving.launch.problems import LaunchError
from toolgrammar_serving.launch.replaying import choose_format, choose_start

INSIDE = {"text": "They ask.</think>Yes."}
OUTSIDE = {"text": "<think>They ask.</think>Yes."}
PLAIN = {"text": "Yes."}
CUT = {"text": "They ask and", "finish_reason": "length"}


@pytest.mark.parametrize(
    "records,format_name,start,said",
    [
        ([INSIDE], "deepseek-v3.2", "reasoning", "the text ends a reasoning"),
        ([INSIDE, CUT, INSIDE], "deepseek-v3.2", "reasoning", "all 2 texts end"),
        ([INSIDE, PLAIN], "deepseek-v3.2", "auto", "1 of 2 texts seem to begin inside it; --start reasoning"),
        ([OUTSIDE, PLAIN], "deepseek-v3.2", "auto", ""),
        ([CUT], "deepseek-v3.2", "auto", ""),
        ([{**PLAIN, "starts_in": "reasoning"}], "deepseek-v3.2", "reasoning", "the text ends"),
        ([INSIDE], "identity", "auto", ""),
        ([INSIDE], "no-such-format", "auto", ""),
    ],
)
def test_texts_say_where_they_begin(
    tmp_path: Path, records: list[dict[str, Any]], format_name: str, start: str, said: str
) -> None:
    file = captures(tmp_path / "c.jsonl", *records)
    found = choose_start(make_plan(Options(replay=file, format=format_name)))
    assert found.start == start
    assert said in found.why and bool(said) == bool(found.why), found
    assert (found == Beginning()) == (not said)


def test_a_server_shows_reasoning_as_reasoning() -> None:
    with serving("--replay", "fixtures/captures/deepseek-v3.2.txt", "--port", "0") as served:
        url = served.url
        assert served.wait_for(r"^start +(.*)$")[1].startswith("reasoning (the text ends a reasoning")
        body = {"model": "deepseek-v3.2", "messages": [{"role": "user", "content": "x"}]}
        message = httpx.post(f"{url}/v1/chat/completions", json=body).json()["choices"][0]["message"]
        assert message["reasoning"].startswith("The failing test compares")
        assert "</think>" not in message["content"]
        assert served.stop() == 0


CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


def test_a_model_that_nobody_knows_leaves_the_format_to_the_text(tmp_path: Path) -> None:
    """A chunk says which model wrote it; a ``format`` that is named and unknown is a mistake."""
    stream = tmp_path / "c.sse"
    text = CALL.replace("\n", "\\n").replace('"', '\\"')
    stream.write_text(f'data: {{"model": "my-own", "choices": [{{"delta": {{"content": "{text}"}}}}]}}\n\n')
    for file in (str(stream), captures(tmp_path / "c.jsonl", {"text": CALL, "model": "my-own"})):
        assert choose_format(make_plan(Options(replay=file))).format == "hermes"
    named = captures(tmp_path / "n.jsonl", {"text": CALL, "format": "my-own"})
    with pytest.raises(LaunchError, match="my-own"):
        choose_format(make_plan(Options(replay=named)))
