"""How many tokens were reasoning: the same for the same tokens, however they are joined and cut."""

from __future__ import annotations

import asyncio
import re
from codecs import getincrementaldecoder
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving_chat import Chat, fixed, request
from serving_text_sinks import Listener, ScriptedClient, Tokens, joinings
from toolgrammar_serving.chat import ChatFinish, ChatModel, Sampling
from toolgrammar_serving.chat.choices import Thinking
from toolgrammar_serving.llm import LLM, ModelDefaults
from toolgrammar_serving.protocol.wire import STOP
from toolgrammar_serving.text import TextModel
from toolgrammar_serving.text.sequence import TokenTexts

from toolgrammar import CallArguments, Reasoning, registry
from toolgrammar.machine.tokens import Marks

PAD, END = "<|pad|>", "<|end_of_it|>"


class Output(msgspec.Struct, frozen=True):
    """What a model says: raw characters, and for each whether it is shown as reasoning. A special token is one
    item."""

    items: tuple[str, ...]
    thought: tuple[bool, ...]

    @classmethod
    def of(cls, *parts: tuple[str, bool], special: tuple[str, ...] = ()) -> Output:
        cut = re.compile("|".join([*map(re.escape, special), "(?s:.)"]))
        items = [(item, flag) for text, flag in parts for item in cut.findall(text)]
        return cls(tuple(item for item, _ in items), tuple(flag for _, flag in items))


class Case(msgspec.Struct, frozen=True):
    """An output as tokens, and which of them are special. ``right``: how many are reasoning."""

    pieces: tuple[bytes, ...]
    special: tuple[bool, ...]
    right: int


def tokens_of(output: Output, special: tuple[str, ...], ends: set[int], pads: list[int]) -> Case:
    """Cut the bytes of ``output`` at ``ends``, and around special tokens; put hidden tokens at ``pads``."""
    pieces: list[bytes] = []
    for item in output.items:
        data = item.encode()
        if item in special:
            pieces.append(data)
            continue
        for i in range(len(data)):
            at = sum(map(len, pieces))
            if pieces and at not in ends and pieces[-1].decode("utf-8", "replace") not in special:
                pieces[-1] += data[i : i + 1]
            else:
                pieces.append(data[i : i + 1])
    for pad in pads:
        pieces.insert(pad % (len(pieces) + 1), PAD.encode())
    flags = tuple(piece.decode("utf-8", "replace") in (*special, PAD) for piece in pieces)
    return Case(tuple(pieces), flags, counted(pieces, flags, output))


def counted(pieces: list[bytes], flags: tuple[bool, ...], output: Output) -> int:
    """Tokens with a character that was thought; of those without text, the ones that stand beside one."""
    decoder, at, right = getincrementaldecoder("utf-8")(), 0, 0
    for piece, flag in zip(pieces, flags, strict=True):
        hidden = piece == PAD.encode()
        size = 0 if hidden else 1 if flag else len(decoder.decode(piece))
        near = output.thought[at : at + size] if size else output.thought[max(0, at - 1) : at + 1]
        right += any(near)
        at += size
    return right


class Format(msgspec.Struct, frozen=True):
    """A format as this test writes it. ``frame``: literal parts; {} is a thought, [] is content. ``forbidden``:
    what a text may not spell. ``ends``: what ends thoughts."""

    name: str
    prompt: str
    special: tuple[str, ...]
    frame: str
    forbidden: tuple[str, ...]
    ends: tuple[str, ...]


HERMES = Format(
    "hermes",
    "<|im_start|>assistant\n",
    (),
    "<think>\n{}\n</think>\n\n[]<tool_call>\n"
    '(name": "set_lamp", "arguments": (room": "Flur"))\n</tool_call>'.replace("(", '{"').replace("))", "}}"),
    ("<think>", "</think>", "<tool_call>"),
    ("\n</think>", "</think>"),
)
HARMONY = Format(
    "harmony",
    "<|start|>assistant",
    ("<|start|>", "<|return|>", "<|end|>", "<|call|>", "<|channel|>", "<|message|>", "<|constrain|>"),
    "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>analysis<|message|>{}<|end|>"
    "<|start|>assistant<|channel|>final<|message|>[]",
    (),
    ("<|end|>",),
)


def written(form: Format, texts: list[str]) -> Output:
    """The frame with ``texts`` in it, in order."""
    parts = []
    left = list(texts)
    for part in re.split(r"(\{\}|\[\])", form.frame):
        if part in ("{}", "[]"):
            parts.append((left.pop(0), part == "{}"))
        else:
            parts.append((part, False))
    return Output.of(*parts, special=form.special)


@st.composite
def cases(draw: st.DrawFn, form: Format) -> Case:
    alphabet = "ab <c/th>|🌿é\n"
    texts = st.text(alphabet, min_size=1, max_size=12).filter(
        lambda text: text.strip() == text and not any(word in text for word in form.forbidden)
    )
    count = form.frame.count("{}") + form.frame.count("[]")
    output = written(form, [draw(texts) for _ in range(count)])
    size = len("".join(output.items).encode())
    ends = draw(st.sets(st.integers(0, size), max_size=size))
    pads = draw(st.lists(st.integers(0, size), max_size=3))
    return tokens_of(output, form.special, ends, pads)


def model_of(form: Format, case: Case) -> tuple[ChatModel, ScriptedClient]:
    client = ScriptedClient()
    pieces = [*case.pieces, END.encode()]
    special = {id_: piece.decode() for id_, piece in enumerate(case.pieces) if case.special[id_]}
    special[len(case.pieces)] = END
    text = TextModel(LLM(client, ModelDefaults(eos_token_id=len(case.pieces))), Tokens(pieces, special))
    return ChatModel(text, format=form.name, template=fixed(form.prompt)), client


