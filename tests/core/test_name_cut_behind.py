"""An output cut between a call's name and its bracket: the name belongs to the call, once, and to nothing else."""

from __future__ import annotations

import pytest

from toolgrammar import parse

TOOLS = [{"type": "function", "function": {"name": "tide", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("<function_calls>tide ", [(0, 16, "framing"), (16, 21, "call")]),
        (
            "<function_calls>tide() tide\n",
            [(0, 21, "framing"), (21, 22, "call"), (22, 23, "framing"), (23, 28, "call")],
        ),
    ],
)
def test_the_name_is_no_tail(text: str, spans: list[tuple[int, int, str]]) -> None:
    message = parse(text, model="olmo3", tools=TOOLS)
    assert message.spans == spans
    assert message.calls[-1].status == "incomplete"
    assert (message.tail, message.unfinished) == ("", True)
