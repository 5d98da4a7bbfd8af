"""Constraints, per request in a batch: every output of a random model under one is what the constraint says."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
from serving_engine_thread import Running, running
from serving_engine_wire import request
from toolgrammar_serving.protocol import wire

pytest.importorskip("xgrammar")

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "room": {"enum": ["hall", "kitchen", "cellar"]},
        "on": {"type": "boolean"},
        "level": {"type": "integer", "minimum": 0, "maximum": 100},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z ]{1,8}$"}, "maxItems": 2},
    },
    "required": ["room", "on", "level", "tags"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tokenizer(qwen: Running) -> Any:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(qwen.directory)


def constrained(name: str, seed: int, *, max_tokens: int = 500, eos: int = 0, **constraint: Any) -> Any:
    wanted = wire.StructuredOutputs(backend="xgrammar", **constraint)
    return request(
        name, [seed + 1, 2, 3], temperature=1.0, seed=seed, max_tokens=max_tokens, eos_token_id=eos,
        structured_outputs=wanted,
    )  # fmt: skip


def texts(engine: Running, tokenizer: Any, **constraint: Any) -> list[str]:
    """24 outputs under the constraint, beside unconstrained requests; each ended where the constraint ends."""
    eos = tokenizer.eos_token_id
    front = engine.front
    name = str(constraint)[:40]
    free = [request(f"free-{name}-{i}", [i + 1], temperature=1.0, seed=i, max_tokens=12) for i in range(8)]
    front.add(*free)
    answers = front.run(*(constrained(f"{name}-{i}", i, eos=eos, **constraint) for i in range(24)))
    assert {one.end for one in answers} == {(wire.STOP, None)}
    assert {len(one.tokens) for one in front.finish(*(one.request_id for one in free))} == {12}
    # A Lark grammar that nothing can follow is an end by itself, all others end with the end of sequence.
    return [tokenizer.decode(one.tokens[:-1] if one.tokens[-1] == eos else one.tokens) for one in answers]


def test_a_json_schema(qwen: Running, tokenizer: Any) -> None:
    made = texts(qwen, tokenizer, json=SCHEMA, disable_any_whitespace=True)
    for text in made:
        jsonschema.validate(json.loads(text), SCHEMA)
    assert len(set(made)) > 10


def test_a_json_schema_as_text(qwen: Running, tokenizer: Any) -> None:
    for text in texts(qwen, tokenizer, json=json.dumps(SCHEMA)):
        jsonschema.validate(json.loads(text), SCHEMA)


def test_a_regular_expression(qwen: Running, tokenizer: Any) -> None:
    pattern = r"[A-Z][a-z]{2,6} (one|two|three) \d{2,4}"
    assert all(re.fullmatch(pattern, text) for text in texts(qwen, tokenizer, regex=pattern))


def test_a_choice(qwen: Running, tokenizer: Any) -> None:
    choice = ["yes", "no", 'say "ö\\x"', "line\nfeed"]
    assert set(texts(qwen, tokenizer, choice=choice)) <= set(choice)


def test_a_grammar(qwen: Running, tokenizer: Any) -> None:
    grammar = 'root ::= "(" item ("," item)* ")"\nitem ::= [0-9]{1,3} | "nil"'
    for text in texts(qwen, tokenizer, grammar=grammar):
        assert re.fullmatch(r"\((\d{1,3}|nil)(,(\d{1,3}|nil))*\)", text)


def test_a_lark_grammar(qwen: Running, tokenizer: Any) -> None:
    pytest.importorskip("llguidance")
    grammar = 'start: "(" ITEM ("," ITEM)? ")"\nITEM: /[0-9]{1,3}/ | "nil"'
    for text in texts(qwen, tokenizer, grammar=grammar):
        assert re.fullmatch(r"\((\d{1,3}|nil)(,(\d{1,3}|nil))?\)", text)


@pytest.mark.parametrize("old", [False, True])
def test_a_structural_tag(qwen: Running, tokenizer: Any, old: bool) -> None:
    begin, end = "<fn=lamp>", "</fn>"
    if old:
        tag: Any = {"structures": [{"begin": begin, "schema": SCHEMA, "end": end}], "triggers": ["<fn="]}
    else:
        content = {"type": "json_schema", "json_schema": SCHEMA}
        tag = {
            "type": "structural_tag",
            "format": {"type": "tag", "begin": begin, "content": content, "end": end},
        }
    front, eos = qwen.front, tokenizer.eos_token_id
    asked = [constrained(f"tag-{old}-{i}", i, eos=eos, structural_tag=json.dumps(tag)) for i in range(12)]
    for one in front.run(*asked):
        text = tokenizer.decode(one.tokens[:-1] if one.tokens[-1] == eos else one.tokens)
        if old:  # free text may come before, and for ever
            continue
        assert one.end == (wire.STOP, None)
        found = re.fullmatch(r"<fn=lamp>(.*)</fn>", text, re.DOTALL)
        assert found is not None
        jsonschema.validate(json.loads(found[1]), SCHEMA)


def test_without_an_end_of_sequence_the_constraint_is_the_end(qwen: Running, tokenizer: Any) -> None:
    wanted = wire.StructuredOutputs(regex="[ab]{4}", backend="xgrammar")
    asked = request("no-eos", [1], temperature=1.0, seed=1, max_tokens=50, structured_outputs=wanted)
    answer = qwen.front.run(asked)[0]
    assert re.fullmatch("[ab]{4}", tokenizer.decode(answer.tokens))
    assert answer.end == (wire.STOP, None)


@pytest.mark.parametrize(
    ("constraint", "says"),
    [
        ({"json": "{not json"}, "cannot be compiled"),
        ({"json": {"type": "nothing"}}, "cannot be compiled"),
        ({"regex": "(("}, "cannot be compiled"),
        ({"grammar": "root ::= missing"}, "cannot be compiled"),
        ({"grammar": "start: missing"}, "cannot be compiled"),
        ({"structural_tag": "[]"}, "not a JSON object"),
        ({"structural_tag": "{"}, "not JSON"),
        ({"structural_tag": '{"structures": [{}], "triggers": []}'}, "cannot be compiled"),
        ({"whitespace_pattern": "x", "json": {}}, "whitespace_pattern"),
        ({}, "no constraint"),
    ],
)
def test_a_bad_constraint_is_its_requests_error(qwen: Running, constraint: dict[str, Any], says: str) -> None:
    front = qwen.front
    front.add(request("neighbour", [5], temperature=0.0, max_tokens=6))
    answer = front.run(constrained("bad", 1, **constraint))[0]
    assert answer.last.finish_reason == wire.ERROR
    assert answer.last.error is not None
    assert answer.last.error.code == "validation_error"
    assert says in answer.last.error.message
    assert ".cc:" not in answer.last.error.message
    assert len(front.finish("neighbour")[0].tokens) == 6


def test_an_abort_while_it_compiles(qwen: Running) -> None:
    front = qwen.front
    front.add(constrained("gone", 1, json=SCHEMA))
    front.abort("gone")
    assert front.run(constrained("kept", 1, regex="[ab]{2}"))[0].end == (wire.STOP, None)
    # It may have begun before the abort came; it ended with that, and nothing was told.
    told = list(front.answers["gone"].outputs)
    assert front.run(constrained("another", 1, regex="[ab]{8}"))[0].end == (wire.STOP, None)
    assert front.answers["gone"].outputs == told
    assert [output.finish_reason for output in told] == [None] * len(told)


def test_a_constraint_begins_after_the_reasoning(qwen: Running, tokenizer: Any) -> None:
    thought = tokenizer.convert_tokens_to_ids("</think>")
    wanted = wire.StructuredOutputs(regex="[ab]{4}", backend="xgrammar")
    with running(qwen.directory, "--reasoning-end", "</think>") as engine:
        plain = {"temperature": 1.0, "seed": 3, "max_tokens": 300, "eos_token_id": tokenizer.eos_token_id}
        asked = request("think", [1], **plain, structured_outputs=wanted, logit_bias={thought: 6.0})
        answer = engine.front.run(asked)[0]
        at = answer.tokens.index(thought)
        assert at > 0
        assert re.fullmatch("[ab]{4}", tokenizer.decode(answer.tokens[at + 1 : -1]))
        over = request("over", [1, thought], **plain, structured_outputs=wanted)
        assert re.fullmatch("[ab]{4}", tokenizer.decode(engine.front.run(over)[0].tokens[:-1]))


def test_any_object(qwen: Running, tokenizer: Any) -> None:
    eos = tokenizer.eos_token_id
    asked = [constrained(f"object-{i}", i, eos=eos, json_object=True) for i in range(24)]
    ended = [one for one in qwen.front.run(*asked) if one.end == (wire.STOP, None)]
    assert all(isinstance(json.loads(tokenizer.decode(one.tokens[:-1])), dict) for one in ended)
    assert len(ended) > 12  # objects in objects may fill the context


def test_no_control_characters_in_strings_with_a_bound(qwen: Running, tokenizer: Any) -> None:
    """Only tokens of ASCII are allowed, control characters among them: these are what such a string is made of."""
    schema = {"type": "array", "items": {"type": "string", "maxLength": 6}, "minItems": 3, "maxItems": 3}
    ascii_ids = [i for i in range(len(tokenizer)) if tokenizer.decode([i]).isascii()]
    control = [i for i in ascii_ids if any(ord(c) < 32 for c in tokenizer.decode([i]))]
    assert len(control) > 20
    asked = []
    for i in range(12):
        one = constrained(f"control-{i}", i, eos=tokenizer.eos_token_id, json=schema)
        one.sampling_params.allowed_token_ids = ascii_ids
        one.sampling_params.logit_bias = dict.fromkeys(control, 8.0)
        asked.append(one)
    for one in qwen.front.run(*asked):
        assert one.end == (wire.STOP, None)
        jsonschema.validate(json.loads(tokenizer.decode(one.tokens[:-1])), schema)
