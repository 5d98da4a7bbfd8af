"""Nested elements as a format has them: what becomes of the call around them, in ``grammars/minimax-m3.tg``."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from toolgrammar import Parser

NS = "]<]minimax[>["
STOP = "[e~["
PARAMETERS = {
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "integer"},
        "o": {"properties": {"s": {"type": "string"}}},
        "l": {"type": "array", "items": {"type": "integer"}},
    }
}
TOOLS = [{"name": "f", "parameters": PARAMETERS}]
OPEN = '~<tool_call>\n~<invoke name="f">'
CLOSE = "~</invoke>\n~</tool_call>"

# output, content, arguments and status of the call ("" is none), whether it is unfinished; "~" is the prefix
CALLS = [
    (
        f"a {OPEN}~<s>x~</s>~<o>~<s>y~</s>~</o>{CLOSE} b",
        "a  b",
        '{"s": "x", "o": {"s": "y"}}',
        "complete",
        False,
    ),
    (OPEN + CLOSE, None, "{}", "complete", False),
    (f"{OPEN} {CLOSE}", None, "{}", "complete", False),
    # disproved before a key: text
    (f"{OPEN}no{CLOSE}", f"{OPEN}no{CLOSE}", "", "", False),
    # flaws behind one: the rest is content
    (f"{OPEN}~<n>1~</n> and {CLOSE}b", "and ~</invoke>\nb", '{"n": 1', "malformed", False),
    (f"{OPEN}~<n>1~</n>~</o>{CLOSE}b", "~</o>~</invoke>\nb", '{"n": 1', "malformed", False),
    (f"{OPEN}~<o>~<s>x~</s>{CLOSE}b", "~</invoke>\nb", '{"o": {"s": "x"', "malformed", False),
    # another call's tag is no element
    (
        f'{OPEN}~<n>1~</n>~<invoke name="f">{CLOSE}',
        '~<invoke name="f">~</invoke>\n',
        '{"n": 1',
        "malformed",
        False,
    ),
    # cut
    (OPEN, None, "", "incomplete", True),
    (f"{OPEN}~<s", None, "", "incomplete", True),
    (f"{OPEN}~<s>so fa~</", None, '{"s": "so fa', "incomplete", True),
    (f"{OPEN}~<n>1~</n>~</invoke", None, '{"n": 1', "incomplete", True),
    (f"{OPEN}~<n>1~</n>~</invoke>", None, '{"n": 1}', "complete", True),
    # an end-of-turn token
    (f"{OPEN}~<s>x{STOP}", None, '{"s": "x', "incomplete", True),
    (f"{OPEN}~<n>1{STOP}", None, '{"n": ', "incomplete", True),
    (f"{OPEN}~<n>1~</n>{STOP}", None, '{"n": 1', "incomplete", True),
    (f"{OPEN}~<o>~<s>x~</s>{STOP} rest", None, '{"o": {"s": "x"', "incomplete", True),
    (f"{OPEN}~<s>x{STOP} y~</s>{CLOSE}", None, '{"s": "x[e~[ y"}', "complete", False),
]


def spelled(text: str) -> str:
    return text.replace(STOP, "\0").replace("~", NS).replace("\0", STOP)


def read(text: str, step: int, start: str = "content") -> Any:
    """The message, the text fed in pieces to copies of the parser."""
    parser = Parser("minimax-m3", tools=TOOLS, start=start)
    for at in range(0, len(text), step):
        parser.feed(text[at : at + step])
        parser = pickle.loads(pickle.dumps(parser)) if at % 3 else parser.copy()
    parser.finish()
    return parser.message()


@pytest.mark.parametrize(("source", "content", "arguments", "status", "unfinished"), CALLS)
def test_calls(source: str, content: str | None, arguments: str, status: str, unfinished: bool) -> None:
    text = spelled(source)
    for step in (len(text), 1, 5):
        message = read(text, step)
        assert message.content == (content and spelled(content))
        calls = [(call.name, call.arguments_raw, call.status) for call in message.calls]
        assert calls == ([("f", arguments, status)] if status else [])
        assert message.unfinished == unfinished


def test_draft() -> None:
    call = spelled(f"{OPEN}~<o>~<s>x~</s>~</o>{CLOSE}")
    for step in (len(call), 1, 5):
        message = read(f"Hm. {call}", step, "reasoning")
        assert message.reasoning == "Hm. "
        assert [each.arguments for each in message.calls] == [{"o": {"s": "x"}}]
        message = read(f"Hm. {call} So.</mm:think>Yes", step, "reasoning")
        assert message.reasoning == f"Hm. {call} So."
        assert (message.content, message.calls) == ("Yes", [])


def test_note() -> None:
    message = read(spelled(f"{OPEN}~<o>x~<s>y~</s>~</o>{CLOSE}"), 1)
    assert message.calls[0].arguments == {"o": {"s": "y", "$text": "x"}}
    assert [diagnostic.code for diagnostic in message.diagnostics] == ["W216"]
