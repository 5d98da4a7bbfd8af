"""Captured outputs as scripts: what is in a step, when it comes, for which prompt, and what cannot be read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import serving_models
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from toolgrammar_serving.protocol.wire import LENGTH, STOP, EngineCoreRequest, SamplingParams
from toolgrammar_serving.replay import (
    ByContent,
    ByteVocabulary,
    Entry,
    FileVocabulary,
    InOrder,
    RecordingError,
    RecordingOptions,
    Script,
    Vocabulary,
    VocabularyError,
    chooser,
    read_recordings,
)

from toolgrammar.cli.terminal import Console

CALL, END = 256, 257
BYTES = ByteVocabulary(["<call>", "<end>"])


def recorded(path: Path, *lines: Any, vocabulary: Vocabulary = BYTES, **options: Any) -> list[Entry]:
    """The entries of a file with these lines, JSON unless they are text."""
    path.write_bytes("".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in lines).encode())
    return read_recordings([str(path)], vocabulary, RecordingOptions(**options), Console("never", quiet=True))


def said(*messages: tuple[str, Any]) -> dict[str, Any]:
    return {"request": {"messages": [{"role": role, "content": content} for role, content in messages]}}


def steps(entry: Entry) -> list[list[int]]:
    return [list(step.token_ids) for step in entry.script.steps]


def delays(entry: Entry) -> list[float]:
    return [round(step.delay_s, 6) for step in entry.script.steps]


def test_text_comes_token_by_token(tmp_path: Path) -> None:
    (entry,) = recorded(tmp_path / "a.txt", "ä<call>\n")
    assert steps(entry) == [[0xC3], [0xA4], [CALL], [10]]
    assert (entry.match, entry.script.finish, entry.script.eos) == (None, STOP, True)


def test_text_may_come_several_tokens_at_a_time(tmp_path: Path) -> None:
    (entry,) = recorded(tmp_path / "a.txt", "abcde", tokens_per_step=2)
    assert steps(entry) == [[97, 98], [99, 100], [101]]


def test_chunks_and_times_are_as_recorded(tmp_path: Path) -> None:
    record = {"chunks": ["ab", "c", "ä"], "times_s": [0.5, 0.75, 2], "finish_reason": "length"}
    (entry,) = recorded(tmp_path / "a.jsonl", record)
    assert steps(entry) == [[97, 98], [99], [0xC3, 0xA4]]
    assert delays(entry) == [0.5, 0.25, 1.25]
    assert (entry.script.finish, entry.script.eos) == (LENGTH, False)


def test_a_special_token_that_was_cut_comes_whole(tmp_path: Path) -> None:
    record = {"chunks": ["a<ca", "l", "l>b", "c"], "times_s": [1, 2, 3, 4]}
    (entry,) = recorded(tmp_path / "a.jsonl", record)
    assert steps(entry) == [[97], [CALL, 98], [99]]
    assert delays(entry) == [1, 2, 1]


@pytest.mark.parametrize(("speed", "expected"), [(2.0, [0.25, 0.125]), (0.5, [1.0, 0.5]), (math.inf, [0.0, 0.0])])
def test_speed(tmp_path: Path, speed: float, expected: list[float]) -> None:
    (entry,) = recorded(tmp_path / "a.jsonl", {"chunks": ["a", "b"], "times_s": [0.5, 0.75]}, speed=speed)
    assert delays(entry) == expected
    assert entry.script.timed == (speed != math.inf)


def test_an_event_stream_with_its_times(tmp_path: Path) -> None:
    def event(number: str, delta: dict[str, Any], index: int = 0, finish: str | None = None) -> str:
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps({'id': number, 'choices': [choice]})}\n\n"

    (one, two, other) = recorded(
        tmp_path / "a.sse",
        ": t=0.1\n" + event("x", {"role": "assistant", "content": ""}),
        ": t=0.5\n" + event("x", {"content": "ab"}) + event("x", {"content": "X"}, index=1),
        ": t=0.75\n" + event("x", {"content": "c"}, finish="stop") + ": t=1\n",
        event("x", {"content": "Y"}, index=1, finish="length") + "data: [DONE]\n\n",
        ": t=0.25\n" + event("y", {"content": "d"}) + ": t=0.5\n" + event("y", {"content": "e"}),
    )
    assert (steps(one), delays(one), one.script.finish) == ([[97, 98], [99]], [0.5, 0.25], STOP)
    assert (steps(two), delays(two), two.script.finish) == ([[88], [89]], [0.5, 0.5], LENGTH)
    assert (steps(other), delays(other)) == ([[100], [101]], [0.25, 0.25])


def test_an_event_stream_without_times(tmp_path: Path) -> None:
    (entry,) = recorded(
        tmp_path / "a.sse",
        'data: {"choices": [{"text": "ab"}]}\n\ndata: {"choices": [{"text": "c"}]}\n\ndata: [DONE]\n\n',
    )
    assert (steps(entry), delays(entry)) == ([[97, 98], [99]], [0, 0])


def test_scripts_may_stand_among_recordings(tmp_path: Path) -> None:
    lines = recorded(
        tmp_path / "a.jsonl",
        {"match": "x", "steps": [[1], [2, 3]], "finish": "length", "then": "dead"},
        {"text": "a"},
    )
    assert lines[0] == Entry("x", Script.of([1], [2, 3], finish=LENGTH, then="dead"))
    (whole,) = recorded(tmp_path / "a.json", '{"tokens": [1, 2, 3], "finish": "length", "tokens_per_step": 2}')
    assert whole == Entry(None, Script.of([1, 2], [3], finish=LENGTH, repeat=True))
    assert [steps(one) for one in recorded(tmp_path / "b.json", '[{"tokens": [1]}, [2, 3]]')] == [
        [[1]],
        [[2], [3]],
    ]
    assert [steps(one) for one in recorded(tmp_path / "c.json", "[4, 5]")] == [[[4], [5]]]


@pytest.mark.parametrize(
    ("record", "match"),
    [
        ({}, None),
        ({"match": "Mull"}, "Mull"),
        ({"prompt": " Ferry? \n"}, "Ferry?"),
        ({"request": "Ferry?", "prompt": "no"}, "Ferry?"),
        (said(("user", "a"), ("assistant", "b")), "a"),
        (said(("user", "a"), ("tool", "12 C")), "12 C"),
        (said(("user", [{"type": "text", "text": "a"}, {"type": "image_url"}])), "a"),
        (said(("assistant", "b")), None),
    ],
)
def test_the_prompt_a_record_belongs_to(tmp_path: Path, record: dict[str, Any], match: str | None) -> None:
    (entry,) = recorded(tmp_path / "a.jsonl", {"text": "t", **record})
    assert entry.match == match


def test_what_cannot_be_read_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl"
    entries = recorded(path, "{\n", {"no": "text"}, {"text": "a"}, {"token_ids": [1, 9999]}, {"steps": [["x"]]})
    assert [steps(one) for one in entries] == [[[97]]]
    told = capsys.readouterr().err
    assert all(f"a.jsonl:{line}" in told for line in (1, 2, 4, 5))


def test_nothing_to_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RecordingError, match="nothing to replay"):
        recorded(tmp_path / "a.json", "{}")
    with pytest.raises(RecordingError, match="nothing to replay"):
        read_recordings([str(tmp_path / "not there")], BYTES)
    assert "exactly one of 'steps' and 'tokens'" in capsys.readouterr().err


def test_ids_of_a_record_are_taken_if_they_are_of_this_vocabulary(tmp_path: Path) -> None:
    good = {"text": "ab", "token_ids": [97, 98]}
    other = {"text": "ab", "token_ids": [1, 2]}
    assert [steps(one) for one in recorded(tmp_path / "a.jsonl", good, other)] == [[[97], [98]]] * 2


@given(st.lists(st.text(st.sampled_from("ab <call>é🌿\n"), max_size=8), max_size=6))
def test_no_cut_changes_the_text(tmp_path_factory: pytest.TempPathFactory, chunks: list[str]) -> None:
    text = "".join(chunks)
    if not text:
        return
    path = tmp_path_factory.mktemp("cut") / "a.jsonl"
    (entry,) = recorded(path, {"chunks": chunks, "text": text})
    assert BYTES.decode(entry.script.tokens) == text
    assert entry.script.tokens == BYTES.encode(text)


def test_a_models_own_vocabulary(tmp_path: Path) -> None:
    chunks = ["The lamp", " in the hall is <tool", "_call>on. ", "größer 🌿", "<|im_end|>"]
    tokenizer = Tokenizer.from_file(str(model(serving_models.byte_level, tmp_path) / "tokenizer.json"))
    vocabulary = FileVocabulary(str(tmp_path / "model"))
    (entry,) = recorded(tmp_path / "a.jsonl", {"chunks": chunks}, vocabulary=vocabulary)
    texts = [tokenizer.decode(ids, skip_special_tokens=False) for ids in steps(entry)]
    assert texts == ["The lamp", " in the hall is ", "<tool_call>on. ", "größer 🌿", "<|im_end|>"]
    assert entry.script.tokens.count(tokenizer.token_to_id("<tool_call>")) == 1
    assert steps(entry)[-1] == [tokenizer.token_to_id("<|im_end|>")]


def test_a_vocabulary_whose_pieces_begin_with_a_blank_is_cut_by_token(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(model(serving_models.byte_fallback, tmp_path) / "tokenizer.json"))
    vocabulary = FileVocabulary(str(tmp_path / "model"))
    (entry,) = recorded(tmp_path / "a.jsonl", {"chunks": ["The la", "mp is 🌿"]}, vocabulary=vocabulary)
    assert tokenizer.decode(entry.script.tokens, skip_special_tokens=False) == "The lamp is 🌿"
    assert {len(step) for step in steps(entry)} == {1}


def test_no_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"no tokenizer\.json"):
        FileVocabulary(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(VocabularyError, match="no usable tokenizer"):
        FileVocabulary(str(tmp_path))


def model(make: Callable[[Path], Any], folder: Path) -> Path:
    directory = folder / "model"
    make(directory)
    return directory


def asked(text: str) -> EngineCoreRequest:
    return EngineCoreRequest("r", BYTES.encode(text), None, SamplingParams(), None, 0.0, None, None, None)


def test_the_newest_turn_decides_which_recording_answers() -> None:
    first, again, result, longer, any_ = (Script.of([number]) for number in range(5))
    entries = [
        Entry("ferry to Mull", first),
        Entry("ferry to Mull", again),
        Entry("12 C", result),
        Entry("a ferry to Mull", longer),
        Entry(None, any_),
    ]
    choose = ByContent(entries, BYTES.decode)
    assert choose(asked("the ferry to Mull")) is first
    assert choose(asked("the ferry to Mull")) is again
    assert choose(asked("the ferry to Mull")) is first
    assert choose(asked("a ferry to Mull<call>")) is longer
    assert choose(asked("a ferry to Mull, tool says 12 C, and")) is result
    assert choose(asked("12 C, then the ferry to Mull")) is again
    assert choose(asked("else")) is any_


def test_a_prompt_without_a_recording_is_refused() -> None:
    script = ByContent([Entry("Mull", Script.of([1]))], BYTES.decode)(asked("Skye"))
    assert script.error is not None
    assert script.error.message == "no recording matches this prompt"


def test_which_way_of_choosing() -> None:
    plain, matched = Entry(None, Script.of([1])), Entry("x", Script.of([2]))
    assert isinstance(chooser([plain], BYTES.decode), InOrder)
    assert isinstance(chooser([plain, matched], BYTES.decode), ByContent)
    assert isinstance(chooser([plain, matched], BYTES.decode, "order"), InOrder)
    in_order = chooser([plain, matched], BYTES.decode, "order")
    assert [in_order(asked("x")) for _ in range(3)] == [plain.script, matched.script, plain.script]