def reasoning_tokens(form: Format, case: Case, groups: list[list[int]], **fields: Any) -> int:
    """What a sink is told. Token i is the i-th piece; END ends it, in the last group."""
    model, client = model_of(form, case)
    listener = Listener()
    prepared = asyncio.run(model.prepare(request(**fields)))
    model.start(prepared, [listener])
    for group in groups[:-1]:
        client.send(list(group))
    client.send([*groups[-1], len(case.pieces)], finish=STOP)
    assert isinstance(listener.end, ChatFinish)
    return listener.end.reasoning_tokens


def some_joinings(draw: Any, ids: list[int]) -> list[list[list[int]]]:
    """One at a time, all at once, and a few between."""
    found = [[[id_] for id_ in ids], [ids]]
    for _ in range(4):
        ends = sorted(draw(st.sets(st.integers(1, len(ids) - 1), max_size=8))) if len(ids) > 1 else []
        found.append([ids[a:b] for a, b in zip([0, *ends], [*ends, len(ids)], strict=True)])
    return found


@pytest.mark.parametrize("form", [HERMES, HARMONY], ids=lambda form: form.name)
@given(data=st.data())
def test_the_number_depends_on_the_tokens_alone(form: Format, data: st.DataObject) -> None:
    case = data.draw(cases(form))
    fields = {"stream": data.draw(st.booleans()), "include_reasoning": data.draw(st.booleans())}
    for groups in some_joinings(data.draw, list(range(len(case.pieces)))):
        assert reasoning_tokens(form, case, groups, **fields) == case.right, groups


@pytest.mark.parametrize("form", [HERMES, HARMONY], ids=lambda form: form.name)
@given(data=st.data())
def test_with_stop_strings_it_does_not_depend_on_joining(form: Format, data: st.DataObject) -> None:
    case = data.draw(cases(form))
    text = b"".join([piece for piece in case.pieces if piece != PAD.encode()]).decode()
    ends = st.sampled_from([text.index(end) for end in form.ends])
    at = data.draw(st.one_of(st.integers(0, len(text) - 1), ends))
    found = text[at : at + data.draw(st.integers(1, 12))]
    stop = data.draw(st.sampled_from([found, found + "~"]))
    one, *others = some_joinings(data.draw, list(range(len(case.pieces))))
    expected = reasoning_tokens(form, case, one, stop=[stop])
    if stop.endswith("~"):  # nothing has one: text is held, and that is all
        assert expected == case.right
    for groups in others:
        assert reasoning_tokens(form, case, groups, stop=[stop]) == expected, groups


def told(chat: Chat, steps: list[str], **fields: Any) -> list[int]:
    """What the sinks of a request's choices are told."""
    asked = request(**fields)
    listeners = [Listener() for _ in range(asked.n)]
    first = len(chat.client.requests)
    chat.model.start(chat.prepare(asked), listeners)
    for index in range(asked.n):
        for number, step in enumerate(steps):
            chat.send(step, index=first + index, finish="length" if number == len(steps) - 1 else None)
    return [listener.end.reasoning_tokens for listener in listeners]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("<think>Hm</think>Yes", 2),
        ("<think>Hm</thi", 2 + len("</thi")),  # cut off: what was held is reasoning after all
        ("<think>a</b</think>", len("a</b")),
        ("Hm", 0),
        ("", 0),
    ],
)
def test_every_joining_of_a_few_tokens(text: str, right: int) -> None:
    chat = Chat()
    tail = text[-9:]
    for groups in joinings(tail):
        steps = [text[:-9], *["".join(group) for group in groups]]
        assert told(chat, steps, n=2) == [right, right]


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1000])
def test_a_call_that_was_only_thought_of(size: int) -> None:
    call = '<tool_call>\n{"name": "set_lamp", "arguments": {"room": "%s"}}\n</tool_call>' % ("Flur, " * 20)
    thought = f"I could say {call} but no."
    text = f"<think>\n{thought}\n</think>\n\nNo."
    # All of the call is held, many tokens long, until what stands behind it says what it was.
    steps = [text[i : i + size] for i in range(0, len(text), size)]
    assert told(Chat(), steps) == [len(thought)]
    assert Chat().answer(request(), steps, "length").reasoning == thought


def test_an_endless_output_and_its_hidden_ends() -> None:
    fields: dict[str, Any] = {"sampling": Sampling(ignore_eos=True, max_tokens=40)}
    # The ends of turns have no text there; the two that stand beside reasoning count.
    text = ["<think>H", "<|im_end|>", "m", "<|im_end|>", "</think>", "<|im_end|>", "b"]
    chat = Chat()
    for groups in joinings(text):
        assert told(chat, ["".join(group) for group in groups], **fields) == [4], groups


def test_special_tokens_in_values_are_as_long_as_they_are_written() -> None:
    end = "<|end|>"
    marks = Marks(registry.load("harmony"), {0: end})
    tokens = Tokens([b"-", b"abcdef", b"x"], {0: end})
    decoder = tokens.decoder([], skip_special_tokens=True, special_text=marks.by_id)
    parser: Any = SimpleNamespace(held=6)
    thinking, texts = Thinking(parser, marks), TokenTexts(decoder)
    # The event is as long as the text that came, and is not all of it.
    first = [0, 1]
    thinking.add(decoder.push(first), first, [CallArguments(0, end, 0, 7)], texts)
    second = [2]
    thinking.add(decoder.push(second), second, [Reasoning("x", 13, 14)], texts)
    assert thinking.tokens == 1
