"""Token ids in place of text: special tokens count as markers, ordinary tokens that spell the same are data.

The tokenizer is a toy: every ordinary token is one byte of UTF-8 (its id is the byte), special tokens have ids
from 300 on. ``encode`` turns special tokens' text into their ids, as a template does; ``spell`` never does.
"""

from __future__ import annotations

import codecs
import json
import pickle
import random
import re
from pathlib import Path
from typing import Any

import pytest

from toolgrammar import CallArguments, CallEnd, CallStart, Content, Diagnostic, Parser, Reasoning, registry
from toolgrammar.machine.tokens import Marks

SPECIAL = {
    "hermes": ("<|im_start|>", "<|im_end|>", "<|endoftext|>"),
    "deepseek-v3": (
        "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>",
    ),
    "deepseek-v3.2": ("<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
    "kimi-k2": (
        "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|im_end|>", "[EOS]", "[EOT]",
    ),
    "mistral": ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "</s>"),
    "harmony": (
        "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>", "<|return|>",
        "<|endoftext|>",
    ),
    "gemma4": (
        "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<|turn>", "<turn|>",
        '<|"|>', "<eos>",
    ),
    "glm-4.5": ("<|user|>", "<|observation|>", "<|endoftext|>"),
    "qwen3-coder": ("<|im_start|>", "<|im_end|>"),
}  # fmt: skip
#: In some DeepSeek vocabularies the word inside a tag is a special token, not the whole tag.
DSML = ("｜DSML｜", *SPECIAL["deepseek-v3.2"])
PROPERTIES = {"s": {"type": "string"}, "n": {"type": "integer"}}
TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": PROPERTIES}}]
STARTS = {"deepseek-v3.2": "reasoning"}

# Known faults: what is marked so turns into a failure here when it is mended.


#: The formats, for tests in which a header of harmony has a token right behind the name.
NAMED = list(SPECIAL)


class Decoder:
    """Bytes to text, a character as soon as it is whole."""

    def __init__(self) -> None:
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")

    def step(self, number: int) -> str | None:
        return self._bytes.decode(bytes([number])) or None

    def flush(self) -> str:
        return self._bytes.decode(b"", True)

    def copy(self) -> Decoder:
        new = Decoder()
        new._bytes.setstate(self._bytes.getstate())
        return new


class Toy:
    """The protocol of ``machine.tokens``, and two ways from text to ids."""

    def __init__(self, *special: str) -> None:
        self._special = dict(enumerate(special, 300))
        self._ids = {text: number for number, text in self._special.items()}
        self._parts = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))))

    def special_tokens(self) -> dict[int, str]:
        return self._special

    def decoder(self) -> Decoder:
        return Decoder()

    def encode(self, text: str) -> list[int]:
        ids, at = [], 0
        for match in self._parts.finditer(text):
            ids += [*self.spell(text[at : match.start()]), self._ids[match.group()]]
            at = match.end()
        return ids + self.spell(text[at:])

    def spell(self, text: str) -> list[int]:
        return list(text.encode())


def joined(events: list[Any]) -> list[tuple[Any, ...]]:
    """Events without made-up ids, neighbours of one kind joined."""
    out: list[tuple[Any, ...]] = []
    for event in events:
        match event:
            case Content(text, start, end) | Reasoning(text, start, end):
                new: tuple[Any, ...] = (type(event).__name__, text, start, end)
            case CallArguments(index, text, _, _):  # which characters a piece came from depends on the cuts
                new = (f"args {index}", text, 0, 0)
            case CallStart() | CallEnd() | Diagnostic():
                out.append(tuple(getattr(event, name) for name in event.__struct_fields__ if name != "id"))
                continue
        if out and out[-1][0] == new[0]:
            new = (new[0], out[-1][1] + new[1], out[-1][2], new[3])
            out.pop()
        out.append(new)
    return out


def message(parser: Parser) -> dict[str, Any]:
    """What the message says, without made-up ids."""
    found = parser.message()
    return {
        "reasoning": found.reasoning,
        "content": found.content,
        "calls": [(call.name, call.arguments_raw, call.status, call.span) for call in found.calls],
        "diagnostics": [(each.code, each.message, each.span) for each in found.diagnostics],
        "unfinished": found.unfinished,
        "tail": found.tail,
        "spans": found.spans,
    }


def read(parser: Parser, pieces: list[Any]) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    events = [event for piece in pieces for event in parser.feed(piece)]
    return joined(events + parser.finish()), message(parser)


def by_text(name: str, text: str, **options: Any) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    return read(Parser(name, **options), [text])


