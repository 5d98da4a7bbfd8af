"""Does the wire cost? The engine over sockets against transformers' own ``generate_batch``, same requests.

    python -m toolgrammar_serving.engine.bench MODEL_DIR [--requests 32 --prompt 64 --output 64 --rounds 3]

Greedy, the same prompts and lengths, the same model object's weights and number of threads; the engine runs as a
process of its own, and this one plays its front end. Rounds alternate, the best of each counts. Prints tokens per
second of both and the ratio of their times; 1.2 is the most that is accepted.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from typing import Any

import msgspec
import zmq

from toolgrammar_serving.protocol import wire

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(wire.EngineCoreOutputs).decode


class Front:
    """The least that drives an engine."""

    def __init__(self, options: list[str]) -> None:
        context = zmq.Context()
        kinds = (zmq.ROUTER, zmq.ROUTER, zmq.PULL)
        self._hand, self._input, self._output = sockets = [context.socket(kind) for kind in kinds]
        for one in sockets:
            one.linger = 0
            one.rcvhwm = 0
            one.bind("tcp://127.0.0.1:0")
        hand, into, out = (one.getsockopt_string(zmq.LAST_ENDPOINT) for one in sockets)
        command = [sys.executable, "-m", "toolgrammar_serving.engine", *options, "--handshake", hand]
        self._engine = subprocess.Popen([*command, "--exit-with-parent"])
        who, _ = self._hand.recv_multipart()
        self._hand.send_multipart([who, _encode(wire.Init(wire.Addresses([into], [out])))])
        self._input.recv_multipart()
        self._hand.recv_multipart()
        self._count = 0

    def generate(self, prompts: list[list[int]], length: int) -> tuple[float, list[list[int]]]:
        """Seconds for all of them at once, and their tokens."""
        self._count += 1
        names = [f"{self._count}-{i}" for i in range(len(prompts))]
        tokens: dict[str, list[int]] = {name: [] for name in names}
        params = wire.SamplingParams(temperature=0.0, max_tokens=length)
        began = time.perf_counter()
        for name, prompt in zip(names, prompts, strict=True):
            asked = wire.EngineCoreRequest(name, prompt, None, params, None, 0.0, None, None, None)
            self._input.send_multipart([wire.identity(0), wire.ADD, _encode(asked)])
        left = len(prompts)
        while left:
            for output in _decode(self._output.recv_multipart()[0]).outputs:
                tokens[output.request_id] += output.new_token_ids
                left -= output.finish_reason is not None
        return time.perf_counter() - began, [tokens[name] for name in names]

    def close(self) -> None:
        self._engine.terminate()
        self._engine.wait()


class Alone:
    """transformers' own loop, kept between rounds, over the same weights."""

    def __init__(self, model: str, threads: int, dtype: str) -> None:
        import torch
        import transformers

        torch.set_num_threads(threads)
        from toolgrammar_serving.engine.loading import choose_dtype

        auto: Any = transformers.AutoModelForCausalLM
        self._model = auto.from_pretrained(model, dtype=choose_dtype(dtype)).eval()

    def generate(self, prompts: list[list[int]], length: int) -> tuple[float, list[list[int]]]:
        import transformers

        generation: Any = transformers.GenerationConfig
        config = transformers.ContinuousBatchingConfig(
            num_blocks=1 + sum(len(one) + length + 256 for one in prompts) // 256, max_batch_tokens=512
        )
        wanted = generation(do_sample=False, max_new_tokens=length, eos_token_id=-1)
        began = time.perf_counter()
        results = self._model.generate_batch(
            prompts, generation_config=wanted, continuous_batching_config=config, persistent_manager=True
        )
        seconds = time.perf_counter() - began
        return seconds, [one.generated_tokens for one in results.values()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL_DIR")
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=64, help="tokens of each prompt")
    parser.add_argument("--output", type=int, default=64, help="tokens of each output")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--dtype", default="float32")
    given = parser.parse_args()
    from toolgrammar_serving.engine.loading import offline

    offline()
    alone = Alone(given.model, given.threads, given.dtype)
    options = [given.model, "--dtype", given.dtype, "--threads", str(given.threads), "--device", "cpu"]
    front = Front([*options, "--max-num-seqs", str(max(64, given.requests)), "--no-prefix-sharing"])
    rng = random.Random(1)
    times: dict[str, list[float]] = {"engine": [], "transformers": []}
    for _ in range(given.rounds + 1):
        prompts = [[rng.randrange(500) for _ in range(given.prompt)] for _ in range(given.requests)]
        ours, tokens = front.generate(prompts, given.output)
        theirs, right = alone.generate(prompts, given.output)
        times["engine"].append(ours)
        times["transformers"].append(theirs)
        same = sum(one == other for one, other in zip(tokens, right, strict=True))
        print(
            f"engine {ours:.2f} s, transformers {theirs:.2f} s, {same} of {len(right)} outputs equal", flush=True
        )
    front.close()
    best = {name: min(values[1:]) for name, values in times.items()}  # the first round warms both up
    count = given.requests * given.output
    ratio = best["engine"] / best["transformers"]
    print(", ".join(f"{name} {count / seconds:.0f} tokens/s" for name, seconds in best.items()))
    print(f"ratio {ratio:.2f} (at most 1.2)")
    return 0 if ratio <= 1.2 else 1


if __name__ == "__main__":
    raise SystemExit(main())
