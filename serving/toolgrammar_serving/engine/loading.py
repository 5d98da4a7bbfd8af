"""A model from a local directory, ready for continuous batching. Nothing is fetched from a network.

The directory holds what transformers reads: ``config.json`` with safetensors, or one ``.gguf`` file (which needs
the ``gguf`` package, and is unpacked to ordinary weights).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch


class CannotLoad(Exception):
    """The model cannot be used; the message is for the person who started the engine."""


class Loaded(NamedTuple):
    """``max_model_len`` is what the model was made for; ``tokenizer`` loads it when it is first needed."""

    model: Any
    max_model_len: int
    vocab_size: int
    tokenizer: Callable[[], Any]


def offline() -> None:
    """Keep the libraries from looking things up. Before transformers is imported."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def choose_device(wanted: str) -> torch.device:
    """``auto``: CUDA if it is there, else the CPU."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise CannotLoad(f"--device {wanted}: no such device") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise CannotLoad("--device cuda: this torch has no CUDA, or the machine has no GPU")
    return device


def choose_dtype(wanted: str) -> torch.dtype | str:
    """``auto``: what the weights are in."""
    names = {"half": "float16", "float": "float32"}
    name = names.get(wanted, wanted)
    if name == "auto":
        return "auto"
    dtype = getattr(torch, name, None)
    if dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise CannotLoad(f"--dtype {wanted}: expected auto, float32, float16 or bfloat16")
    return dtype  # type: ignore[no-any-return]


def load(path: str, *, device: torch.device, dtype: torch.dtype | str, attention: str, trust: bool) -> Loaded:
    """Load weights onto ``device``. Raises ``CannotLoad``."""
    import transformers

    quiet: Any = transformers.utils.logging.disable_progress_bar
    quiet()
    directory = Path(path)
    if not directory.exists():
        raise CannotLoad(f"no model directory {path} (models are read from local directories only)")
    where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": trust}
    if gguf := _gguf_file(directory):
        where["gguf_file"] = gguf.name
        directory = gguf.parent
    try:
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            directory, dtype=dtype, **_attention(attention, device), **where, **_unpacked(gguf)
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise CannotLoad(f"cannot load {path}: {error}") from error
    _check(model)
    model = model.to(device).eval().requires_grad_(False)
    text = model.config.get_text_config()

    def tokenizer() -> Any:
        return transformers.AutoTokenizer.from_pretrained(directory, **where)

    return Loaded(model, _context(text), model.get_output_embeddings().weight.shape[0], tokenizer)


def _gguf_file(path: Path) -> Path | None:
    if path.is_file():
        return path if path.suffix == ".gguf" else None
    found = sorted(path.glob("*.gguf"))
    return found[0] if found and not (path / "config.json").exists() else None


def _unpacked(gguf: Path | None) -> dict[str, Any]:
    if gguf is None:
        return {}
    import transformers

    return {"quantization_config": transformers.GgufConfig(dequantize=True)}


def _attention(wanted: str, device: torch.device) -> dict[str, str]:
    """Flash attention where it is installed, else what the model prefers; never one that would be fetched."""
    if wanted != "auto":
        return {"attn_implementation": wanted}
    if device.type == "cuda" and importlib.util.find_spec("flash_attn") is not None:
        return {"attn_implementation": "flash_attention_2"}
    return {}


def _check(model: Any) -> None:
    """transformers would run these, and compute something else."""
    text = model.config.get_text_config()
    if getattr(text, "attn_logit_softcapping", None) and "flash" not in model.config._attn_implementation:
        raise CannotLoad("this model caps its attention logits, which needs --attention flash_attention_2")


def _context(config: Any) -> int:
    """Positions the model was made for."""
    for name in ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length"):
        if isinstance(value := getattr(config, name, None), int):
            return value
    return 32768