def by_ids(name: str, ids: list[int], toy: Toy, cut: int = 0, **options: Any) -> Any:
    """``cut``: 0 all at once, 1 one by one, else the seed of random slices."""
    if cut == 0:
        pieces = [ids]
    elif cut == 1:
        pieces = [[number] for number in ids]
    else:
        places = sorted(random.Random(cut).sample(range(len(ids) + 1), min(12, len(ids))))
        pieces = [ids[a:b] for a, b in zip([0, *places], [*places, len(ids)], strict=True)]
    return read(Parser(name, tokenizer=toy, **options), pieces)


def made(name: str) -> Toy:
    return Toy(*SPECIAL[name])


# ---- the same as text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
@pytest.mark.parametrize("name", NAMED)
def test_a_capture_reads_as_its_text_does(name: str, cut: int, fixtures: Path) -> None:
    text = (fixtures / "captures" / f"{name}.txt").read_text(encoding="utf-8")
    tools = json.loads((fixtures / "captures" / "tools.json").read_text(encoding="utf-8"))
    options: dict[str, Any] = {"tools": tools, "start": STARTS.get(name, "auto")}
    toy = made(name)
    assert by_ids(name, toy.encode(text), toy, cut, **options) == by_text(name, text, **options)


@pytest.mark.parametrize("name", NAMED)
def test_cases_read_as_their_text_does(name: str, fixtures: Path) -> None:
    different = []
    for line in (fixtures / "cases" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        options: dict[str, Any] = {"tools": case["tools"], "start": case["starts_in"]}
        toy = made(name)
        if by_ids(name, toy.encode(case["text"]), toy, **options) != by_text(name, case["text"], **options):
            different.append(case["id"])
    assert different == []


def test_a_special_token_inside_a_tag(fixtures: Path) -> None:
    text = (fixtures / "captures" / "deepseek-v3.2.txt").read_text(encoding="utf-8")
    toy = Toy(*DSML)
    same = by_text("deepseek-v3.2", text, start="reasoning")
    assert by_ids("deepseek-v3.2", toy.encode(text), toy, start="reasoning") == same


#: Format, text: a marker as itself in a place of its own.
SMALL = [
    ("hermes", "a<|im_end|>"),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"s": "<|im_end|>"}}</tool_call>'),
    ("deepseek-v3", "a<｜tool▁sep｜>b<｜tool▁call▁end｜>c"),
    ("deepseek-v3", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g<｜tool▁sep｜>x"),
    ("deepseek-v3", "x<｜tool▁call▁begin｜>"),
    ("kimi-k2", '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"s": x<|tool_call_end|>'),
    ("mistral", '[TOOL_CALLS]f[ARGS]{"s": x[TOOL_CALLS]f[ARGS]{}'),
    ("mistral", "[TOOL_CALLS]No such tool."),
    ("mistral", "a[/THINK]b"),
    ("mistral", '[TOOL_CALLS][{"name": "f", "arguments": {"s": "[ARGS]"}}]'),
    ("harmony", "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b"),
    ("harmony", " to=functions.f<|channel|>commentary json<|message|>{}<|call|>"),
    ("harmony", "<|channel|>commentary to=functions.f<|constrain|>json<|message|>{}<|call|>"),
    ("harmony", "<|channel|>commentary to=functions.f<|message|>{x<|call|>"),
    ("gemma4", '<|tool_call>call:f{s:<|"|>a"b<|"|>,n:3}<tool_call|>'),
    ("gemma4", "<|tool_call>call:f{s:a<tool_call|>"),
    ("gemma4", "a<|tool_call>x"),
    ("gemma4", "a<tool_call|>b"),
    ("glm-4.5", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a<|user|>b</arg_value>\n</tool_call>"),
    ("glm-4.5", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a<|user|>"),
    ("qwen3-coder", "<tool_call><function=f><parameter=s>a<|im_end|>b</parameter></function></tool_call>"),
]


@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize(("name", "text"), SMALL)
def test_special_tokens_are_markers(name: str, text: str, cut: int) -> None:
    toy = made(name)
    assert by_ids(name, toy.encode(text), toy, cut, tools=TOOLS) == by_text(name, text, tools=TOOLS)


# ---- data that looks like a marker ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPECIAL)
def test_spelled_markers_in_content_are_content(name: str) -> None:
    toy = made(name)
    text = "a " + " b ".join(SPECIAL[name]) + " c"
    events, found = by_ids(name, toy.spell(text), toy, 1)
    assert events == [("Content", text, 0, len(text))]
    assert found["spans"] == [(0, len(text), "content")]
    assert not found["unfinished"]


#: Format, the text up to a string argument, what follows it; ``f``'s argument ``s`` is open between them.
STRINGS = [
    ("hermes", '<tool_call>{"name": "f", "arguments": {"s": "', '"}}</tool_call>'),
    ("deepseek-v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"s\": \"",
     '"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'),
    ("kimi-k2", '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"s": "',
     '"}<|tool_call_end|><|tool_calls_section_end|>'),
    ("mistral", '[TOOL_CALLS]f[ARGS]{"s": "', '"}'),
    ("harmony", '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"s": "', '"}<|call|>'),
    ("gemma4", '<|tool_call>call:f{s:<|"|>', '<|"|>}<tool_call|>'),
    ("deepseek-v3.2",
     '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="s" string="true">',
     "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"),
    ("glm-4.5", "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>", "</arg_value>\n</tool_call>"),
    ("qwen3-coder", "<tool_call>\n<function=f>\n<parameter=s>\n", "\n</parameter>\n</function>\n</tool_call>"),
]  # fmt: skip


@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize(("name", "before", "after"), STRINGS)
def test_spelled_markers_in_a_value_are_data(name: str, before: str, after: str, cut: int) -> None:
    toy = made(name)
    value = "x ".join(SPECIAL[name]).replace('"', "'") if name != "gemma4" else "x ".join(SPECIAL[name])
    ids = toy.encode(before) + toy.spell(value) + toy.encode(after)
    parser = Parser(name, tokenizer=toy, tools=TOOLS)
    _, found = read(parser, [ids] if cut == 0 else [[number] for number in ids])
    assert [call.arguments for call in parser.message().calls] == [{"s": value}]
    assert (found["content"], found["unfinished"]) == (None, False)


@pytest.mark.parametrize("token", ["<|end|>", "<|return|>", "<|channel|>", "<|start|>"])
def test_spelled_markers_in_a_message_are_its_text(token: str) -> None:
    toy = made("harmony")
    ids = toy.encode("<|channel|>final<|message|>a") + toy.spell(token) + toy.encode("b<|return|>")
    assert by_ids("harmony", ids, toy, 1)[1]["content"] == f"a{token}b"


def test_a_spelled_word_inside_a_tag_makes_no_tag() -> None:
    toy = Toy(*DSML)
    text = '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
    assert by_ids("deepseek-v3.2", toy.spell(text), toy)[1]["content"] == text
    assert by_ids("deepseek-v3.2", toy.encode(text), toy)[1]["content"] is None


# ---- spans, copies, ends --------------------------------------------------------------------------------------


def test_spans_count_the_characters_of_the_raw_text() -> None:
    toy = made("mistral")
    text = "Grüß 🥾[THINK]ü[/THINK]b[TOOL_CALLS]f[ARGS]{}"
    events, found = by_ids("mistral", toy.encode(text), toy, 1, tools=TOOLS)
    for kind, piece, start, end in events:
        if kind in ("Content", "Reasoning"):
            assert text[start:end] == piece
    assert [text[start:end] for start, end, _ in found["spans"]] == [
        "Grüß 🥾", "[THINK]", "ü", "[/THINK]", "b", "[TOOL_CALLS]", "f[ARGS]{}",
    ]  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_copies_go_their_own_way(name: str, fixtures: Path) -> None:
    text = (fixtures / "captures" / f"{name}.txt").read_text(encoding="utf-8")
    toy = made(name)
    ids = toy.encode(text)
    whole = by_ids(name, ids, toy)
    places = [*range(1, len(ids), max(1, len(ids) // 9)), ids.index(0xC3) + 1 if 0xC3 in ids else 1]
    for at in places:
        parser = Parser(name, tokenizer=toy)
        events = parser.feed(ids[:at])
        other = parser.copy()
        other.feed(toy.encode("é") + ids[:7])
        other.finish()
        copy = parser.copy()
        again = events + copy.feed(ids[at:])
        assert (joined(again + copy.finish()), message(copy)) == whole
        events += parser.feed(ids[at:])
        assert (joined(events + parser.finish()), message(parser)) == whole


def test_half_a_character_waits_for_the_rest() -> None:
    toy = made("hermes")
    parser = Parser("hermes", tokenizer=toy)
    assert parser.feed(toy.spell("é")[:1]) == []
    assert joined(parser.feed(toy.spell("é")[1:])) == [("Content", "é", 0, 1)]


def test_ids_without_a_tokenizer() -> None:
    with pytest.raises(TypeError, match=r"token ids need a tokenizer|str object expected"):  # pure, compiled
        Parser("hermes").feed([1])


#: Format, prompt, what the model says, reasoning, content.
PROMPTS = [
    ("harmony", "<|start|>assistant<|channel|>analysis<|message|>", "a<|end|>", "a", None),
    ("gemma4", "<|turn>model\n<|channel>thought\n", "a<channel|>b", "a", "b"),
    ("mistral", "[/INST][THINK]", "a[/THINK]b", "a", "b"),
    ("hermes", "<|im_start|>assistant\n<think>\n", "a</think>b", "a", "b"),
]


@pytest.mark.parametrize(("name", "prompt", "text", "reasoning", "content"), PROMPTS)
def test_the_prompt_decides_the_start(
    name: str, prompt: str, text: str, reasoning: str | None, content: str | None
) -> None:
    toy = made(name)
    found = by_ids(name, toy.encode(text), toy, prompt=prompt)[1]
    assert (found["reasoning"], found["content"]) == (reasoning, content)


def test_text_and_ids_may_be_mixed() -> None:
    toy = made("hermes")
    parser = Parser("hermes", tokenizer=toy)
    events = parser.feed("a<|im_end|>b") + parser.feed(toy.encode("c<|im_end|>"))
    assert joined(events + parser.finish()) == [("Content", "a<|im_end|>bc", 0, 13)]
    assert parser.message().spans == [(0, 13, "content"), (13, 23, "framing")]


def test_the_end_of_the_stream_loses_nothing() -> None:
    toy = made("hermes")
    _, found = by_ids("hermes", [*toy.spell("a"), 0xC3], toy)
    assert found["content"] == "a\ufffd"


# ---- text in which the caller has put the marks ---------------------------------------------------------------


def marked(name: str, toy: Toy, ids: list[int], marks: Marks) -> list[str]:
    """What a detokenizer makes of ``ids``, token by token, that gives special tokens their marks."""
    decoder = toy.decoder()
    return [text for number in ids if (text := marks.by_id.get(number) or decoder.step(number))]


@pytest.mark.parametrize("together", [1, 7, 1 << 20])
@pytest.mark.parametrize("name", NAMED)
def test_marked_text_reads_as_ids_do(name: str, together: int, fixtures: Path) -> None:
    text = (fixtures / "captures" / f"{name}.txt").read_text(encoding="utf-8")
    options: dict[str, Any] = {"tools": TOOLS, "start": STARTS.get(name, "auto")}
    toy = made(name)
    marks = Marks(registry.load(name), toy.special_tokens())
    # What spells a marker is data among the marks, too.
    ids = toy.encode(text) + toy.spell("a " + " b ".join(SPECIAL[name]))
    pieces = marked(name, toy, ids, marks)
    pieces = ["".join(pieces[at : at + together]) for at in range(0, len(pieces), together)]
    parser = Parser(grammar=marks.grammar, tokenizer=marks, **options)
    assert read(parser, pieces) == by_ids(name, ids, toy, **options)


def test_text_without_marks_is_handed_through() -> None:
    marks = Marks(registry.load("harmony"), made("harmony").special_tokens())
    parser = Parser(grammar=marks.grammar, tokenizer=marks)
    assert parser.feed("<|channel|>") == [Content("<|channel|>", 0, 11)]


def test_marks_move_the_spans_behind_them() -> None:
    toy = made("harmony")
    marks = Marks(registry.load("harmony"), toy.special_tokens())
    parser = Parser(grammar=marks.grammar, tokenizer=marks)
    parser.feed("".join(marked("harmony", toy, toy.encode("<|channel|>final<|message|>"), marks)))
    assert parser.feed("é") == [Content("é", 27, 28)]
    copy = pickle.loads(pickle.dumps(parser))
    assert copy.feed("b") == parser.feed("b") == [Content("b", 28, 29)]
    assert copy.message() == parser.message()


def test_marked_text_takes_no_ids() -> None:
    marks = Marks(registry.load("hermes"), made("hermes").special_tokens())
    with pytest.raises(TypeError, match="special tokens marked"):
        Parser(grammar=marks.grammar, tokenizer=marks).feed([1])


def test_a_long_prompt_starts_where_its_tail_says() -> None:
    toy = made("harmony")
    marks = Marks(registry.load("harmony"), toy.special_tokens())
    prompt = "<|start|>user<|message|>" + "x" * 9000 + "<|end|><|start|>assistant<|channel|>analysis<|message|>y"
    parser = Parser(grammar=marks.grammar, tokenizer=marks, prompt=prompt)
    assert parser.feed("a") == [Reasoning("a", 0, 1)]


@pytest.mark.parametrize(
    "prompt", ["Say <think><|im_end|>", "<|im_start|>assistant\na<|im_end|>\n<|im_start|>user\nb"]
)
def test_a_prompt_in_which_no_turn_is_open_begins_one(prompt: str) -> None:
    parser = Parser("hermes", prompt=prompt)
    assert parser.feed("a") == [Content("a", 0, 1)]
