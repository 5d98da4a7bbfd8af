"""The text layer on a real engine client: its ends and cuts are those of the sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import serving_client
import serving_models
from serving_text_sinks import Listener
from toolgrammar_serving.errors import EngineLost
from toolgrammar_serving.llm import LLM, Finish, ModelDefaults, Sampling, Usage
from toolgrammar_serving.protocol.wire import LENGTH, STOP, PrefillStats
from toolgrammar_serving.text import ByteTokenizer, TextModel, TextRequest, load_tokenizer

END = 256
TOKENIZER = ByteTokenizer(["<|im_end|>"], eos="<|im_end|>")
DEFAULTS = ModelDefaults(eos_token_id=END)


def test_a_stop_string_aborts_at_the_engine_and_late_tokens_are_dropped() -> None:
    async def main() -> None:
        async with serving_client.rig() as it:
            model = TextModel(LLM(it.client, DEFAULTS), TOKENIZER)
            listeners = [Listener(), Listener()]
            prepared = await model.prepare(TextRequest("r", "Hi", n=2, stop=["WXYZ"], sampling=Sampling(seed=1)))
            generation = model.start(prepared, listeners)
            (engine,) = it.engines
            first, second = engine.adds(2)
            assert [first.sampling_params.seed, second.sampling_params.seed] == [1, 2]
            assert first.sampling_params.max_tokens == 4094  # what the engine said it takes, less the prompt
            engine.says(first.request_id, b"a W", prefill_stats=PrefillStats(num_cached_tokens=1))
            engine.says(first.request_id, b"X")
            engine.says(first.request_id, b"YZ b")
            engine.says(second.request_id, b"a WX\xf0\x9f")
            await it.settled()
            assert engine.aborts() == [first.request_id]
            engine.says(first.request_id, b"late", LENGTH)
            engine.says(second.request_id, [0x8C, 0xBF, END], STOP)
            await it.settled()
            assert [listener.text for listener in listeners] == ["a ", "a WX🌿"]
            assert [listener.end for listener in listeners] == [Finish("stop", "WXYZ"), Finish("stop")]
            assert generation.usage == Usage(2, 6 + 9, 1)  # " b" came behind the stop string
            assert it.client.in_flight() == 0 and generation.done

    asyncio.run(main())


def test_a_dead_engine_fails_every_sequence() -> None:
    async def main() -> None:
        async with serving_client.rig() as it:
            model = TextModel(LLM(it.client, DEFAULTS), TOKENIZER)
            listeners = [Listener(), Listener()]
            prepared = await model.prepare(TextRequest("r", "Hi", n=2))
            model.start(prepared, listeners)
            (engine,) = it.engines
            engine.says(engine.adds(2)[1].request_id, b"a")
            await it.settled()
            it.client.lose("the engine process ended")
            assert [type(listener.end) for listener in listeners] == [EngineLost, EngineLost]
            assert listeners[1].text == "a"

    asyncio.run(main())


def test_steps_that_are_joined_on_the_way_change_nothing(tmp_path: Path) -> None:
    directory = serving_models.byte_level(tmp_path)
    tokenizer = load_tokenizer(directory)
    text = "größer 🌿 走廊里的灯亮着 <tool_call>\n{}</tool_call> e\u0301"
    ids = tokenizer.encode(text)
    expected = tokenizer.decode(ids)

    async def main() -> None:
        async with serving_client.rig() as it:
            model = TextModel(LLM(it.client, ModelDefaults.load(directory)), tokenizer)
            prepared = await model.prepare(TextRequest("r", "Hi"))
            alone, joined = Listener(), Listener()
            (engine,) = it.engines
            model.start(prepared, [alone])
            (one,) = engine.adds()
            for id_ in ids:
                engine.says(one.request_id, [id_])
                await it.settled()
            model.start(prepared, [joined])
            while not (found := engine.adds()):  # calls of the rig's own may come first
                pass
            (two,) = found
            for id_ in ids:
                engine.says(two.request_id, [id_])
            engine.says(two.request_id, [], LENGTH)
            await it.settled()
            assert alone.ids == joined.ids == ids
            assert alone.text == joined.text == expected

    asyncio.run(main())
