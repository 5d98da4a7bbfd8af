"""Faults the machine had once, one test a kind: what is right by the reading conventions, wherever it is cut.

The conventions are those of the format catalogue. Their numbers stand beside the tests.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from docs.notation import shown

from toolgrammar import CallEnd, Parser
from toolgrammar.combinators import FIELD_LIMIT
from toolgrammar.language import read_grammar
from toolgrammar.testing import every_split

PROPERTIES = {"n": {"type": "integer"}, "s": {"type": "string"}}
TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": PROPERTIES}}]
OBJECT = '{"name": "f", "arguments": {}}'
CALL = f"<tool_call>{OBJECT}</tool_call>"
#: The events of ``CALL``.
CALLED = ("start f", "args {}", "end")
#: A call that was cut.
CUT = ("note E201", "end incomplete", "unfinished")
ASSISTANT = "<|im_start|>assistant\n"


def content(text: str) -> str:
    return f"content {json.dumps(text, ensure_ascii=False)}"


def reasoning(text: str) -> str:
    return f"reasoning {json.dumps(text, ensure_ascii=False)}"


def made(source: str, **options: Any) -> Parser:
    """A parser for a format, or for the rules of a grammar whose content starts at ``turn``."""
    if ":" not in source:
        return Parser(source, tools=TOOLS, **options)
    grammar = read_grammar(f'@start content = turn\n@stop "<|end|>"\n{source}\n')
    return Parser(grammar=grammar, tools=TOOLS, **options)


def gives(source: str, text: str, *said: str, tail: str = "", **options: Any) -> None:
    """``text`` gives exactly these events, in the notation of ``docs``, and this tail, wherever it is cut."""
    first = made(source, **options)
    for pieces in ([text], list(text), *every_split(text)):
        parser = first.copy()
        events = [event for piece in pieces for event in parser.feed(piece)]
        events += parser.finish()
        message = parser.message()
        assert shown(events) + ["unfinished"] * message.unfinished == list(said), pieces
        assert message.tail == tail, pieces
        at = 0
        for start, end, _ in message.spans:
            assert start == at < end, pieces
            at = end
        assert at == len(text), pieces


# ---- drafts: calls spelled while reasoning is open (7) --------------------------------------------------------


def test_an_attempt_in_a_draft_shares_the_fate_of_the_draft() -> None:
    for broken in ("<tool_call>x", "<tool_call>[1]", '<tool_call>{"x": 1}'):
        gives("hermes", f"<think>a{CALL}{broken}</think>c", reasoning(f"a{CALL}{broken}"), content("c"))
    gives("hermes", f"<think>a{CALL}<tool_call>x", reasoning(f"a{CALL}<tool_call>x"))
    gives("hermes", f"<think>a{CALL}{CALL}</think>c", reasoning("a"), *CALLED, *CALLED, content("c"))


def test_a_second_draft_in_one_buffer_is_seen() -> None:
    gives("hermes", f"<think>a{CALL} b{CALL}</think>c", reasoning(f"a{CALL} b"), *CALLED, content("c"))
    gives("hermes", f"<think>a{CALL} b{CALL} c</think>d", reasoning(f"a{CALL} b{CALL} c"), content("d"))
    gives(
        "hermes", f"<think>a<tool_call>x{CALL}</think>{CALL}", reasoning(f"a<tool_call>x{CALL}"), *CALLED
    )  # fmt: skip
    gives(
        "hermes", f"<think>a{CALL} b<tool_call>{{</think>c", reasoning(f"a{CALL} b<tool_call>{{"), content("c")
    )  # fmt: skip


def test_the_closer_of_reasoning_breaks_an_incomplete_candidate() -> None:
    for cut in ("<tool_call>", '<tool_call>{"name": ', '<tool_call>{"name": "f", "arguments": {"n": 1'):
        gives("hermes", f"<think>a{cut}</think>c", reasoning(f"a{cut}"), content("c"))
    gives("hermes", f"<think>a{CALL} <tool_call>{{</think>c", reasoning(f"a{CALL} <tool_call>{{"), content("c"))
    two = f"a\n{CALL}\n<tool_call>{{"
    gives("hermes", f"<think>{two}\n</think>\nc", reasoning(two), content("c"))


def test_a_closer_that_could_go_on_a_candidate_breaks_it() -> None:
    """It begins as an array does: the candidate stumbles inside it."""
    closer = "[BEGIN FINAL RESPONSE]"
    section = "<tool_calls>"
    for cut in (
        section,
        f"{section}[",
        f'{section}[{{"name": "f", "arguments": ',
        f'{section}[{{"name": "f", "arguments": {{"n": ',
        f'{section}[{{"arguments": {{"n": ',
        f'{section}[{{"arguments": {{"n": [',
        f'{section}[{{"arguments": {{"n": [[1], ',
    ):
        gives("apriel", f"a{cut}{closer}c", reasoning(f"a{cut}"), content("c"), start="reasoning")


def test_the_closer_of_reasoning_is_data_inside_a_json_string() -> None:
    call = '<tool_call>{"name": "f", "arguments": {"s": "a</think>b"}}</tool_call>'
    told = ("start f", 'args {"s": "a</think>b"}', "end")
    gives("hermes", f"<think>x{call}", reasoning("x"), *told)
    gives("hermes", f"<think>x{call}</think>y", reasoning("x"), *told, content("y"))
    gives("hermes", f"<think>x{call} y</think>z", reasoning(f"x{call} y"), content("z"))
    gives("hermes", f"<think>x{call[:-14]}", reasoning("x"), "start f", 'args {"s": "a</think>b"', *CUT)
    broken = '<tool_call>{"name": "f", "arguments": {"s": "</think>", "n": 1'
    gives("hermes", f"<think>x{broken}</think>y", reasoning(f"x{broken}"), content("y"))


def test_a_candidate_may_end_in_something_optional() -> None:
    turn = (
        'turn : reasoning ("</t>" answer | draft("<c>" envelope "</c>"?, closer: "</t>") turn)\nanswer : content'
    )
    for candidate in (f"<c>{OBJECT}", f"<c>{OBJECT}</c>"):
        gives(turn, f"a{candidate}", reasoning("a"), *CALLED)
        gives(turn, f"a{candidate} b", reasoning(f"a{candidate} b"))
        gives(turn, f"a{candidate} b</t>c", reasoning(f"a{candidate} b"), content("c"))
        gives(turn, f"a{candidate}</t><c>{OBJECT}", reasoning(f"a{candidate}"), *CALLED)
        gives(turn, f"a{candidate}<c>{OBJECT}", reasoning("a"), *CALLED, *CALLED)


def test_control_tokens_in_a_draft_that_was_thought_stay() -> None:
    turn = """turn : reasoning ("</t>" answer | draft("<c>" "<|k|>" envelope "<|/k|>" "</c>", closer: "</t>") turn)
