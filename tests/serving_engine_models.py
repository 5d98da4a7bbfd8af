"""Model directories with random weights for tests of the engine: tiny, float32, of several architectures.

Weights are drawn wide enough that greedy outputs differ from prompt to prompt and no two logits come close.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import serving_models

ARCHITECTURES = ("qwen3", "llama", "gemma3_text")


def model_directory(directory: Path, architecture: str = "qwen3", *, context: int = 512) -> Path:
    """A directory with tokenizer, configuration and safetensors; it is returned."""
    import torch
    import transformers

    serving_models.byte_level(directory, context=context)
    known = json.loads((directory / "config.json").read_text("utf-8"))
    common: dict[str, Any] = {
        "vocab_size": known["vocab_size"],
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": context,
        "initializer_range": 0.3,
        "bos_token_id": known["bos_token_id"],
        "eos_token_id": known["eos_token_id"],
        "pad_token_id": None,
        "tie_word_embeddings": False,
    }
    if architecture == "gemma3_text":  # full attention and windows in turns
        common |= {"sliding_window": 32, "query_pre_attn_scalar": 16}
        common |= {"layer_types": ["sliding_attention", "full_attention"]}
    generation = (directory / "generation_config.json").read_text("utf-8")
    config = transformers.AutoConfig.for_model(architecture, **common)
    torch.manual_seed(20)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(directory)
    (directory / "generation_config.json").write_text(generation, "utf-8")
    return directory
