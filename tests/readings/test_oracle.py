"""The oracle reads the case table: what is whole and free of mistakes comes out as the case expects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import parsy
import pytest
from readings.feeding import FORMATS, difference, grammar_of, read

from toolgrammar.language import read_grammar
from toolgrammar.readings.oracle import oracle
from toolgrammar.readings.turns import Turn

CASES = Path(__file__).parents[2] / "fixtures" / "cases"

#: Cases that are no valid text although nothing is remarked about them, by what is wrong with them.
NOT_VALID: dict[str, tuple[str, ...]] = {
    "cut inside reasoning": (
        "apriel/cut-inside-reasoning", "deepseek-r1/cut-inside-reasoning", "deepseek-r1/cut-inside-closing-tag",
        "ernie45/cut-inside-reasoning", "holo2/cut-inside-reasoning", "k2-horizon/cut-inside-reasoning",
        "nemotron-v3/cut-inside-reasoning", "qwen3/cut-in-reasoning",
    ),
    "an end of turn in place of an end marker": (
        "hermes/end-of-turn-in-place-of-closer", "lfm2/end-of-turn-in-place-of-call-end",
    ),
    "the frame of the answer is closed by the end of the stream": (
        "hunyuan-a13b/think-and-answer", "hunyuan-a13b/think-then-wrapped-call", "hunyuan-a13b/empty-think",
        "hunyuan-a13b/candidate-then-closer-then-answer",
    ),
    "a closer is missing": (
        "qwen3-coder/parameter-close-missing", "reported/qwen3-coder-missing-parameter-closer",
        "step3.5/parameter-close-missing",
    ),
    "a control token that means nothing here": (
        "mistral/marker-then-prose", "lfm2/draft-before-closer-real-block-behind",
    ),
}  # fmt: skip


def valid_cases() -> list[dict[str, Any]]:
    """The hard cases whose text is a whole turn; the machine remarks nothing about them."""
    left_out = {each for ids in NOT_VALID.values() for each in ids}
    found = []
    for path in sorted(CASES.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            expect = case["expect"]
            whole = not expect.get("unfinished") and all(
                "arguments" in call for call in expect.get("tool_calls") or []
            )
            if case["format"] in FORMATS and whole and not case.get("soft") and case["id"] not in left_out:
                found.append(case)
    return found


def test_whole_cases_read_as_they_expect() -> None:
    wrong = []
    for case in valid_cases():
        grammar, start = grammar_of(case["format"]), case["starts_in"].replace("auto", "content")
        _, message = read(grammar, [case["text"]], case["tools"], start)
        if any(note.code[:2] in ("W2", "E1") for note in message.diagnostics):
            continue
        expect = case["expect"]
        calls = [(call["name"], call["arguments"], call.get("id")) for call in expect.get("tool_calls") or []]
        try:
            got = oracle(grammar, start, case["tools"])(case["text"])
        except parsy.ParseError as error:
            wrong.append(f"{case['id']}: {error}")
            continue
        found = difference(got, Turn(expect["reasoning"], expect["content"], calls))
        if found:
            wrong.append(f"{case['id']}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        ("plain", Turn(None, "plain", [])),
        ("a<call>f{}</call>b", Turn(None, "ab", [("f", {}, None)])),
        ("a\n\n<call>f{}</call>", Turn(None, "a", [("f", {}, None)])),
        ("a <call> b", Turn(None, "a <call> b", [])),
        ('<call>f{"x": "</call>"}</call>\n<end>ignored', Turn(None, None, [("f", {"x": "</call>"}, None)])),
    ],
)
def test_a_small_grammar(text: str, turn: Turn) -> None:
    grammar = read_grammar(
        '@start content = turn\n@stop "<end>"\n'
        'turn : content (gap("\\n\\n") attempt("<call>" call(name(chars: /[a-z]/) json) "</call>") turn)?'
    )
    assert oracle(grammar)(text) == turn


def test_text_that_is_not_whole_is_an_error() -> None:
    with pytest.raises(parsy.ParseError):
        oracle(grammar_of("deepseek-v3.1"))("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{")