answer : content"""
    candidate = f"<c><|k|>{OBJECT}<|/k|></c>"
    gives(turn, f"a{candidate} b</t>c", reasoning(f"a{candidate} b"), content("c"))
    gives(turn, "a<c><|k|>x</t>c", reasoning("a<c><|k|>x"), content("c"))
    gives(turn, f"a{candidate}", reasoning("a"), *CALLED)


# ---- attempts and markers (2, 3, 4) ---------------------------------------------------------------------------


def test_white_space_before_a_disproved_marker_stays() -> None:
    for marker in ("<tool_call>", "<tool_c", '<tool_call>{"x": 1}'):
        gives("hermes", f"a\n\n{marker} no", content(f"a\n\n{marker} no"))
        gives("hermes", f"a \n {marker} no", content(f"a \n {marker} no"))
        gives("hermes", f"\n\n{marker} no", content(f"\n\n{marker} no"))
        gives("hermes", f"<think>a\n{marker} no", reasoning(f"a\n{marker} no"))
        gives("hermes", f" \n{marker} no", content(f" \n{marker} no"))
        gives("hermes", f"<think> \n{marker} no", reasoning(f" \n{marker} no"))
    gives("hermes", "<think>a\n</thinkx", reasoning("a\n</thinkx"))
    gives("qwen3-coder", "a\n\n<tool_call>\n<function=f>\n no", content("a\n\n<tool_call>\n<function=f>\n no"))


def test_an_end_of_turn_token_inside_a_word_like_attempt() -> None:
    turn = 'turn : content (attempt("Do:" ws call(name ":" json), word) content)?'
    gives(turn, "x Do:<|end|>", content("x Do:"))
    gives(turn, "x Do: f<|end|>", content("x Do: f"))
    gives(turn, "x Do: f:{<|end|>", content("x "), "start f", "args {", "note E101", "end malformed")
    gives("pythonic", "[f<|eot_id|>", content("[f"))
    gives("phi4-mini", "x functools[<|end|>", content("x functools["))


def test_an_attempt_without_a_marker_gives_way_to_the_next_alternative() -> None:
    one = 'attempt(call(name(chars: /\\w/) "(" pyargs), word)'
    two = 'attempt(call(name(chars: /\\w/) ":" &("{") json), word)'
    turn = f'turn : {one} | {two} | content "<a>" reasoning'
    gives(turn, "f(n=1)", "start f", 'args {"n": 1}', "end")
    gives(turn, 'f:{"n": 1}', "start f", 'args {"n": 1}', "end")
    gives(turn, "f+g<a>h", content("f+g"), reasoning("h"))
    gives(turn, "f:g<a>h", content("f:g"), reasoning("h"))
    gives(turn, "f", content("f"))


def test_a_marker_that_begins_another_is_undecided() -> None:
    turn = 'turn : content ("<a>" reasoning | "<a>bc" drop)'
    gives(turn, "x<a>", content("x"))
    gives(turn, "x<a>b", content("x"), reasoning("b"))
    gives(turn, "x<a>bd", content("x"), reasoning("bd"))
    gives(turn, "x<a>bcd", content("x"))
    gives('turn : content call("<" name (">" | ">>") json)', "<f>>{}", "start f", "args {}", "end")
    gives('turn : content call("<" name (">" | ">>") json)', "<f>{}", "start f", "args {}", "end")
    value = 'turn : content call("<" name ":" key "=" typed (";" | ";;") ".")'
    gives(value, "<f:s=a;;.", "start f", 'args {"s": "a"}', "end")
    gives(value, "<f:s=a;.", "start f", 'args {"s": "a"}', "end")


def test_a_token_that_a_field_holds_is_taken_whole() -> None:
    turn = 'turn : "<|a|>" field(k, holds: "<|b|>") (">" | "b" | "<|c|>" "<|b|>") content'
    gives(turn, "<|a|>x<|b|>y>z", content("z"))
    gives(turn, "<|a|><|b|><|b|>bz", content("z"))
    gives(turn, "<|a|>x<|b|><|c|><|b|>z", content("z"))


def test_the_limit_of_a_field_does_not_depend_on_the_cuts() -> None:
    turn = 'turn : content call("<" name ">" json)'
    name = "g" * FIELD_LIMIT
    gives(turn, f"<{name}>{{}}", f"start {name}", "args {}", "note E301", "end")
    gives(turn, f"<{name}g>{{}}", "note W212", content(f"<{name}g>{{}}"))


# ---- where the output is cut (8, 9, 10, 14) -------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
def test_an_id_behind_the_arguments_is_told_though_the_call_is_cut(whole: bool) -> None:
    text = '<tool_call>{"name": "f", "arguments": {"n": 1}, "id": "c7"'
    parser = Parser("hermes", tools=TOOLS)
    events = [event for piece in ([text] if whole else text) for event in parser.feed(piece)]
    events += parser.finish()
    assert [event.id for event in events if isinstance(event, CallEnd)] == ["c7"]
    assert [(call.id, call.status) for call in parser.message().calls] == [("c7", "incomplete")]
    gives("hermes", text, "start f", 'args {"n": 1}', *CUT)


def test_half_a_closer_at_the_end_is_no_argument_text() -> None:
    raw = 'turn : call(name ":" key "=" typed "</p>" ".")'
    gives(raw, "f:s=a</", "start f", 'args {"s": "a', *CUT, tail="</")
    gives(raw, "f:s=a</x</", "start f", 'args {"s": "a</x', *CUT, tail="</")
    gives(raw, "f:s=</", "start f", 'args {"s": "', *CUT, tail="</")
    gives(raw, "f:n=1</", "start f", 'args {"n": ', *CUT, tail="</")
    gives(raw, "f:o={</", "start f", 'args {"o": ', *CUT, tail="</")
    trimmed = 'turn : call(name ":" key "=" typed(trim: "\\n") "</p>" ".")'
    gives(trimmed, "f:s=\na\n", "start f", 'args {"s": "a', *CUT, tail="\n")
    gives(trimmed, "f:s=\na\n</", "start f", 'args {"s": "a', *CUT, tail="\n</")
    gives(trimmed, "f:s=a\n\n</", "start f", 'args {"s": "a\\n', *CUT, tail="\n</")
    gives("qwen3-coder", "<tool_call><function=f><parameter=s>\na\n</para", "start f", 'args {"s": "a', *CUT,
          tail="\n</para")  # fmt: skip


def test_what_follows_a_field_may_be_cut_in_half() -> None:
    turn = 'turn : content call("<f=" name "</f>" json)'
    half = ("note E202", "unfinished")
    gives(turn, "x<f=f</", content("x"), *half, tail="<f=f</")
    gives(turn, "x<f=f</f", content("x"), *half, tail="<f=f</f")
    gives(turn, "x<f=f</f>", content("x"), "start f", *CUT)
    gives("mistral", "[TOOL_CALLS]f[AR", *half, tail="[TOOL_CALLS]f[AR")
    gives("kimi-k2", "<|tool_call_begin|>functions.f:0<|tool", *half, tail="functions.f:0<|tool")
    gives("qwen3-coder", "<tool_call><function=f><parameter=s</", "start f", *CUT, tail="s</")


def test_an_object_of_a_notation_that_the_next_opener_breaks_off_is_incomplete() -> None:
    after = ("note E103", "end incomplete", *CALLED)
    following = "<|tool_call>call:f{}<tool_call|>"
    for text, given in (
        ("{", "{"), ("{n:", '{"n": '), ("{n:1", '{"n": 1'), ('{s:<|"|>a<|"|>', '{"s": "a"'), ("{n:[1", '{"n": [1'),
    ):  # fmt: skip
        gives("gemma4", f"<|tool_call>call:f{text}{following}", "start f", f"args {given}", *after)


def test_broken_json_without_an_end_marker_is_malformed() -> None:
    broken = ("note E101", "end malformed", "unfinished")
    gives("mistral", '[TOOL_CALLS]f[ARGS]{"n": 1 2', "start f", 'args {"n": 1 2', *broken)
    gives("mistral", '[TOOL_CALLS]f[ARGS]{"n": 1 2}', "start f", 'args {"n": 1 2}', *broken)
    gives("hermes", '<tool_call>{"name": "f", "arguments": {"n": 1 2}', "start f", 'args {"n": 1 2}', *broken)
    gives("harmony", '<|channel|>commentary to=functions.f<|message|>{"n"}', "start f", 'args {"n"}', *broken)


def test_a_stream_that_ends_inside_a_section_says_so() -> None:
    gives('turn : content section("<t>" content "</t>")', "x<t>y", content("xy"), "note E202", "unfinished")
    gives("hermes", CALL[:-12], *CALLED, "note E202", "unfinished")
    gives("hermes", CALL[:-4], *CALLED, "note E202", "unfinished", tail="</tool_c")


# ---- notes ----------------------------------------------------------------------------------------------------


def test_notes_about_a_call_stand_before_its_end() -> None:
    gives(
        "hermes", "<tool_call>{'name': 'f', \"arguments\": {'s': 'a', \"n\": 1,}}</tool_call>",
        "start f", 'args {"s": "a", "n": 1}', *["note W202"] * 4, "note W201", "end",
    )  # fmt: skip
    gives("glm-4.5", "<tool_call>f\n<arg_key>s</arg_key><arg_key>n</arg_key><arg_value>1</arg_value></tool_call>",
          "start f", 'args {"n": 1}', "note W213", "end")  # fmt: skip
    gives("mistral", "[TOOL_CALLS]f[ARGS][1]</s>", "start f", "args [1]", "note E102", "end malformed")
    gives("mistral", "a[/THINK]b", content("a"), "note W215", content("b"))


# ---- prompts (6) ----------------------------------------------------------------------------------------------


def test_a_prompt_may_end_in_white_space() -> None:
    for prompt in ("", "  ", "\n\n", "hello ", "<think>\n\n</think>\n\n"):
        gives("hermes", "a", content("a"), prompt=ASSISTANT + prompt)
        gives("hermes", f"\n{CALL}", *CALLED, prompt=ASSISTANT + prompt)
    for prompt in ("<think>", "<think>\n", "<think>\n\n", " <think> "):
        gives("hermes", "a</think>b", reasoning("a"), content("b"), prompt=ASSISTANT + prompt)


def test_half_a_marker_at_the_end_of_a_prompt_is_no_output() -> None:
    gives("hermes", "a", content("a"), prompt=f"{ASSISTANT}<thi")
    gives("hermes", "a</think>b", reasoning("a"), content("b"), prompt=f"{ASSISTANT}<think>x</thi")
    gives("hermes", "a", content("a"), prompt=f"{ASSISTANT}x<tool_c")


def test_a_prompt_may_end_in_an_open_attempt() -> None:
    opened = f"{ASSISTANT}<tool_call>"
    gives("hermes", f"{OBJECT}</tool_call>", *CALLED, prompt=opened)
    gives("hermes", "no", content("no"), prompt=opened)
    gives("hermes", ', "arguments": {}}</tool_call>a', *CALLED, content("a"), prompt=f'{opened}{{"name": "f"')
    gives("hermes", 'b"}}</tool_call>', "start f", 'args b"}', "end",
          prompt=f'{opened}{{"name": "f", "arguments": {{"s": "a')  # fmt: skip
    gives("qwen3-coder", "a\n</parameter></function></tool_call>", "start f", 'args a"}', "end",
          prompt=f"{opened}\n<function=f>\n<parameter=s>\n")  # fmt: skip


def test_a_prompt_without_an_anchor_is_looked_at() -> None:
    gives("hermes", "a</think>b", reasoning("a"), content("b"), prompt="Think first. <think>\n")
    gives("hermes", "a", content("a"), prompt="Think first. <think>\nx</think>\n")
    gives("hermes", "a", content("a"), prompt="no marker here")


# ---- more kinds, one line each --------------------------------------------------------------------------------


#: Source, text, events, tail, options.
KINDS = [
    pytest.param(
        "hermes", f"<think>a{CALL}\n", [reasoning("a"), *CALLED], "", {}, id="white-space-behind-a-draft",
    ),
    pytest.param(
        'turn : "<a>" field(k, holds: "<|b|>") ("|>" | "<c>") content', "<a>x<|b|>y<c>z", [content("z")], "", {},
        id="held-token-of-no-literal",
    ),
    pytest.param(
        'turn : "<a>" reasoning | "<a>bc" drop', "<a>b", [reasoning("b")], "", {}, id="choice-prefix-at-the-end",
    ),
    pytest.param(
        'turn : call("<py>" let(name, "f") verbatim(s) "</py>")', "<py>a</p",
        ["start f", 'args {"s": "a', *CUT], "</p", {}, id="verbatim-cut",
    ),
    pytest.param(
        "kimi-k2", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>", ["start f functions.f:0", *CUT],
        "", {}, id="name-by-choose-at-the-end",
    ),
    pytest.param(
        "gemma4", "<|tool_call>call:f{n:1,<|tool_call>call:f{}<tool_call|>",
        ["start f", 'args {"n": 1', "note E103", "end incomplete", *CALLED], "", {}, id="comma-then-opener",
    ),
    pytest.param(
        "hermes", 'f", "arguments": {}}</tool_call>', [*CALLED], "",
        {"prompt": f'{ASSISTANT}<tool_call>\n{{"name": "'}, id="prompt-in-an-undecided-name",
    ),
    pytest.param(
        "hermes", '"n": 1}}</tool_call>', ["start f", 'args , "n": 1}', "end"], "",
        {"prompt": f'{ASSISTANT}<tool_call>{{"name": "f", "arguments": {{"s": "a", '}, id="prompt-behind-a-comma",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("source", "text", "said", "tail", "options"), KINDS)
def test_kind(source: str, text: str, said: list[str], tail: str, options: dict[str, Any]) -> None:
    gives(source, text, *said, tail=tail, **options)
