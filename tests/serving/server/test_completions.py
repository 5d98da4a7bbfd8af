"""Completions as the openai client sees them."""

from __future__ import annotations

from typing import Any

import openai
from serving_http import Live, Script, Step, content, serving
from toolgrammar_serving.text import Alternative, Finish, TokenLogprob


def client(live: Live) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{live.base}/v1", api_key="none", max_retries=0)


def joined(chunks: list[Any]) -> list[tuple[str, str | None]]:
    """Text and finish reason by choice."""
    found: dict[int, tuple[str, str | None]] = {}
    for chunk in chunks:
        assert chunk.object == "text_completion"
        for choice in chunk.choices:
            text, finish = found.get(choice.index, ("", None))
            assert finish is None
            found[choice.index] = (text + choice.text, choice.finish_reason)
    return [found[index] for index in sorted(found)]


def test_prompts_and_samples_of_a_list_come_in_order() -> None:
    def script(request: Any) -> Script:
        name = request.prompt if isinstance(request.prompt, str) else bytes(request.prompt).decode()
        return Script([content(f"{name}0 ", "end"), content(f"{name}1")], Finish("length"))

    with serving(script) as live, client(live) as api:
        for prompt in (["a", "b"], [[97], [98]]):
            options: Any = {"model": "m", "prompt": prompt, "n": 2, "max_tokens": 7}
            chunks = list(api.completions.create(stream=True, stream_options={"include_usage": True}, **options))
            answer = api.completions.create(**options)
            texts = [("a0 end", "length"), ("a1", "length"), ("b0 end", "length"), ("b1", "length")]
            assert joined(chunks) == texts
            assert [(choice.text, choice.finish_reason) for choice in answer.choices] == texts
            assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
            assert chunks[-1].usage == answer.usage
            assert answer.usage is not None
            assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 6)
        requests = live.stage.requests
    assert [request.sampling.max_tokens for request in requests] == [7] * len(requests)
    assert len({request.request_id for request in requests[:2]}) == 2


def test_one_prompt_of_token_ids() -> None:
    with serving(Script([content("x")])) as live, client(live) as api:
        api.completions.create(model="m", prompt=[1, 2, 3])
        (request,) = live.stage.requests
    assert (request.prompt, request.sampling.max_tokens, request.n) == ([1, 2, 3], 16, 1)


def test_echo_repeats_text_and_decoded_token_ids() -> None:
    with serving(Script([content("!", "?")])) as live, client(live) as api:
        for prompt in ("hi ", list(b"hi ")):
            chunks = list(api.completions.create(model="m", prompt=prompt, echo=True, stream=True))
            answer = api.completions.create(model="m", prompt=prompt, echo=True)
            assert joined(chunks) == [("hi !?", "stop")]
            assert answer.choices[0].text == "hi !?"


def test_an_empty_step_sends_nothing() -> None:
    with serving(Script([[Step(text="a"), Step(text=""), Step(text="é")]])) as live, client(live) as api:
        chunks = list(api.completions.create(model="m", prompt="x", stream=True))
    assert [chunk.choices[0].text for chunk in chunks] == ["a", "é", ""]


def position(text: str, value: float, *others: str) -> TokenLogprob:
    token = Alternative(ord(text), text, text.encode(), value)
    return TokenLogprob(token, 1, [Alternative(ord(other), other, other.encode(), value - 1) for other in others])


STEPS = [
    Step(text="a", logprobs=[position("a", -0.5, "b")]),
    Step(text="é", tokens=2, logprobs=[position("é", -1.0), position("c", -2.0)]),
]


def test_logprobs_and_their_offsets_in_both_modes() -> None:
    with serving(Script([STEPS])) as live, client(live) as api:
        chunks = list(api.completions.create(model="m", prompt="x", logprobs=1, stream=True))
        answer = api.completions.create(model="m", prompt="x", logprobs=1)
    found = answer.choices[0].logprobs
    assert found is not None and found.model_dump() == {
        "text_offset": [0, 1, 2],
        "token_logprobs": [-0.5, -1.0, -2.0],
        "tokens": ["a", "é", "c"],
        "top_logprobs": [{"b": -1.5, "a": -0.5}, {"é": -1.0}, {"c": -2.0}],
    }
    pieces = [chunk.choices[0].logprobs for chunk in chunks if chunk.choices[0].logprobs]
    joined_pieces: dict[str, list[Any]] = {name: [] for name in found.model_dump()}
    for piece in pieces:
        for name, values in piece.model_dump().items():
            joined_pieces[name] += values
    assert joined_pieces == found.model_dump()


def test_tokens_as_ids() -> None:
    extra = {"return_tokens_as_token_ids": True}
    with serving(Script([STEPS])) as live, client(live) as api:
        answer = api.completions.create(model="m", prompt="x", logprobs=0, extra_body=extra)
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.tokens == ["token_id:97", "token_id:233", "token_id:99"]


def test_the_prompt_alone_with_its_logprobs() -> None:
    with serving(Script([STEPS])) as live, client(live) as api:
        live.stage.prompt_positions = [None, position("y", -3.0, "z")]
        options: Any = {"model": "m", "prompt": "xy", "logprobs": 1, "echo": True, "max_tokens": 0}
        answer = api.completions.create(**options)
        chunks = list(api.completions.create(stream=True, **options))
        (first, _) = live.stage.requests
    assert (first.sampling.max_tokens, first.sampling.prompt_logprobs) == (1, 1)
    choice = answer.choices[0]
    assert (choice.text, choice.finish_reason) == ("xy", "length")
    assert choice.logprobs is not None and choice.logprobs.model_dump() == {
        "text_offset": [0, 1],
        "token_logprobs": [None, -3.0],
        "tokens": ["x", "y"],
        "top_logprobs": [None, {"z": -4.0, "y": -3.0}],
    }
    assert answer.usage is not None and answer.usage.completion_tokens == 0
    assert joined(chunks) == [("xy", "length")]
    assert chunks[0].choices[0].logprobs == choice.logprobs


def test_prompt_logprobs_and_token_ids() -> None:
    extra = {"prompt_logprobs": 1, "return_token_ids": True}
    with serving(Script([content("a")])) as live, client(live) as api:
        live.stage.prompt_positions = [None, position("y", -3.0, "z")]
        choice: Any = api.completions.create(model="m", prompt="xy", extra_body=extra).choices[0]
    assert choice.prompt_logprobs == [
        None,
        {
            "122": {"logprob": -4.0, "rank": 1, "decoded_token": "z"},
            "121": {"logprob": -3.0, "rank": 1, "decoded_token": "y"},
        },
    ]
    assert (choice.prompt_token_ids, choice.token_ids) == ([120, 121], [0])


def test_constraints_reach_the_engine_under_every_name() -> None:
    schema = {"type": "object"}
    wanted: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"structured_outputs": {"regex": "a+"}}, {"regex": "a+"}),
        ({"guided_json": schema}, {"json": schema}),
        ({"guided_choice": ["a", "b"]}, {"choice": ["a", "b"]}),
        ({"response_format": {"type": "json_object"}}, {"json_object": True}),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}, {"json": schema}),
    ]
    with serving(Script([content("a")])) as live, client(live) as api:
        for extra, _ in wanted:
            api.completions.create(model="m", prompt="x", extra_body=extra)
        found = [request.sampling.structured_outputs for request in live.stage.requests]
    for constraint, (_, fields) in zip(found, wanted, strict=True):
        assert {name: getattr(constraint, name) for name in fields} == fields
        assert constraint.backend == "auto"
    assert [request.reasoning_ended for request in live.stage.requests] == [True] * len(wanted)
