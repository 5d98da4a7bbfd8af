"""A reader that is behind finds several outputs of a request and pushes them as one, without losing anything."""

from __future__ import annotations

import asyncio
import copy

from hypothesis import given, settings
from hypothesis import strategies as st
from serving_client import Sink, output, request, rig
from toolgrammar_serving.engine_client.delivery import Delivery, Flight
from toolgrammar_serving.engine_client.merging import is_plain, merge
from toolgrammar_serving.protocol.arrays import Logprobs, write_logprobs
from toolgrammar_serving.protocol.wire import LENGTH, STOP, EngineCoreOutput, EngineCoreOutputs, PrefillStats

ONCE = (
    "new_prompt_logprobs_tensors",
    "finish_reason",
    "stop_reason",
    "kv_transfer_params",
    "prefill_stats",
    "spec_decode_metrics",
    "new_sampling_mask",
)


def rows(tokens: list[int]) -> Logprobs:
    return Logprobs([[t, t + 1] for t in tokens], [[-t / 2, -t / 4] for t in tokens], [t % 5 + 1 for t in tokens])


@st.composite
def streams(draw: st.DrawFn) -> list[EngineCoreOutput]:
    """The outputs of one request as an engine may send them, the last one with a finish reason."""
    steps = draw(st.lists(st.lists(st.integers(0, 1000), max_size=3), min_size=1, max_size=12))
    with_logprobs = draw(st.booleans())
    outputs = [output("r", tokens) for tokens in steps]
    for one in outputs:
        if with_logprobs and (one.new_token_ids or draw(st.booleans())):
            one.new_logprobs = rows(one.new_token_ids)
        if draw(st.integers(0, 5)) == 0:
            one.new_sampling_mask = [[1], None, None]
        if draw(st.integers(0, 5)) == 0:
            one.num_nans_in_logits = 1
        if draw(st.integers(0, 5)) == 0:
            one.events = [{"type": 2, "timestamp": 1.0}]
    outputs[0].prefill_stats = PrefillStats(num_prompt_tokens=3)
    outputs[0].new_prompt_logprobs_tensors = rows([1, 2]) if draw(st.booleans()) else None
    outputs[-1].finish_reason = draw(st.sampled_from([STOP, LENGTH]))
    outputs[-1].stop_reason = draw(st.sampled_from([None, 7]))
    outputs[-1].kv_transfer_params = draw(st.sampled_from([None, {"a": 1}]))
    return outputs


def whole(outputs: list[EngineCoreOutput]) -> dict[str, object]:
    """Everything a request's outputs say, however they are cut."""
    said: dict[str, object] = {
        "tokens": [token for one in outputs for token in one.new_token_ids],
        "ids": [row for one in outputs if one.new_logprobs for row in one.new_logprobs.ids],
        "logprobs": [row for one in outputs if one.new_logprobs for row in one.new_logprobs.logprobs],
        "ranks": [rank for one in outputs if one.new_logprobs for rank in one.new_logprobs.ranks],
        "nans": sum(one.num_nans_in_logits for one in outputs),
        "events": [event for one in outputs for event in one.events or ()],
    }
    for name in ONCE:
        said[name] = [value for one in outputs if (value := getattr(one, name)) is not None]
    return said


@given(streams())
def test_joined_outputs_say_what_the_single_ones_say(outputs: list[EngineCoreOutput]):
    expected = whole(copy.deepcopy(outputs))
    joined = [outputs[0]]
    for later in outputs[1:]:
        before = copy.deepcopy((joined[-1], later))
        if not merge(joined[-1], later):
            assert (joined[-1], later) == before
            joined.append(later)
    assert whole(joined) == expected
    for one in joined:
        if one.new_logprobs is not None:
            assert len(one.new_logprobs.ranks) == len(one.new_token_ids)


def test_what_is_joined_and_what_is_not():
    a = output("r", [1], new_logprobs=rows([1]))
    assert merge(a, output("r", [2, 3], STOP, new_logprobs=rows([2, 3]), stop_reason=3))
    assert a == output("r", [1, 2, 3], STOP, new_logprobs=rows([1, 2, 3]), stop_reason=3)
    assert not merge(a, output("r", [4]))  # it was the last
    assert not merge(output("r", [1], new_logprobs=rows([1])), output("r", [2]))  # out of step
    empty = output("r", [])
    assert merge(empty, output("r", [2], new_logprobs=rows([2])))
    assert empty == output("r", [2], new_logprobs=rows([2]))


def test_plain_is_what_has_tokens_only():
    assert is_plain(output("r", [1, 2]))
    for name in ("new_logprobs", "new_sampling_mask", "routed_experts", "pooling_output", "events"):
        assert not is_plain(output("r", [1], **{name: [1]})), name
    assert not is_plain(output("r", [1], STOP))
    assert not is_plain(output("r", [1], num_nans_in_logits=1))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=4), min_size=1, max_size=30),
    st.booleans(),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_a_backlog_reads_as_single_messages_do(
    steps: list[list[tuple[int, int]]], backlog: bool, with_logprobs: list[bool]
):
    """Steps of up to four requests, some with logprobs in frames of their own; all waiting at once, or one by
    one."""
    expected: list[list[int]] = [[], [], [], []]

    async def main() -> list[Sink]:
        async with rig() as it:
            (engine,) = it.engines
            sinks = [Sink() for _ in range(4)]
            for i, sink in enumerate(sinks):
                it.client.add(request(str(i)), sink)
            counter = 0
            for step in [*steps, [(i, 1) for i in range(4)]]:
                outputs, aux = [], []
                for who, count in dict(step).items():
                    tokens = list(range(counter, counter + count))
                    counter += count
                    expected[who] += tokens
                    one = output(str(who), tokens)
                    if with_logprobs[who]:
                        one.new_logprobs, more = write_logprobs(rows(tokens), inline_limit=16, first=1 + len(aux))
                        aux += more
                    outputs.append(one)
                engine.sends(outputs, aux=aux)
                if not backlog:
                    await it.settled()
            engine.sends([output(str(i), [], STOP) for i in range(4)])
            for sink in sinks:
                await sink.over()
            return sinks

    sinks = asyncio.run(main())
    assert [sink.tokens for sink in sinks] == expected
    for i, sink in enumerate(sinks):
        found = [one.new_logprobs for one in sink.outputs if one.new_logprobs is not None]
        got = Logprobs(
            [row for one in found for row in one.ids],
            [row for one in found for row in one.logprobs],
            [rank for one in found for rank in one.ranks],
        )
        assert got == (rows(expected[i]) if with_logprobs[i] else Logprobs([], [], []))


def test_a_backlog_is_pushed_once_for_each_request():
    a, b = Sink(), Sink()
    delivery = Delivery(over=lambda flight: None, give_up=lambda request_id, flight: None)
    delivery.flights |= {"a": Flight(a, 0), "b": Flight(b, 0)}
    steps = [EngineCoreOutputs(outputs=[output("a", [i]), output("b", [i])]) for i in range(40)]
    steps.append(EngineCoreOutputs(outputs=[output("a", [40], STOP)]))
    delivery.deliver_joined([(step, ()) for step in steps])
    assert a.outputs == [output("a", list(range(41)), STOP)]
    assert b.outputs == [output("b", list(range(40)))]
    assert list(delivery.flights) == ["b"]
