"""Logprobs of a replay, read from the bytes by hand."""

from __future__ import annotations

import math
import struct
from typing import Any

import msgspec
import pytest
from serving_front_end import LOGPROBS, PROMPT_LOGPROBS, FrontEnd, scripted
from toolgrammar_serving.protocol.arrays import Logprobs
from toolgrammar_serving.replay import EngineOptions, Script, Step

STEPPED = EngineOptions(interval_s=None)
LN2 = math.log(2)


def numbers(array: Any, frames: list[bytes]) -> list[float]:
    dtype, shape, data = array
    raw = frames[data] if isinstance(data, int) else data.data
    letter = {"<i8": "q", "<f4": "f"}[dtype]
    found = list(struct.unpack(f"<{math.prod(shape)}{letter}", raw))
    return [round(number, 5) for number in found]


def message(front: FrontEnd) -> tuple[list[Any], list[bytes]]:
    frames = front.frames()
    return msgspec.msgpack.decode(frames[0])[1], frames


def test_made_up_where_a_request_asks_for_them() -> None:
    with scripted(Script.of([10, 20], [30]), STEPPED) as (front, replay):
        front.add("a", logprobs=2)
        front.add("b")
        replay.wait_until(lambda counters: counters.running == 2)
        replay.release(2)
        (a, b), frames = message(front)
        ids, logprobs, ranks, nothing = a[LOGPROBS]
        assert (ids[1], ranks[1], nothing) == ([2, 3], [2], None)
        assert numbers(ids, frames) == [10, 10, 11, 20, 20, 21]
        assert numbers(logprobs, frames) == pytest.approx([-LN2, -LN2, -2 * LN2] * 2, abs=1e-5)
        assert numbers(ranks, frames) == [1, 1]
        assert b[LOGPROBS] is None
        (a, b), frames = message(front)
        assert numbers(a[LOGPROBS][0], frames) == [30, 30, 31]


def test_of_the_prompt_in_the_first_output() -> None:
    with scripted(Script.of([10], [20]), STEPPED) as (front, replay):
        front.add("a", prompt=[5, 6, 7], prompt_logprobs=0)
        replay.release(2)
        (a,), frames = message(front)
        assert a[PROMPT_LOGPROBS][0][1] == [2, 1]
        assert numbers(a[PROMPT_LOGPROBS][0], frames) == [6, 7]
        (a,), frames = message(front)
        assert a[PROMPT_LOGPROBS] is None


def test_large_arrays_are_frames_of_their_own() -> None:
    with scripted(Script.of([10], [20]), STEPPED) as (front, replay):
        front.add("a", logprobs=50)
        front.add("b", logprobs=50)
        replay.wait_until(lambda counters: counters.running == 2)
        replay.release(2)
        for first in (10, 20):
            (a, b), frames = message(front)
            assert len(frames) == 3  # the ids of each; 51 floats are 204 bytes
            for one in (a, b):
                assert numbers(one[LOGPROBS][0], frames) == [first, *range(first, first + 50)]


def test_scripted_and_cut_with_the_tokens() -> None:
    mine = Logprobs([[10, 3], [20, 4], [30, 5]], [[-1.0, -0.5], [-2.0, -0.25], [-3.0, -0.125]], [2, 3, 4])
    script = Script(steps=(Step((10, 20, 30), logprobs=mine),))
    with scripted(script) as (front, _):
        front.add("a", logprobs=1, stop_token_ids=[20])
        (a,), frames = message(front)
        assert a[1] == [10, 20]
        assert numbers(a[LOGPROBS][0], frames) == [10, 3, 20, 4]
        assert numbers(a[LOGPROBS][1], frames) == [-1.0, -0.5, -2.0, -0.25]
        assert numbers(a[LOGPROBS][2], frames) == [2, 3]
