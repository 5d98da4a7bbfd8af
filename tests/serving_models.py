"""Tiny model directories with real tokenizers, for tests of the serving stack.

``byte_level`` and ``byte_fallback`` write what a checkpoint has beside its weights: ``tokenizer.json``,
``tokenizer_config.json`` with a chat template, ``config.json`` (of a model small enough to make at random) and
``generation_config.json``. The tokenizers are trained here with the ``tokenizers`` library on the text below; all
256 bytes can be written with both.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

#: What the merges are learned from: prose, code, JSON, several scripts.
SAMPLE = """The lamp in the hall is on. The lamp in the kitchen is off, and nobody knows why other lamps are there.
It's 21:45; the user asked for the weather in Paris, Berlin and London, and we'll answer in a moment.
{"name": "set_lamp", "arguments": {"room": "hall", "on": true, "level": 0.75}}
{"name": "get_weather", "arguments": {"city": "Paris", "days": 3, "units": "celsius"}}
def answer(question: str, tools: list[str]) -> str:
    for tool in tools:
        if tool in question:
            return call(tool, question)
    return "I don't know that, but the tools are: " + ", ".join(tools)
Let me think about the question first. The answer is that there are three rooms with a lamp.
Der Flur ist größer als die Küche, und über der Tür hängt eine Lampe. Où est la clé, s'il vous plaît ?
Лампа в коридоре включена, а на кухне нет. 走廊里的灯亮着，厨房里的灯没有亮。廊下の電気はついています。
"""

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
#: Added tokens that are no special tokens: they are in the text whatever is skipped.
MARKERS = ("<tool_call>", "</tool_call>", "<think>", "</think>")

CHATML = """{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- 'Tools:\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
{{- '\\n</tools>\\nCall with <tool_call>\\n{"name": ..., "arguments": ...}\\n</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- elif message.role != 'system' or not tools %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""

BRACKETS = """{{- bos_token }}
{%- for message in messages %}
{%- if message.role == 'user' %}{{- '[INST] ' + message.content + ' [/INST]' }}
{%- elif message.role == 'assistant' %}{{- ' ' + message.content + ' ' + eos_token }}{%- endif %}
{%- endfor %}"""


def byte_level(
    directory: Path, *, extra: tuple[str, ...] = (), template: str | None = CHATML, context: int = 2048
) -> Path:
    """A model of the ChatML kind with a byte-level BPE vocabulary, in ``directory``, which is returned.

    ``extra``: further special tokens. ``context``: tokens the model takes.
    """
    text, end, stop = _byte_level_json(extra)
    config = {"eos_token": END, "pad_token": END_OF_TEXT, "bos_token": None, "add_bos_token": False}
    return _write(directory, text, config, template, context, eos=end, stops=[end, stop], bos=stop)


def byte_fallback(directory: Path, *, template: str | None = BRACKETS, context: int = 2048) -> Path:
    """A model of the SentencePiece kind: ``▁`` for a blank, ``<0xNN>`` for bytes, a leading blank that decoding
    drops, ``<s>`` before each prompt."""
    config = {"eos_token": "</s>", "bos_token": "<s>", "unk_token": "<unk>", "add_bos_token": True}
    return _write(directory, _byte_fallback_json(), config, template, context, eos=2, stops=2, bos=1)


@functools.cache
def _byte_level_json(extra: tuple[str, ...]) -> tuple[str, int, int]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=256 + 400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(SAMPLE.splitlines(keepends=True), trainer)
    tokenizer.add_special_tokens([END_OF_TEXT, START, END])
    tokenizer.add_tokens([AddedToken(marker, normalized=False) for marker in MARKERS])
    tokenizer.add_special_tokens(list(extra))
    return tokenizer.to_str(), tokenizer.token_to_id(END), tokenizer.token_to_id(END_OF_TEXT)


@functools.cache
def _byte_fallback_json() -> str:
    blank = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trained = Tokenizer(models.BPE())
    trained.normalizer = blank
    trained.train_from_iterator(
        # Nothing of the other scripts: they are to be written with bytes.
        [line for line in SAMPLE.splitlines() if line.isascii()],
        trainers.BpeTrainer(vocab_size=400, show_progress=False),
    )
    learned = json.loads(trained.to_str())["model"]
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    names += sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    tokenizer = Tokenizer(
        models.BPE(
            {name: number for number, name in enumerate(names)},
            [tuple(merge) for merge in learned["merges"]],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = blank
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer.to_str()


def _write(
    directory: Path,
    tokenizer: str,
    tokenizer_config: dict[str, Any],
    template: str | None,
    context: int,
    *,
    eos: int,
    stops: int | list[int],
    bos: int,
) -> Path:
    data = json.loads(tokenizer)
    size = max([*data["model"]["vocab"].values(), *(token["id"] for token in data["added_tokens"])]) + 1
    added = {
        str(token["id"]): {key: value for key, value in token.items() if key != "id"}
        for token in data["added_tokens"]
    }
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "bos_token_id": bos,
        "eos_token_id": eos,
        "head_dim": 16,
        "hidden_act": "silu",
        "hidden_size": 32,
        "intermediate_size": 64,
        "max_position_embeddings": context,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": -(-size // 64) * 64,  # more than the tokenizer knows, as it is with real models
    }
    tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", **tokenizer_config}
    tokenizer_config |= {"added_tokens_decoder": added, "model_max_length": context}
    tokenizer_config["clean_up_tokenization_spaces"] = False
    if template is not None:
        tokenizer_config["chat_template"] = template
    generation = {"eos_token_id": stops, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "do_sample": True}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    for name, value in (
        ("config", config),
        ("generation_config", generation),
        ("tokenizer_config", tokenizer_config),
    ):
        (directory / f"{name}.json").write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
    return directory
